"""The pilot run: temperatures, units and step sizes, adapted on particles that no estimate uses.

It is sequential Monte Carlo with L' particles for each problem, resampled at each temperature:

    temperature    the next has the conditional effective sample size ``pilot_ess`` (of the worst problem)
    units          a Cholesky factor of the particles' covariance, shrunk towards its diagonal
    step size      raised or lowered after each of ``pilot_moves`` moves, by how the mean rate of acceptance
                   compares with the transition's

Estimates from the particles that temperatures, units and steps are adapted to would be biased. All of these
are fixed when the pilot run ends, and conditionally on them the estimates of the main run are unbiased.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.calls import EvaluationError
from bqvi.importance import effective_size, normalised
from bqvi.sampled_bounds.particles import AnnealedTarget, Particles
from bqvi.sampled_bounds.resampling import parents_of
from bqvi.sampled_bounds.schedule import next_temperature, spread
from bqvi.sampled_bounds.settings import SETTINGS
from bqvi.sampled_bounds.state import AnnealingPlan, Pilot
from bqvi.sampled_bounds.transitions import MoveUnits, Transition
from gp.linear_maps import cholesky


def begun(target: AnnealedTarget, particles: int, rng: np.random.Generator) -> Pilot:
    """The pilot run at temperature 0, with ``particles`` draws of each proposal."""
    points = target.proposals.sample(1, particles, rng)
    return Pilot(target.at(points, first=True), np.zeros(1), np.zeros(0))


def one_further(
    pilot: Pilot, transition: Transition, target: AnnealedTarget, rng: np.random.Generator
) -> Pilot:
    """The pilot run one temperature further.

    Parameters
    ----------
    pilot : the run so far. transition : the move of particles. target : the log joint and the proposals.
    rng : the generator of random numbers.
    """
    before = float(pilot.temperatures[-1])
    ratios = _finite_somewhere(pilot.particles.log_ratio)
    temperature, ess = next_temperature(ratios, before, SETTINGS.pilot_ess)
    weights = normalised((temperature - before) * ratios)
    dimension = target.proposals.dimension
    if pilot.units:
        steps = pilot.units[-1].steps
    else:
        steps = np.full(len(target.proposals), transition.first_step(dimension))
    units = MoveUnits(_factors(pilot.particles.points, weights), steps)
    parents = np.stack([parents_of(row, rng) for row in weights])
    particles = pilot.particles.taken(parents)
    for moves in range(SETTINGS.pilot_moves):
        movable = np.isfinite(particles.log_joint)
        particles, rate = transition(particles, temperature, units, target, rng, movable)
        off = rate.mean(axis=1) - transition.acceptance
        units = replace(units, steps=units.steps * np.exp(2.0 * off / np.sqrt(1.0 + moves)))
    return _extended(pilot, particles, temperature, ess, units)


def curtailed(pilot: Pilot, transition: Transition, target: AnnealedTarget) -> Pilot:
    """The pilot run with temperature 1 as the next, without a move: its share of the budget is spent.

    Parameters
    ----------
    pilot : the run so far. transition : the move of particles. target : the log joint and the proposals.
    """
    before = float(pilot.temperatures[-1])
    _, ess = next_temperature(_finite_somewhere(pilot.particles.log_ratio), before, 0.0)
    if pilot.units:
        units = pilot.units[-1]
    else:
        count, dimension = len(target.proposals), target.proposals.dimension
        units = MoveUnits(target.proposals.factors, np.full(count, transition.first_step(dimension)))
    return _extended(pilot, pilot.particles, 1.0, ess, units)


def _extended(pilot: Pilot, particles: Particles, temperature: float, ess: float, units: MoveUnits) -> Pilot:
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
