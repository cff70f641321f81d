"""A drug whose removal saturates, given once: a posterior along a long bent ridge, D = 3.

A dose into the volume V is removed by an enzyme (Michaelis and Menten),

    dC/dt = -vmax C / (km + C),   C(0) = dose / V,

so that C(t) = km omega(ln(C_0 / km) + (C_0 - vmax t) / km) with Wright's omega function, omega + ln omega =
z. Where C is far below km only vmax / km matters, and where it is far above it only vmax: the ridge is
straight for large km and bends where km is near the concentrations. Observed are ln C(t) with errors of sd
`_SD`.

theta = (ln V, ln vmax, ln km), normal priors; the plausible box is one prior sd to either side.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import logsumexp, wrightomega

from experiments.problems.known_posteriors import Problem, unbounded

__all__ = ["CENTRE", "DOSE", "SPREAD", "TIMES", "elimination", "log_concentrations", "log_density"]

_Array = np.ndarray

DOSE = 4.0
TIMES = np.array([0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
"""Hours."""
_SD = 0.2
_SIMULATED = np.log([1.5, 2.0, 3.0])
CENTRE, SPREAD = np.array([0.5, 1.0, 1.0]), np.array([1.0, 1.5, 1.5])
"""Mean and sd of the prior."""
_CORNERS = np.array([-0.6, -1.5, -4.0]), np.array([1.2, 6.0, 7.5])
"""The posterior is a sum over the cells of a grid of this box, with less than 1e-5 of the mass outside."""
_CELLS = 100
"""Of the grid, a side."""


def log_concentrations(theta: _Array) -> tuple[_Array, _Array]:
    """ln C at `TIMES` with parameters (n, 3), (n, 8), and its derivatives (n, 8, 3).

    The derivatives are those of km ln(C / C_0) + C - C_0 + vmax t = 0.
    """
    first, vmax, km = (x[:, None] for x in (DOSE * np.exp(-theta[:, 0]), *np.exp(theta[:, 1:]).T))
    z = np.log(first / km) + (first - vmax * TIMES) / km
    omega = wrightomega(z)
    # ln omega is z - omega, which does not underflow
    logs = np.where(z < 0.0, z - omega, np.log(np.maximum(omega, 1e-300)))
    both = km * (1.0 + omega)  # km + C
    found = np.log(km) + logs
    slopes = np.stack(
        [-(km + first) / both, -vmax * TIMES / both, -km * (found - np.log(first)) / both], axis=2
    )
    return found, slopes


@cache
def _data() -> _Array:
    """ln C at `TIMES` with errors, (8,)."""
    return log_concentrations(_SIMULATED[None])[0][0] + _SD * np.random.default_rng(0).standard_normal(8)


def log_density(theta: _Array) -> _Array:
    """The log joint density (n,) at parameters (n, 3)."""
    left, u = (_data() - log_concentrations(theta)[0]) / _SD, (theta - CENTRE) / SPREAD
    constant = np.log(SPREAD).sum() + 8.0 * np.log(_SD) + 5.5 * np.log(2.0 * np.pi)
    return -0.5 * (np.square(left).sum(1) + np.square(u).sum(1)) - constant


def _gradient(theta: _Array) -> _Array:
    """Its gradient (n, 3)."""
    found, slopes = log_concentrations(theta)
    return np.einsum("nt,ntd->nd", (_data() - found) / _SD**2, slopes) - (theta - CENTRE) / SPREAD**2


@cache
def elimination() -> Problem:
    """The posterior of one dose."""
    lower, upper = _CORNERS
    step = (upper - lower) / _CELLS
    axes = [low + h * (np.arange(_CELLS) + 0.5) for low, h in zip(lower, step, strict=True)]
    points = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    logs = np.concatenate([log_density(part) for part in np.array_split(points, _CELLS)])
    share = np.exp(logs - logsumexp(logs))
    mean = share @ points
    table = np.cumsum(share)

    def sample(n: int, rng: np.random.Generator) -> _Array:
        cell = np.minimum(np.searchsorted(table / table[-1], rng.random(n), side="right"), len(table) - 1)
        return points[cell] + step * (rng.random((n, 3)) - 0.5)

    centred = points - mean
    return Problem(
        "elimination 3", log_density, _gradient, *unbounded(3), CENTRE - SPREAD, CENTRE + SPREAD,
        float(logsumexp(logs) + np.log(step).sum()), mean, (centred.T * share) @ centred, sample,
    )  # fmt: skip
