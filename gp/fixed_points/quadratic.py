"""Gram matrices of few fixed matrices: of a quadratic trend, and of multiples of a known function."""

from __future__ import annotations

import numpy as np

from gp.fixed_points.gram import Changes, Gram, gram_of, laid_out
from gp.kernels.base import Pullback
from gp.kernels.multiple import Multiple
from gp.kernels.polynomial import QuadraticTrend
from gp.observations import Functional


@gram_of.register
def _quadratic_gram(kernel: QuadraticTrend, observed: Functional) -> Gram:
    """Return linear L + quadratic Q as a function of the two variances."""
    return laid_out(observed, _of_trend)


def _of_trend(x: np.ndarray, m: int) -> Gram:
    linear, quadratic = _products(x, m)
    both = linear + quadratic

    def gram(changed: QuadraticTrend) -> tuple[np.ndarray, Pullback]:
        b1, b2 = changed.linear, changed.quadratic
        matrix = b1 * both if b1 == b2 else b1 * linear + b2 * quadratic
        return matrix, Changes.of([b1, b2], [linear, quadratic])

    return gram


def _products(x: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """L of x . y and Q of (x . y)^2 / 2, with the derivatives at the first m of n points, (N, N)."""
    t, (n, dimension) = x @ x.T, x.shape
    size = n + m * dimension
    linear, quadratic = np.zeros((size, size)), np.empty((size, size))
    linear[:n, :n], quadratic[:n, :n] = t, 0.5 * t * t
    linear[:n, n:] = np.broadcast_to(x[:, None, :], (n, m, dimension)).reshape(n, -1)
    quadratic[:n, n:] = (t[:, :m, None] * x[:, None, :]).reshape(n, -1)
    for matrix in (linear, quadratic):
        matrix[n:, :n] = matrix[:n, n:].T
    both = quadratic[n:, n:].reshape(m, dimension, m, dimension)  # [i, d, j, e]: x_jd x_ie
    both[:] = x[:m, None, None, :] * x[:m].T[None, :, :, None]
    for d in range(dimension):
        both[:, d, :, d] += t[:m, :m]
        linear[n:, n:].reshape(m, dimension, m, dimension)[:, d, :, d] = 1.0
    return linear, quadratic


@gram_of.register
def _multiple_gram(kernel: Multiple, observed: Functional) -> Gram:
    """Return variance g g^T as a function of the variance, g the function as it is observed."""

    def at(x: np.ndarray, m: int) -> Gram:
        slopes = kernel.function.gradient(x[:m]).reshape(-1) if m else np.zeros(0)
        return _of_function(np.concatenate([kernel.function(x), slopes]))

    return laid_out(observed, at)


def _of_function(g: np.ndarray) -> Gram:
    whole = np.outer(g, g)

    def gram(changed: Multiple) -> tuple[np.ndarray, Pullback]:
        variance = float(changed.variance)
        return variance * whole, Changes(
            lambda weights: np.array([variance * (g @ weights @ g)]),
            lambda vectors: variance * np.outer(g, g @ vectors)[None],
        )

    return gram
