"""Matrices of measures and of small fits: Cholesky factors without jitter, triangular and symmetric ones.

Functions of arrays are by calls of LAPACK: at n = 50 SciPy's and NumPy's wrappers take longer than LAPACK
itself, and a factor that is not in column-major order is copied at each solve. Those of an `Array` are for
torch too, in which they are differentiable. Jitter is added by `gp.linalg`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from gp.arrays import Array, is_torch, namespace, to_numpy

_SMALL = 64
"""Rows of a triangular matrix that LAPACK inverts in one piece."""


def solve_lower(lower: Array, b: Array, transposed: bool = False) -> Array:
    """Return L^-1 b, or L^-T b, for a lower triangular L (n, n) and b (n,) or (n, m)."""
    if b.shape[0] == 0:
        return b
    if is_torch(b):
        return _solve_torch(lower, b, transposed)
    if b.ndim == 2 and b.shape[1] == 1:
        return solve_lower(lower, b[:, 0], transposed)[:, None]
    if b.ndim == 1:
        trsv = _blas("trsv", lower.dtype, b.dtype)
        return trsv(lower, b, lower=1, trans=int(transposed))
    trsm = _blas("trsm", lower.dtype, b.dtype)
    return trsm(1.0, lower, b, lower=1, trans_a=int(transposed))


@cache
def _blas(name: str, *dtypes: Any) -> Any:
    """Return the routine of BLAS with this name for the precision that the dtypes have together."""
    return get_blas_funcs(name, dtype=np.result_type(*dtypes))


@cache
def lapack(name: str, dtype: Any) -> Any:
    """Return the routine of LAPACK with this name for a dtype."""
    return get_lapack_funcs(name, dtype=dtype)


def cholesky(matrix: np.ndarray, overwrite: bool = False) -> np.ndarray:
    """Lower factor of a symmetric matrix, in the order of columns; LinAlgError if there is none.

    With ``overwrite`` it may take the place of the matrix, which saves a copy.
    """
    # the transpose of a symmetric matrix in row order is the matrix in LAPACK's column order
    factor: np.ndarray
    factor, failed = lapack("potrf", matrix.dtype)(matrix.T, lower=1, clean=1, overwrite_a=int(overwrite))
    if failed:
        raise np.linalg.LinAlgError("not positive definite")
    return factor


def cholesky_inverse(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower factor, and the inverse; LinAlgError if ``matrix`` is not positive definite."""
    factor = cholesky(matrix)
    whitening = triangular_inverse(factor)
    inverse: np.ndarray = whitening.T @ whitening
    return factor, inverse


def lower_product(lower: np.ndarray, right: np.ndarray) -> np.ndarray:
    """L R of a lower triangular L (m, m) in C's order and R (m, n) in either; R may be overwritten.

    It is for many columns: with few, or with small matrices, the general product is as fast.
    """
    if len(lower) <= _SMALL:
        return lower @ right
    if right.flags.f_contiguous:
        return np.asarray(scipy.linalg.blas.dtrmm(1.0, lower.T, right, lower=0, trans_a=1, overwrite_b=1))
    # transposes are in the order that BLAS takes: R^T L^T
    turned: np.ndarray = scipy.linalg.blas.dtrmm(1.0, lower.T, right.T, side=1, lower=0, overwrite_b=1)
    return turned.T


def triangular_inverse(lower: np.ndarray) -> np.ndarray:
    """C^-1 of a lower triangular C, (m, m).

    The inverse is computed by halves: LAPACK's own routine takes three times as long from m = 100 on.
    """
    m = len(lower)
    if m <= _SMALL:
        return scipy.linalg.lapack.dtrtri(lower, lower=1)[0]
    half = m // 2
    inverse = np.zeros((m, m), order="F")
    inverse[:half, :half] = first = triangular_inverse(lower[:half, :half])
    inverse[half:, half:] = last = triangular_inverse(lower[half:, half:])
    trmm = scipy.linalg.blas.dtrmm  # half the work of a product
    beside = trmm(1.0, first, lower[half:, :half], side=1, lower=1)
    inverse[half:, :half] = trmm(-1.0, last, beside, lower=1, overwrite_b=1)
    return inverse


def transposed_solve(lower: np.ndarray, right: np.ndarray) -> np.ndarray:
    """L^-T R, (D, n), of a lower triangular L (D, D) in the order of rows, which LAPACK reads as L^T."""
    return scipy.linalg.lapack.dtrtrs(lower.T, right, lower=0)[0]


def whitened_rows(lower: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows (n, D), each multiplied by L^-1, of a lower triangular L (D, D) in the order of rows."""
    solved: np.ndarray = scipy.linalg.lapack.dtrtrs(lower.T, rows.T, lower=0, trans=1)[0]
    return np.ascontiguousarray(solved.T)


def positive_solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """M^-1 R, (D, O), of a symmetric positive definite M (D, D), by its Cholesky factor."""
    return scipy.linalg.lapack.dposv(matrix, right)[1]


def symmetric_eigen(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (D,), ascending, and eigenvectors (D, D) of a symmetric matrix, by a call of LAPACK."""
    values, vectors, _ = scipy.linalg.lapack.dsyevd(matrix)
    return values, vectors


def _solve_torch(lower: Array, b: Array, transposed: bool) -> Array:
    import torch

    matrix = lower.mT if transposed else lower
    columns = b[:, None] if b.ndim == 1 else b
    solution = torch.linalg.solve_triangular(matrix, columns, upper=transposed)
    return solution[:, 0] if b.ndim == 1 else solution


def lower_solve(lower: Array, right: Array) -> Array:
    """Return X with lower X = right, for lower triangular (..., D, D) and right (..., D, m)."""
    if is_torch(lower):
        import torch

        return torch.linalg.solve_triangular(lower, right, upper=False)
    if lower.ndim == 2 and right.ndim == 2:
        return scipy.linalg.solve_triangular(lower, right, lower=True, check_finite=False)
    return np.linalg.solve(lower, right)


def lower_inverse(lower: Array) -> Array:
    """Return the inverse of lower triangular matrices (..., D, D)."""
    xp = namespace(lower)
    eye = xp.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    return lower_solve(lower, xp.broadcast_to(eye, lower.shape))


def named_cholesky(name: str, matrices: Array) -> Array:
    """Return lower Cholesky factors of (..., D, D); raises ValueError where one does not exist.

    Parameters
    ----------
    name : the name of the argument, for the error message.
    """
    try:
        return namespace(matrices).linalg.cholesky(matrices)
    except (np.linalg.LinAlgError, RuntimeError) as failure:
        smallest = smallest_eigenvalue(to_numpy(matrices))
        raise ValueError(
            f"{name} is not positive definite (smallest eigenvalue {smallest:.3g}): give a "
            "covariance with variance in every direction, or drop the columns that do not vary"
        ) from failure


def smallest_eigenvalue(matrices: np.ndarray) -> float:
    """Return the smallest of all eigenvalues of symmetric matrices (..., D, D)."""
    return float(np.linalg.eigvalsh(matrices).min())


def explained(covariances: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """Return tr(c^T V^-1 c), (...), for V (..., B, B) and c (..., B, F).

    With V the ``covariances`` of B numbers and c their ``cross`` covariances with F quantities it is the
    variance of the quantities, in sum, that the numbers explain.
    """
    return np.asarray(np.einsum("...bf,...bf->...", cross, np.linalg.solve(covariances, cross)))


def log_diagonal_sum(lower: Array) -> Array:
    """Return sum_d log L_dd, (...): half the log determinant of L L^T, which cannot overflow."""
    xp = namespace(lower)
    return xp.sum(xp.log(xp.linalg.diagonal(lower)), axis=-1)


def symmetric_divergence(m1: np.ndarray, s1: np.ndarray, m2: np.ndarray, s2: np.ndarray) -> float:
    """Return (KL(N1 || N2) + KL(N2 || N1)) / 2 of N(m1, s1) and N(m2, s2), means (D,), covariances (D, D)."""
    gap = m1 - m2
    # the logarithms of the determinants cancel
    spread = np.trace(np.linalg.solve(s1, s2)) + np.trace(np.linalg.solve(s2, s1)) - 2 * len(gap)
    between = gap @ np.linalg.solve(s1, gap) + gap @ np.linalg.solve(s2, gap)
    return float(spread + between) / 4.0


def correlation_eigenvalues(covariance: np.ndarray) -> np.ndarray:
    """Return the eigenvalues (D,), ascending, of the correlations of a covariance (D, D)."""
    sd = np.sqrt(np.diag(covariance))
    return np.linalg.eigvalsh(covariance / np.outer(sd, sd))


def correlation_root(covariance: np.ndarray, least: float) -> np.ndarray:
    """Return R (D, D) with R R^T a covariance, by the symmetric root of its correlations.

    Of all such R it rotates the axes least. Eigenvalues of the correlations are raised to ``least``.
    """
    sd = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    return sd[:, None] * ((vectors * np.sqrt(np.maximum(values, least))) @ vectors.T)


def spectrum(matrix: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues (D,) of a symmetric matrix, raised to ``least``, and its eigenvectors (D, D)."""
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, least), vectors
