"""Scales that depend on a coordinate, found from gradients at evaluated points.

Where p is a Gaussian in the coordinates y of :mod:`scaling`, the gradient of log p in y is affine in y. For a
coordinate j with the prior scale E_i = exp(b (x_ik - o)), and an additional likelihood term that is quadratic
in x_j,

    E_i g_ij = -lambda (x_ij - c_j - a_j^T x_i) / E_i + E_i (alpha + beta x_ij),

where g_ij is the derivative in x_j at point i, and a_j has entries for the coordinates that are not scaled.
For given b this is a linear regression. The map's rho is -beta / lambda, its nu is alpha / lambda; both are
set to zero where the gradients are as close to affine without them. The rate b is the one of least mean
r_i^2, where each residual is divided by the size of the two sides,

    r_i = (left_i - right_i) / (left_i^2 + right_i^2 + lambda)^1/2,

so that distant points have the same influence as others. Matching gradients is score matching (Hyvarinen
2005); no draws of the posterior are needed, and the points of the climb at the beginning suffice.

The coordinates that are scaled are chosen by the regressions of all gradients in y on y (`_misfit`). The
leading coordinate k is the one with the largest gain of all single regressions. Where no map with it is
accepted, the coordinate with the next largest gain is tried, for maps of nearly all coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls import Evaluations
from bqvi.variational_bmc.scaling import Scaling
from bqvi.variational_bmc.settings import GRADIENT_SCALINGS
from bqvi.variational_bmc.user_units import UserUnits
from gp.linalg import ridge_regressions


@dataclass(frozen=True, eq=False)
class FittedScaling:
    """A map after which gradients are about affine, and the Gaussian in y with about these gradients.

    Attributes
    ----------
    scaling : the map.
    x, gradients : the points and gradients to which the map was fitted, (n, D) each.
    mean, covariance : the mean (D,) and covariance (D, D) of the Gaussian in y.
    """

    scaling: Scaling
    x: np.ndarray
    gradients: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    def better_than(self, other: Scaling | UserUnits | None) -> bool:
        """Whether gradients are clearly closer to affine than with the ``other`` map, or with none."""
        ours, theirs = (_misfit(one, self.x, self.gradients) for one in (self.scaling, other))
        return ours < theirs - GRADIENT_SCALINGS.better


@dataclass(frozen=True, eq=False)
class _Map:
    """A map, with the conditional variances (D,) in y of the coordinates that it scales; NaN elsewhere."""

    scaling: Scaling
    variances: np.ndarray

    @property
    def count(self) -> int:
        """The number of coordinates that are scaled."""
        return int(np.count_nonzero(self.scaling.rates))


@dataclass(frozen=True)
class _Effort:
    """The numbers of refinements of a rate, and of rounds of reweighted least squares."""

    refined: int
    rounds: int


_ROUGH = _Effort(3, 2)
_FINE = _Effort(GRADIENT_SCALINGS.refined, GRADIENT_SCALINGS.rounds)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # in maps that are then left out
def scaling_from_gradients(made: Evaluations) -> FittedScaling | None:
    """The map after which gradients are affine; None without gradients, or if no map is clearly better."""
    if made.gradients is None:
        return None
    near = _near(made)
    x, gradients = made.points[near], made.gradients[near]
    found = _fitted(x, gradients)
    if found is None:
        return None
    scaling = found.scaling
    y = scaling.into(x)
    values = made.values[near] + scaling.log_jacobian(y)
    best = np.argsort(-values, kind="stable")[: max(len(y) // 2, 2 * y.shape[1])]
    mean, variances = _gaussian(y[best], scaling.pulled(x[best], gradients[best]))
    scaled = scaling.rates != 0.0
    mean[scaled] = scaling.centres[scaled]
    covariance = np.diag(np.where(scaled, found.variances, variances))
    return FittedScaling(scaling, x, gradients, mean, covariance)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # of maps that overflow
def is_of_use(scaling: Scaling | UserUnits, made: Evaluations) -> bool:
    """Whether gradients are clearly closer to affine with the map than without any."""
    assert made.gradients is not None  # a map from gradients was fitted to some
    near = _near(made)
    x, gradients = made.points[near], made.gradients[near]
    return _misfit(scaling, x, gradients) < _misfit(None, x, gradients) - GRADIENT_SCALINGS.better


def _near(made: Evaluations) -> np.ndarray:
    """The indices of the best evaluations with a gradient, to which maps are fitted."""
    assert made.gradients is not None  # callers check
    known = ~made.failed & np.isfinite(made.gradients).all(1)
    depth = np.where(known, made.values[known].max(initial=-np.inf) - made.values, np.inf)
    dimension = made.points.shape[1]
    near = np.argsort(depth, kind="stable")[: 2 * dimension + GRADIENT_SCALINGS.beyond]
    return near[depth[near] < GRADIENT_SCALINGS.deepest * dimension]


def fewest_gradients(dimension: int) -> int:
    """The least number of gradients to which a map is fitted, D being ``dimension``."""
    return 2 * dimension + GRADIENT_SCALINGS.spare


def _gaussian(y: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variances (D,) of independent Gaussians, from gradients -(y - mean) / variance at y (n, D).

    A coordinate whose derivatives are not affine in it gets the mean and variance of the plausible box.
    """
    middle, sd = y.mean(0), y.std(0)
    z = (y - middle) / sd
    losses, w = _regressed((slopes * sd).T, _affine_in(z), GRADIENT_SCALINGS.rounds)
    affine = (losses < GRADIENT_SCALINGS.affine) & (w[:, 0] < 0.0)
    precision = np.where(affine, -w[:, 0], 1.0)
    return (
        np.where(affine, middle + sd * w[:, 1] / precision, 0.0),
        np.where(affine, sd**2 / precision, 0.25),
    )


def _fitted(x: np.ndarray, gradients: np.ndarray) -> _Map | None:
    """The best map for gradients (n, D) at x (n, D)."""
    n, dimension = x.shape
    if dimension < 2 or n < fewest_gradients(dimension):
        return None
    sd = x.std(0)
    if not (np.isfinite(sd).all() and sd.min() > 0.0):
        return None
    none = _misfit(None, x, gradients)
    if none - dimension * float(_logs(np.zeros(()))) <= GRADIENT_SCALINGS.least_gain:
        return None
    z, slopes = (x - x.mean(0)) / sd, gradients * sd
    constant = _logs(_regressed(slopes.T, _affine_in(z), _ROUGH.rounds)[0])
    gains = np.zeros((dimension, dimension))
    for k in range(dimension):
        rest = np.flatnonzero(np.arange(dimension) != k)
        losses, _ = _by_rates(z, slopes, k, rest, np.empty(0, int), _rates(), _ROUGH.rounds)
        gains[k, rest] = constant[rest] - _logs(losses.min(1))
    for place, k in enumerate(np.argsort(-gains.sum(1), kind="stable")[: GRADIENT_SCALINGS.leading].tolist()):
        scaled = np.flatnonzero(gains[k] > max(GRADIENT_SCALINGS.beside * gains[k].max(), 0.0))
        found = _improved(x, gradients, k, scaled, none) if len(scaled) else None
        if found is not None and (not place or GRADIENT_SCALINGS.of_most(dimension, found.count)):
            return found
    return None


def _rates() -> np.ndarray:
    """The rates that are compared, per standard deviation of the leading coordinate; none is zero."""
    rates = np.linspace(0.0, GRADIENT_SCALINGS.steepest, 12 + 1)[1:]
    return np.concatenate([-rates[::-1], rates])


def _improved(x: np.ndarray, gradients: np.ndarray, k: int, scaled: np.ndarray, none: float) -> _Map | None:
    """The best map with leading coordinate k, found from ``scaled`` by adding or removing one coordinate.

    The misfit without a map is ``none``.
    """
    _, least = _map(x, gradients, k, scaled, _ROUGH)
    if least > none - GRADIENT_SCALINGS.at_first * len(scaled):
        return None
    dimension = x.shape[1]
    others = np.setdiff1d(np.arange(dimension), k)
    for _ in others:
        sets = [one for one in (np.setxor1d(scaled, j) for j in others) if len(one)]
        misfits = [_map(x, gradients, k, one, _ROUGH)[1] for one in sets]
        i = int(np.argmin(misfits)) if sets else -1
        if i < 0 or misfits[i] >= least - GRADIENT_SCALINGS.better:
            break
        scaled, least = sets[i], misfits[i]
    count = len(scaled)
    if none - least <= GRADIENT_SCALINGS.least_gain_of(dimension, count) - GRADIENT_SCALINGS.better:
        return None
    best, least = _map(x, gradients, k, scaled, _FINE)
    changing = float(np.ptp(best.scaling.log_scales(best.scaling.into(x)), axis=0)[scaled].min())
    return best if GRADIENT_SCALINGS.accepts(dimension, count, none - least, changing) else None


def _map(
    x: np.ndarray, gradients: np.ndarray, k: int, scaled: np.ndarray, effort: _Effort
) -> tuple[_Map, float]:
    """The map with leading coordinate k that scales the coordinates ``scaled``, and its misfit.

    The misfit is infinite where a coordinate has no rate with a positive lambda: its c_j would be a quotient
    by zero.
    """
    dimension = x.shape[1]
    mean, sd = x.mean(0), x.std(0)
    z, given = (x - mean) / sd, gradients * sd
    kept = np.setdiff1d(np.arange(dimension), scaled)
    rates, centres, precisions, pulls = np.zeros((4, dimension))
    slopes, variances = np.zeros((dimension, dimension)), np.full(dimension, np.nan)
    coarse = _by_rates(z, given, k, scaled, kept, _rates(), effort.rounds)[0].argmin(1)
    found, weights, losses = _finer(z, given, k, scaled, kept, _rates()[coarse], effort)
    possible = bool(np.isfinite(losses).all())
    for j, rate, w in zip(scaled, found, weights, strict=True):
        precision = -float(w[0]) if possible else 1.0
        about = w[1:-2] / precision
        rates[j] = rate / sd[k]
        variances[j] = sd[j] ** 2 / precision
        slopes[j, kept] = sd[j] * about[1:] / sd[kept]
        centres[j] = mean[j] + sd[j] * about[0] - slopes[j] @ mean
        precisions[j] = max(-w[-2] / precision, 0.0)
        pulls[j] = precisions[j] * mean[j] + sd[j] * w[-1] / precision
    nothing = np.zeros(dimension)
    plain = Scaling(k, float(mean[k]), rates, centres, slopes, nothing, nothing, True)
    full = replace(plain, precisions=precisions, pulls=pulls)
    misfits = [_misfit(one, x, gradients) for one in (plain, full)]
    best = int(misfits[1] < misfits[0] - GRADIENT_SCALINGS.better)
    return _Map((plain, full)[best], variances), misfits[best] if possible else np.inf


def _finer(
    z: np.ndarray, slopes: np.ndarray, k: int, targets: np.ndarray, kept: np.ndarray, rates: np.ndarray,
    effort: _Effort,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The best rates near ``rates`` (p,) for p targets, and the weights and mean r^2 of their regressions."""
    step, w, least = GRADIENT_SCALINGS.steepest / 12, np.empty(0), np.empty(0)
    each = np.arange(len(targets))
    for _ in range(effort.refined):
        tried = rates[:, None] + step * np.linspace(-1.0, 1.0, 11)
        losses, weights = _by_rates(z, slopes, k, targets, kept, tried, effort.rounds)
        losses = np.where(np.abs(tried) >= GRADIENT_SCALINGS.least_rate, losses, np.inf)
        best = losses.argmin(1)
        rates, w, least = tried[each, best], weights[each, best], losses[each, best]
        step *= 0.2
    return rates, w, least


def _by_rates(
    z: np.ndarray, slopes: np.ndarray, k: int, targets: np.ndarray, kept: np.ndarray, rates: np.ndarray,
    rounds: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Regressions of the derivatives in p targets at q rates, (q,) or of each target (p, q).

    Returned are the mean r^2 (p, q) and the weights (p, q, 4 + kept). The regressors are z_j / E, 1 / E,
    z_kept / E, E z_j and E. The mean r^2 is set to infinity where lambda is not positive.
    """
    most = 30.0
    e = np.exp(np.clip(np.atleast_2d(rates)[..., None] * z[:, k], -most, most))
    left = slopes.T[targets][:, None] * e
    own = z.T[targets][:, None]
    design = np.empty((*left.shape, 4 + len(kept)))
    design[..., 0] = own / e
    design[..., 1] = 1.0 / e
    design[..., 2:-2] = z[:, kept] / e[..., None]
    design[..., -2] = own * e
    design[..., -1] = e
    losses, w = _regressed(left, design, rounds)
    losses[w[..., 0] >= 0.0] = np.inf
    return losses, w


def _affine_in(z: np.ndarray) -> np.ndarray:
    """The regressors z_j and 1 of each of D regressions, (D, n, 2), for z (n, D)."""
    return np.stack([z.T, np.ones_like(z.T)], axis=-1)


def _regressed(left: np.ndarray, design: np.ndarray, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Regressions of left (..., n) on design (..., n, r): mean r^2 (...,) and weights (..., r).

    They are computed by ``rounds`` of reweighted least squares, as r divides by the size of both sides.
    """
    root = 1.0 / np.sqrt(1.0 + np.square(left))
    for _ in range(rounds):
        root = root / root.max(-1, keepdims=True)
        w = ridge_regressions(design * root[..., None], left * root, 1e-20)
        right = np.einsum("...nr,...r->...n", design, w)
        root = 1.0 / np.sqrt(np.square(left) + np.square(right) + np.maximum(np.abs(w[..., :1]), 1e-12))
    return np.square((left - right) * root).mean(-1), w


def _misfit(scaling: Scaling | UserUnits | None, x: np.ndarray, gradients: np.ndarray) -> float:
    """The deviation of gradients in y from affine: half the log of the mean r^2, summed over coordinates."""
    y, slopes = (x, gradients) if scaling is None else (scaling.into(x), scaling.pulled(x, gradients))
    sd = np.maximum(y.std(0), 1e-300)
    z, ones = (y - y.mean(0)) / sd, np.ones((len(y), 1))
    design = np.stack([np.hstack([z[:, [j]], ones, np.delete(z, j, axis=1)]) for j in range(y.shape[1])])
    losses, _ = _regressed((slopes * sd).T, design, GRADIENT_SCALINGS.rounds)
    return float(_logs(losses).sum())


def _logs(losses: np.ndarray) -> np.ndarray:
    """Half the logarithms of losses, with a floor, so that no exact fit outweighs all other coordinates.

    NaN, from a map that overflows, is the largest loss.
    """
    return 0.5 * np.log(np.fmin(losses, 2.0) + GRADIENT_SCALINGS.floor)
