"""The choice of temperatures by the conditional effective sample size, and of the numbers T and L.

The distance between two temperatures is the square root of -ln (conditional effective sample size / L). Its
square is about the variance of the log weights from one temperature to the other, and distances along a path
are additive. With d the distance from 0 to 1, T equally distant temperatures, and particles in equilibrium,
the variance of a log estimate is about v / L, v = T (exp(d^2 / T^2) - 1) with resampling and exp(d^2 / T) - 1
without. The number of temperatures is a multiple of the least T for which v times the evaluations of a
particle is within a factor of its minimum; the multiple allows for particles that are not in equilibrium. The
number L of particles follows from the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bqvi.sampled_bounds.resampling import conditional_ess
from bqvi.sampled_bounds.settings import SETTINGS


def next_temperature(log_ratios: np.ndarray, temperature: float, wanted: float) -> tuple[float, float]:
    """The next temperature, at most 1, and the conditional effective sample size over L to reach it.

    Parameters
    ----------
    log_ratios : the log ratios l (M, L) of equally weighted particles of M problems.
    temperature : the temperature of these particles.
    wanted : the least conditional effective sample size of all problems, over L.
    """
    equal = np.zeros(log_ratios.shape)

    def least(step: float) -> float:
        return float(conditional_ess(equal, step * log_ratios).min())

    longest = 1.0 - temperature
    if (whole := least(longest)) >= wanted:
        return 1.0, whole
    low, high = 0.0, longest
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if least(middle) >= wanted else (low, middle)
    # where the proposal is poor, there would be no limit to the number of temperatures without a least step
    step = max(low, longest * 0.5**30)
    return temperature + step, least(step)


def spread(temperatures: np.ndarray, ess: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """``count`` + 1 temperatures from 0 to 1 at equal distances, and their positions, (count + 1,) each.

    Parameters
    ----------
    temperatures : the temperatures (n + 1,) of the pilot run, from 0 to 1.
    ess : the conditional effective sample sizes over L (n,) between them.

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
    """The distances (n,) between temperatures with conditional effective sample sizes ``ess`` over L (n,)."""
    return np.sqrt(-np.log(np.clip(ess, 1e-6, 1.0 - 1e-6)))


@dataclass(frozen=True)
class Allotment:
    """The division of a number of evaluations into temperatures and particles.

    Attributes
    ----------
    n_evaluations : the number of evaluations that may be made.
    cost : a function of T, L and the evaluations of a move that returns the evaluations of a run.
    each : the number of evaluations of a move.
    """

    n_evaluations: int
    cost: Callable[[int, int, int], int]
    each: int

    def chosen(
        self, distance: float, resampled: bool, temperatures: int | None, particles: int | None
    ) -> tuple[int, int]:
        """T and L, of which either may be given as ``temperatures`` and ``particles``.

        Parameters
        ----------
        distance : the distance from temperature 0 to 1. resampled : whether particles are resampled.
        """
        if temperatures is None and particles is not None:
            temperatures = self._most_temperatures(particles)
        if temperatures is None:
            most = self._most_temperatures(SETTINGS.least_particles)
            temperatures = min(self._temperatures(distance, resampled), most)
        if particles is None:
            particles = max(self.n_evaluations // self.cost(temperatures, 1, self.each), 1)
        return temperatures, particles

    def _most_temperatures(self, particles: int) -> int:
        whole = self.cost(1, particles, self.each)
        return 1 + max(self.n_evaluations - whole, 0) // (whole * self.each)

    def _temperatures(self, distance: float, resampled: bool) -> int:
        """The number of temperatures by the rule in the module's docstring."""
        least, each = (16.0, 4.0)
        t = np.arange(1.0, least + each * distance * (1.0 if resampled else 1.0 + distance))
        with np.errstate(over="ignore"):
            variance = t * np.expm1((distance / t) ** 2) if resampled else np.expm1(distance**2 / t)
        paid = variance * (1.0 + (t - 1.0) * self.each)
        least = int(t[np.argmax(paid <= SETTINGS.near_best * paid.min())])
        return least if least == 1 else int(SETTINGS.delay * least)
