"""The variance of E_q[f] and its gradient for a squared exponential and a Gaussian q = N(m, Sigma), in NumPy.

In the notation of `kernel_means`, with v the kernel's variance,

    var   = C - h^T h,     h = L^-1 c,     C = v |Lambda|^(1/2) |Lambda + 2 Sigma|^(-1/2),
    dC/dSigma = -C (Lambda + 2 Sigma)^-1,          dC/dm = 0,

where c are the covariances of E_q[f] with what was observed, v z_n for values and -v z_n a_n for derivatives,
and L L^T is the covariance of the observations. The gradient of h^T h is that of a `KernelSum` with weights
2 L^-T h.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gp.expectation.kernel_means import KernelMeans
from gp.expectation.kernel_sum import KernelSum
from gp.integrals import without_rounding
from gp.means import Zero
from gp.measures import Gaussian, GaussianParameters
from gp.observations import Gradients
from gp.triangular import cholesky_inverse

if TYPE_CHECKING:
    from gp.posterior import Posterior


def variance_of(posterior: Posterior, mean: KernelSum, q: Gaussian) -> tuple[float, GaussianParameters]:
    """Return the variance of E_q[f], never negative, and its gradient in q.

    Parameters
    ----------
    posterior : of a squared exponential. mean : its mean. q : a Gaussian of NumPy arrays.

    Raises
    ------
    ArithmeticError
        where the variance is negative beyond rounding.
    """
    double, slope = _double(mean, q)
    whitened = posterior.factor.solve(_cross(posterior, mean, q))
    unknown = np.array([[double - whitened @ whitened]])
    variance = without_rounding(unknown, np.array([[double]]), posterior)[0, 0]
    mirrored = replace(posterior, mean_function=Zero(), whitened=whitened).kernel_sum
    assert mirrored is not None  # the embedding exists, as the posterior has used it
    explained = mirrored.integrate(q.mean, q.covariance)
    return float(variance), GaussianParameters(-2.0 * explained.mean, slope - 2.0 * explained.covariance)


def _double(mean: KernelSum, q: Gaussian) -> tuple[float, np.ndarray]:
    """C and dC/dSigma."""
    total = 2.0 * q.covariance
    np.einsum("ii->i", total)[:] += np.square(mean.lengthscale)
    factor, inverse = cholesky_inverse(total)
    double = mean.height * float(np.exp(np.log(mean.lengthscale / factor.diagonal()).sum()))
    return double, -double * inverse


def _cross(posterior: Posterior, mean: KernelSum, q: Gaussian) -> np.ndarray:
    """The vector c, (N,)."""
    found = KernelMeans.of(mean.points, mean.lengthscale, q.mean, q.covariance)
    z = mean.height * found.z
    parts, start = [], 0
    for block in posterior.observations.blocks:
        rows = slice(start, start + len(block.x))
        start += len(block.x)
        if isinstance(block, Gradients):
            parts.append(block.take(-z[rows, None] * found.a[rows], 1).reshape(-1))
        else:
            parts.append(z[rows])
    return np.concatenate(parts)
