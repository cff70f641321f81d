"""The last step between a user's parameters and coordinates: an affine map that whitens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np


@dataclass(frozen=True, eq=False)
class Affine:
    """The map u = shift + matrix v.

    Attributes
    ----------
    shift : (D,)
    matrix : (D, D), invertible; not necessarily triangular.
    """

    shift: np.ndarray
    matrix: np.ndarray

    def __post_init__(self) -> None:
        shift, matrix = np.asarray(self.shift, float), np.asarray(self.matrix, float)
        if shift.ndim != 1 or matrix.shape != (len(shift), len(shift)):
            raise ValueError(
                f"shift has shape {shift.shape} and matrix {matrix.shape}; they must be (D,) and (D, D)"
            )
        if not (np.isfinite(shift).all() and np.isfinite(matrix).all()):
            raise ValueError("shift or matrix has NaN or infinite entries")
        if not np.isfinite(np.linalg.slogdet(matrix)[1]):
            raise ValueError("matrix is singular; it must be invertible")
        object.__setattr__(self, "shift", shift)
        object.__setattr__(self, "matrix", matrix)

    @classmethod
    def identity(cls, dimension: int) -> Self:
        """The map that does nothing."""
        return cls(np.zeros(dimension), np.eye(dimension))

    def forward(self, v: np.ndarray) -> np.ndarray:
        """Return u (n, D) for v (n, D)."""
        out: np.ndarray = self.shift + v @ self.matrix.T
        return out

    def inverse(self, u: np.ndarray) -> np.ndarray:
        """Return v (n, D) for u (n, D)."""
        return np.linalg.solve(self.matrix, (u - self.shift).T).T

    def after(self, inner: Affine) -> Affine:
        """The map v -> self(inner(v))."""
        return Affine(self.forward(inner.shift[None])[0], self.matrix @ inner.matrix)

    @cached_property
    def log_determinant(self) -> float:
        """Log |det matrix|."""
        return float(np.linalg.slogdet(self.matrix)[1])
