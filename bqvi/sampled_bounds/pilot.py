"""The pilot run: temperatures, units and step sizes, adapted on particles that no estimate uses.

It is sequential Monte Carlo with L' particles for each problem, resampled at each temperature:

    temperature    the next has the conditional effective sample size ``pilot_ess`` (of the worst problem)
    units          a Cholesky factor of the particles' covariance, shrunk towards its diagonal
    step size      raised or lowered after each of ``pilot_moves`` moves, by how the mean rate of acceptance
                   compares with the transition's

Conditionally on what it fixes, the estimates of the main run are unbiased.

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
from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls import EvaluationError
from bqvi.importance import effective_size, normalised
from bqvi.sampled_bounds.particles import AnnealedTarget
from bqvi.sampled_bounds.passes import conditional_ess, parents_of
from bqvi.sampled_bounds.settings import SETTINGS
from bqvi.sampled_bounds.transitions import AnnealingPlan, MoveUnits, Pilot, Transition
from gp.linear_maps import cholesky


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
            most = self._most_temperatures(8)
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
        return least if least == 1 else int(2.0 * least)


def begun(target: AnnealedTarget, particles: int, rng: np.random.Generator) -> Pilot:
    """The pilot run at temperature 0, with ``particles`` draws of each proposal."""
    points = target.proposals.sample(1, particles, rng)
    return Pilot(target.at(points, first=True), np.zeros(1), np.zeros(0))


def one_further(
    pilot: Pilot, transition: Transition, target: AnnealedTarget, rng: np.random.Generator | None
) -> Pilot:
    """The pilot run one temperature further.

    Parameters
    ----------
    pilot : the run so far. transition : the move of particles. target : the log joint and the proposals.
    rng : the generator of random numbers. None where the run's share of the budget is spent: the next
        temperature is then 1, without a move.
    """
    before, proposals = float(pilot.temperatures[-1]), target.proposals
    particles, ratios = pilot.particles, _finite_somewhere(pilot.particles.log_ratio)
    if pilot.units:
        units = pilot.units[-1]
    else:
        steps = np.full(len(proposals), transition.first_step(proposals.dimension))
        units = MoveUnits(proposals.factors, steps)
    temperature, ess = next_temperature(ratios, before, 0.0 if rng is None else SETTINGS.pilot_ess)
    if rng is not None:
        weights = normalised((temperature - before) * ratios)
        units = replace(units, factors=_factors(particles.points, weights))
        particles = particles.taken(np.stack([parents_of(row, rng) for row in weights]))
        for moves in range(SETTINGS.pilot_moves):
            movable = np.isfinite(particles.log_joint)
            particles, rate = transition(particles, temperature, units, target, rng, movable)
            off = rate.mean(axis=1) - transition.acceptance
            units = replace(units, steps=units.steps * np.exp(2.0 * off / np.sqrt(1.0 + moves)))
    temperatures = np.append(pilot.temperatures, temperature)
    return Pilot(particles, temperatures, np.append(pilot.conditional_shares, ess), (*pilot.units, units))


def planned(pilot: Pilot, count: int, particles: int) -> AnnealingPlan:
    """The plan of ``count`` temperatures above 0, equally distant along the path of the pilot run.

    Each has the units of the nearest temperature of the pilot run, and an interpolated step size.
    ``particles`` is L.
    """
    temperatures, places = spread(pilot.temperatures, pilot.conditional_shares, count)
    # one row each for the temperatures 1, 2, ...
    steps = np.log(np.stack([units.steps for units in pilot.units]))
    index = np.arange(1, len(steps) + 1)
    found = []
    for place in places[1:-1]:
        nearest = pilot.units[int(np.clip(round(place), 1, len(steps))) - 1]
        interpolated = [np.interp(place, index, column) for column in steps.T]
        found.append(MoveUnits(nearest.factors, np.exp(interpolated)))
    return AnnealingPlan(temperatures, particles, tuple(found))


def _finite_somewhere(log_ratios: np.ndarray) -> np.ndarray:
    """The ``log_ratios``; EvaluationError where a problem has no particle of positive density."""
    found = np.isfinite(log_ratios).any(axis=1)
    if not found.all():
        which = f" of problem {int(np.argmin(found))}" if len(found) > 1 else ""
        raise EvaluationError(
            f"the log joint{which} is -inf, or fails, at each of {log_ratios.shape[1]} draws of the "
            "proposal: give one that lies where it is finite"
        )
    return log_ratios


def _factors(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Cholesky factors (M, D, D) of covariances of weighted points (M, n, D), shrunk towards the diagonal.

    The weight of the diagonal is D / (D + effective number of points).
    """
    dimension = points.shape[-1]
    centred = points - (weights[..., None] * points).sum(axis=1, keepdims=True)
    covariances = np.swapaxes(weights[..., None] * centred, -1, -2) @ centred
    effective = effective_size(weights)
    share = (dimension / (dimension + effective))[:, None, None]
    variances = np.diagonal(covariances, axis1=-2, axis2=-1)
    least = 1e-12 * np.maximum(variances.max(axis=-1, keepdims=True), 1e-300)
    diagonal = np.maximum(variances, least)[..., None] * np.eye(dimension)
    return cholesky("covariance", (1.0 - share) * covariances + share * diagonal)
