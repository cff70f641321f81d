"""Radial kernels of several columns, as mixtures of squared exponentials of many lengthscales.

A kernel that is a function of s = sum_d (x_d - y_d)^2 / lengthscale_d^2 and positive definite in
every dimension is a mixture of squared exponentials (Schoenberg 1938). With a Gamma variable of
shape a and rate a,

    Matern of order nu           phi(s) = E[exp(-s / (2 u))],     u ~ Gamma(nu, nu)
    rational quadratic, alpha    phi(s) = E[exp(-s u / 2)],       u ~ Gamma(alpha, alpha)

so that its integrals are expectations over u of those of squared exponentials. In t = log u the density is
proportional to exp(a t - a e^t) and vanishes at both ends, and the trapezoidal rule of step h converges
nearly like exp(-pi^2 / h): to 1e-13 at h = 1/4 (narrow densities, a > 4, need h of their width). The tails
that are cut off have probability 1e-14. A kernel is then a sum of 66 squared exponentials for Matern 5/2, 100
for 3/2 and 270 for 1/2. In one column the closed forms are used.
"""

from __future__ import annotations

from functools import lru_cache
from math import log, sqrt
from typing import Any

import numpy as np
from scipy.special import gammainccinv, gammaincinv

from gp.embeddings.composite import sum_of_kernels
from gp.embeddings.embed import Formulas, embedding
from gp.kernels import (
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
    Sum,
)
from gp.measures import Gaussian, Measure, Uniform

_STEP = 0.25
"""Largest step of the trapezoidal rule in the logarithm of the Gamma variable."""
_NARROW_STEP = 0.5
"""Step in standard deviations of that logarithm, about 1 / sqrt(a) for a large shape a."""
_CUT_OFF = 1e-14
"""Probability that is left out in each tail."""


@embedding(RationalQuadratic, Uniform)
@embedding(RationalQuadratic, Gaussian)
def radial(kernel: Stationary, measure: Measure) -> Formulas:
    """Return the integrals of a Matern or rational quadratic kernel of any number of columns."""
    return sum_of_kernels(as_squared_exponentials(kernel), measure)


def as_squared_exponentials(kernel: Stationary) -> Sum:
    """Return a sum of squared exponentials that is the kernel to rounding, in any dimension."""
    if isinstance(kernel, RationalQuadratic):
        u, weights = _gamma_rule(float(kernel.alpha))
        stretch = 1 / np.sqrt(u)
    else:
        u, weights = _gamma_rule(_ORDERS[type(kernel)])
        stretch = np.sqrt(u)
    return Sum(
        tuple(
            SquaredExponential(kernel.lengthscale * factor, kernel.variance * weight)
            for factor, weight in zip(stretch.tolist(), weights.tolist(), strict=True)
        )
    )


@lru_cache(maxsize=64)
def _gamma_rule(a: float) -> tuple[Any, Any]:
    """Nodes and weights (J,) for expectations over a Gamma variable of shape a and rate a."""
    step = min(_STEP, _NARROW_STEP / sqrt(a))
    # far in the lower tail of a small shape the quantile function underflows, and is about a power
    lowest = max(float(gammaincinv(a, _CUT_OFF)) / a, 1e-250)
    highest = float(gammainccinv(a, _CUT_OFF)) / a
    t = np.arange(log(lowest), log(highest) + step, step)
    logarithm = a * t - a * np.exp(t)
    weights = np.exp(logarithm - logarithm.max())
    return np.exp(t), weights / weights.sum()


_ORDERS: dict[type, float] = {Matern12: 0.5, Matern32: 1.5, Matern52: 2.5}
