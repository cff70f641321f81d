"""Gaussian components with unknown means and covariances, of any of the shapes in `covariances`.

    rho_nk = E[ln pi_k] + (E ln|L_k| - s_k - (y_n - m_k)^T L_k (y_n - m_k)) / 2,  ln h(x) = -(D / 2) ln(2 pi)

(Attias 2000; "Raise your ELBO"). The prior is given, or computed from the data, or flat.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bqvi.arrays import Values, transpose
from bqvi.families import Flat, PointMass
from bqvi.families.family import FamilyOrPoint
from bqvi.models.components import Start, start_from_clusters
from bqvi.models.covariances import Covariance, GaussianExpectations, GaussianPrior, Matrix, matrices_of
from bqvi.models.data import Data, as_numbers, as_table, filled, has_missing, n_rows, spread
from bqvi.models.mixture import AffineLogJoint, Lift, blocks, lifted, short_mantissa
from gp.arrays import LOG_2PI, Array, to_numpy
from gp.checks import (
    require_above,
    require_covariance,
    require_finite,
    require_numbers,
    require_positive,
    require_shape,
    require_summable,
)


@dataclass(frozen=True)
class EmpiricalPrior:
    """The parameters of the default prior, computed from the data; they do not depend on K.

    The prior mean is the mean of the data. The expected covariance of a component is ``spread`` times the
    variances of the data, with the smallest number of degrees of freedom that has an expectation. The prior
    standard deviation of a component's mean is 1 / sqrt(strength) = 10 times that of the component, which
    covers the data.
    """

    strength: float = 0.01
    spread: float = 0.1


EMPIRICAL = EmpiricalPrior()


@dataclass(frozen=True)
class GaussianComponents:
    """N(mu_k, Sigma_k) with a normal-inverse-Wishart or normal-inverse-gamma prior.

    Parameters
    ----------
    covariance : the shape, of `covariances.COVARIANCES`
    mean, strength, scale, dof : of the prior, see `covariances.GaussianPrior`; what is None is taken
        from data
    flat : a flat prior instead, for point masses
    settled : the prior with all its parameters; made by `for_data`
    """

    covariance: Covariance
    mean: np.ndarray | None = None
    strength: float | None = None
    scale: np.ndarray | None = None
    dof: float | None = None
    flat: bool = False
    settled: GaussianPrior | None = None

    name = "components"
    by_pattern = True

    def for_data(self, data: Data, weights: np.ndarray | None = None) -> Self:
        """The components with a prior whose missing parameters are moments of ``data``, ``weights`` (N,)."""
        if self.settled is not None:
            return self
        mean, variances = column_moments(data, weights)
        mean = mean if self.mean is None else require_numbers("prior_mean", self.mean)
        require_shape("prior_mean", mean, variances.shape)
        require_finite("prior_mean", mean)
        shape, d = self.covariance, len(mean)
        dof = shape.dof(d) if self.dof is None else self.dof
        strength = EMPIRICAL.strength if self.strength is None else self.strength
        require_above("prior_strength", strength, 0.0)
        require_above("prior_dof", dof, shape.dof(d) - 3.0)
        scale = self._checked_scale(shape.scale(EMPIRICAL.spread * variances))
        return replace(self, settled=GaussianPrior(mean, strength, scale, dof, short_mantissa(mean)))

    def _checked_scale(self, default: np.ndarray) -> np.ndarray:
        if self.scale is None:
            return default
        scale = require_numbers("prior_scale", self.scale)
        require_shape("prior_scale", scale, default.shape)
        if scale.ndim == 2:
            require_covariance("prior_scale", scale)
        else:
            require_positive("prior_scale", scale)
        return scale

    @property
    def shared(self) -> bool:
        """Whether all components have one covariance."""
        return self.covariance == Matrix(tied=True)

    @property
    def _prior(self) -> GaussianPrior:
        if self.settled is None:
            raise ValueError(
                "the prior is to be taken from data, of which there are none yet; use "
                "model.for_data(data), as fit does"
            )
        return self.settled

    def check(self, data: Data) -> Data:
        """(N, D), finite, or NaN in a NumPy array where missing; lists and data frames become arrays.

        Memory maps and tensors stay what they are.
        """
        return require_table(data, None if self.settled is None else len(self.settled.mean), missing=True)

    def prior(self, n_components: int) -> Any:
        proper = self.covariance.prior(self._prior, n_components)
        return Flat(proper) if self.flat else proper

    def lift(self) -> Lift:
        return self.covariance.lift(len(self._prior.mean))

    @property
    def centre(self) -> np.ndarray:
        return self._prior.origin

    def expectations(self, q: FamilyOrPoint) -> GaussianExpectations:
        if not isinstance(q, PointMass):
            return self.covariance.expectations(q.expected_statistics)
        try:
            return _finite(self.covariance.expectations(q.expected_statistics))
        except np.linalg.LinAlgError:
            raise ArithmeticError(_COLLAPSED) from None

    def expectations_at(self, theta: Array, n_components: int) -> GaussianExpectations:
        family = self.covariance.prior(self._prior, n_components)
        return self.covariance.expectations(family.statistics(theta))

    def affine(
        self, expected: GaussianExpectations, log_weights: np.ndarray, shown: np.ndarray | None = None
    ) -> AffineLogJoint:
        origin = self._prior.origin
        if shown is not None:
            expected, origin = self.covariance.marginal(expected, shown), origin[shown]
        slope, offset = self.covariance.slope(expected)
        return AffineLogJoint(slope, log_weights + offset, origin, self.covariance.lift(len(origin)))

    def each(self, q: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means (K, D) and covariance matrices (K, D, D) at the mean of ``q``."""
        family = q.family if isinstance(q, PointMass | Flat) else q
        means, covariances = self.covariance.each(*family.unpacked(q.mean))
        return means + self.centre, covariances

    def statistics(
        self, counts: np.ndarray, sums: np.ndarray, expected: Any = None, shown: np.ndarray | None = None
    ) -> Values:
        if shown is None:
            return self.covariance.statistics(counts, sums, len(self._prior.mean))
        return self.covariance.completed(GaussianExpectations(*expected), shown, counts, sums)

    def feasible(self, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Second moments are raised to those of data at the means, where an estimate has less."""
        d = len(self._prior.mean)
        means = sums[:, :d] / np.maximum(counts, 1e-300)[:, None]
        least = lifted(means, self.lift())[:, d:] * counts[:, None]
        excess = _nonnegative(sums[:, d:] - least, d)
        return np.column_stack([sums[:, :d], least + excess])

    def log_base_measure(self, data: Data) -> np.ndarray:
        """-(D / 2) ln(2 pi), (N,), D the columns that a row has."""
        if has_missing(data):
            return np.asarray(-0.5 * LOG_2PI * (~np.isnan(data)).sum(1))
        return np.full(n_rows(data), -0.5 * data.shape[1] * LOG_2PI)

    def representation(self, data: Data) -> np.ndarray:
        """Rows in units of the columns' standard deviations; what is missing is at the mean."""
        x = filled(as_table(data))
        return np.asarray((x - x.mean(axis=0)) / spread(x))

    def start(self, data: Data, n_components: int, begin: Start) -> Any:
        """From clusters; under a flat prior a proper one is used in its stead."""
        return start_from_clusters(replace(self, flat=False), filled(data), n_components, begin)


_COLLAPSED = (
    "a component is empty or has collapsed onto a point or a plane, where the likelihood has no maximum; "
    "give a proper prior instead of the flat one, fewer components, or another start"
)


def _finite(expected: GaussianExpectations) -> GaussianExpectations:
    """Raise ArithmeticError where a component is empty or has no spread, which only a flat prior allows."""
    if np.isfinite(expected.offset).all() and np.isfinite(expected.linear).all():
        return expected
    raise ArithmeticError(_COLLAPSED)


def _nonnegative(excess: np.ndarray, dimension: int) -> np.ndarray:
    """Second moments (K, P2) about the means without what is negative in them."""
    if excess.shape[1] in (1, dimension) and excess.shape[1] != dimension * (dimension + 1) // 2:
        return np.asarray(np.maximum(excess, 0.0))
    values, vectors = np.linalg.eigh(matrices_of(excess, dimension))
    raised = (vectors * np.maximum(values, 0.0)[:, None, :]) @ transpose(vectors)
    return np.asarray(raised[:, *np.triu_indices(dimension)])


def column_moments(data: Data, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (D,) of the columns; a constant one has the least variance of another, or 1."""
    first = to_numpy(data[:1]).astype(float)[0]
    first = np.where(np.isnan(first), 0.0, first)
    sums, squares, totals = (np.zeros(len(first)) for _ in range(3))
    for rows in blocks(n_rows(data), len(first)):
        gap = to_numpy(data[rows]).astype(float, copy=False) - first
        shown = ~np.isnan(gap)
        gap = np.where(shown, gap, 0.0)
        part = np.ones(len(gap)) if weights is None else weights[rows]
        sums += part @ gap
        squares += part @ (gap * gap)
        totals += part @ shown
    if not totals.all():
        raise ValueError(f"data has column {int(totals.argmin())} all NaN; leave it out")
    gap = sums / totals
    variances = squares / totals - gap * gap
    varied = variances > 1e-14 * (gap * gap + squares / totals)
    least = variances[varied].min() if varied.any() else 1.0
    return first + gap, np.where(varied, variances, least)


def require_table(data: Data, columns: int | None, missing: bool = False) -> Data:
    """(N, D) numbers, N >= 1, D = ``columns`` where that is known.

    All are finite; with ``missing``, of a NumPy array, NaN in some columns of a row, never in all.
    """
    x = as_numbers("data", data)
    wanted = "D" if columns is None else columns
    if len(x.shape) != 2 or min(x.shape) < 1 or (columns is not None and x.shape[1] != columns):
        raise ValueError(f"data has shape {tuple(x.shape)}; it must be (N, {wanted}) with N >= 1")
    missing = missing and has_missing(x)
    for rows in blocks(n_rows(x), 1):
        part = _observed(x[rows], rows.start) if missing else x[rows]
        require_finite("data", part, rows.start)
        require_summable("data", part, rows.start)
    return x


def _observed(part: np.ndarray, start: int) -> np.ndarray:
    """``part`` with 0 where values are missing; rows are numbered from ``start``."""
    absent = np.isnan(part)
    if absent.all(axis=1).any():
        row = start + int(absent.all(axis=1).argmax())
        raise ValueError(f"data has row {row} all NaN; leave it out")
    return np.where(absent, 0.0, part)
