"""Maps after which a posterior is about Gaussian, or a ridge straight, where evaluations have more evidence.

*Scales that depend on a coordinate* (`Scaling`) are those of a funnel or of a centred hierarchy. In a funnel
the standard deviation of some coordinates grows with the exponential of another one, the leading coordinate
k. The map from y to x is

    x_l = y_l                                          for l = k, and other coordinates that are not scaled,
    x_j = m_j + s_j (y_j - B_j)                        for those that are, with
    A_j = c_j + a_j^T y,     E_j = exp(b_j (y_k - o)),
    s_j^-2 = E_j^-2 + rho_j,     m_j = s_j^2 (A_j / E_j^2 + nu_j),

where a_j has entries for coordinates of the first kind only. B_j is A_j, or c_j where y_j should be
independent of the coordinates of the first kind. With rho and nu zero, the distance of x_j from A_j is
proportional to E_j. In a hierarchy with centred effects, y_k is the logarithm of the effects' standard
deviation and A_j their mean. rho and nu are the contributions of a quadratic log likelihood of x_j to the
precision and to the gradient, divided by the precision at E_j = 1. With the right rho and nu the effects are
independent and normal in y for all values of y_k and of their mean (Papaspiliopoulos, Roberts and Skold
2007). The map is triangular, log |det dx / dy| = sum_j log s_j.

From values alone, the leading coordinate and one rate for all others are those of the largest evidence of the
values (:mod:`frame_selection`), with centres by a regression on draws of the current posterior (`led_by`; rho
and nu are zero); from gradients, all of it (`scaling_from_gradients`).

*The user's units between bounds* (`UserUnits`). The coordinates of a parameter between two bounds, t =
Phi^-1((theta - a) / (b - a)), bend a ridge on which only a sum or difference of parameters is determined: it
has another direction and another width at each point, which no stationary kernel describes. The frame then
has the parameters themselves as coordinates y, in units of half their plausible interval, and a straight
ridge that ends at bounds is straight. There is no mass beyond the bounds, as beyond other regions where the
log joint cannot be evaluated (:mod:`frame`). Other parameters, and periodic ones, keep their
coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from bqvi.calls import Evaluations
from bqvi.calls.coordinates import Coordinates
from bqvi.variational_bmc.settings import SHAPING
from gp.arrays import LOG_2PI
from gp.linalg import least_squares, ridge_regressions
from gp.low_discrepancy import normal_sobol
from gp.matrices import named_cholesky

_EDGE = 0.01
"""The share of an interval beside either bound that stands for what lies beyond it."""
_DRAWS = 1024
"""The draws of a component, whose moments its image has."""


@dataclass(frozen=True, eq=False)
class UserUnits:
    """The map between coordinates x and y, (m, D) each, of parameters between two bounds.

    Attributes
    ----------
    straight : the indices (p,) of the coordinates of these parameters.
    centre, half : their coordinates are t = centre + half x, (p,) each.
    lower, upper : the bounds of y, (p,) each.
    """

    straight: np.ndarray
    centre: np.ndarray
    half: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    sheared = False

    @classmethod
    def of(cls, coordinates: Coordinates | None) -> UserUnits | None:
        """The map for the coordinates; None where fewer than two parameters have two bounds."""
        if coordinates is None:
            return None
        between = np.array([chart == "between" for chart, _, _ in coordinates.charts()])
        straight = np.flatnonzero(between & ~coordinates.periodic[coordinates.free])
        if len(straight) < 2:
            return None
        of = coordinates.free[straight]
        low, high = coordinates.plausible_lower[of], coordinates.plausible_upper[of]
        middle, width = 0.5 * (low + high), 0.5 * (high - low)
        charts = coordinates.to_charts
        return cls(
            straight, charts.shift[straight], np.diag(charts.scale)[straight],
            (coordinates.lower[of] - middle) / width, (coordinates.upper[of] - middle) / width,
        )  # fmt: skip

    def out(self, y: np.ndarray) -> np.ndarray:
        """The points x (m, D) of y (m, D); of those beyond a bound, of points beside it."""
        x = y.copy()
        x[:, self.straight] = (self._charts(y) - self.centre) / self.half
        return x

    def into(self, x: np.ndarray) -> np.ndarray:
        """The points y (m, D) of x (m, D)."""
        y = x.copy()
        share = ndtr(self.centre + self.half * x[:, self.straight])
        y[:, self.straight] = self.lower + (self.upper - self.lower) * share
        return y

    def inside(self, y: np.ndarray) -> np.ndarray:
        """Whether points y (m, D) lie between the bounds, (m,)."""
        at = y[:, self.straight]
        return np.asarray(((at > self.lower) & (at < self.upper)).all(1))

    def log_scales(self, x: np.ndarray) -> np.ndarray:
        """The logarithms of dx / dy at x (m, D), (m, D)."""
        found = np.zeros(x.shape)
        found[:, self.straight] = self._log_scales(self.centre + self.half * x[:, self.straight])
        return found

    def log_jacobian(self, y: np.ndarray) -> np.ndarray:
        """The log Jacobian log |det dx / dy| at y (m, D), (m,)."""
        return np.asarray(self._log_scales(self._charts(y)).sum(1))

    def pulled(self, x: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """The gradients (m, D) in y of f(x(y)) + log |det dx / dy|, from ``gradients`` of f at x (m, D).

        NaN where they are lost to rounding, so near to a bound that both terms of their sum are equal.
        """
        t = self.centre + self.half * x[:, self.straight]
        found, part = gradients.copy(), t * self.half
        slopes = gradients[:, self.straight] + part
        lost = np.abs(slopes) < 1e-11 * np.abs(part)
        found[:, self.straight] = np.where(lost, np.nan, slopes * np.exp(self._log_scales(t)))
        return found

    def image(
        self, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mixture of x for one of y (K,), (K, D), (K, D, D), by moments of draws between the bounds.

        A component without such draws has weight zero and a covariance of one. Where all are without, they
        keep their weights, at points beside the bounds.
        """
        dimension = means.shape[1]
        roots = named_cholesky("covariances", covariances)
        y = means[:, None] + normal_sobol(dimension, _DRAWS, 0) @ roots.mT
        inside = self.inside(y.reshape(-1, dimension)).reshape(y.shape[:2]).astype(float)
        inside[inside.sum(1) <= 2 * dimension] = 0.0
        mass = weights * inside.mean(1)
        mass = mass if mass.any() else weights
        empty = inside.sum(1) == 0.0
        x = self.out(y.reshape(-1, dimension)).reshape(y.shape)
        shares = np.where(empty[:, None], 1.0, inside)
        shares /= shares.sum(1, keepdims=True)
        middle = (shares[:, None] @ x)[:, 0]
        found = (shares[:, :, None] * (x - middle[:, None])).mT @ (x - middle[:, None])
        found[empty] = np.eye(dimension)
        return mass / mass.sum(), middle, found

    def _charts(self, y: np.ndarray) -> np.ndarray:
        """The charts' coordinates t (m, p) at y (m, D)."""
        share = (y[:, self.straight] - self.lower) / (self.upper - self.lower)
        beyond = (share <= 0.0) | (share >= 1.0)
        return np.asarray(ndtri(np.where(beyond, np.clip(share, _EDGE, 1.0 - _EDGE), share)))

    def _log_scales(self, t: np.ndarray) -> np.ndarray:
        """The logarithms of dx / dy at the charts' coordinates t (m, p)."""
        return np.asarray(0.5 * (t * t + LOG_2PI) - np.log(self.half * (self.upper - self.lower)))


@dataclass(frozen=True, eq=False)
class Scaling:
    """The map between coordinates x and y, (m, D) each.

    Attributes
    ----------
    leading : the leading coordinate k. origin : the value o of y_k at which E_j = 1.
    rates : the rates b (D,), zero for k and for coordinates that are not scaled.
    centres : the centres c (D,).
    slopes : the vectors a_j as rows (D, D), zero in the rows of coordinates that are not scaled and in the
        columns of those that are.
    precisions, pulls : rho (nonnegative) and nu, (D,) each; zero for coordinates that are not scaled.
    sheared : whether B is c; otherwise B is A.
    """

    leading: int
    origin: float
    rates: np.ndarray
    centres: np.ndarray
    slopes: np.ndarray
    precisions: np.ndarray
    pulls: np.ndarray
    sheared: bool = False

    def out(self, y: np.ndarray) -> np.ndarray:
        """The points x (m, D) of y (m, D)."""
        at = self._at(y)
        return np.where(self.rates != 0.0, at.middle + at.scale * (y - at.base), y)

    def into(self, x: np.ndarray) -> np.ndarray:
        """The points y (m, D) of x (m, D)."""
        at = self._at(x)  # depends on the coordinates that are not scaled, which x and y share
        return np.where(self.rates != 0.0, at.base + (x - at.middle) / at.scale, x)

    def log_scales(self, y: np.ndarray) -> np.ndarray:
        """The logarithms of s at y (m, D), (m, D); zero for coordinates that are not scaled."""
        return np.log(self._at(y).scale)

    def log_jacobian(self, y: np.ndarray) -> np.ndarray:
        """The log Jacobian log |det dx / dy| at y (m, D), (m,)."""
        return self.log_scales(y).sum(1)

    def pulled(self, x: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """The gradients (m, D) in y of f(x(y)) + log |det dx / dy|, from ``gradients`` of f at x (m, D)."""
        y = self.into(x)
        at = self._at(y)
        found: np.ndarray = gradients * at.scale + (gradients * self._across(at)) @ self.slopes
        found[:, self.leading] += (gradients * self._along(at, y)).sum(1) + at.share @ self.rates
        return found

    def jacobian(self, y: np.ndarray) -> np.ndarray:
        """The Jacobian matrices dx / dy at y (m, D), (m, D, D)."""
        at = self._at(y)
        found: np.ndarray = np.einsum("mi,ij->mij", self._across(at), self.slopes)
        np.einsum("mii->mi", found)[:] += at.scale
        found[:, :, self.leading] += self._along(at, y)
        return found

    def image(
        self, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mixture of x for one of y (K,), (K, D), (K, D, D), with as many parts of each component.

        A component is divided along the leading coordinate into parts at equal distances of 1.5 of a part's
        standard deviation, whose sum has no ripples, and the map is linearised in each part.
        """
        nodes, step = np.linspace(-3.2, 3.2, 31, retstep=True)
        within = step**2 / (step**2 + 1.5**2)  # a part's share of the variance along the coordinate
        shares = np.exp(-0.5 * nodes**2)
        along = covariances[:, :, self.leading] / np.sqrt(covariances[:, [self.leading], self.leading])
        at = means[:, None] + np.sqrt(1.0 - within) * nodes[:, None] * along[:, None]
        at = at.reshape(-1, means.shape[1])
        left = covariances - (1.0 - within) * along[:, :, None] * along[:, None, :]
        turn = self.jacobian(at)
        found = turn @ np.repeat(left, len(nodes), axis=0) @ turn.mT
        np.einsum("kii->ki", found)[:] *= 1.0 + 1e-12  # rounding: correlations of one
        return (weights[:, None] * (shares / shares.sum())).ravel(), self.out(at), found

    def _at(self, y: np.ndarray) -> _Terms:
        # exponentials that do not overflow
        exponents = np.clip(self.rates * (y[:, [self.leading]] - self.origin), -30.0, 30.0)
        share = 1.0 / (1.0 + self.precisions * np.exp(2.0 * exponents))
        scale = np.exp(exponents) * np.sqrt(share)
        about = self.centres + y @ self.slopes.T
        base = np.broadcast_to(self.centres, about.shape) if self.sheared else about
        return _Terms(scale, share, about, base, share * about + scale**2 * self.pulls)

    def _across(self, at: _Terms) -> np.ndarray:
        """The derivatives of x (m, D) with respect to a^T y, (m, D)."""
        return at.share if self.sheared else at.share - at.scale

    def _along(self, at: _Terms, y: np.ndarray) -> np.ndarray:
        """The derivatives of x (m, D) with respect to y_k at fixed A, (m, D)."""
        of_middle = 2.0 * (at.scale**2 * self.pulls - (1.0 - at.share) * at.about)
        return self.rates * at.share * (at.scale * (y - at.base) + of_middle)


@dataclass(frozen=True, eq=False)
class _Terms:
    """The terms of the map at points: s, the share of E^-2 in s^-2, A, B and m, (m, D) each."""

    scale: np.ndarray
    share: np.ndarray
    about: np.ndarray
    base: np.ndarray
    middle: np.ndarray


def unlike(one: Scaling | UserUnits | None, other: Scaling | UserUnits | None, x: np.ndarray) -> float:
    """The largest sd, over points x (m, D), of the logarithm of the ratio of two maps' scales.

    Parameters
    ----------
    one, other : the maps; None is the map without scales. x : points (m, D), in the coordinates of the
        parameters.
    """
    logs = np.zeros((2, *x.shape))
    for row, scaling in zip(logs, (one, other), strict=True):
        if scaling is not None:
            row += scaling.log_scales(x)
    return float((logs[0] - logs[1]).std(0).max())


def led_by(x: np.ndarray, leading: int, change: float) -> Scaling:
    """The map by which one coordinate leads the scales of all others, about their regression on it.

    Where the scales are s_j E with E = exp(b x_k), the most likely regression weighs draws by E^-2: a centre
    that is a little wrong is far away in units of the smallest scales.

    Parameters
    ----------
    x : draws (m, D) of the posterior. leading : the leading coordinate k.
    change : the change of the logarithms of the scales over a standard deviation of that coordinate.
    """
    dimension, others = x.shape[1], np.arange(x.shape[1]) != leading
    origin, sd = float(x[:, leading].mean()), float(x[:, leading].std())
    z = (x[:, leading] - origin) / sd
    root = np.exp(np.clip(-change * z, -30.0, 30.0))[:, None]
    design = np.column_stack([np.ones(len(z)), z])
    middle, slope = least_squares(root * design, root * x)[0]
    slopes, nothing = np.zeros((dimension, dimension)), np.zeros(dimension)
    slopes[:, leading] = np.where(others, slope / sd, 0.0)
    centres = np.where(others, middle - slopes[:, leading] * origin, 0.0)
    return Scaling(leading, origin, np.where(others, change / sd, 0.0), centres, slopes, nothing, nothing)


def fewest_gradients(dimension: int) -> int:
    """The least number of gradients to which a map is fitted, D being ``dimension``."""
    return 2 * dimension + 2


_STEEPEST, _STEPS = 8.0, 12
"""The largest rate, and the number of rates of either sign that are compared at first."""
_BETTER = 0.1
"""The least gain of misfit, in nats, of a map of one coordinate less, or with a quadratic likelihood."""


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # in maps that are then left out
def scaling_from_gradients(made: Evaluations) -> tuple[Scaling, np.ndarray, np.ndarray] | None:
    """The map after which gradients are about affine, and the mean and covariance of the Gaussian in y.

    None without gradients enough, and where no residuals are clearly smaller after a map.

    Where p is a Gaussian in the coordinates y of a map, the gradient of log p in y is affine in y. For a
    coordinate j with the prior scale E_i = exp(b (x_ik - o)), and an additional likelihood term that is
    quadratic in x_j,

        E_i g_ij = -lambda (x_ij - c_j - a_j^T x_i) / E_i + E_i (alpha + beta x_ij),

    where g_ij is the derivative in x_j at point i, and a_j has entries for the coordinates that are not
    scaled. For given b this is a linear regression. The map's rho is -beta / lambda, its nu is alpha /
    lambda; both are set to zero where the gradients are as close to affine without them. The rate b is the
    one of least mean r_i^2, where each residual is divided by the size of the two sides,

        r_i = (left_i - right_i) / (left_i^2 + right_i^2 + lambda)^1/2,

    so that distant points have the same influence as others. Matching gradients is score matching (Hyvarinen
    2005); no draws of the posterior are needed, and the points of the climb at the beginning suffice.

    The leading coordinate k is the one with the largest gain of all single regressions, and the coordinates
    that are scaled are chosen by the regressions of all gradients in y on y (`_misfit`). The evidence of the
    evaluations decides whether the map is used (:mod:`frame_selection`).
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
