"""Small factorisations for NumPy and torch, with any leading batch dimensions.

They are for the D x D matrices of measures and embeddings: they are differentiable in torch, and errors name
the argument. The n x n matrices of a posterior are factorised in `gp.linalg`.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from gp.arrays import Array, is_torch, namespace, to_numpy

__all__ = ["cholesky", "log_diagonal_sum", "lower_inverse", "lower_solve"]


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
    name : what the matrix is called where it was given, for the error message.
    """
    try:
        return namespace(matrices).linalg.cholesky(matrices)
    except (np.linalg.LinAlgError, RuntimeError) as failure:
        smallest = np.linalg.eigvalsh(to_numpy(matrices)).min()
        raise ValueError(
            f"{name} is not positive definite (smallest eigenvalue {smallest:.3g}): give a "
            "covariance with variance in every direction, or drop the columns that do not vary"
        ) from failure


def log_diagonal_sum(lower: Array) -> Array:
    """Return sum_d log L_dd, (...): half the log determinant of L L^T, which cannot overflow."""
    xp = namespace(lower)
    return xp.sum(xp.log(xp.linalg.diagonal(lower)), axis=-1)
