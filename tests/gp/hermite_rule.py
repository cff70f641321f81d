"""Gauss-Hermite rules for Gaussians of any covariance and their mixtures."""

from functools import reduce

import numpy as np

from gp.measures import GaussianMixture


def hermite(measure, count):
    """Points (n, D) and weights of a product rule with ``count`` nodes to a coordinate of each component."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    axes = [nodes] * measure.dimension
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, measure.dimension)
    product = reduce(np.multiply.outer, [weights / weights.sum()] * measure.dimension).ravel()
    mixture = isinstance(measure, GaussianMixture)
    parts, shares = (measure.components, measure.weights) if mixture else ((measure,), (1.0,))
    points = np.concatenate([part.map.from_standard(grid) for part in parts])
    return points, np.concatenate([share * product for share in shares])
