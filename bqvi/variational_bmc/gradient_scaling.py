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

The leading coordinate k is the one with the largest gain of all single regressions, and the coordinates that
are scaled are chosen by the regressions of all gradients in y on y (`_misfit`). The evidence of the
evaluations decides whether the map is used (:mod:`frame_selection`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.calls import Evaluations
from bqvi.variational_bmc.scaling import Scaling, fewest_gradients
from bqvi.variational_bmc.settings import SHAPING
from gp.linalg import ridge_regressions

_STEEPEST, _STEPS = 8.0, 12
"""The largest rate, and the number of rates of either sign that are compared at first."""
_BETTER = 0.1
"""The least gain of misfit, in nats, of a map of one coordinate less, or with a quadratic likelihood."""


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # in maps that are then left out
def scaling_from_gradients(made: Evaluations) -> tuple[Scaling, np.ndarray, np.ndarray] | None:
    """The map after which gradients are about affine, and the mean and covariance of the Gaussian in y.

    None without gradients enough, and where no residuals are clearly smaller after a map.
    """
    if made.gradients is None:
        return None
    near = _near(made)
    x, gradients = made.points[near], made.gradients[near]
    found = _fitted(x, gradients)
    if found is None:
        return None
    scaling, variances, _ = found
    y = scaling.into(x)
    values = made.values[near] + scaling.log_jacobian(y)
    best = np.argsort(-values, kind="stable")[: max(len(y) // 2, 2 * y.shape[1])]
    mean, others = _gaussian(y[best], scaling.pulled(x[best], gradients[best]))
    scaled = scaling.rates != 0.0
    return scaling, np.where(scaled, scaling.centres, mean), np.diag(np.where(scaled, variances, others))


def _near(made: Evaluations) -> np.ndarray:
    """The indices of the best evaluations with a gradient, to which maps are fitted."""
    assert made.gradients is not None  # callers check
    known = ~made.failed & np.isfinite(made.gradients).all(1)
    depth = np.where(known, made.values[known].max(initial=-np.inf) - made.values, np.inf)
    dimension = made.points.shape[1]
    near = np.argsort(depth, kind="stable")[: 2 * dimension + 30]
    return near[depth[near] < SHAPING.deepest * dimension]


def _gaussian(y: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variances (D,) of independent Gaussians, from gradients -(y - mean) / variance at y (n, D).

    A coordinate whose derivatives are not affine in it gets the mean and variance of the plausible box.
    """
    middle, sd = y.mean(0), y.std(0)
    losses, w = _regressed((slopes * sd).T, _affine_in((y - middle) / sd))
    affine = (losses < 0.2) & (w[:, 0] < 0.0)
    precision = np.where(affine, -w[:, 0], 1.0)
    return (
        np.where(affine, middle + sd * w[:, 1] / precision, 0.0),
        np.where(affine, sd**2 / precision, 0.25),
    )


def _fitted(x: np.ndarray, gradients: np.ndarray) -> tuple[Scaling, np.ndarray, float] | None:
    """The best map for gradients (n, D) at x (n, D), by leaving out one coordinate at a time."""
    n, dimension = x.shape
    if dimension < 2 or n < fewest_gradients(dimension):
        return None
    sd = x.std(0)
    if not (np.isfinite(sd).all() and sd.min() > 0.0):
        return None
    none = _misfit(None, x, gradients)
    if none - dimension * float(_logs(np.zeros(()))) <= 1.0:  # they are affine
        return None
    z, slopes = (x - x.mean(0)) / sd, gradients * sd
    constant = _logs(_regressed(slopes.T, _affine_in(z))[0])
    gains = np.zeros((dimension, dimension))
    for k in range(dimension):
        rest = np.flatnonzero(np.arange(dimension) != k)
        losses, _ = _by_rates(z, slopes, k, rest, np.empty(0, int), _rates())
        gains[k, rest] = constant[rest] - _logs(losses.min(1))
    k = int(gains.sum(1).argmax())
    scaled = np.flatnonzero(gains[k] > 0.0)
    if not len(scaled):
        return None
    best = _map(x, gradients, k, scaled, 3)
    while len(scaled) > 1:
        maps = [_map(x, gradients, k, np.delete(scaled, i), 3) for i in range(len(scaled))]
        i = int(np.argmin([misfit for *_, misfit in maps]))
        if maps[i][-1] >= best[-1] - _BETTER:
            break
        scaled, best = np.delete(scaled, i), maps[i]
    gained = none - best[-1] > len(scaled)  # residuals are e times smaller
    return _map(x, gradients, k, scaled, 6) if gained else None


def _rates() -> np.ndarray:
    """The rates that are compared, per standard deviation of the leading coordinate; none is zero."""
    rates = np.linspace(0.0, _STEEPEST, _STEPS + 1)[1:]
    return np.concatenate([-rates[::-1], rates])


def _map(
    x: np.ndarray, gradients: np.ndarray, k: int, scaled: np.ndarray, refined: int
) -> tuple[Scaling, np.ndarray, float]:
    """The map that scales the coordinates ``scaled``, their conditional variances (D,), and its misfit.

    The leading coordinate is k. The misfit is infinite where a coordinate has no rate with a positive lambda:
    its c_j would be a quotient by zero.
    """
    dimension = x.shape[1]
    mean, sd = x.mean(0), x.std(0)
    kept = np.setdiff1d(np.arange(dimension), scaled)
    rates, centres, precisions, pulls, nothing = np.zeros((5, dimension))
    slopes, variances = np.zeros((dimension, dimension)), np.full(dimension, np.nan)
    found, weights, losses = _best_rates((x - mean) / sd, gradients * sd, k, scaled, kept, refined)
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
    plain = Scaling(k, float(mean[k]), rates, centres, slopes, nothing, nothing, True)
    full = replace(plain, precisions=precisions, pulls=pulls)
    misfits = [_misfit(one, x, gradients) for one in (plain, full)]
    best = int(misfits[1] < misfits[0] - _BETTER)
    return (plain, full)[best], variances, misfits[best] if possible else np.inf


def _best_rates(
    z: np.ndarray, slopes: np.ndarray, k: int, targets: np.ndarray, kept: np.ndarray, refined: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best rates (p,) for p targets, and the weights and mean r^2 of their regressions.

    At tiny rates the difference of a regression's two terms is bilinear in x_j and x_k, as on curved ridges.
    """
    tried, step = np.tile(_rates(), (len(targets), 1)), _STEEPEST / _STEPS
    for repeat in range(refined + 1):
        losses, weights = _by_rates(z, slopes, k, targets, kept, tried)
        losses = np.where(np.abs(tried) >= 0.2, losses, np.inf)
        best = np.arange(len(targets)), losses.argmin(1)
        if repeat == refined:
            break
        tried, step = tried[best][:, None] + step * np.linspace(-1.0, 1.0, 11), 0.2 * step
    return tried[best], weights[best], losses[best]


def _by_rates(
    z: np.ndarray, slopes: np.ndarray, k: int, targets: np.ndarray, kept: np.ndarray, rates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Regressions of the derivatives in p targets at q rates, (q,) or of each target (p, q).

    Returned are the mean r^2 (p, q) and the weights (p, q, 4 + kept). The regressors are z_j / E, 1 / E,
    z_kept / E, E z_j and E. The mean r^2 is set to infinity where lambda is not positive.
    """
    e = np.exp(np.clip(np.atleast_2d(rates)[..., None] * z[:, k], -30.0, 30.0))
    left = slopes.T[targets][:, None] * e
    own = z.T[targets][:, None]
    design = np.empty((*left.shape, 4 + len(kept)))
    design[..., 0] = own / e
    design[..., 1] = 1.0 / e
    design[..., 2:-2] = z[:, kept] / e[..., None]
    design[..., -2] = own * e
    design[..., -1] = e
    losses, w = _regressed(left, design)
    losses[w[..., 0] >= 0.0] = np.inf
    return losses, w


def _affine_in(z: np.ndarray) -> np.ndarray:
    """The regressors z_j and 1 of each of D regressions, (D, n, 2), for z (n, D)."""
    return np.stack([z.T, np.ones_like(z.T)], axis=-1)


def _regressed(left: np.ndarray, design: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Regressions of left (..., n) on design (..., n, r): mean r^2 (...,) and weights (..., r).

    They are computed by reweighted least squares, as r divides by the size of both sides.
    """
    root = 1.0 / np.sqrt(1.0 + np.square(left))
    for _ in range(4):
        root = root / root.max(-1, keepdims=True)
        w = ridge_regressions(design * root[..., None], left * root, 1e-20)
        right = np.einsum("...nr,...r->...n", design, w)
        root = 1.0 / np.sqrt(np.square(left) + np.square(right) + np.maximum(np.abs(w[..., :1]), 1e-12))
    return np.square((left - right) * root).mean(-1), w


def _misfit(scaling: Scaling | None, x: np.ndarray, gradients: np.ndarray) -> float:
    """The deviation of gradients in y from affine: half the log of the mean r^2, summed over coordinates."""
    y, slopes = (x, gradients) if scaling is None else (scaling.into(x), scaling.pulled(x, gradients))
    sd = np.maximum(y.std(0), 1e-300)
    z, ones = (y - y.mean(0)) / sd, np.ones((len(y), 1))
    design = np.stack([np.hstack([z[:, [j]], ones, np.delete(z, j, axis=1)]) for j in range(y.shape[1])])
    losses, _ = _regressed((slopes * sd).T, design)
    return float(_logs(losses).sum())


def _logs(losses: np.ndarray) -> np.ndarray:
    """Half the logarithms of losses, with a floor, so that no exact fit outweighs all other coordinates.

    NaN, from a map that overflows, is the largest loss.
    """
    return 0.5 * np.log(np.fmin(losses, 2.0) + 1e-3)
