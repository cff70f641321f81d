"""The normaliser of LKJ densities, whose logarithm PyMC 5.28 adds where it has to be subtracted.

For R of n dimensions, p(R) = |R|^(eta - 1) / c (Lewandowski, Kurowicka and Joe 2009, Eq. 16), with

    ln c = sum_{k < n} k ln(pi) / 2 + ln Gamma(eta + (n - 1 - k) / 2) - ln Gamma(eta + (n - 1) / 2).

The constant does not change samples of a posterior, but a log evidence is wrong by 2 ln c. The error of
PyMC's density is computed at R = I, where ln p = -ln c; a version of PyMC without the error is not corrected.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

_KINDS = ("_LKJCholeskyCovRV", "LKJCorrRV")


def log_normaliser(n: int, eta: float) -> float:
    """The logarithm of the integral of |R|^(eta - 1) over correlation matrices of ``n`` dimensions."""
    k = np.arange(1, n)
    terms = 0.5 * k * np.log(np.pi) + gammaln(eta + 0.5 * (n - 1 - k)) - gammaln(eta + 0.5 * (n - 1))
    return float(terms.sum())


def excess(model: Any) -> float:
    """The excess of a PyMC model's log density over the normalised one, from all its LKJ variables."""
    import pymc

    total = 0.0
    for variable in [*model.free_RVs, *model.observed_RVs]:
        if type(variable.owner.op).__name__ in _KINDS:
            n, eta = _arguments(variable)
            one = pymc.LKJCorr.dist(n=n, eta=eta)
            identity = np.eye(n) if one.ndim == 2 else np.zeros(n * (n - 1) // 2)
            found = float(pymc.logp(one, identity).eval(mode="FAST_COMPILE"))
            total += found + log_normaliser(n, eta)
    return total if abs(total) > 1e-9 else 0.0


def _arguments(variable: Any) -> tuple[int, float]:
    """The dimension and eta of an LKJ variable, which must be constants for PyMC's own density, too."""
    inputs = variable.owner.inputs
    cholesky = type(variable.owner.op).__name__ == _KINDS[0]
    n, eta = inputs[1:3] if cholesky else inputs[-2:]
    return int(n.eval(mode="FAST_COMPILE")), float(eta.eval(mode="FAST_COMPILE"))
