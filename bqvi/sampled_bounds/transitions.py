"""Transitions that leave the density at a temperature invariant, and are reversible.

A reversible transition also runs a chain backwards, which the upper bound needs. Each move is made in units
u, x = A u, with a step size h; A and h are fixed before any estimate is made. The factor of the step size
that is drawn for each move is independent of the particle, so that the transition stays reversible and
invariant.

    random-walk    u + h e, e ~ N(0, I), accepted by Metropolis' rule: one evaluation
    hmc            leapfrog steps of Hamiltonian dynamics with unit masses in u (Neal 2011), accepted by
                   Metropolis' rule: one evaluation with gradient for each

The weight of a particle at a point of density zero stays zero; it is not moved, and not evaluated again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

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
    "random-walk": Transition(1, SETTINGS.walk_acceptance, SETTINGS.walk_step, False),
    "hmc": Transition(SETTINGS.leapfrog, SETTINGS.hamiltonian_acceptance, SETTINGS.hamiltonian_step, True),
}
