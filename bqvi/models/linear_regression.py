"""Bayesian linear regression with unknown noise, y_n = W x_n + e_n, e_n ~ N(0, v I), and its conjugate prior.

    v ~ InverseGamma(nu_0 / 2, s_0 / 2),   w | v ~ N(0, (v / strength) I),

which is `families.MatrixNormalInverseWishart` about 0, with D = 1: one variance for J outputs. There are no
latent variables, so that one step of coordinate ascent gives the exact posterior, at which the ELBO is the
log evidence. Predictive densities are Student's t.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import gammaln

from bqvi.arrays import Values, inner
from bqvi.families import Flat, MatrixNormalInverseWishart, PointMass
from bqvi.families.family import FamilyOrPoint
from bqvi.models.conjugate import LocalStep, altered
from bqvi.models.data import Data, as_numbers
from bqvi.models.normal_components import EMPIRICAL
from gp.arrays import LOG_2PI, Array, shown, to_numpy
from gp.checks import (
    require_above,
    require_boolean,
    require_finite,
    require_integer,
    require_positive,
    require_summable,
)
from gp.user_warnings import warn_user


@dataclass(frozen=True)
class RegressionPrior:
    """Prior of coefficients and noise variance.

    Parameters
    ----------
    strength : > 0, a number, or (P,) where each of P inputs has its own; a coefficient has standard
        deviation sqrt(v / strength); default 0.01, for inputs of order 1
    scale : s_0 > 0, a number, or (D,) where each of D outputs has a noise variance of its own; default a
        tenth of the outputs' variances
    dof : nu_0 > 0; default 3: then E[v] = s_0
    flat : True for a flat prior: with family='point', maximum likelihood
    """

    strength: np.ndarray | float = EMPIRICAL.strength
    scale: np.ndarray | float | None = None
    dof: float = 3.0
    flat: bool = False

    def __post_init__(self) -> None:
        require_positive("prior.strength", as_numbers("prior.strength", self.strength))
        require_above("prior.dof", self.dof, 0.0)
        require_boolean("prior.flat", self.flat)
        if self.scale is not None:
            require_positive("prior.scale", as_numbers("prior.scale", self.scale))

    def for_outputs(self, variances: np.ndarray, shared: bool = False) -> Self:
        """The prior with a scale for each of D outputs, or with their mean if one scale is ``shared``.

        A scale that was not given is a tenth of the output's variance in ``variances`` (D,); for a constant
        output a tenth of the least variance of another output, or of 1.
        """
        varied = variances[variances > 0.0]
        least = varied.min() if varied.size else 1.0
        default = EMPIRICAL.spread * np.where(variances > 0.0, variances, least)
        scale = np.asarray(default if self.scale is None else self.scale)
        if scale.shape not in ((), variances.shape):
            raise ValueError(
                f"prior.scale has shape {scale.shape}; it must be a number or an array {variances.shape}"
            )
        scale = np.broadcast_to(scale, variances.shape)
        return replace(self, scale=scale.mean() if shared else scale)

    def for_inputs(self, x: np.ndarray, name: str = "prior.strength") -> Self:
        """With a strength, ``name`` in the warning, that rounding leaves beside inputs ``x`` (N, P)."""
        if self.flat:
            return self
        strength = visible_strength(name, self.strength, x)
        return self if strength is self.strength else replace(self, strength=strength)

    def beside(self, x: np.ndarray, y: np.ndarray) -> Self:
        """With a scale that rounding leaves beside outputs ``y`` (N, J) that ``x`` (N, P) explain exactly.

        It is raised, with a warning, where it and the squares that are left are below `_ROUNDING` of those of
        the outputs.
        """
        if self.flat:
            return self
        root = np.sqrt(np.broadcast_to(self.strength, x.shape[1:]))
        wide, long = np.vstack([x, np.diag(root)]), np.vstack([y, np.zeros((x.shape[1], y.shape[1]))])
        residual = float(((long - wide @ np.linalg.lstsq(wide, long)[0]) ** 2).sum())
        least = _ROUNDING * float((y * y).sum())
        if np.mean(self.scale) + residual >= least:  # type: ignore[arg-type]
            return self
        message = (
            "the inputs explain the outputs exactly, and rounding leaves nothing of prior.scale beside the "
            f"squares of the outputs; it is raised to {least:.3g}. Centre the outputs, or divide them by "
            "their standard deviations"
        )
        warn_user(message)
        return replace(self, scale=least)

    def of(self, n_outputs: int, dimension: int) -> Any:
        """Regressions of ``n_outputs`` J with ``dimension`` P inputs each: a batch as large as the scale."""
        if self.scale is None:
            raise ValueError("prior.scale is to be taken from data; use model.for_data(data), as fit does")
        scale, strength = np.array(self.scale, float), np.asarray(self.strength, float)
        if strength.shape not in ((), (dimension,)):
            raise ValueError(
                f"prior.strength has shape {strength.shape}; it must be a number or an array ({dimension},)"
            )
        proper = MatrixNormalInverseWishart(
            np.zeros((*scale.shape, n_outputs, 1, dimension)),
            np.broadcast_to(strength * np.eye(dimension), (*scale.shape, dimension, dimension)).copy(),
            scale[..., None, None],
            np.full(scale.shape, self.dof),
        )
        return Flat(proper) if self.flat else proper


_ROUNDING = 1e-10
"""The share of a sum of squares that a prior adds where rounding would leave nothing of it."""


def visible_strength(name: str, strength: np.ndarray | float, x: np.ndarray) -> np.ndarray | float:
    """``strength``, or one that rounding leaves beside inputs ``x`` (N, P) that depend on each other.

    It is raised, with a warning that names it as ``name``, only where the smallest eigenvalue of the
    posterior precision of the coefficients, scaled to a diagonal of ones, is below `_ROUNDING`.
    """
    squares = (x * x).sum(axis=0)
    given = np.broadcast_to(strength, squares.shape)
    size = np.sqrt(squares + given)
    scaled = x / size
    if np.linalg.eigvalsh(scaled.T @ scaled + np.diag(given / size**2))[0] >= _ROUNDING:
        return strength
    raised: np.ndarray = np.maximum(given, _ROUNDING * squares)
    message = (
        f"columns of the inputs depend on each other linearly, and rounding leaves nothing of {name} beside "
        f"their squares; it is raised to at most {raised.max():.3g}. Leave out columns that repeat others, "
        "or divide the columns by their standard deviations"
    )
    warn_user(message)
    return raised


DEFAULT = RegressionPrior()
SINGULAR = (
    "columns of the inputs that depend on each other linearly, or outputs that they explain exactly, beside "
    "which rounding leaves nothing of the prior; leave out columns that repeat others, centre the columns "
    "and the outputs and divide them by their standard deviations, or give a stronger prior"
)
"""The reasons for which a regression's covariance or noise variance is singular, with advice."""


def require_prior(prior: object) -> RegressionPrior:
    """The ``prior``; TypeError if it is no RegressionPrior."""
    if not isinstance(prior, RegressionPrior):
        raise TypeError(f"prior is {shown(prior)}; it must be a RegressionPrior")
    return prior


class RegressionExpectations(NamedTuple):
    """The terms of the expected log density of a batch (...) of regressions, lambda = 1 / v."""

    linear: np.ndarray
    """E[lambda W], (..., J, P)."""
    squares: np.ndarray
    """E[lambda W^T W], (..., P, P)."""
    precision: np.ndarray
    """E[lambda], (...)."""
    log_precision: np.ndarray
    """E[ln lambda], (...)."""


def expectations(q: FamilyOrPoint) -> RegressionExpectations:
    """The terms under ``q``, or at the point of a point mass."""
    linear, halved, half_precision, half_log = q.expected_statistics
    return RegressionExpectations(
        linear[..., 0, :], -2.0 * halved, -2.0 * half_precision[..., 0, 0], 2.0 * half_log
    )


def statistics(cross: np.ndarray, second: np.ndarray, squares: np.ndarray, counts: np.ndarray) -> Values:
    """The natural parameters added by sums of y x^T (..., J, P), x x^T (..., P, P), |y|^2 and J (...).

    Parameters
    ----------
    cross : sums of y x^T, (..., J, P). second : of x x^T, (..., P, P). squares : of |y|^2, (...). counts : of
        J, (...).
    """
    return cross[..., None, :], second, squares[..., None, None], counts


def estimates(q: Any) -> tuple[np.ndarray, np.ndarray]:
    """E[W] (..., J, P), and 1 / E[lambda] (...), under ``q``, or W and v at the point that it is."""
    family = q.family if isinstance(q, PointMass) else q
    w, covariance = family.unpacked(q.mean)
    return w[..., 0, :], covariance[..., 0, 0]


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
    x, y = (np.asarray(to_numpy(part), float) for part in regression_data(data, dimension, n_outputs))
    return x, y[:, None] if y.ndim == 1 else y


def regression_data(data: Data, dimension: int, n_outputs: int | None) -> tuple[Array, Array]:
    """The same ``data`` of this ``dimension`` as arrays or tensors; with ``n_outputs`` None, y is (N,)."""
    shape = f"(N, {dimension})", "(N,)" if n_outputs is None else f"(N, {n_outputs})"
    if not isinstance(data, tuple) or len(data) != 2:
        raise ValueError(
            f"data is {type(data).__name__}; it must be a tuple (X, y) of shapes {' and '.join(shape)}"
        )
    x, y = (as_numbers(f"data[{i}]", part) for i, part in enumerate(data))
    wide = () if n_outputs is None or (n_outputs == 1 and len(y.shape) == 1) else (n_outputs,)
    if tuple(x.shape[1:]) != (dimension,) or tuple(y.shape) != (x.shape[0], *wide) or not x.shape[0]:
        raise ValueError(
            f"data has shapes {tuple(x.shape)} and {tuple(y.shape)}; they must be {' and '.join(shape)} "
            "with N >= 1"
        )
    for i, part in enumerate((x, y)):
        require_finite(f"data[{i}]", part)
        require_summable(f"data[{i}]", part)
    return x, y
