"""Scales that depend on a coordinate: the map after which a funnel or a centred hierarchy is about Gaussian.

In a funnel the standard deviation of some coordinates grows with the exponential of another one, the leading
coordinate k. The map from y to x is

    x_l = y_l                                          for l = k, and other coordinates that are not scaled,
    x_j = m_j + s_j (y_j - B_j)                        for those that are, with
    A_j = c_j + a_j^T y,     E_j = exp(b_j (y_k - o)),
    s_j^-2 = E_j^-2 + rho_j,     m_j = s_j^2 (A_j / E_j^2 + nu_j),

where a_j has entries for coordinates of the first kind only. B_j is A_j, or c_j where y_j should be
independent of the coordinates of the first kind. With rho and nu zero, the distance of x_j from A_j is
proportional to E_j. In the centred eight schools, y_k is the logarithm of the effects' standard deviation and
A_j their mean. rho and nu are the contributions of a quadratic log likelihood of x_j to the precision and to
the gradient, divided by the precision at E_j = 1. With the right rho and nu the effects are independent and
normal in y for all values of y_k and of their mean: a form between the centred and the non-centred one
(Papaspiliopoulos, Roberts and Skold 2007). The map is triangular, log |det dx / dy| = sum_j log s_j.

The parameters are estimated by maximum likelihood from draws of the current posterior: a regression of x_j on
the coordinates that are not scaled, with a variance that is log-linear in x_k (`proposed`; rho and nu are
zero). The map is used where the evidence of the evaluations is higher with it (:mod:`rescaling`).
:mod:`gradient_scaling` fits the map to gradients instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bqvi.variational_bmc.settings import SCALINGS
from bqvi.variational_bmc.user_units import UserUnits
from gp.triangular import cholesky, solve_lower

__all__ = ["Scaling", "proposed", "unlike"]


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

    def pulled(self, y: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """The gradients (m, D) in y of f(x(y)) + log |det dx / dy|, from ``gradients`` of f in x (m, D)."""
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

    def steeper(self, factor: float) -> Scaling:
        """The map with rates ``factor`` times as large."""
        return replace(self, rates=factor * self.rates)

    def _at(self, y: np.ndarray) -> _Terms:
        exponents = np.clip(self.rates * (y[:, [self.leading]] - self.origin), -SCALINGS.cut, SCALINGS.cut)
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


def proposed(x: np.ndarray) -> Scaling | None:
    """The map after which the scales of draws x (m, D) are constant; None where they nearly are in x."""
    dimension = x.shape[1]
    sd = x.std(0)
    if dimension < 2 or not (np.isfinite(sd).all() and sd.min() > 0.0):
        return None
    z = ((x - x.mean(0)) / sd).T
    gains = np.zeros((dimension, dimension))
    for k in range(dimension):
        rest = np.arange(dimension) != k
        gains[k, rest] = _fitted(z[rest], z[k])[0]
    most = gains.max(1, keepdims=True)
    scaled = (gains > SCALINGS.least_gain) & (gains > SCALINGS.beside * most)
    k = int((gains * scaled).sum(1).argmax())
    if (gains * scaled)[k].sum() < SCALINGS.together:
        return None
    rates, centres, slopes = np.zeros(dimension), np.zeros(dimension), np.zeros((dimension, dimension))
    kept, moved = np.flatnonzero(~scaled[k]), np.flatnonzero(scaled[k])
    _, b, about = _fitted(z[moved], z[k], z[kept].T)
    rates[moved] = np.clip(b, -SCALINGS.steepest, SCALINGS.steepest) / sd[k]
    slopes[np.ix_(moved, kept)] = sd[moved, None] * about[:, 1:] / sd[kept]
    centres[moved] = x[:, moved].mean(0) + sd[moved] * about[:, 0] - slopes[moved] @ x.mean(0)
    nothing = np.zeros(dimension)
    return Scaling(k, float(x[:, k].mean()), rates, centres, slopes, nothing, nothing)


def _fitted(
    targets: np.ndarray, leading: np.ndarray, others: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit targets (p, m) ~ N(w^T (1, others), exp(2 (a + b leading))), each target separately.

    Returns the gain over b = 0 in nats for each draw (p,), b (p,) and w (p, 1 + others). Newton's method in
    (a, b), in which the negative log likelihood is convex, alternates with weighted least squares for w.
    Raises LinAlgError where a curvature is not positive.
    """
    count, draws = targets.shape
    ones = np.ones((draws, 1))
    design = ones if others is None else np.hstack([ones, others])
    ridge = SCALINGS.ridge * draws
    powers = np.column_stack([np.ones(draws), leading, np.square(leading)])
    total = powers.sum(0)
    a, b = np.zeros((2, count))
    precision = np.ones((count, draws))
    for step in range(SCALINGS.rounds):
        weighted = (precision / precision.mean(1, keepdims=True))[:, :, None] * design
        grams = weighted.transpose(0, 2, 1) @ design + ridge * np.eye(design.shape[1])
        right = np.einsum("pmr,pm->pr", weighted, targets)
        w = np.stack([_solved(*system) for system in zip(grams, right, strict=True)])
        squares = np.square(targets - w @ design.T) + SCALINGS.least_square
        if not step:
            a = 0.5 * np.log(squares.mean(1))
            constant = a + 0.5
            precision = precision * np.exp(-2.0 * a)[:, None]
        for _ in range(SCALINGS.newton):
            sums = (squares * precision) @ powers
            slope_a, slope_b = total[0] - sums[:, 0], total[1] - sums[:, 1]
            aa, ab, bb = 2.0 * sums[:, 0] + ridge, 2.0 * sums[:, 1], 2.0 * sums[:, 2] + ridge
            determinant = aa * bb - np.square(ab)
            if not (determinant > 0.0).all():
                raise np.linalg.LinAlgError("a curvature is not positive")
            moves = np.stack([bb * slope_a - ab * slope_b, aa * slope_b - ab * slope_a]) / determinant
            a, b = np.stack([a, b]) - moves / np.maximum(1.0, np.abs(moves).max(0) / SCALINGS.longest)
            precision = np.exp(-2.0 * (a[:, None] + b[:, None] * leading))
    value = a + b * leading.mean() + 0.5 * (squares * precision).mean(1)
    return constant - value, b, w


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution (p,) of matrix x = right, with a positive definite matrix (p, p)."""
    factor = cholesky(matrix)
    return solve_lower(factor, solve_lower(factor, right), transposed=True)
