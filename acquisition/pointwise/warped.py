"""Uncertainty sampling of a warped process f = offset + g^2 / 2 with g Gaussian (WSABI).

The posterior is that of g (Gunter et al. 2014, "Sampling for inference in probabilistic models with
fast Bayesian quadrature"). The variance of p(x) f(x) is p(x)^2 Var[f(x)], and for g ~ N(m, v)

    linearised at m    f ~ offset + m^2/2 + m (g - m)     Var = m^2 v             (WSABI-L)
    moments matched    the exact variance of g^2 / 2      Var = v^2 / 2 + m^2 v   (WSABI-M)

The linearised variance vanishes where m = 0, that of WSABI-M does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from acquisition.pointwise.criterion import Moments, Partials
from gp.arrays import Array, namespace, positive


@dataclass(frozen=True)
class LinearisedWarpedUncertainty:
    """m(x)^2 v(x) p(x)^2: the variance of the integrand of WSABI-L."""

    logarithmic = True

    def score(self, at: Moments) -> Array:
        xp = namespace(at.variance)
        return xp.log(positive(at.mean**2)) + xp.log(at.variance) + 2 * at.log_density

    def partials(self, at: Moments) -> Partials:
        xp = namespace(at.variance)
        return Partials(
            mean=2 * at.mean / positive(at.mean**2),
            variance=1 / at.variance,
            log_density=2 * xp.ones_like(at.variance),
        )


@dataclass(frozen=True)
class MatchedWarpedUncertainty:
    """(v(x)^2 / 2 + m(x)^2 v(x)) p(x)^2: the variance of the integrand of WSABI-M."""

    logarithmic = True

    def score(self, at: Moments) -> Array:
        xp = namespace(at.variance)
        spread = at.variance / 2 + at.mean**2
        return xp.log(at.variance) + xp.log(spread) + 2 * at.log_density

    def partials(self, at: Moments) -> Partials:
        spread = at.variance / 2 + at.mean**2
        return Partials(
            mean=2 * at.mean / spread,
            variance=1 / at.variance + 0.5 / spread,
            log_density=2 * namespace(at.variance).ones_like(at.variance),
        )
