"""Positive definite matrices in hot loops, by LAPACK itself.

NumPy's wrappers take longer than the arithmetic at these sizes, and a factor that is not in Fortran's order
is copied at each solve.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

_SMALL = 64
"""Rows of a triangular matrix that LAPACK inverts in one piece."""


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
    half = triangular_inverse(factor)
    inverse: np.ndarray = half.T @ half
    return factor, inverse


def lower_product(lower: np.ndarray, right: np.ndarray) -> np.ndarray:
    """L R of a lower triangular L (m, m) in C's order and R (m, n); R may be overwritten.

    For many columns: of a few, or of small matrices, the general product is as fast.
    """
    if len(lower) <= _SMALL:
        product: np.ndarray = lower @ right
        return product
    # transposes are in the order that BLAS wants: R^T L^T
    turned: np.ndarray = scipy.linalg.blas.dtrmm(1.0, lower.T, right.T, side=1, lower=0, overwrite_b=1)
    return turned.T


def triangular_inverse(lower: np.ndarray) -> np.ndarray:
    """C^-1 of a lower triangular C, (m, m).

    By halves: LAPACK's own routine takes three times as long from m = 100 on.
    """
    m = len(lower)
    if m <= _SMALL:
        inverse: np.ndarray = scipy.linalg.lapack.dtrtri(lower, lower=1)[0]
        return inverse
    half = m // 2
    inverse = np.zeros((m, m), order="F")
    inverse[:half, :half] = first = triangular_inverse(lower[:half, :half])
    inverse[half:, half:] = last = triangular_inverse(lower[half:, half:])
    inverse[half:, :half] = -last @ (lower[half:, :half] @ first)
    return inverse
