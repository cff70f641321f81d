"""Weak priors of hyperparameters: flat over the plausible decades, falling off outside.

Hyperparameters are stated in *units of the data*: a lengthscale in standard deviations of its
input column, a variance in variances of the targets. Priors therefore do not depend on the units of inputs or
targets. On the logarithm of such a number the prior is flat between two values and Gaussian beyond them:

    log p(t) = -(max(lower - t, 0, t - upper) / falloff)^2 / 2 + constant.

Within the plateau the prior is constant, so that the posterior mode is the maximum of the evidence. Beyond it
the prior bounds parameters that the evidence alone does not, such as a lengthscale along whose ridge the
evidence rises to zero or infinity. The search is limited to ``_WIDTH`` times ``falloff`` beyond the plateau.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, pi, sqrt

import numpy as np
from scipy.special import ndtr, ndtri

from gp.kernels.base import Kind

__all__ = ["Interval", "JointPrior", "Plateau", "Priors"]

_WIDTH = 4.0
"""Bounds of a search lie this many times ``falloff`` beyond a plateau, where the prior has fallen by e^-8."""


@dataclass(frozen=True)
class Plateau:
    """Flat from ``lower`` to ``upper`` (positive, in units of the data) on the log scale.

    Attributes
    ----------
    lower, upper : ends of the plateau.
    falloff : standard deviation, on the log scale, of the Gaussian fall-off beyond them.
    """

    lower: float
    upper: float
    falloff: float = 0.5

    def __post_init__(self) -> None:
        if not (0 < self.lower < self.upper < np.inf and self.falloff > 0):
            raise ValueError(f"{self!r}: 0 < lower < upper < infinity and falloff > 0 have to hold")

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the plateau on the log scale."""
        return log(self.lower), log(self.upper)

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of a search, on the log scale."""
        lower, upper = self.ends
        return lower - _WIDTH * self.falloff, upper + _WIDTH * self.falloff


@dataclass(frozen=True)
class Interval:
    """A plateau prior for a location, on the linear scale, symmetric about the centre of the inputs."""

    half_width: float
    falloff: float = 1.0

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the plateau, in standard deviations of the input column from its mean."""
        return -self.half_width, self.half_width

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of a search."""
        furthest = self.half_width + _WIDTH * self.falloff
        return -furthest, furthest


@dataclass(frozen=True)
class Priors:
    """One prior for each kind of hyperparameter.

    Attributes
    ----------
    lengthscale : in standard deviations of the input column: from a hundredth (below the resolution of all
        but large data sets) to a thousand (where the input has almost no effect).
    variance : of a part of the kernel, in variances of the targets. The overall scale of the kernel
        has a flat prior where it is found in closed form.
    noise : variance of the noise, in units of the overall scale of the kernel where that is found
        in closed form, else in variances of the targets. At its lower end a covariance of a few thousand
        points is still accurate. Rows that repeat, with their targets, drive the noise to this end, and a fit
        warns of them.
    period : in standard deviations of the input column.
    shape : without a unit: the mixing parameter of a rational quadratic, the lengthscale of a
        periodic kernel.
    location : in standard deviations of the input column from its mean.
    """

    lengthscale: Plateau = field(default=Plateau(1e-2, 1e3))
    variance: Plateau = field(default=Plateau(1e-4, 1e4))
    noise: Plateau = field(default=Plateau(1e-10, 1e2))
    period: Plateau = field(default=Plateau(1e-2, 10.0))
    shape: Plateau = field(default=Plateau(2e-2, 50.0))
    location: Interval = field(default=Interval(5.0))

    def of(self, kind: Kind) -> Plateau | Interval:
        """Return the prior of a kind."""
        return getattr(self, kind)


@dataclass(frozen=True, eq=False)
class JointPrior:
    """Independent priors of P unit-free parameters.

    Attributes
    ----------
    lower, upper : (P,), ends of the plateaus; falloff : (P,).
    bounds_lower, bounds_upper : (P,), bounds of a search.
    """

    lower: np.ndarray
    upper: np.ndarray
    falloff: np.ndarray
    bounds_lower: np.ndarray
    bounds_upper: np.ndarray

    @staticmethod
    def of(priors: list[Plateau | Interval]) -> JointPrior:
        """Collect the priors of P parameters."""
        ends = np.array([prior.ends for prior in priors]).reshape(-1, 2)
        bounds = np.array([prior.bounds for prior in priors]).reshape(-1, 2)
        falloff = np.array([prior.falloff for prior in priors])
        return JointPrior(ends[:, 0], ends[:, 1], falloff, bounds[:, 0], bounds[:, 1])

    @staticmethod
    def normal(centre: np.ndarray, sd: np.ndarray, bounds: tuple[float, float] = (4.0, 4.0)) -> JointPrior:
        """Return normal priors, which are plateaus of width zero.

        Parameters
        ----------
        centre, sd : means and standard deviations of the parameters, (P,)
        bounds : bounds of a search below and above the centre, in standard deviations
        """
        return JointPrior(centre, centre, sd, centre - bounds[0] * sd, centre + bounds[1] * sd)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of a search."""
        return self.bounds_lower, self.bounds_upper

    def curvature(self, psi: np.ndarray) -> np.ndarray:
        """Return minus the Hessian of the log density, (P, P)."""
        flat = (psi > self.lower) & (psi < self.upper)
        return np.diag(np.where(flat, 0.0, self.falloff**-2.0))

    @property
    def sd(self) -> np.ndarray:
        """Standard deviations of the priors, (P,)."""
        return (self.upper - self.lower) / sqrt(12) + self.falloff

    def standardised(self, psi: np.ndarray) -> np.ndarray:
        """Return z (P,) for psi (P,): coordinates in which the prior is N(0, I)."""
        tail, total = self._masses
        below = tail * 2 * ndtr(np.minimum(psi - self.lower, 0.0) / self.falloff)
        above = tail * 2 * ndtr(np.minimum(self.upper - psi, 0.0) / self.falloff)
        left = below + np.clip(psi - self.lower, 0.0, None)
        right = above + np.clip(self.upper - psi, 0.0, None)
        return np.where(
            left < right, ndtri(np.minimum(left / total, 0.5)), -ndtri(np.minimum(right / total, 0.5))
        )

    def from_standard(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return psi (P,) for z (P,), and its derivative (P,) in z."""
        tail, total = self._masses
        share = total * ndtr(-np.abs(z))  # the prior's mass beyond, on the nearer side
        inside = np.clip(share - tail, 0.0, None)
        outside = self.falloff * ndtri(np.minimum(share / (2 * tail), 0.5))
        move = np.where(share > tail, inside, outside)
        psi = np.where(z < 0, self.lower + move, self.upper - move)
        density = np.exp(-0.5 * (np.minimum(move, 0.0) / self.falloff) ** 2) / total
        return psi, np.exp(-0.5 * z**2) / sqrt(2 * pi) / density

    @property
    def _masses(self) -> tuple[np.ndarray, np.ndarray]:
        """The masses of one tail and of the whole prior, (P,) each, where the plateau has density 1."""
        tail = sqrt(pi / 2) * self.falloff
        return tail, self.upper - self.lower + 2 * tail

    def log_density(self, psi: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log density, up to a constant, and its gradient (P,)."""
        excess = psi - np.clip(psi, self.lower, self.upper)
        scaled = excess / self.falloff
        return float(-0.5 * scaled @ scaled), -scaled / self.falloff
