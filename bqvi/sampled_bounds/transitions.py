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
from typing import Protocol

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


class Transition(Protocol):
    """One move of every particle."""

    @property
    def cost(self) -> int:
        """The number of evaluations of the log joint in a move of one particle."""

    @property
    def acceptance(self) -> float:
        """The rate of acceptance to which step sizes are adapted."""

    def first_step(self, dimension: int) -> float:
        """The step size with which adaptation begins, D being ``dimension``."""

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


@dataclass(frozen=True)
class RandomWalk:
    """Metropolis' random walk."""

    cost: int = 1
    acceptance: float = SETTINGS.walk_acceptance

    def first_step(self, dimension: int) -> float:
        """2.38 / sqrt(D), which is best for a Gaussian of many dimensions (Roberts et al. 1997)."""
        return SETTINGS.walk_step / math.sqrt(dimension)

    def __call__(
        self,
        particles: Particles,
        temperature: float,
        units: MoveUnits,
        target: AnnealedTarget,
        rng: np.random.Generator,
        movable: np.ndarray,
    ) -> tuple[Particles, np.ndarray]:
        """See `Transition`."""
        factors, steps = units.of_systems(len(particles.points))
        noise = rng.standard_normal(particles.points.shape)
        uniform = rng.random(movable.shape)
        points = particles.points + steps * noise @ np.swapaxes(factors, -1, -2)
        proposed = target.at(points, movable)
        # -inf less -inf is NaN: a particle at -inf whose proposal is at -inf stays where it is.
        with np.errstate(invalid="ignore"):
            gain = proposed.log_density(temperature) - particles.log_density(temperature)
        return _accepted(particles, proposed, gain, uniform, movable)


@dataclass(frozen=True)
class Hamiltonian:
    """Hamiltonian Monte Carlo.

    Attributes
    ----------
    cost : the number of leapfrog steps of a move.
    acceptance : see `Transition`.
    """

    cost: int = SETTINGS.leapfrog
    acceptance: float = SETTINGS.hamiltonian_acceptance

    def first_step(self, dimension: int) -> float:
        """1.2 D^(-1/4), from which the rate of acceptance of a Gaussian is about .8."""
        return SETTINGS.hamiltonian_step / math.sqrt(math.sqrt(dimension))

    def __call__(
        self,
        particles: Particles,
        temperature: float,
        units: MoveUnits,
        target: AnnealedTarget,
        rng: np.random.Generator,
        movable: np.ndarray,
    ) -> tuple[Particles, np.ndarray]:
        """See `Transition`."""
        factors, steps = units.of_systems(len(particles.points))
        momenta = rng.standard_normal(particles.points.shape)
        uniform = rng.random(movable.shape)
        steps = steps * rng.uniform(0.8, 1.2, (*movable.shape, 1))
        before = 0.5 * (momenta**2).sum(axis=-1)
        here = particles
        momenta = momenta + 0.5 * steps * (here.slopes(temperature) @ factors)
        for remaining in range(self.cost, 0, -1):
            points = here.points + (steps * momenta) @ np.swapaxes(factors, -1, -2)
            here = target.at(points, movable)
            momenta = momenta + (1.0 if remaining > 1 else 0.5) * steps * (here.slopes(temperature) @ factors)
        with np.errstate(invalid="ignore", over="ignore"):
            gain = here.log_density(temperature) - particles.log_density(temperature)
            gain = gain + before - 0.5 * (momenta**2).sum(axis=-1)
        return _accepted(particles, here, gain, uniform, movable)


TRANSITIONS: dict[str, Transition] = {"random-walk": RandomWalk(), "hmc": Hamiltonian()}


def _accepted(
    particles: Particles, proposed: Particles, gain: np.ndarray, uniform: np.ndarray, movable: np.ndarray
) -> tuple[Particles, np.ndarray]:
    """Apply Metropolis' rule, with ``gain`` (G, L) the logarithm of the ratio of densities."""
    rate = np.exp(np.minimum(np.where(movable & ~np.isnan(gain), gain, -np.inf), 0.0))
    return proposed.where(uniform < rate, particles), rate
