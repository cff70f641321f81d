"""The Gram matrix of values and all gradients at the same points, squared exponential, as lengths change.

s = (v - v') / l^2 (n, n, D) gives cov(f, d_d f') = k s_d and cov(d_d f, d_e f') = k (1[d = e] / l_d^2 -
s_d s_e): the derivative in log l_m has dk/dlog l_m in the place of k, and that of the second factor,
for ds_m/dlog l_m = -2 s_m. (:mod:`gp.grams` has it for any blocks of values and gradients, several times
slower.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gp.kernels.base import Pullback


def gram_with_slopes(v: Any) -> Callable[[Any], tuple[Any, Pullback]]:
    """Return the covariance of f(v_1), .., f(v_n), then df/dv at v_1, .., as a function of lengthscales.

    Lengthscales (D,) to the matrix (n + n D, n + n D) of unit variance, and its pull-back, which takes
    symmetric weights W to sum_ij W_ij dK_ij/dlog l, (D,).
    """
    n, dimension = v.shape
    apart = v[:, None, :] - v[None, :, :]
    squares = apart**2

    def gram(lengthscales: Any) -> tuple[Any, Pullback]:
        precision = lengthscales**-2.0
        k = np.exp(-0.5 * squares @ precision)
        s = apart * precision
        matrix = np.empty((n + n * dimension, n + n * dimension))
        matrix[:n, :n] = k
        matrix[:n, n:] = (k[:, :, None] * s).reshape(n, -1)
        matrix[n:, :n] = matrix[:n, n:].T
        slopes = np.einsum("ijd,ije->idje", -(k[:, :, None] * s), s)
        for d in range(dimension):
            slopes[:, d, :, d] += precision[d] * k
        matrix[n:, n:] = slopes.reshape(n * dimension, -1)
        return matrix, lambda weights: _slopes_pullback(weights, k, s, squares, precision)

    return gram


def _slopes_pullback(weights: Any, k: Any, s: Any, squares: Any, precision: Any) -> Any:
    """Return sum W dK/dlog l for :func:`gram_with_slopes`."""
    n, _, dimension = s.shape
    cross = weights[:n, n:].reshape(n, n, dimension) * k[:, :, None] * s
    both = weights[n:, n:].reshape(n, dimension, n, dimension)
    same = np.einsum("idjd->ijd", both) * k[:, :, None] * precision
    mixed = np.einsum("idje,ije->ijd", both, s) * k[:, :, None] * s
    of_kernel = weights[:n, :n] * k + np.sum(2 * cross + same - mixed, axis=2)
    direct = -4 * cross - 2 * same + 4 * mixed
    return np.einsum("ij,ijd->d", of_kernel, squares) * precision + direct.sum(axis=(0, 1))
