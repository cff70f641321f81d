"""Small factorisations for NumPy and torch, with any leading batch dimensions.

They serve for the D x D matrices of measures and embeddings, are differentiable in torch, and name the
argument in errors. The n x n matrices of a posterior are factorised in `gp.linalg`.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from gp.arrays import Array, is_torch, namespace, to_numpy


def lower_solve(lower: Array, right: Array) -> Array:
    """Return X with lower X = right, for lower triangular (..., D, D) and right (..., D, m)."""
    if is_torch(lower):
        import torch

        return torch.linalg.solve_triangular(lower, right, upper=False)
    if lower.ndim == 2 and right.ndim == 2:
        return solve_triangular(lower, right, lower=True, check_finite=False)
    return np.linalg.solve(lower, right)


def lower_inverse(lower: Array) -> Array:
    """Return the inverse of lower triangular matrices (..., D, D)."""
    xp = namespace(lower)
    eye = xp.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    return lower_solve(lower, xp.broadcast_to(eye, lower.shape))


def cholesky(name: str, matrices: Array) -> Array:
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
