"""Integrals of products of squared exponential kernels of unit variance, lengthscales l.

A product of two kernels is one of half the squared lengthscale, at the midpoint:

    k(x, a) k(x, b) = exp(-|a - b|^2 / 4) k_(l/sqrt 2)(x, (a + b)/2)         |.| in lengthscales
    Q(a, b) = exp(-|a - b|^2 / 4) z_(l/sqrt 2)((a + b)/2)

with z the kernel mean, for every measure with an embedding. Against a Gaussian N(m, Sigma) the exponent of z
is a quadratic form in a + b, computed for all pairs by one matrix product; against other measures z is
evaluated at all midpoints. For the double integral

    T(a, b) = int int k(x, a) k(x, x') k(x', b) pi(dx) pi(dx')

between Gaussians N(m, Sigma) and N(n, R), the exponent is a quadratic form in (x, x') whose matrix
P = [[Sigma^-1 + 2, -1], [-1, R^-1 + 2]] (in lengthscales) does not depend on a and b. A mixture is a sum over
pairs of components; over a box it is a product over coordinates, each by a Gauss-Legendre rule; over a
finite measure a sum.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from gp.arrays import Array
from gp.embeddings.embed import KernelEmbedding, embed
from gp.kernels import SquaredExponential
from gp.measures import Empirical, Gaussian, GaussianMixture, Measure, Uniform

_RULE = 96
"""Nodes of the Gauss-Legendre rule in each coordinate of a box. With lengthscales .03, .02 and .0144 of its
width, the least that quadrature uses, the largest error is 6e-13, 6e-9 and 1e-4."""


def square(lengths: np.ndarray, measure: Measure) -> float:
    """Return c = int int k(x, x')^2 pi(dx) pi(dx'), for lengthscales (D,)."""
    return float(_narrow(lengths, measure).double())


def single(lengths: np.ndarray, measure: Measure, v: np.ndarray, w: np.ndarray) -> Array:
    """Return Q between points v (n, D) and w (m, D), (n, m); lengthscales (D,), and a measure over R^D."""
    if isinstance(measure, Gaussian):
        return _against_gaussian(lengths, measure, v, w)
    if isinstance(measure, GaussianMixture):
        parts = zip(measure.weights, measure.components, strict=True)
        return sum(weight * _against_gaussian(lengths, part, v, w) for weight, part in parts)
    middle = (v[:, None, :] + w[None, :, :]).reshape(-1, v.shape[1]) / 2
    squares = cdist(v / lengths, w / lengths, "sqeuclidean")
    return np.exp(-squares / 4) * _narrow(lengths, measure).mean(middle).reshape(squares.shape)


def _narrow(lengths: np.ndarray, measure: Measure) -> KernelEmbedding:
    return embed(SquaredExponential(lengths / np.sqrt(2), 1.0), measure)


def _against_gaussian(lengths: np.ndarray, measure: Gaussian, v: np.ndarray, w: np.ndarray) -> Array:
    a, b = (v - measure.mean) / lengths, (w - measure.mean) / lengths
    # z has covariance Sigma + 1/2 in lengthscales; (a + b)/2 under its inverse P: (a + b)^T P (a + b) / 8
    spread = 2 * measure.covariance / np.outer(lengths, lengths) + np.eye(len(lengths))
    precision = np.linalg.inv(spread)
    left, right = a @ precision, b @ precision
    _, log_determinant = np.linalg.slogdet(spread)
    exponent = (0.5 * (a - left)) @ b.T
    exponent -= 0.25 * np.sum(a * (a + left), axis=1)[:, None] + 0.5 * log_determinant
    exponent -= 0.25 * np.sum(b * (b + right), axis=1)
    return np.exp(exponent)


def triple(lengths: np.ndarray, measure: Measure, v: np.ndarray) -> Array:
    """Return T at points v (n, D), (n, n); lengthscales (D,), and a measure over R^D."""
    if isinstance(measure, Uniform):
        return _over_box(lengths, measure, v)
    if isinstance(measure, Empirical):
        points = measure.points / lengths
        left = measure.weights[:, None] * np.exp(-0.5 * cdist(points, v / lengths, "sqeuclidean"))
        return left.T @ np.exp(-0.5 * cdist(points, points, "sqeuclidean")) @ left
    if isinstance(measure, Gaussian):
        return _between(lengths, measure, measure, v)
    assert isinstance(measure, GaussianMixture)  # the only other class with this embedding
    parts = list(zip(measure.weights, measure.components, strict=True))
    return sum(p * q * _between(lengths, a, b, v) for p, a in parts for q, b in parts)


def _between(lengths: np.ndarray, first: Gaussian, second: Gaussian, v: np.ndarray) -> Array:
    a, dimension = v / lengths, len(lengths)
    identity = np.eye(dimension)
    scale = np.outer(lengths, lengths)
    s, r = first.covariance / scale, second.covariance / scale
    # (Sigma^-1 + 2)^-1 and its like are formed without inverting a small Sigma
    matrix = np.block([[identity + 2 * s, -s], [-r, identity + 2 * r]])  # diag(Sigma, R) P
    inverse = np.linalg.solve(matrix, np.block([[s, 0 * s], [0 * r, r]]))  # P^-1
    m, n = first.mean / lengths, second.mean / lengths
    # about the means: exponent -|a - m|^2/2 - |m - n|^2/2 - |n - b|^2/2 + h^T P^-1 h / 2
    left, right = a - m, a - n
    gap = m - n
    top, bottom = left - gap, right + gap
    p11, p12, p22 = (
        inverse[:dimension, :dimension],
        inverse[:dimension, dimension:],
        inverse[dimension:, dimension:],
    )
    _, log_determinant = np.linalg.slogdet(matrix)
    of_left = 0.5 * np.sum((top @ p11) * top - left**2, axis=1) - 0.5 * gap @ gap - 0.5 * log_determinant
    of_right = 0.5 * np.sum((bottom @ p22) * bottom - right**2, axis=1)
    exponent = (top @ p12) @ bottom.T
    exponent += of_left[:, None]
    exponent += of_right
    return np.exp(exponent)


def _over_box(lengths: np.ndarray, box: Uniform, v: np.ndarray) -> Array:
    nodes, weights = np.polynomial.legendre.leggauss(_RULE)
    total = np.ones((len(v), len(v)))
    for d, length in enumerate(lengths):
        x = (box.lower[d] + (nodes + 1) / 2 * (box.upper[d] - box.lower[d])) / length
        left = (weights / 2)[:, None] * np.exp(-0.5 * (x[:, None] - v[:, d] / length) ** 2)
        total *= left.T @ np.exp(-0.5 * (x[:, None] - x) ** 2) @ left
    return total
