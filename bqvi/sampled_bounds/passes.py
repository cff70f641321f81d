"""The pilot run, and the main run: particles from temperature 0 to 1, chains backwards from the posterior.

In the pilot run temperatures, units and step sizes are adapted on particles that no estimate uses. It is
sequential Monte Carlo with L' particles for each problem, resampled at each temperature:

    temperature    the next has the conditional effective sample size ``effective`` (of the worst problem)
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

In the main run, forwards, with x_t the particles after the move at temperature b_t, the weight of one is

    w = prod_t exp((b_t - b_(t-1)) l(x_(t-1))),    l = ln p - ln q,    b_0 = 0, ..., b_T = 1,

and the estimate of the evidence Z is the product of the mean weights between resamplings: annealed importance
sampling where there are none (Neal 2001), sequential Monte Carlo where there are (Del Moral, Doucet and Jasra
2006). Its expectation is Z, as the expected number of offspring of a particle in systematic resampling is L
times its weight.

Backwards, x_(T-1) is a draw of the posterior, and x_(t-1) is drawn from x_t by the same transition, which is
reversible. In a *conditional* system such a chain is particle 0, retained by each resampling: it is the first
in the cumulative weights, and the density of the offset is proportional to the number of its offspring
(Chopin and Singh 2015). The law of conditional systems has the density estimate / Z with respect to that of
free systems with one particle chosen by its weight (Andrieu, Doucet and Holenstein 2010). So
E[1 / estimate] = 1 / Z under it, and by Jensen's inequality E[ln estimate] >= ln Z. With L = 1 this is the
reverse annealing of Grosse, Ghahramani and Adams (2015).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bqvi.arrays import logsumexp
from bqvi.calls import EvaluationError
from bqvi.importance import effective_size, normalised, systematic
from bqvi.sampled_bounds.particles import (
    AnnealedTarget,
    AnnealingPlan,
    MoveUnits,
    Particles,
    Pass,
    Pilot,
    Systems,
    Transition,
)
from bqvi.sampled_bounds.settings import SETTINGS
from gp.matrices import named_cholesky


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
        t = np.arange(1.0, 16.0 + 4.0 * distance * (1.0 if resampled else 1.0 + distance))
        with np.errstate(over="ignore"):
            variance = t * np.expm1((distance / t) ** 2) if resampled else np.expm1(distance**2 / t)
        paid = variance * (1.0 + (t - 1.0) * self.each)
        least = int(t[np.argmax(paid <= SETTINGS.near_best * paid.min())])
        return least if least == 1 else int(2.0 * least)


def piloted(
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
    steps = np.full(len(proposals), transition.first_step(proposals.dimension))
    units = (MoveUnits(proposals.factors, steps), *pilot.units)[-1]
    temperature, ess = next_temperature(ratios, before, 0.0 if rng is None else SETTINGS.effective)
    if rng is not None:
        weights = normalised((temperature - before) * ratios)
        units = replace(units, factors=covariance_factors(particles.points, weights))
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


def covariance_factors(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
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
    return named_cholesky("covariance", (1.0 - share) * covariances + share * diagonal)


def log_mean(log_weights: np.ndarray) -> np.ndarray:
    """The logarithm of the mean weight of L particles, (...); -inf where all weights are zero."""
    return logsumexp(log_weights) - np.log(log_weights.shape[-1])


def conditional_ess(log_weights: np.ndarray, increments: np.ndarray) -> np.ndarray:
    """The conditional effective sample size over L, (...), in [0, 1] (Zhou, Johansen and Aston 2016).

    Parameters
    ----------
    log_weights : the log weights (..., L) of the particles before the next temperature.
    increments : the logarithms (..., L) of the weights of the next temperature.

    Returns
    -------
    (sum w v)^2 / sum w v^2, with w the normalised weights and v those of the next temperature: 1 for equal v.
    """
    top = increments.max(axis=-1, keepdims=True)
    v = np.exp(increments - np.where(np.isfinite(top), top, 0.0))
    w = normalised(log_weights)
    second = (w * v**2).sum(axis=-1)
    return np.divide((w * v).sum(axis=-1) ** 2, second, out=np.zeros_like(second), where=second > 0.0)


def parents_of(weights: np.ndarray, rng: np.random.Generator, retained: bool = False) -> np.ndarray:
    """Parents (L,) of the next particles.

    Parameters
    ----------
    weights : the weights (L,), with sum 1.
    rng : the generator of the order and the offset.
    retained : whether particle 0 is retained, so that it is its own parent.
    """
    count = len(weights)
    order = rng.permutation(count)
    uniform = rng.random(2)
    offset = float(uniform[0])
    if retained:
        order = np.concatenate([[0], order[order != 0]])
        offset = _offset_of_a_parent(count * float(weights[0]), uniform)
    parents: np.ndarray = order[systematic(weights[order], count, offset)]
    if retained:
        parents[0] = 0  # the first position is below the first edge, except by rounding
    return parents


def _offset_of_a_parent(expected: float, uniform: np.ndarray) -> float:
    """An offset in [0, 1) with density proportional to the number of positions below ``expected`` = L w_0."""
    whole = np.floor(expected)
    rest = expected - whole
    if uniform[1] * expected < rest * (whole + 1.0):
        return float(uniform[0] * rest)
    return float(rest + uniform[0] * (1.0 - rest))


def begun_backwards(target: AnnealedTarget, draws: np.ndarray, count: int) -> Particles:
    """Chains (R', ``count``, .) whose last points are ``draws`` (R', D) of the posterior."""
    at = target.at(draws[:, None], first=True, of_posterior=True)
    if not np.isfinite(at.log_joint).all():
        row = int(np.argmin(np.isfinite(at.log_joint[:, 0])))
        raise ValueError(
            f"posterior has the draw {draws[row].tolist()} (in the coordinates), at which the log joint is "
            f"{at.log_joint[row, 0]}; draws of the posterior have a positive density"
        )
    empty = at.each(lambda part: np.full((len(draws), count, *part.shape[2:]), np.nan))
    return empty.written(slice(None), count - 1, at)


def stepped_backwards(
    chains: Particles,
    plan: AnnealingPlan,
    transition: Transition,
    target: AnnealedTarget,
    to_go: int,
    rng: np.random.Generator,
) -> Particles:
    """The ``chains`` with their points at t - 1, by a move at temperature b_t, where t is ``to_go``.

    Parameters
    ----------
    plan, transition, target : the temperatures and the moves. rng : the generator of random numbers.
    """
    here = _at(chains, to_go)
    every = np.ones(here.log_joint.shape, bool)
    here, _ = transition(here, *plan.at(to_go), target, rng, every)
    return chains.written(slice(None), to_go - 1, here)


def begun(
    target: AnnealedTarget, systems: Systems, count: int, chains: Particles | None, rng: np.random.Generator
) -> Pass:
    """The pass at temperature 0, with ``count`` particles in each system.

    Parameters
    ----------
    target : the log joint and the proposals. systems : the systems. count : L.
    chains : the chains backwards, or None. rng : the generator of random numbers.
    """
    points = target.proposals.sample(systems.each, count, rng)
    particles = target.at(points, ~systems.kept(count), first=chains is None)
    if chains is not None:
        particles = particles.written(systems.with_retained, 0, _at(chains, 0))
    zeros = np.zeros(len(points))
    return Pass(particles, np.zeros(points.shape[:2]), zeros, np.zeros((len(points), 0)))


def stepped(
    current: Pass,
    plan: AnnealingPlan,
    transition: Transition,
    target: AnnealedTarget,
    systems: Systems,
    chains: Particles | None,
    threshold: float,
    rng: np.random.Generator,
) -> tuple[Pass, float | None]:
    """The pass one temperature further, moved there unless it is 1, and the rate of acceptance of the move.

    Parameters
    ----------
    current : the pass so far. chains : the chains backwards, or None.
    plan, transition, target, systems : the temperatures, the moves and the systems of the run.
    rng : the generator of random numbers.
    threshold : particles are resampled where the effective sample size is below this share of L.
    """
    t = current.passed + 1
    rise = plan.temperatures[t] - plan.temperatures[t - 1]
    log_weights = current.log_weights + rise * current.particles.log_ratio
    sizes = effective_size(normalised(log_weights))
    ess = np.concatenate([current.effective_sample_sizes, sizes[:, None]], axis=1)
    if t == len(plan):
        return Pass(current.particles, log_weights, current.log_estimates, ess), None
    particles, log_estimates = current.particles, current.log_estimates
    kept = systems.kept(plan.particles)
    poor = (sizes < threshold * plan.particles) & (sizes > 0.0)
    if poor.any():
        log_estimates = log_estimates + np.where(poor, log_mean(log_weights), 0.0)
        particles = particles.taken(_parents(log_weights, poor, kept[:, 0], rng))
        log_weights = np.where(poor[:, None], 0.0, log_weights)
    movable = np.isfinite(particles.log_joint) & ~kept
    moved, rates = transition(particles, *plan.at(t), target, rng, movable)
    if chains is not None:
        moved = moved.written(systems.with_retained, 0, _at(chains, t))
    rate = float(rates[movable].mean()) if movable.any() else 0.0
    return Pass(moved, log_weights, log_estimates, ess), rate


def estimates(finished: Pass) -> np.ndarray:
    """The logarithms of the estimates of the evidence, (G,), at temperature 1."""
    return finished.log_estimates + log_mean(finished.log_weights)


def _parents(
    log_weights: np.ndarray, poor: np.ndarray, kept: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    parents = np.tile(np.arange(log_weights.shape[1]), (len(log_weights), 1))
    weights = normalised(log_weights)
    for s in np.flatnonzero(poor):
        parents[s] = parents_of(weights[s], rng, retained=bool(kept[s]))
    return parents


def _at(chains: Particles, t: int) -> Particles:
    return chains.each(lambda part: part[:, t : t + 1])
