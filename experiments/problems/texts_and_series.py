"""Texts as counts of words, and sequences, in a folder that a user names (--data DIR).

Files lie in the folder itself or one level below; those of other layouts are ignored, and a file of one
of these with other shapes or kinds of numbers is an error.

Texts: NAME.npz, counts of words as a CSR array,

    data, indices  (n,)      counts, whole and positive, and their words
    indptr         (N + 1,)  where each document begins among them
    shape          (2,)      N documents, V words
    vocabulary     (V,)      the words; optional, their numbers otherwise

Sequences of symbols: NAME.npz,

    symbols        (T,)      integers from 0
    lengths        (M,)      of M sequences, one after the other; optional, one sequence otherwise
    alphabet       (V,)      the symbols' texts; optional, their numbers otherwise

Series of numbers: NAME.csv, a line of two names and then two columns, a time (a number or a date, strictly
rising) and a value, empty where it is missing. Values called `count` are counts, and whole; others are
measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse

from experiments.problems.array_files import DataFolderError, stored_names, with_arrays

__all__ = ["Series", "Symbols", "Texts", "find_sequences", "find_texts", "read_sequences", "read_texts"]

_TEXT = ("data", "indices", "indptr", "shape")
_COUNT = "count"
"""Name of a column of counts."""
_SECONDS_A_YEAR = 365.25 * 86400.0


@dataclass(frozen=True, eq=False)
class Texts:
    """Counts of words (N, V), and the V words."""

    counts: scipy.sparse.csr_array
    words: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Symbols:
    """Symbols (T,), the lengths (M,) of their sequences, and the symbols' names."""

    values: np.ndarray
    lengths: np.ndarray
    alphabet: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Series:
    """Times (T,), values (T,) with NaN where one is missing, and whether they are counts."""

    times: np.ndarray
    values: np.ndarray
    is_count: bool


def find_texts(folder: Path) -> list[Path]:
    """Return the files with counts of words, sorted by name.

    Raises
    ------
    DataFolderError
        If there is none.
    """
    if found := with_arrays(folder, _TEXT):
        return found
    raise DataFolderError(
        f"{folder} has no .npz file with the arrays data, indices, indptr and shape of counts "
        f"of words (CSR), neither in itself nor one level below; "
        f"it has {len(with_arrays(folder, ()))} other .npz files"
    )


def read_texts(path: Path) -> Texts:
    """Return the counts in a file, and its words.

    Raises
    ------
    DataFolderError
        If the arrays are no counts, or the words are not V.
    """
    with np.load(path) as arrays:
        parts = [arrays[name] for name in _TEXT]
        words = arrays["vocabulary"] if "vocabulary" in arrays.files else None
    if any(part.dtype.kind not in "biuf" or part.ndim != 1 for part in parts):
        kinds = ", ".join(
            f"{name} {part.dtype} {part.shape}" for name, part in zip(_TEXT, parts, strict=True)
        )
        raise DataFolderError(f"{path}: {kinds}; allowed are vectors of numbers")
    data, indices, indptr, shape = parts
    if len(shape) != 2 or not ((data > 0) & (data == np.floor(data))).all():
        raise DataFolderError(f"{path}: shape must be (N, V), and data whole and positive")
    try:
        counts = scipy.sparse.csr_array(
            (data.astype(float), indices.astype(np.intp), indptr.astype(np.intp)),
            shape=(int(shape[0]), int(shape[1])),
        )
        counts.check_format(full_check=True)
    except ValueError as error:
        raise DataFolderError(f"{path} is no CSR array: {error}") from None
    return Texts(counts, _names(path, "vocabulary", words, counts.shape[1]))


def find_sequences(folder: Path) -> list[Path]:
    """Return the files with symbols or a series, sorted by name.

    Raises
    ------
    DataFolderError
        If there is none.
    """
    tables = [path for path in [*folder.glob("*.csv"), *folder.glob("*/*.csv")] if _series(path) is not None]
    if found := sorted([*with_arrays(folder, ("symbols",)), *tables], key=lambda path: path.stem):
        return found
    raise DataFolderError(
        f"{folder} has no .npz file with an array symbols, and no .csv file of two columns, a rising "
        "time and a value, neither in itself nor one level below"
    )


def read_sequences(path: Path) -> Symbols | Series:
    """Return the contents of a file.

    Raises
    ------
    DataFolderError
        If it is not in the layout of this module.
    """
    if path.suffix == ".csv":
        if (series := _series(path)) is None:
            raise DataFolderError(f"{path} has not two columns, a strictly rising time and a value")
        given = series.values[~np.isnan(series.values)]
        if series.is_count and ((given < 0) | (given != np.floor(given))).any():
            raise DataFolderError(f"{path}: {_COUNT} must be whole and nonnegative")
        return series
    held = stored_names(path)
    with np.load(path) as arrays:
        values = arrays["symbols"]
        lengths = arrays["lengths"] if "lengths" in held else np.array([len(values)])
        names = arrays["alphabet"] if "alphabet" in held else None
    if values.dtype.kind not in "iu" or values.ndim != 1 or len(values) == 0 or values.min() < 0:
        raise DataFolderError(
            f"{path}: symbols {values.dtype} {values.shape}; allowed are integers from 0, (T,)"
        )
    if lengths.dtype.kind not in "iu" or (lengths < 1).any() or lengths.sum() != len(values):
        raise DataFolderError(f"{path}: lengths must be positive integers that sum to {len(values)}")
    size = int(values.max()) + 1 if names is None else len(names)
    if values.max() >= size:
        raise DataFolderError(f"{path}: symbols go to {values.max()}, alphabet has {size} entries")
    return Symbols(values.astype(np.intp), lengths.astype(np.intp), _names(path, "alphabet", names, size))


def _names(path: Path, what: str, given: np.ndarray | None, size: int) -> tuple[str, ...]:
    if given is None:
        return tuple(str(v) for v in range(size))
    if given.shape != (size,):
        raise DataFolderError(f"{path}: {what} has shape {given.shape}, not ({size},)")
    return tuple(str(word) for word in given)


def _series(path: Path) -> Series | None:
    """The series in a table; None if it is no such table."""
    try:
        frame = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise DataFolderError(f"{path} is not a readable .csv file: {error}") from None
    if frame.shape[1] != 2 or len(frame) < 2 or frame.dtypes.iloc[1].kind not in "iuf":
        return None
    times, values = frame.iloc[:, 0], frame.iloc[:, 1].to_numpy(float)
    if times.dtype.kind not in "iuf":
        dates = pd.to_datetime(times, errors="coerce", format="ISO8601")
        times = 1970.0 + (dates - pd.Timestamp(1970, 1, 1)).dt.total_seconds() / _SECONDS_A_YEAR
    years = times.to_numpy(float)
    if not (np.diff(years) > 0.0).all() or np.isinf(values).any():
        return None
    return Series(years, values, frame.columns[1] == _COUNT)
