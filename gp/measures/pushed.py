"""The measure of affine coordinates A (x - shift), where it is of the same class."""

from __future__ import annotations

import numpy as np

from gp.arrays import Array, as_like, namespace
from gp.measures.base import Measure
from gp.measures.empirical import Empirical
from gp.measures.gaussian import Gaussian
from gp.measures.mixture import GaussianMixture
from gp.measures.uniform import Uniform


def pushed(measure: Measure, shift: Array, linear: Array) -> Measure:
    """Return the measure of A (x - shift) for a matrix A (D, D).

    Raises TypeError for a box unless A is diagonal. Arrays are of the kind of the measure's parameters.
    """
    like = measure.parameters()[0]
    transposed = namespace(like).matrix_transpose
    shift, matrix = as_like(shift, like), as_like(linear, like)
    if isinstance(measure, Gaussian):
        covariance = matrix @ measure.covariance @ matrix.T
        return Gaussian(matrix @ (measure.mean - shift), (covariance + covariance.T) / 2)
    if isinstance(measure, GaussianMixture):
        covariances = matrix @ measure.covariances @ matrix.T
        covariances = (covariances + transposed(covariances)) / 2
        return GaussianMixture(measure.weights, (measure.means - shift) @ matrix.T, covariances)
    if isinstance(measure, Empirical):
        return Empirical((measure.points - shift) @ matrix.T, measure.weights)
    scale = np.diag(linear)
    if isinstance(measure, Uniform) and np.array_equal(linear, np.diag(scale)):
        factor = as_like(scale, like)
        return Uniform(factor * (measure.lower - shift), factor * (measure.upper - shift))
    raise TypeError(f"{type(measure).__name__} has no rotated form of its class")
