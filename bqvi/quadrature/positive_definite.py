"""Positive definite matrices in hot loops, by LAPACK itself.

NumPy's wrappers take longer than the arithmetic at these sizes, and a factor that is not in Fortran's order
is copied at each solve.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg


def cholesky(matrix: np.ndarray) -> np.ndarray:
    """Lower factor, in Fortran's order; LinAlgError if ``matrix`` is not positive definite."""
    # a symmetric matrix is its transpose, which is in the order that LAPACK wants
    factor: np.ndarray
    factor, failed = scipy.linalg.lapack.dpotrf(matrix.T, lower=1, clean=1)
    if failed:
        raise np.linalg.LinAlgError("not positive definite")
    return factor


def cholesky_inverse(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower factor, and the inverse; LinAlgError if ``matrix`` is not positive definite."""
    factor = cholesky(matrix)
    lower = scipy.linalg.lapack.dpotri(factor, lower=1)[0]
    inverse: np.ndarray = lower + lower.T
    np.einsum("ii->i", inverse)[:] *= 0.5
    return factor, inverse
