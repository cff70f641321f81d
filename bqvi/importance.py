"""Importance sampling: proposals, drawn from a Sobol set, the tail of weights, and points beyond the draws.

A proposal that was fitted by the ELBO, as q is, has thinner tails than the density that it approximates:
`Proposal.widened` therefore adds a share of the same components with larger scales, and `covering` adds
components at evaluated points where the density exceeds that of the proposal.

Beyond a high threshold t weights, or any positive values, are distributed nearly as P(y - t > z) =
(1 + k z / sigma)^(-1/k), whose moments of order 1/k and above are infinite. The shape k is the posterior mean
of Zhang and Stephens (2009), shrunk towards 1/2 by a prior that counts as ten draws (Vehtari et al. 2024,
"Pareto smoothed importance sampling"). `psis` replaces the largest weights by the expected order statistics
of the fitted tail.

*Points of an answer widened*, at which the log joint could refute a claim of convergence. An answer, such as
a posterior of a surrogate, is known by weighted draws. Where these end, either the posterior ends or the
surrogate does, and the draws cannot tell which. Evaluations beyond them can:

    rays    beyond the draws along their longest principal directions to either side, 1.5 and 3 times as far
            as they reach; on a ray that a bound ends, a point halfway to the bound and one close to it. A
            periodic parameter has rays along its own axis too, which go on beyond the cut of its period
    t       from Student's t distribution with three degrees of freedom, with 2.5 times the scale of the draws

A ray continues the line of the outermost draws, so that it stays on a curved ridge for a while. Bounds of
parameters bend the coordinates, so that rays are laid in the user's units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp, ndtri

from bqvi.calls.coordinates import Coordinates
from gp.low_discrepancy import scrambled_sobol
from gp.matrices import cholesky, solve_lower, symmetric_eigen
from gp.measures.mixture import MixtureDensity

WIDE, WIDER = 0.25, 1.7
"""The share of a proposal that is widened, and the factor of its scales."""
_GAUSSIANS, _EXCESS, _KEPT = 60, 5.0, 0.1
"""The largest number of Gaussians, the largest factor that is left, and the share by numbers of draws."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """A mixture of K Gaussians.

    Attributes
    ----------
    weights : (K,), of any common size. means : (K, D). factors : (K, D, D), lower Cholesky factors.
    """

    weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray

    @cached_property
    def density(self) -> MixtureDensity:
        """The density of the mixture, with those of its parts."""
        return MixtureDensity.of(self.weights, self.means, self.factors)

    def widened(self, share: float = WIDE, factor: float = WIDER) -> Proposal:
        """The mixture with a ``share`` of itself with scales ``factor`` times as large."""
        return self.joined(Proposal(self.weights, self.means, factor * self.factors), share)

    def joined(self, other: Proposal, share: float) -> Proposal:
        """The mixture (1 - share) self + share other."""
        return Proposal(
            np.concatenate([(1.0 - share) * self.weights, share * other.weights]),
            np.concatenate([self.means, other.means]),
            np.concatenate([self.factors, other.factors]),
        )

    def draws(self, count: int, seed: int) -> np.ndarray:
        """Points (count, D) of a scrambled Sobol set whose first coordinate chooses the component."""
        cube = scrambled_sobol(self.means.shape[1] + 1, count, seed)
        edges = np.cumsum(self.weights) / self.weights.sum()
        index = np.minimum(np.searchsorted(edges, cube[:, 0], side="right"), len(edges) - 1)
        normal = ndtri(np.clip(cube[:, 1:], 1e-12, 1.0 - 1e-12))
        return self.means[index] + np.einsum("mij,mj->mi", self.factors[index], normal)


def covering(
    first: Proposal,
    places: np.ndarray,
    log_density: Callable[[np.ndarray], np.ndarray],
    count: int,
    seed: int,
) -> Proposal:
    """The mixture ``first`` with Gaussians at places where a density exceeds it, for draws of that density.

    At the place where the density exceeds that of the mixture by the largest factor, a Gaussian with the
    weighted covariance of the nearest draws is added and drawn from, until no factor is large. Incremental
    mixture importance sampling (Raftery and Bao 2010, Biometrics 66:1162) adds Gaussians at draws; but the
    density of a surrogate may be high where nothing was evaluated, and is known at its data. A step of
    expectation maximisation towards all draws gives the shares of the result.

    Parameters
    ----------
    first : the proposal of the first draws. places : points (m, D), m > 0.
    log_density : the log density (M,) at points (M, D), with any constant.
    count : the number of draws of ``first``; of each Gaussian there is an eighth of it.
    seed : the seed of the draws.
    """
    m, each, gaussians = len(places), count // 8, list[Proposal]()
    u = np.concatenate([places, first.draws(count, seed)])
    logs, parts, numbers = log_density(u), first.density.log_density(u)[None], np.array([float(count)])
    while True:
        shares = parts + np.log(numbers / numbers.sum())[:, None]
        log_ratio = logs - logsumexp(shares, axis=0)
        log_total = float(logsumexp(log_ratio[m:])) - np.log(len(u) - m)
        worst = int(np.argmax(log_ratio[:m]))
        if not log_ratio[worst] > log_total + np.log(_EXCESS) or len(gaussians) == _GAUSSIANS:
            break
        gaussians.append(_about(u[worst], u[m:], normalised(log_ratio[m:]), each))
        draws = gaussians[-1].draws(each, seed + len(gaussians))
        at_draws = [part.density.log_density(draws) for part in (first, *gaussians)]
        parts = np.vstack([parts, gaussians[-1].density.log_density(u)])
        parts, u = np.hstack([parts, np.stack(at_draws)]), np.concatenate([u, draws])
        logs, numbers = np.concatenate([logs, log_density(draws)]), np.append(numbers, each)
    mass = np.exp(shares[:, m:] - logsumexp(shares[:, m:], axis=0)) @ normalised(log_ratio[m:])
    mass = (1.0 - _KEPT) * mass + _KEPT * numbers / numbers.sum()
    mixed = [first, *gaussians]
    weights = [share * part.weights / part.weights.sum() for share, part in zip(mass, mixed, strict=True)]
    means, factors = [part.means for part in mixed], [part.factors for part in mixed]
    return Proposal(np.concatenate(weights), np.concatenate(means), np.concatenate(factors))


def _about(centre: np.ndarray, u: np.ndarray, weights: np.ndarray, count: int) -> Proposal:
    """The Gaussian at a point (D,) with the weighted covariance about it of ``count`` draws of u (M, D)."""
    offset = u - weights @ u
    apart, scale = u - centre, _factor((offset.T * weights) @ offset)
    near = np.argsort(np.square(solve_lower(scale, apart.T)).sum(0), kind="stable")[:count]
    shares = weights[near] / max(weights[near].sum(), 1e-300) + 1.0 / len(near)
    return Proposal(np.ones(1), centre[None], _factor(0.5 * (apart[near].T * shares) @ apart[near])[None])


def _factor(covariance: np.ndarray) -> np.ndarray:
    """The lower Cholesky factor of a covariance matrix (D, D) of perhaps lower rank."""
    return cholesky(covariance + (1e-8 * np.trace(covariance) + 1e-16) * np.eye(len(covariance)))


def normalised(log_weights: np.ndarray) -> np.ndarray:
    """Weights (..., M) of sum one; all zero where every log weight is -inf."""
    top = log_weights.max(axis=-1, keepdims=True)
    weights = np.exp(log_weights - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)


def effective_size(weights: np.ndarray) -> np.ndarray:
    """Effective sample size, 1 / sum of squares, (...), of weights (..., M) of sum one.

    It is between 1 and M, and 0 where all weights are zero.
    """
    squares = np.square(weights).sum(axis=-1)
    return np.divide(1.0, squares, out=np.zeros_like(squares), where=squares > 0.0)


def resampled(weights: np.ndarray, count: int, seed: int | np.random.Generator) -> np.ndarray:
    """Indices (count,) of draws with weights (M,), by systematic resampling, by the seed."""
    return systematic(weights, count, np.random.default_rng(seed).random())


def systematic(weights: np.ndarray, count: int, offset: float) -> np.ndarray:
    """Indices (count,) of draws with weights (M,), of any sum, by systematic resampling.

    They are those of ``count`` positions at equal distances in the cumulative weights; ``offset`` in [0, 1]
    is the first position over the distance.
    """
    edges = np.cumsum(weights)
    positions = (offset + np.arange(count)) * (edges[-1] / count)
    found: np.ndarray = np.searchsorted(edges, positions, side="right")
    return np.minimum(found, len(weights) - 1)


@dataclass(frozen=True)
class ParetoSettings:
    """Numbers of Vehtari et al. (2024)."""

    good: float = 0.5
    """Shape below which an average has a variance."""
    unusable: float = 0.7
    """Shape above which an average is not to be used."""
    least_tail: int = 5
    """The smallest number of values to which a tail is fitted."""
    prior_draws: int = 10
    """The number of draws as which the prior on the shape counts."""
    prior_shape: float = 0.5
    """The shape towards which that of few values is shrunk."""
    least: float = 1e-290
    """The least excess over the threshold, as a share of the largest value; its inverse is finite."""


PARETO = ParetoSettings()


def pareto_shape(values: Any) -> float:
    """Return the shape k of the tail of values (n,) >= 0: the largest min(n / 5, 3 sqrt n), at least five.

    It is -inf where there is no tail, as too few values exceed the threshold and hold little of the sum, or n
    is five or less, and inf where fewer than five values hold more than half of the sum.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    n = len(ordered)
    size = max(PARETO.least_tail, int(min(np.ceil(n / 5), np.ceil(3 * np.sqrt(n)))))
    if n <= size or not ordered[-1] > 0:
        return -np.inf
    above = _exceedances(ordered / ordered[-1], size)
    return pareto_fit(above)[0] if len(above) >= PARETO.least_tail else _shape_of_few(above, ordered)


def _exceedances(ordered: np.ndarray, size: int) -> np.ndarray:
    """The excesses over the threshold of those of the ``size`` largest values that differ from it."""
    threshold = ordered[-size - 1]
    above: np.ndarray = ordered[-size:] - threshold
    return above[above > max(1e-12 * threshold, PARETO.least)]


def _shape_of_few(above: np.ndarray, ordered: np.ndarray) -> float:
    """The shape where fewer than five values exceed the threshold, which determines no other number."""
    return math.inf if above.sum() > 0.5 * (ordered / ordered[-1]).sum() else -math.inf


def pareto_fit(y: Any) -> tuple[float, float]:
    """Return shape k and scale sigma of exceedances y > 0 in increasing order, at least five."""
    n = len(y)
    points = 30 + int(np.sqrt(n))
    ratios = 1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    b = 1 / y[-1] + ratios / (3 * y[int(n / 4 + 0.5) - 1])
    shapes = np.mean(np.log1p(-b[:, None] * y), axis=1)
    log_likelihood = n * (np.log(-b / shapes) - shapes - 1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    rate = float(b @ weights / weights.sum())
    found = float(np.mean(np.log1p(-rate * y)))
    return (n * found + PARETO.prior_draws * PARETO.prior_shape) / (n + PARETO.prior_draws), -found / rate


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Importance weights after Pareto smoothing.

    Attributes
    ----------
    log_weights : (n,), normalised: their exponentials sum to one.
    shape : k of the tail before smoothing; -inf where the values of the tail are equal, inf where fewer than
        five hold more than half of the sum, and for fewer than 21 weights, which are too few for a fit.
    """

    log_weights: np.ndarray
    shape: float

    @property
    def effective_sample_size(self) -> float:
        """1 / sum of the squared weights."""
        return float(effective_size(np.exp(self.log_weights)))


def psis(log_weights: np.ndarray) -> Smoothed:
    """Pareto smoothed importance weights.

    Parameters
    ----------
    log_weights : (n,), up to a constant; -inf for draws without density.

    Raises
    ------
    ValueError
        ``log_weights`` is no vector, or has NaN or +inf, or every weight is zero.
    """
    given = np.asarray(log_weights, float)
    if given.ndim != 1 or len(given) == 0:
        raise ValueError(f"log_weights has shape {given.shape}; it must be (n,) with n >= 1")
    if np.isnan(given).any() or (given == np.inf).any() or (given == -np.inf).all():
        raise ValueError(
            "log_weights has NaN or inf, or is -inf throughout; at least one weight must be positive"
        )
    logs = given - given.max()
    n = len(logs)
    size = int(min(np.ceil(n / 5), np.ceil(3 * np.sqrt(n))))
    if size < PARETO.least_tail:
        return Smoothed(logs - logsumexp(logs), math.inf)
    order = np.argsort(logs)
    tail, ordered = order[-size:], np.exp(logs[order])
    # The smallest positive number keeps the logarithm finite where the threshold has weight zero.
    threshold = max(float(logs[order[-size - 1]]), math.log(np.finfo(float).tiny))
    above = _exceedances(ordered, size)
    if len(above) < PARETO.least_tail:
        return Smoothed(logs - logsumexp(logs), _shape_of_few(above, ordered))
    shape, scale = pareto_fit(above)
    levels = (np.arange(size) + 0.5) / size
    expected = np.expm1(-shape * np.log1p(-levels)) * scale / shape if shape else -scale * np.log1p(-levels)
    smooth = logs.copy()
    smooth[tail] = np.minimum(np.log(expected + math.exp(threshold)), 0.0)
    return Smoothed(smooth - logsumexp(smooth), shape)


@dataclass(frozen=True)
class WideningSettings:
    """The points of an answer widened."""

    directions: int = 1
    """The largest number of principal directions along which there are rays."""
    reached: float = 0.995
    """The share of the mass up to which the draws reach along a ray."""
    outer: float = 0.8
    """The share of the mass beyond which the draws determine how a ray continues."""
    factors: tuple[float, float] = (1.5, 3.0)
    """The distances of points on a ray, in units of that distance."""
    close: float = 0.97
    """The share of the way to a bound at which the point close to it lies."""
    scattered: int = 2
    """The number of points from Student's t distribution."""
    freedom: float = 3.0
    """Its degrees of freedom."""
    temper: float = 0.6
    """The power of an answer's density of which further draws are made."""
    wider: float = 2.5
    """Its scale, in units of that of the draws."""
    least: float = 1e-12
    """The least eigenvalue of the correlations of draws."""


WIDENING = WideningSettings()


def widened(
    points: np.ndarray, weights: np.ndarray, coordinates: Coordinates | None, seed: int
) -> np.ndarray:
    """Return points (m, D) of the answer widened, in the coordinates.

    Parameters
    ----------
    points : draws (M, D) of the answer, in the coordinates. weights : their weights (M,), which sum to 1.
    coordinates : the coordinates, with the bounds of the parameters; None where there are no bounds.
    seed : the seed of the points from Student's t distribution.
    """
    answer = Spread.of(points, weights)
    scattered = answer.scattered(WIDENING.scattered, seed)
    if coordinates is None or all(chart == "line" for chart, _, _ in coordinates.charts()):
        return np.concatenate([answer.rays(-np.inf, np.inf, np.zeros(0, int)), scattered])
    free, theta = coordinates.free, coordinates.unwrapped(points)
    ends, turning = np.array([ends for _, *ends in coordinates.charts()]).T, coordinates.periodic[free]
    lower, upper = np.where(turning, [[-np.inf], [np.inf]], ends)  # a ray beyond the cut is at the other end
    within = Spread.of(theta[:, free], weights).rays(lower, upper, turning)
    wide = np.tile(theta[0], (len(within), 1))
    wide[:, free] = np.clip(within, np.nextafter(lower, upper), np.nextafter(upper, lower))  # after rounding
    return np.concatenate([coordinates.from_user(wide), scattered])


@dataclass(frozen=True, eq=False)
class Spread:
    """Weighted draws, in units of their sds (D,) from their median (D,), (M, D), with principal directions.

    A direction is a row (D,) of ``directions``, of one standard deviation of the draws, the longest first.
    """

    median: np.ndarray
    sds: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    directions: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, weights: np.ndarray) -> Spread:
        """The spread of draws (M, D) with weights (M,)."""
        median = np.array([weighted_quantile(column, weights) for column in points.T])
        centred = points - weights @ points
        sds = np.sqrt(weights @ centred**2)
        correlation = (centred.T * weights) @ centred / np.outer(sds, sds)
        values, vectors = symmetric_eigen(correlation)
        lengths = np.sqrt(np.maximum(values, WIDENING.least))
        return cls(median, sds, (points - median) / sds, weights, (vectors * lengths).T[::-1])

    def rays(self, lower: np.ndarray | float, upper: np.ndarray | float, axes: np.ndarray) -> np.ndarray:
        """Points (m, D) on the rays along the longest directions, and ``axes``, inside of bounds (D,)."""
        low, high = (lower - self.median) / self.sds, (upper - self.median) / self.sds
        leading = [*self.directions[: WIDENING.directions], *np.eye(len(self.median))[axes]]
        found = [self._ray(sign * ray, low, high) for ray in leading for sign in (1.0, -1.0)]
        return self.median + self.sds * np.concatenate(found)

    def _ray(self, ray: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Two points (2, D) where the draws that lie farthest along ``ray`` (D,) are continued."""
        along = self.points @ ray / (ray @ ray)
        outer = along >= weighted_quantile(along, self.weights, WIDENING.outer)
        share = self.weights[outer] / self.weights[outer].sum()
        start, at = share @ self.points[outer], share @ along[outer]
        slope = (share * (along[outer] - at)) @ (self.points[outer] - start)
        slope = slope / max(share @ (along[outer] - at) ** 2, 1e-300) if len(share) > len(ray) else ray
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.where(slope > 0, upper - start, lower - start) / slope
        end = WIDENING.close * float(np.min(ends[slope != 0.0], initial=np.inf))
        reach = weighted_quantile(along, self.weights, WIDENING.reached)
        first, last = (factor * reach - at for factor in WIDENING.factors)
        if last > end:
            first, last = 0.5 * (min(reach - at, end) + end), end
        return start + np.array([[first], [last]]) * slope

    def scattered(self, count: int, seed: int) -> np.ndarray:
        """Points (count, D) from Student's t distribution."""
        rng = np.random.default_rng(seed)
        normal = rng.standard_normal((count, len(self.median)))
        scale = WIDENING.wider * np.sqrt(WIDENING.freedom / rng.chisquare(WIDENING.freedom, (count, 1)))
        return self.median + self.sds * (scale * normal @ self.directions)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """The log density (m,) of Student's t distribution at points x (m, D)."""
        lengths = np.sum(self.directions**2, axis=1)  # squared; the directions are orthogonal
        along = (x - self.median) / self.sds @ (self.directions.T / lengths)
        volume = 0.5 * np.sum(np.log(lengths)) + np.sum(np.log(self.sds))
        return log_student(along, WIDENING.wider) - volume


def log_student(u: np.ndarray, scale: float) -> np.ndarray:
    """The log density (n,) at u (n, D) of Student's t distribution around 0 with one ``scale``."""
    freedom, dimension = WIDENING.freedom, u.shape[1]
    squares = np.einsum("nd,nd->n", u, u) / scale**2
    height = gammaln(0.5 * (freedom + dimension)) - gammaln(0.5 * freedom)
    height -= 0.5 * dimension * np.log(freedom * np.pi * scale**2)
    return np.asarray(height - 0.5 * (freedom + dimension) * np.log1p(squares / freedom))


def weighted_quantile(x: np.ndarray, weights: np.ndarray, share: float = 0.5) -> float:
    """The smallest of values x (M,) up to which their weights (M,) have a share of their sum."""
    order = x.argsort()
    passed = weights[order].cumsum()
    return float(x[order[passed.searchsorted(share * passed[-1])]])
