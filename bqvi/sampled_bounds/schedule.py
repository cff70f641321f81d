"""Temperatures: the next by the conditional effective sample size, and how many, with how many particles.

The distance between two temperatures is the root of -ln of the conditional effective sample size over L: its
square is about the variance of the log weights from one to the other, and distances along a path add up.

With d the distance from 0 to 1, T equally distant temperatures, and particles that follow the path, the
variance of a log estimate is about v / L, v = T (exp(d^2 / T^2) - 1) with resampling and exp(d^2 / T) - 1
without. The number of temperatures is the least with which v times the evaluations that a particle costs is
about as small as with any, and a multiple of it, since particles follow with a delay; the rest of the budget
is particles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bqvi.sampled_bounds.resampling import conditional_ess
from bqvi.sampled_bounds.settings import SETTINGS

__all__ = ["Allotment", "lengths", "next_temperature", "spread"]


def next_temperature(log_ratios: np.ndarray, temperature: float, wanted: float) -> tuple[float, float]:
    """The next temperature, at most 1, and the conditional effective sample size over L on the way there.

    Parameters
    ----------
    log_ratios : (M, L), l at particles of equal weights of M problems at the ``temperature``.
    wanted : the least conditional effective sample size of all problems, over L.
    """
    equal = np.zeros(log_ratios.shape)

    def least(step: float) -> float:
        return float(conditional_ess(equal, step * log_ratios).min())

    longest = 1.0 - temperature
    if (whole := least(longest)) >= wanted:
        return 1.0, whole
    low, high = 0.0, longest
    for _ in range(SETTINGS.bisections):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if least(middle) >= wanted else (low, middle)
    step = min(max(low, SETTINGS.least_rise), longest)
    return temperature + step, least(step)


def spread(temperatures: np.ndarray, ess: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """``count`` + 1 temperatures from 0 to 1, equally far from one another, and where they lie, (count + 1,).

    Parameters
    ----------
    temperatures : (n + 1,), those of the pilot run, from 0 to 1.
    ess : (n,), conditional effective sample sizes over L between them.

    Returns
    -------
    The temperatures; and their positions among those of the pilot run, as real indices from 0 to n.
    """
    reached = np.concatenate([[0.0], np.cumsum(lengths(ess))])
    wanted = np.linspace(0.0, reached[-1], count + 1)
    found = np.interp(wanted, reached, temperatures)
    found[0], found[-1] = 0.0, 1.0
    return found, np.interp(wanted, reached, np.arange(len(temperatures)))


def lengths(ess: np.ndarray) -> np.ndarray:
    """Distances (n,) between temperatures, of conditional effective sample sizes over L, (n,)."""
    found: np.ndarray = np.sqrt(-np.log(np.clip(ess, SETTINGS.least_loss, 1.0 - SETTINGS.least_loss)))
    return found


@dataclass(frozen=True)
class Allotment:
    """How many temperatures and particles an amount of evaluations is spent on.

    Attributes
    ----------
    evaluations : to be spent.
    cost : evaluations of T temperatures with L particles, at so many a move. each : evaluations of a move.
    """

    evaluations: int
    cost: Callable[[int, int, int], int]
    each: int

    def chosen(
        self, distance: float, resampled: bool, temperatures: int | None, particles: int | None
    ) -> tuple[int, int]:
        """T and L, of which either may be given as ``temperatures`` and ``particles``.

        Parameters
        ----------
        distance : from temperature 0 to 1. resampled : whether particles are.
        """
        if temperatures is None and particles is not None:
            temperatures = self._most_temperatures(particles)
        if temperatures is None:
            most = self._most_temperatures(SETTINGS.least_particles)
            temperatures = min(self._suited(distance, resampled), most)
        if particles is None:
            particles = max(self.evaluations // self.cost(temperatures, 1, self.each), 1)
        return temperatures, particles

    def _most_temperatures(self, particles: int) -> int:
        whole = self.cost(1, particles, self.each)
        return 1 + max(self.evaluations - whole, 0) // (whole * self.each)

    def _suited(self, distance: float, resampled: bool) -> int:
        """The number of temperatures of the module's docstring."""
        least, each = SETTINGS.looked_at
        t = np.arange(1.0, least + each * distance * (1.0 if resampled else 1.0 + distance))
        with np.errstate(over="ignore"):
            variance = t * np.expm1((distance / t) ** 2) if resampled else np.expm1(distance**2 / t)
        paid = variance * (1.0 + (t - 1.0) * self.each)
        least = int(t[np.argmax(paid <= SETTINGS.near_best * paid.min())])
        return least if least == 1 else int(SETTINGS.delay * least)
