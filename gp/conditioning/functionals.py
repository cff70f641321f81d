"""Prior covariances of E[grad phi] and E[Hessian of phi] under N(0, I).

With the kernel of `function_kernel`,

    k(u, u') = s^2 (h exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2),

slopes and Hessians are uncorrelated (one is odd, one even), and

    Cov(E[d_i phi], E[d_j phi])          = (h c_1 + b1) delta_ij
    Cov(E[d_i d_j phi], E[d_k d_l phi])  = h c_2 delta_ij delta_kl
                                           + (h c_2 + b2) (delta_ik delta_jl + delta_il delta_jk)

with c_1, c_2 of `gp.expectation.jacobian_variance`. F = 1 + D + D (D + 1) / 2 counts the expectation, the
slopes and the lower triangle of the Hessian.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from gp.conditioning.function_kernel import FunctionKernel
from gp.expectation import jacobian_variance, slope_jacobian, value_jacobian


def standard_observed(points: np.ndarray, kernel: FunctionKernel) -> np.ndarray:
    """Covariance / s^2 of observations at (m, D) points with slopes, Hessian under N(0, I), (m B, F - 1)."""
    m, d = points.shape
    rows, columns = np.tril_indices(d)
    h, b1, b2, parts = kernel.height, kernel.linear, kernel.quadratic, list[np.ndarray]()
    if kernel.shown.values:
        slopes, hessians = value_jacobian(points, kernel.lengthscale)
        products = points[:, rows] * points[:, columns]
        parts.append(np.concatenate([h * slopes + b1 * points, h * hessians + b2 * products], 1)[:, None])
    if kernel.shown.gradients:
        slopes, hessians = slope_jacobian(points, kernel.lengthscale)
        eye = np.eye(d)
        along = eye[:, rows] * points[:, None, columns] + eye[:, columns] * points[:, None, rows]
        parts.append(np.concatenate([h * slopes + b1 * eye, h * hessians + b2 * along], 2))
    return np.concatenate(parts, 1).reshape(m * kernel.shown.width(d), -1)


def standard_prior(dimension: int, kernel: FunctionKernel) -> np.ndarray:
    """Covariance / s^2 of the slopes and Hessian under N(0, I), (F - 1, F - 1)."""
    rows, columns = np.tril_indices(dimension)
    one, two = (kernel.height * c for c in jacobian_variance(dimension, kernel.lengthscale))
    same = (rows == columns).astype(float)
    # pairs k <= i are those of the lower triangle, where delta_il delta_jk is one only if all four are the
    # same
    hessians = (two + kernel.quadratic) * np.diag(1.0 + same) + two * np.outer(same, same)
    return scipy.linalg.block_diag((one + kernel.linear) * np.eye(dimension), hessians)
