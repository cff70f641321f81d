"""Linear regressions with unknown noise, y_n = W x_n + e_n, e_n ~ N(0, v I), and their conjugate prior.

    v ~ InverseGamma(nu_0 / 2, s_0 / 2),   w | v ~ N(0, (v / strength) I),

which is `families.MatrixNormalInverseWishart` about 0, with D = 1: one variance for J outputs. The columns of
factor analysers and the experts of a mixture are such regressions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from bqvi.arrays import Values
from bqvi.families import Flat, MatrixNormalInverseWishart, PointMass
from bqvi.families.family import FamilyOrPoint
from bqvi.models.data import Data, as_numbers
from bqvi.models.normal_components import EMPIRICAL
from gp.arrays import Array, shown
from gp.checks import (
    require_above,
    require_boolean,
    require_finite,
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


def regression_data(data: Data, dimension: int) -> tuple[Array, Array]:
    """(X (N, P), y (N,)) of a tuple ``data`` with P = ``dimension``, as arrays or tensors; finite, N >= 1."""
    shape = f"(N, {dimension}) and (N,)"
    if not isinstance(data, tuple) or len(data) != 2:
        raise ValueError(f"data is {type(data).__name__}; it must be a tuple (X, y) of shapes {shape}")
    x, y = (as_numbers(f"data[{i}]", part) for i, part in enumerate(data))
    if tuple(x.shape[1:]) != (dimension,) or tuple(y.shape) != (x.shape[0],) or not x.shape[0]:
        raise ValueError(
            f"data has shapes {tuple(x.shape)} and {tuple(y.shape)}; they must be {shape} with N >= 1"
        )
    for i, part in enumerate((x, y)):
        require_finite(f"data[{i}]", part)
        require_summable(f"data[{i}]", part)
    return x, y
