"""Bayesian linear regression with unknown noise: y_n = W x_n + e_n, e_n ~ N(0, v I).

The prior (`regression_prior.RegressionPrior`) is conjugate and there are no latent variables, so that one
step of coordinate ascent gives the exact posterior, at which the ELBO is the log evidence. With a mini-batch
strategy the steps are stochastic. Predictive densities are Student's t.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from bqvi.arrays import inner
from bqvi.checks import require_finite, require_integer, require_summable
from bqvi.families import MatrixNormalInverseWishart, PointMass
from bqvi.families.family import FamilyOrPoint
from bqvi.models.conjugate import LocalStep, altered
from bqvi.models.data import Data, as_numbers
from bqvi.models.regression_prior import (
    DEFAULT,
    SINGULAR,
    RegressionPrior,
    estimates,
    require_prior,
    statistics,
)
from gp.arrays import LOG_2PI, Array, to_numpy


class LinearRegression:
    """Linear regression; data are (X (N, P), y (N,) or (N, J)). Add a column of ones for an intercept.

    Parameters
    ----------
    dimension : P >= 1
    n_outputs : J >= 1, outputs with coefficients of their own and one noise variance
    prior : of coefficients and noise variance, see `RegressionPrior`; flat, with family='point', it gives
        least squares
    """

    def __init__(
        self,
        dimension: int,
        *,
        n_outputs: int = 1,
        prior: RegressionPrior = DEFAULT,
    ) -> None:
        self.dimension = require_integer("dimension", dimension, 1)
        self.n_outputs = require_integer("n_outputs", n_outputs, 1)
        self.regression_prior = require_prior(prior)

    singular = SINGULAR

    def for_data(self, data: Data) -> Self:
        """The same model, with a scale of the noise that was not given taken from ``data``.

        Of a prior beside which rounding would leave nothing, as inputs depend on each other linearly or
        explain the outputs exactly, strength or scale are raised, with a warning.
        """
        x, y = self.check(data)
        prior = self.regression_prior.for_inputs(x)
        if prior.scale is None:
            prior = prior.for_outputs(y.var(axis=0), shared=True)
        prior = prior.beside(x, y)
        return self if prior is self.regression_prior else altered(self, regression_prior=prior)

    @cached_property
    def prior(self) -> Any:
        """p(W, v)."""
        return self.regression_prior.of(self.n_outputs, self.dimension)

    def check(self, data: Data) -> tuple[np.ndarray, np.ndarray]:
        """(X (N, P), y (N, J)), finite."""
        return check_regression(data, self.dimension, self.n_outputs)

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> MatrixNormalInverseWishart:
        """Noise as wide as y, coefficients near 0; 'random' scatters them."""
        y = data[1]
        spread = float(y.std()) or 1.0
        shape = (self.n_outputs, self.dimension)
        mean = spread * rng.standard_normal(shape) if how == "random" else np.zeros(shape)
        dof = 2.0 + len(y)
        scale = np.array([[dof * spread**2]])
        return MatrixNormalInverseWishart(mean[:, None], np.eye(self.dimension), scale, np.asarray(dof))

    def local_step(self, q: FamilyOrPoint, rows: Data, weights: Array | None = None) -> LocalStep:
        """sum of (y x^T, x x^T, |y|^2, J) of ``rows``, and its product with E[t]."""
        x, y = (to_numpy(part) for part in rows)
        part = np.ones(len(x)) if weights is None else np.asarray(to_numpy(weights), float)
        weighted = part[:, None] * x
        squares = np.asarray(part @ (y * y).sum(1))
        count = np.asarray(part.sum() * self.n_outputs)
        found = statistics(y.T @ weighted, x.T @ weighted, squares, count)
        return LocalStep(found, float(inner(found, q.expected_statistics)))

    def log_base_measure(self, data: Data) -> float:
        """-(N J / 2) ln(2 pi)."""
        return float(-0.5 * data[1].size * LOG_2PI)

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(y | X, theta), nats; theta = {'coefficients': (J, P), 'variance': v}."""
        x, y = self.check(data)
        gap = y - x @ np.asarray(theta["coefficients"], float).reshape(self.n_outputs, -1).T
        variance = float(theta["variance"])
        return float(-0.5 * (y.size * (LOG_2PI + np.log(variance)) + (gap * gap).sum() / variance))

    def coefficients(self, q: FamilyOrPoint) -> np.ndarray:
        """E[W] under ``q``, (J, P)."""
        return estimates(q)[0]

    def predict(self, q: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Location (N, J) and scale (N,) of y under ``q`` at rows ``x`` (N, P).

        The density is Student's with ``q.dof`` degrees of freedom; where ``q`` is a point, normal.
        """
        x = np.asarray(x, float)
        coefficients, variance = estimates(q)
        spread = 1.0 + (0.0 if isinstance(q, PointMass) else ((x @ q.covariance) * x).sum(1))
        return x @ coefficients.T, np.broadcast_to(np.sqrt(spread * variance), len(x)).copy()

    def log_predictive(self, q: Any, data: Data) -> np.ndarray:
        """ln p(y_n | x_n, the data of ``q``), (N,), of rows ``data``; for J = 1."""
        x, y = self.check(data)
        if self.n_outputs > 1:
            raise ValueError(f"n_outputs is {self.n_outputs}; the predictive density is for one output")
        location, scale = self.predict(q, x)
        squares = ((y[:, 0] - location[:, 0]) / scale) ** 2
        if isinstance(q, PointMass):
            return np.asarray(-0.5 * (squares + LOG_2PI) - np.log(scale))
        half = 0.5 * (q.dof + 1.0)
        level = gammaln(half) - gammaln(0.5 * q.dof) - 0.5 * np.log(np.pi * q.dof)
        return np.asarray(level - half * np.log1p(squares / q.dof) - np.log(scale))

    def representation(self, data: Data) -> np.ndarray:
        """Rows for a kernel over data: inputs and outputs side by side."""
        return np.column_stack([to_numpy(part) for part in data])


def check_regression(data: Data, dimension: int, n_outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """(X (N, P), y (N, J)) of a tuple ``data``, P = ``dimension``, J = ``n_outputs``; finite, N >= 1."""
    if not isinstance(data, tuple) or len(data) != 2:
        raise ValueError(
            f"data is {type(data).__name__}; it must be a tuple (X, y) of shapes (N, P) and (N, J)"
        )
    x, y = (np.asarray(to_numpy(as_numbers(f"data[{i}]", part)), float) for i, part in enumerate(data))
    y = y[:, None] if y.ndim == 1 else y
    if x.ndim != 2 or x.shape[1] != dimension or y.shape != (len(x), n_outputs) or not len(x):
        raise ValueError(
            f"data has shapes {x.shape} and {y.shape}; they must be (N, {dimension}) and (N, {n_outputs}) "
            "with N >= 1"
        )
    for i, part in enumerate((x, y)):
        require_finite(f"data[{i}]", part)
        require_summable(f"data[{i}]", part)
    return x, y
