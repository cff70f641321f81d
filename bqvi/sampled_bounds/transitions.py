"""Transitions that leave the density at a temperature invariant, and the state of a run.

A reversible transition also runs a chain backwards, which the upper bound needs. Each move is made in units
u, x = A u, with a step size h; A and h are fixed before any estimate is made. The factor of the step size
that is drawn for each move is independent of the particle, so that the transition stays reversible and
invariant.

    random-walk    u + h e, e ~ N(0, I), accepted by Metropolis' rule: one evaluation
    hmc            leapfrog steps of Hamiltonian dynamics with unit masses in u (Neal 2011), accepted by
                   Metropolis' rule: one evaluation with gradient for each
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bqvi.calls import Evaluations
from bqvi.calls.faults import NONE_FAILED, Failures
from bqvi.records import named
from bqvi.sampled_bounds.particles import AnnealedTarget, Particles
from bqvi.sampled_bounds.settings import SETTINGS


@dataclass(frozen=True, eq=False)
class MoveUnits:
    """The units of moves for each of M problems.

    Attributes
    ----------
    factors : the matrices A (M, D, D).
    steps : the step sizes h (M,).
    """

    factors: np.ndarray
    steps: np.ndarray

    def of_systems(self, systems: int) -> tuple[np.ndarray, np.ndarray]:
        """The matrices A (G, D, D) and step sizes h (G, 1, 1) of the G ``systems``."""
        each = systems // len(self.steps)
        return np.repeat(self.factors, each, axis=0), np.repeat(self.steps, each)[:, None, None]


@dataclass(frozen=True)
class Transition:
    """One move of every particle.

    Attributes
    ----------
    cost : the number of evaluations of the log joint in a move of one particle: leapfrog steps, or 1.
    acceptance : the rate of acceptance to which step sizes are adapted.
    step : adaptation begins with the step size ``step`` D^(-1/4) with slopes, else D^(-1/2).
    slopes : whether particles move by the gradient: Hamiltonian Monte Carlo, else Metropolis' random walk.
    """

    cost: int
    acceptance: float
    step: float
    slopes: bool

    def first_step(self, dimension: int) -> float:
        """The step size with which adaptation begins, D being ``dimension``."""
        return self.step / math.sqrt(math.sqrt(dimension) if self.slopes else dimension)

    def __call__(
        self,
        particles: Particles,
        temperature: float,
        units: MoveUnits,
        target: AnnealedTarget,
        rng: np.random.Generator,
        movable: np.ndarray,
    ) -> tuple[Particles, np.ndarray]:
        """The particles after a move, and the probability of acceptance of each, (G, L).

        Parameters
        ----------
        particles : the particles of G systems.
        temperature : the temperature b of the density that is left invariant.
        units : the units of the M problems. target : the log joint and the proposals.
        rng : the generator, which draws numbers for all G L particles.
        movable : which particles are moved, (G, L) bool.
        """
        factors, steps = units.of_systems(len(particles.points))
        momenta = rng.standard_normal(particles.points.shape)
        uniform = rng.random(movable.shape)
        here = particles
        if self.slopes:
            steps = steps * rng.uniform(0.8, 1.2, (*movable.shape, 1))
            kinetic = 0.5 * (momenta**2).sum(axis=-1)
            momenta = momenta + 0.5 * steps * (here.slopes(temperature) @ factors)
        for remaining in range(self.cost, 0, -1):
            points = here.points + (steps * momenta) @ np.swapaxes(factors, -1, -2)
            here = target.at(points, movable)
            if self.slopes:
                half = 1.0 if remaining > 1 else 0.5
                momenta = momenta + half * steps * (here.slopes(temperature) @ factors)
        # -inf less -inf is NaN: a particle at -inf whose proposal is at -inf stays where it is
        with np.errstate(invalid="ignore", over="ignore"):
            gain = here.log_density(temperature) - particles.log_density(temperature)
            if self.slopes:
                gain = gain + kinetic - 0.5 * (momenta**2).sum(axis=-1)
        rate = np.exp(np.minimum(np.where(movable & ~np.isnan(gain), gain, -np.inf), 0.0))
        return here.where(uniform < rate, particles), rate


TRANSITIONS = {
    # the best acceptance of a walk is .234 for large D, and 2.38 D^(-1/2) its step (Roberts et al. 1997)
    "random-walk": Transition(1, 0.25, 2.38, False),
    "hmc": Transition(SETTINGS.leapfrog, SETTINGS.hamiltonian_acceptance, 1.2, True),
}


PILOT, BACKWARDS, FORWARDS = "pilot run", "backwards", "forwards"
"""The phases of a run, in order."""


@dataclass(frozen=True, eq=False)
class Pilot:
    """The pilot run, up to one of its temperatures.

    Attributes
    ----------
    particles : the particles (M, L', .), with equal weights.
    temperatures : the temperatures (j + 1,) so far, from 0.
    conditional_shares : the conditional effective sample sizes over L' (j,) between them.
    units : the j units of moves, one for each temperature above 0.
    """

    particles: Particles
    temperatures: np.ndarray
    conditional_shares: np.ndarray
    units: tuple[MoveUnits, ...] = ()


@dataclass(frozen=True, eq=False)
class AnnealingPlan:
    """The settings of the estimates, which are fixed after the pilot run.

    Attributes
    ----------
    temperatures : the temperatures (T + 1,), from 0 to 1.
    particles : the number L of particles.
    units : the T - 1 units of moves, one for each temperature strictly between.
    """

    temperatures: np.ndarray
    particles: int
    units: tuple[MoveUnits, ...]

    def __len__(self) -> int:
        return len(self.temperatures) - 1


@dataclass(frozen=True, eq=False)
class Pass:
    """The G systems on their way from temperature 0 to 1.

    Attributes
    ----------
    particles : the particles (G, L, .), after the move at the latest temperature.
    log_weights : their log weights (G, L) since the latest resampling.
    log_estimates : the logarithms (G,) of the product of mean weights up to that resampling.
    effective_sample_sizes : the effective sample sizes (G, t) at the temperatures passed, before resampling.
    """

    particles: Particles
    log_weights: np.ndarray
    log_estimates: np.ndarray
    effective_sample_sizes: np.ndarray

    @property
    def passed(self) -> int:
        """The number of temperatures passed."""
        return self.effective_sample_sizes.shape[1]


@dataclass(frozen=True, eq=False)
class BoundsState:
    """The state of a run.

    Attributes
    ----------
    phase : "pilot run", "backwards" or "forwards". completed : the number of evaluations in completed steps.
    pilot, plan, forwards : the pilot run, the plan and the pass forwards; None before they exist.
    backwards : the chains (R', T, .) from draws of the posterior, by temperature, which are complete when
        ``to_go`` is 0; None where there are no draws.
    to_go : the number of temperatures that the chains backwards have yet to pass.
    acceptance : the mean rates of acceptance (t,) of the moves forwards.
    failures : the failed evaluations in completed steps, at which the density counts as zero.
    noisy : whether the log joint has returned noisy values.
    separately : whether it has raised at a batch, and is called at one point at a time.
    unfinished : evaluations of the next step, made before it was cut short.
    """

    phase: str
    completed: int = 0
    pilot: Pilot | None = None
    plan: AnnealingPlan | None = None
    backwards: Particles | None = None
    to_go: int = 0
    forwards: Pass | None = None
    acceptance: tuple[float, ...] = ()
    failures: Failures = NONE_FAILED
    noisy: bool = False
    separately: bool = False
    unfinished: Evaluations | None = None

    @property
    def n_evaluations(self) -> int:
        """The number of evaluations, including those of an unfinished step."""
        return self.completed + (0 if self.unfinished is None else self.unfinished.n_evaluations)


RECORDS = named(BoundsState, Pilot, AnnealingPlan, Pass, Particles, MoveUnits, Evaluations, Failures)
"""The classes of a saved run."""
