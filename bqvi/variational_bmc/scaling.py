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
and nu are zero). :mod:`gradient_scaling` fits the map to gradients instead.

*The user's units between bounds* (`UserUnits`). The coordinates of a parameter between two bounds, t =
Phi^-1((theta - a) / (b - a)), bend a ridge on which only a sum or difference of parameters is determined: it
has another direction and another width at each point, which no stationary kernel describes. The frame then
has the parameters themselves as coordinates y, in units of half their plausible interval, and a straight
ridge that ends at bounds is straight. There is no mass beyond the bounds, as beyond other regions where the
log joint cannot be evaluated (:mod:`feasibility`). Other parameters, and periodic ones, keep their
coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from bqvi.calls.coordinates import Coordinates
from gp.arrays import LOG_2PI
from gp.linalg import least_squares
from gp.linear_maps import cholesky
from gp.low_discrepancy import normal_sobol

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

        A component without such draws has the weight zero. Where all are without, draws stand for points
        beside the bounds.
        """
        dimension = means.shape[1]
        y = means[:, None] + normal_sobol(dimension, _DRAWS, 0) @ cholesky("covariances", covariances).mT
        inside = self.inside(y.reshape(-1, dimension)).reshape(y.shape[:2]).astype(float)
        inside[inside.sum(1) <= 2 * dimension] = 0.0
        mass = weights * inside.mean(1)
        if not mass.any():
            inside[:], mass = 1.0, weights
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
