"""Data sets for regression, with their splits into training and test rows.

A folder of sets holds files NAME.npz (in the folder itself or one level below) with the arrays

    X          (N, D)   inputs
    y          (N,)     targets
    test_mask  (N, S)   1 where a row is a test row of split s, else 0

Files without these arrays are no regression sets and are ignored; a file that has them in other
shapes is an error. Ten splits, in which each row is tested once, are usual; any number is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.problems.array_files import DataFolderError, stored_names, with_arrays

__all__ = ["RegressionSet", "RegressionSetError", "Split", "diabetes", "find", "read"]

_ARRAYS = ("X", "y", "test_mask")


class RegressionSetError(DataFolderError):
    """A folder or a file that is not in the layout of this module."""


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows: x (n, D), y (n,), x_test (m, D), y_test (m,)."""

    x: Any
    y: Any
    x_test: Any
    y_test: Any


@dataclass(frozen=True, eq=False)
class RegressionSet:
    """Inputs x (N, D), targets y (N,), and test rows of S splits, test_mask (N, S) of bool.

    Raises
    ------
    RegressionSetError
        If the shapes do not fit, an entry is not finite, or a split has no training or test row.
    """

    name: str
    x: Any
    y: Any
    test_mask: Any

    def __post_init__(self) -> None:
        shapes = f"X {self.x.shape}, y {self.y.shape}, test_mask {self.test_mask.shape}"
        rows = self.y.shape[:1]
        if (self.x.ndim, self.y.ndim, self.test_mask.ndim) != (2, 1, 2):
            raise RegressionSetError(f"{self.name}: {shapes}; allowed are (N, D), (N,) and (N, S)")
        if self.x.shape[:1] != rows or self.test_mask.shape[:1] != rows or not self.test_mask.size:
            raise RegressionSetError(f"{self.name}: {shapes}; all three need the same N, and S of 1 or more")
        if not (np.all(np.isfinite(self.x)) and np.all(np.isfinite(self.y))):
            raise RegressionSetError(f"{self.name}: X and y must be finite; leave such rows out")
        tested = self.test_mask.sum(axis=0)
        if np.any(tested == 0) or np.any(tested == len(self.y)):
            raise RegressionSetError(
                f"{self.name}: each split needs test rows and training rows; of {len(self.y)} rows, "
                f"{tested.tolist()} are tested"
            )

    def split(self, index: int, rows: int | None = None) -> Split:
        """Return split `index`, with at most `rows` training rows, drawn at random (None: all).

        The draw depends on the split only. (Rows at equal distances would not do: many sets are grids,
        row by row.)

        Raises
        ------
        RegressionSetError
            If there is no such split.
        """
        splits = self.test_mask.shape[1]
        if not 0 <= index < splits:
            raise RegressionSetError(
                f"{self.name} has {splits} splits, split {index} was asked for: run --seeds {splits} or fewer"
            )
        tested = self.test_mask[:, index]
        trained = np.flatnonzero(~tested)
        if rows is not None and rows < len(trained):
            trained = np.sort(np.random.default_rng(index).choice(trained, rows, replace=False))
        return Split(self.x[trained], self.y[trained], self.x[tested], self.y[tested])


def diabetes() -> RegressionSet:
    """Return scikit-learn's diabetes set, (442, 10), in ten random parts of (nearly) equal size."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, scaled=False)
    part = np.random.default_rng(0).permutation(len(y)) % 10
    return RegressionSet("diabetes", x, y, part[:, None] == np.arange(10))


def find(folder: Path) -> list[Path]:
    """Return the regression sets of a folder, sorted by name.

    Raises
    ------
    RegressionSetError
        If there is none.
    """
    found = with_arrays(folder, _ARRAYS)
    if not found:
        raise RegressionSetError(
            f"{folder} has no .npz file with the arrays X (N, D), y (N,) and test_mask (N, S), neither in "
            f"itself nor one level below; it has {len(with_arrays(folder, ()))} other .npz files"
        )
    return found


def read(path: Path) -> RegressionSet:
    """Return the set in a file.

    Raises
    ------
    RegressionSetError
        If the file cannot be read, lacks an array, or holds other shapes or kinds of numbers.
    """
    if missing := [name for name in _ARRAYS if name not in stored_names(path)]:
        raise RegressionSetError(f"{path} lacks the arrays {', '.join(missing)}")
    with np.load(path) as arrays:
        x, y, mask = (arrays[name] for name in _ARRAYS)
    if any(array.dtype.kind not in "biuf" for array in (x, y, mask)):
        kinds = f"X {x.dtype}, y {y.dtype}, test_mask {mask.dtype}"
        raise RegressionSetError(f"{path}: {kinds}; allowed are real numbers")
    if not np.all((mask == 0) | (mask == 1)):
        raise RegressionSetError(f"{path}: test_mask must be 0 or 1 throughout")
    return RegressionSet(path.stem, x.astype(float), y.astype(float), mask.astype(bool))
