"""The main run: particles from temperature 0 to 1, and chains backwards from draws of the posterior.

Forwards, with x_t the particles after the move at temperature b_t, the weight of a particle is

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
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bqvi.arrays import logsumexp
from bqvi.importance import effective_size, normalised, systematic
from bqvi.sampled_bounds.particles import AnnealedTarget, Particles
from bqvi.sampled_bounds.transitions import AnnealingPlan, Pass, Transition


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


@dataclass(frozen=True)
class Systems:
    """The G systems: for each of M problems free ones, then conditional ones with a retained particle.

    Attributes
    ----------
    problems : the number M of problems.
    free, conditional : the numbers of free and of conditional systems of each problem.
    """

    problems: int
    free: int
    conditional: int

    @property
    def each(self) -> int:
        """The number of systems of a problem."""
        return self.free + self.conditional

    def cost(self, temperatures: int, particles: int, each: int) -> int:
        """Evaluations of T ``temperatures`` with L ``particles``, with the chains, ``each`` for a move."""
        return self.problems * self.each * particles * (1 + (temperatures - 1) * each)

    @property
    def with_retained(self) -> np.ndarray:
        """The indices of the systems with a retained particle, (M conditional,)."""
        order = np.arange(self.problems * self.each).reshape(self.problems, self.each)
        return order[:, self.free :].reshape(-1)

    def kept(self, particles: int) -> np.ndarray:
        """Which of L ``particles`` are retained, (G, L)."""
        found = np.zeros((self.problems * self.each, particles), bool)
        found[self.with_retained, 0] = True
        return found


Move: TypeAlias = Callable[[Particles, int, np.random.Generator, np.ndarray], tuple[Particles, np.ndarray]]
"""A move of particles at temperature b_t by random numbers, of those (G, L) that are movable: all particles
after it, and acceptance rates (G, L)."""


def move_of(plan: AnnealingPlan, transition: Transition, target: AnnealedTarget) -> Move:
    """The move at the temperatures and in the units of a ``plan``, by a ``transition`` of the ``target``."""

    def moved(
        particles: Particles, t: int, rng: np.random.Generator, movable: np.ndarray
    ) -> tuple[Particles, np.ndarray]:
        temperature, units = float(plan.temperatures[t]), plan.units[t - 1]
        return transition(particles, temperature, units, target, rng, movable)

    return moved


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


def stepped_backwards(chains: Particles, move: Move, to_go: int, rng: np.random.Generator) -> Particles:
    """The ``chains`` with their points at t - 1, by the ``move`` at temperature b_t, where t is ``to_go``."""
    here = _at(chains, to_go)
    here, _ = move(here, to_go, rng, np.ones(here.log_joint.shape, bool))
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
    move: Move,
    systems: Systems,
    chains: Particles | None,
    threshold: float,
    rng: np.random.Generator,
) -> tuple[Pass, float | None]:
    """The pass one temperature further, moved there unless it is 1, and the rate of acceptance of the move.

    Parameters
    ----------
    current : the pass so far. chains : the chains backwards, or None.
    plan, move, systems : the temperatures, the moves and the systems of the run.
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
    particles, rates = move(particles, t, rng, movable)
    if chains is not None:
        particles = particles.written(systems.with_retained, 0, _at(chains, t))
    rate = float(rates[movable].mean()) if movable.any() else 0.0
    return Pass(particles, log_weights, log_estimates, ess), rate


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
