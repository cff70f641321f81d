"""The user's units between bounds, in which a straight ridge that ends at bounds is straight.

The coordinates of a parameter between two bounds, t = Phi^-1((theta - a) / (b - a)), bend a ridge on which
only a sum or difference of parameters is determined: it has another direction and another width at each
point, which no stationary kernel describes. The frame then has the parameters themselves as coordinates y,
in units of half their plausible interval. There is no mass beyond the bounds, as beyond other regions where
the log joint cannot be evaluated (:mod:`feasibility`).

Other parameters, and periodic ones, keep their coordinates. The map is used where the evidence of the
evaluations is higher with it (:mod:`rescaling`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from bqvi.calls.coordinates import Coordinates
from gp.arrays import LOG_2PI
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
