"""Weak priors of hyperparameters: flat over the plausible decades, falling off outside.

Hyperparameters are stated in *units of the data*: a lengthscale in standard deviations of its
input column, a variance in variances of the targets. On the logarithm of such a number the prior is flat
between two values and Gaussian beyond them,

    log p(t) = -(max(lower - t, 0, t - upper) / falloff)^2 / 2 + constant,

so that it moves only parameters that the evidence alone does not bound. A search ends ``_WIDTH`` times
``falloff`` beyond the plateau.

The logarithm of a lengthscale has a Cauchy distribution, whose centre grows as sqrt(D), as distances of D
columns do (Hvarfner, Hellsten and Nardi 2024): with few rows and many columns the evidence alone selects
columns by chance. One that the data determine is hardly moved. So with the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, inf, log, pi, sqrt

import numpy as np
from scipy.special import ndtr, ndtri

from gp.kernels.base import Kind
from gp.names import all_suggesting

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


@dataclass(frozen=True)
class LogCauchy:
    """A Cauchy distribution of the logarithm (positive, in units of the data), cut off at its bounds.

    Attributes
    ----------
    centre : the median for one column; for D columns it is multiplied by sqrt(D).
    scale : half the distance of the quartiles, on the log scale.
    lower, upper : where the parameter is in effect zero or infinite; a search ends ``_WIDTH`` halves beyond.
    """

    centre: float = exp(sqrt(2))
    scale: float = 0.35
    lower: float = 1e-2
    upper: float = 1e3

    def __post_init__(self) -> None:
        if not (0 < self.lower < self.centre < self.upper < np.inf and self.scale > 0):
            raise ValueError(f"{self!r}: 0 < lower < centre < upper < infinity and scale > 0 have to hold")


@dataclass(frozen=True)
class Interval:
    """A plateau prior for a location, on the linear scale, symmetric about the centre of the inputs.

    Its ends are ``half_width`` standard deviations of the input column from its mean.
    """

    half_width: float
    falloff: float = 1.0


@dataclass(frozen=True)
class Priors:
    """One prior for each kind of hyperparameter.

    Attributes
    ----------
    lengthscale : in standard deviations of the input column. A :class:`Plateau` is the same for any number of
        columns; Plateau(1e-2, 1e3) is flat from below the resolution of all but large data sets to where the
        input has almost no effect.
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

    lengthscale: Plateau | LogCauchy = field(default=LogCauchy())
    variance: Plateau = field(default=Plateau(1e-4, 1e4))
    noise: Plateau | LogCauchy = field(default=LogCauchy(0.1, 2.0, 1e-10, 1e2))
    period: Plateau = field(default=Plateau(1e-2, 10.0))
    shape: Plateau = field(default=Plateau(2e-2, 50.0))
    location: Interval = field(default=Interval(5.0))

    def of(self, kind: Kind, columns: int = 1) -> Plateau | LogCauchy | Interval:
        """Return the prior of a parameter of this kind, which is that of so many columns."""
        prior = getattr(self, kind)
        if kind != "lengthscale" or not isinstance(prior, LogCauchy):
            return prior
        centre = min(prior.centre * sqrt(columns), 0.5 * prior.upper)
        return replace(prior, centre=centre)


@dataclass(frozen=True, eq=False)
class JointPrior:
    """Independent priors of P unit-free parameters.

    Attributes
    ----------
    lower, upper : (P,), ends of the plateaus; falloff : (P,), infinite for Cauchy distributions.
    bounds_lower, bounds_upper : (P,), bounds of a search.
    centre, scale : (P,), of Cauchy distributions; ``None`` if there are none.
    """

    lower: np.ndarray
    upper: np.ndarray
    falloff: np.ndarray
    bounds_lower: np.ndarray
    bounds_upper: np.ndarray
    centre: np.ndarray | None = None
    scale: np.ndarray | None = None

    @staticmethod
    def of(priors: Sequence[Plateau | LogCauchy | Interval]) -> JointPrior:
        """Collect the priors of P parameters."""
        lower, upper = np.array([_ends(prior) for prior in priors]).reshape(-1, 2).T
        heavy = np.array([isinstance(prior, LogCauchy) for prior in priors], dtype=bool)
        width = np.array([0.5 if isinstance(prior, LogCauchy) else prior.falloff for prior in priors])
        bounds = lower - _WIDTH * width, upper + _WIDTH * width
        plateaus = JointPrior(lower, upper, np.where(heavy, inf, width), *bounds)
        if not heavy.any():
            return plateaus
        pairs = [(log(p.centre), p.scale) if isinstance(p, LogCauchy) else (0.0, inf) for p in priors]
        centre, scale = np.array(pairs).T
        return replace(plateaus, centre=centre, scale=scale)

    @staticmethod
    def flat(size: int) -> JointPrior:
        """Return flat priors of ``size`` parameters, without bounds."""
        lower, upper = np.full(size, -inf), np.full(size, inf)
        return JointPrior(lower, upper, np.ones(size), lower, upper)

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
        heavy, centre, scale, first, last = self._heavy
        sd = np.empty(len(self.lower))
        sd[~heavy] = ((self.upper - self.lower) / sqrt(12) + self.falloff)[~heavy]
        low, high = (self.bounds_lower[heavy] - centre) / scale, (self.bounds_upper[heavy] - centre) / scale
        mean = 0.5 * (np.log1p(high**2) - np.log1p(low**2)) / (last - first)
        sd[heavy] = scale * np.sqrt((high - low) / (last - first) - 1 - mean**2)
        return sd

    @cached_property
    def _heavy(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Which are Cauchy distributions (P,); their centres, scales, and angles at the bounds (C,)."""
        if self.centre is None or self.scale is None:
            return np.zeros(len(self.lower), dtype=bool), *np.zeros((4, 0))
        heavy = np.isfinite(self.scale)
        centre, scale = self.centre[heavy], self.scale[heavy]
        ends = (np.arctan((end[heavy] - centre) / scale) for end in self.bounds)
        return heavy, centre, scale, *ends

    def standardised(self, psi: np.ndarray) -> np.ndarray:
        """Return z (P,) for psi (P,): coordinates in which the prior is N(0, I)."""
        heavy, centre, scale, first, last = self._heavy
        tail, total = self._masses
        lower, upper, falloff, flat = (a[~heavy] for a in (self.lower, self.upper, self.falloff, psi))
        z = np.empty(len(psi))
        below = tail * 2 * ndtr(np.minimum(flat - lower, 0.0) / falloff)
        above = tail * 2 * ndtr(np.minimum(upper - flat, 0.0) / falloff)
        left = below + np.clip(flat - lower, 0.0, None)
        right = above + np.clip(upper - flat, 0.0, None)
        z[~heavy] = np.where(
            left < right, ndtri(np.minimum(left / total, 0.5)), -ndtri(np.minimum(right / total, 0.5))
        )
        angle = np.arctan((psi[heavy] - centre) / scale)
        left, right = (angle - first) / (last - first), (last - angle) / (last - first)
        z[heavy] = np.where(left < right, ndtri(np.minimum(left, 0.5)), -ndtri(np.minimum(right, 0.5)))
        return z

    def from_standard(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return psi (P,) for z (P,), and its derivative (P,) in z."""
        heavy, centre, scale, first, last = self._heavy
        tail, total = self._masses
        lower, upper, falloff = (a[~heavy] for a in (self.lower, self.upper, self.falloff))
        psi, density = np.empty(len(z)), np.empty(len(z))
        beyond = ndtr(-np.abs(z))  # the prior's mass beyond, on the nearer side
        share = total * beyond[~heavy]
        inside = np.clip(share - tail, 0.0, None)
        outside = falloff * ndtri(np.minimum(share / (2 * tail), 0.5))
        move = np.where(share > tail, inside, outside)
        psi[~heavy] = np.where(z[~heavy] < 0, lower + move, upper - move)
        density[~heavy] = np.exp(-0.5 * (np.minimum(move, 0.0) / falloff) ** 2) / total
        width = beyond[heavy] * (last - first)
        tangent = np.tan(np.where(z[heavy] < 0, first + width, last - width))
        psi[heavy] = centre + scale * tangent
        density[heavy] = 1 / (scale * (1 + tangent**2) * (last - first))
        return psi, np.exp(-0.5 * z**2) / sqrt(2 * pi) / density

    @property
    def _masses(self) -> tuple[np.ndarray, np.ndarray]:
        """The masses of one tail and of the whole plateau prior, where the plateau has density 1."""
        flat = ~self._heavy[0]
        tail = sqrt(pi / 2) * self.falloff[flat]
        return tail, (self.upper - self.lower)[flat] + 2 * tail

    def log_density(self, psi: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log density, up to a constant, and its gradient (P,)."""
        excess = psi - np.clip(psi, self.lower, self.upper)
        scaled = excess / self.falloff
        value, gradient = float(-0.5 * scaled @ scaled), -scaled / self.falloff
        if self.centre is None or self.scale is None:
            return value, gradient
        away = (psi - self.centre) / self.scale
        return value - float(np.log1p(away**2).sum()), gradient - 2 * away / self.scale / (1 + away**2)


def _ends(prior: Plateau | LogCauchy | Interval) -> tuple[float, float]:
    """The ends of a prior, on the log scale but for a location."""
    if isinstance(prior, Interval):
        return -prior.half_width, prior.half_width
    return log(prior.lower), log(prior.upper)


all_suggesting(globals())
