"""Data of models: an array (N, D), a CSR matrix, a torch tensor, or a tuple of these with common rows.

A model without data of its own (a `LogJoint`) has ``None``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
import scipy.special

from gp.arrays import Array, is_torch, require_aligned, to_numpy
from gp.checks import require_finite, require_summable

Data: TypeAlias = Any

LARGEST_COUNT = np.float64(2.0**53)
"""The largest count: above it float64 does not represent all whole numbers. In any type it compares."""


def n_rows(data: Data) -> int:
    """The number N of rows; 0 for a model without data."""
    if data is None:
        return 0
    first = data[0] if isinstance(data, tuple) else data
    return int(first.shape[0])


def take(data: Data, indices: Any) -> Data:
    """The rows ``indices`` (S,) of ``data``."""
    if isinstance(data, tuple):
        return tuple(take(part, indices) for part in data)
    return data[indices]


def is_sparse(data: Data) -> bool:
    """Whether ``data`` is a SciPy sparse matrix."""
    return bool(scipy.sparse.issparse(data))


def as_table(rows: Data) -> np.ndarray:
    """``rows`` (N, D), dense or sparse, as a NumPy array of float64."""
    return np.asarray(to_numpy(rows.toarray() if is_sparse(rows) else rows)).astype(float, copy=False)


def as_numbers(name: str, data: Any) -> Any:
    """``data`` as an array of real numbers: lists and data frames become NumPy arrays.

    NumPy arrays of numbers and memory maps are returned unchanged. Tensors are detached from their graph;
    those of integers and of half precision, for which torch lacks products or inverses, become float64.

    Raises
    ------
    TypeError
        None, sparse or masked data, text, complex numbers, ragged lists.
    """
    if is_torch(data):
        return _as_real_tensor(name, data)
    if is_sparse(data):
        raise TypeError(f"{name} is sparse, which this model does not take; give {name}.toarray()")
    if data is None:
        raise TypeError(f"{name} is None, but this model needs it")
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask would be lost; drop or fill its masked entries"
        )
    try:
        x = data if isinstance(data, np.ndarray) else np.asarray(data)
        return x if x.dtype.kind in "biuf" else _as_float(x)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} is a {type(data).__name__} that cannot be read as real numbers (text, complex "
            "numbers, rows of unequal length); it must be a table of them"
        ) from None


def require_counts(counts: Data, fractional: bool = False, first: int = 0) -> None:
    """ValueError with the place of an entry of ``counts`` (N, D), dense or CSR, that is no count.

    A count is whole, or ``fractional``, not negative, and below `LARGEST_COUNT`; in a dense table NaN is a
    missing one. Rows are numbered from ``first``.
    """
    sparse = is_sparse(counts)
    x = counts.data if sparse else counts
    bad = ~((x >= 0.0) & (x < LARGEST_COUNT) & (fractional | (x == np.floor(x))))
    if not sparse:
        bad &= ~np.isnan(x)
    if not bad.any():
        return
    place = int(np.argmax(bad))
    if sparse:
        row, column = np.searchsorted(counts.indptr, place, side="right") - 1, counts.indices[place]
    else:
        row, column = np.unravel_index(place, x.shape)
    whole = "" if fractional else "whole, "
    raise ValueError(
        f"data has a count of {x.flat[place]:g} in row {first + row}, column {column}; counts must be "
        f"{whole}nonnegative and below {LARGEST_COUNT:g}"
    )


def log_factorials(counts: np.ndarray) -> np.ndarray:
    """``ln x!`` of counts, in float64 whatever the type of ``counts``.

    SciPy keeps single precision and, since version 1.18, computes with half precision in single precision.
    """
    return np.asarray(scipy.special.gammaln(np.asarray(counts, float) + 1.0))


def _as_float(x: np.ndarray) -> np.ndarray:
    """Objects that are numbers (as in a data frame of several types) as float64."""
    if x.dtype.kind != "O":
        raise TypeError
    return x.astype(float)


def _as_real_tensor(name: str, data: Any) -> Any:
    if data.is_complex():
        raise TypeError(f"{name} is a tensor of complex numbers; it must be real")
    data = data.detach()
    return data if data.is_floating_point() and data.element_size() >= 4 else data.double()


def has_missing(data: Data) -> bool:
    """Whether a dense NumPy table (N, D) has a NaN."""
    dense = isinstance(data, np.ndarray) and data.dtype.kind == "f"
    return dense and bool(np.isnan(data.sum(dtype=float)))


def require_observed_columns(data: Data) -> None:
    """A value in each column of ``data`` (N, D); ValueError names one that is missing throughout."""
    if has_missing(data) and (absent := np.isnan(data).all(axis=0)).any():
        raise ValueError(f"data has column {int(absent.argmax())} all NaN; leave it out")


def filled(data: Data) -> Data:
    """``data`` (N, D) with the columns' means where values are missing."""
    return np.where(np.isnan(data), np.nanmean(data, axis=0), data) if has_missing(data) else data


def spread(x: np.ndarray) -> np.ndarray:
    """Standard deviations (D,) of the columns of ``x`` (N, D), 1 of one that is constant."""
    sd = x.std(axis=0)
    return np.where(sd > 0.0, sd, 1.0)


def patterns(x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Groups of rows of ``x`` (N, D) with the same observed columns: indices, rows, and columns (D,)."""
    shown = ~np.isnan(x)
    if shown.all():
        yield np.arange(len(x)), x, np.ones(x.shape[1], bool)
        return
    keys = np.packbits(shown, axis=1)
    keys = keys.view(f"V{keys.shape[1]}").ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    for i, one in enumerate(first):
        index = np.flatnonzero(which == i)
        yield index, x[index], shown[one]


def regression_data(data: Data, dimension: int) -> tuple[Array, Array]:
    """(X (N, P), y (N,)) of a tuple ``data`` with P = ``dimension``, as arrays or tensors; finite, N >= 1."""
    shape = f"(N, {dimension}) and (N,)"
    if not isinstance(data, tuple) or len(data) != 2:
        raise ValueError(f"data is {type(data).__name__}; it must be a tuple (X, y) of shapes {shape}")
    require_aligned(*data)
    x, y = (as_numbers(f"data[{i}]", part) for i, part in enumerate(data))
    if tuple(x.shape[1:]) != (dimension,) or tuple(y.shape) != (x.shape[0],) or not x.shape[0]:
        raise ValueError(
            f"data has shapes {tuple(x.shape)} and {tuple(y.shape)}; they must be {shape} with N >= 1"
        )
    for i, part in enumerate((x, y)):
        require_finite(f"data[{i}]", part)
        require_summable(f"data[{i}]", part)
    return x, y
