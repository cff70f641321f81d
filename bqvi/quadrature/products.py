"""Integrals of products of squared exponential kernels of unit variance, lengthscales l.

A product of two kernels is one of half the squared lengthscale, at the midpoint:

    k(x, a) k(x, b) = exp(-|a - b|^2 / 4) k_(l/sqrt 2)(x, (a + b)/2)         |.| in lengthscales
    Q(a, b) = exp(-|a - b|^2 / 4) z_(l/sqrt 2)((a + b)/2)

with z the kernel mean, for every measure that has one. For the double integral

    T(a, b) = int int k(x, a) k(x, x') k(x', b) pi(dx) pi(dx')

between Gaussians N(m, S) and N(n, R), the exponent is a quadratic form in (x, x') whose matrix
P = [[S^-1 + 2, -1], [-1, R^-1 + 2]] (in lengthscales) does not depend on a and b. A mixture is a sum over
pairs of components; over a box it is a product over coordinates, each by a Gauss-Legendre rule; over a
finite measure a sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from bqvi.quadrature.surrogate import Surrogate
from gp.embeddings import embed
from gp.kernels import SquaredExponential
from gp.measures import Empirical, Gaussian, GaussianMixture, Measure, Uniform

_RULE = 96


@dataclass(frozen=True, eq=False)
class Products:
    """Q (m, n) and T (n, n) at points, and c = int int k^2.

    T and c are of the data's points; where Q is asked for other points they are empty.
    """

    single: Any
    triple: Any
    square: float


def products(member: Surrogate, v: Any = None) -> Products:
    """Return the products for the data of a surrogate; or Q alone between points v and the data."""
    lengths, measure = np.exp(member.theta[:-1]), member.chart.measure
    data = member.view.observed.x
    narrow = embed(SquaredExponential(lengths / np.sqrt(2), 1.0), measure)
    first = data if v is None else v
    middle = (first[:, None, :] + data[None, :, :]).reshape(-1, data.shape[1]) / 2
    apart = cdist(first / lengths, data / lengths, "sqeuclidean")
    single = np.exp(-apart / 4) * narrow.mean(middle).reshape(apart.shape)
    if v is not None:
        return Products(single, np.zeros((0, 0)), 0.0)
    return Products(single, triple(lengths, measure, data), float(narrow.double()))


def triple(lengths: Any, measure: Measure, v: Any) -> Any:
    """Return T at points v (n, D), (n, n)."""
    if isinstance(measure, Uniform):
        return _over_box(lengths, measure, v)
    if isinstance(measure, Empirical):
        points = measure.points / lengths
        left = measure.weights[:, None] * np.exp(-0.5 * cdist(points, v / lengths, "sqeuclidean"))
        return left.T @ np.exp(-0.5 * cdist(points, points, "sqeuclidean")) @ left
    if isinstance(measure, Gaussian):
        return _between(lengths, measure, measure, v)
    assert isinstance(measure, GaussianMixture)  # the last of the measures with this embedding
    parts = list(zip(measure.weights, measure.components, strict=True))
    return sum(p * q * _between(lengths, a, b, v) for p, a in parts for q, b in parts)


def _between(lengths: Any, first: Gaussian, second: Gaussian, v: Any) -> Any:
    a, dimension = v / lengths, len(lengths)
    identity = np.eye(dimension)
    scale = np.outer(lengths, lengths)
    s, r = first.covariance / scale, second.covariance / scale
    # (S^-1 + 2)^-1 and its like are formed without inverting a small S
    matrix = np.block([[identity + 2 * s, -s], [-r, identity + 2 * r]])  # diag(S, R) P
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
    quadratic = (0.5 * np.einsum("ni,ij,nj->n", top, p11, top) - 0.5 * np.sum(left**2, axis=1))[:, None] + (
        0.5 * np.einsum("ni,ij,nj->n", bottom, p22, bottom) - 0.5 * np.sum(right**2, axis=1)
    )
    _, log_determinant = np.linalg.slogdet(matrix)
    return np.exp(quadratic + top @ p12 @ bottom.T - 0.5 * gap @ gap - 0.5 * log_determinant)


def _over_box(lengths: Any, box: Uniform, v: Any) -> Any:
    nodes, weights = np.polynomial.legendre.leggauss(_RULE)
    total = np.ones((len(v), len(v)))
    for d, length in enumerate(lengths):
        x = (box.lower[d] + (nodes + 1) / 2 * (box.upper[d] - box.lower[d])) / length
        left = (weights / 2)[:, None] * np.exp(-0.5 * (x[:, None] - v[:, d] / length) ** 2)
        total *= left.T @ np.exp(-0.5 * (x[:, None] - x) ** 2) @ left
    return total
