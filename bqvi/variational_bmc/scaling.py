"""Scales that depend on a coordinate: the map after which a funnel or a centred hierarchy is about Gaussian.

In a funnel the standard deviation of some coordinates grows with the exponential of another one, the leading
coordinate k. The map from y to x is

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

From values alone, the leading coordinate and one rate for all others are those of the largest evidence of
the values (:mod:`rescaling`), with centres by a regression on draws of the current posterior (`led_by`; rho
and nu are zero). :mod:`gradient_scaling` fits the map to gradients instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.variational_bmc.user_units import UserUnits
from gp.linalg import least_squares


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
