"""The posterior mean as a `KernelSum`, where it is one.

It is one for posteriors of NumPy arrays, given values and derivatives of f, with a squared exponential kernel
and one of the means of `gp.means`, which are polynomials of degree at most two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gp.expectation.kernel_sum import KernelSum
from gp.expectation.quadratic import Quadratic
from gp.kernels import SquaredExponential
from gp.observations import Gradients, Values

if TYPE_CHECKING:
    from gp.posterior import Posterior


def kernel_sum(posterior: Posterior) -> KernelSum | None:
    """Return the posterior mean as a sum of squared exponentials; ``None`` where it is not one."""
    kernel, blocks = posterior.kernel, posterior.observations.blocks
    if type(kernel) is not SquaredExponential or type(posterior.x) is not np.ndarray:
        return None
    if posterior.x.dtype != np.float64 or not all(type(b) in (Values, Gradients) for b in blocks):
        return None
    values, slopes = _weights(posterior)
    points = np.concatenate([block.x for block in blocks])
    lengthscale = np.asarray(kernel.lengthscale, dtype=float)
    trend = Quadratic.of_mean(posterior.mean_function, posterior.x.shape[1])
    return KernelSum(points, lengthscale, float(kernel.variance), trend, values, slopes)


def _weights(posterior: Posterior) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The weights of values (n,) and of derivatives (n, D); zero where not observed, None if nowhere."""
    blocks = posterior.observations.blocks
    count, dimension = sum(len(block.x) for block in blocks), posterior.x.shape[1]
    values, slopes = np.zeros(count), np.zeros((count, dimension))
    first, at = 0, 0
    for block in blocks:
        weights = posterior.weights[first : first + len(block)]
        rows = slice(at, at + len(block.x))
        first, at = first + len(block), at + len(block.x)
        if isinstance(block, Gradients):
            slopes[rows] = block.spread(weights)
        else:
            values[rows] = weights
    kinds = {type(block) for block in blocks}
    return values if Values in kinds else None, slopes if Gradients in kinds else None
