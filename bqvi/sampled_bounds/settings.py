"""Constants that decide results, with what they were chosen on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BoundsSettings"]


@dataclass(frozen=True)
class BoundsSettings:
    """Constants of the pilot run, of resampling and of credibility."""

    pilot_share: float = 0.2
    """Of the budget, the most that the pilot run spends."""
    pilot_particles: int = 128
    """At most, for each problem."""
    pilot_moves: int = 5
    """At each temperature of the pilot run, after each of which step sizes are adapted."""
    pilot_ess: float = 0.5
    """Conditional effective sample size, over L, from one temperature of the pilot run to the next."""
    near_best: float = 1.1
    """Times the least predicted variance at the same cost, below which fewer temperatures are preferred."""
    delay: float = 2.0
    """Temperatures, in multiples of those of particles that follow the path without delay.

    On a Gaussian (D = 10), a banana (2) and a funnel (5), at 60,000 evaluations: the standard deviation of a
    log estimate with 1, 2, 4 and 8 of them differs by no more than it varies between seeds.
    """
    looked_at: tuple[float, float] = (16.0, 4.0)
    """Numbers of temperatures that are compared: up to the first, and the second times the length of the path
    (its square and more without resampling). Not studied."""
    least_particles: int = 8
    """Particles that the number of temperatures must leave room for."""
    resampling: float = 0.5
    """Particles are resampled where their effective sample size is below this share of L."""
    least_rise: float = 1e-9
    """Of a temperature: weights may differ without limit where the proposal is far off. Not studied, like the
    constants that follow, where they name no source."""
    bisections: int = 40
    """For the next temperature."""
    least_loss: float = 1e-6
    """Of a conditional effective sample size, over L, and what is left of it at least: so distances are
    finite."""
    least_variance: float = 1e-12
    """Of a coordinate of the units of moves, over the largest."""
    shortest: float = 0.8
    """Factors of the step size of Hamiltonian dynamics, from this one"""
    longest: float = 1.2
    """to this one: a trajectory of one length may come back to where it began (Neal 2011, 5.4.2)."""
    leapfrog: int = 3
    """Leapfrog steps of a move."""
    hamiltonian_acceptance: float = 0.8
    """Rate to which step sizes are adapted; Betancourt et al. (2014) advise .6 to .9."""
    hamiltonian_step: float = 1.2
    """Times D^(-1/4): the first step size, from which a Gaussian's rate of acceptance is about .8."""
    walk_acceptance: float = 0.25
    """The same of the random walk; .234 is best for many dimensions (Roberts et al. 1997)."""
    walk_step: float = 2.38
    """Times D^(-1/2): the first step size, which is best for a Gaussian of many dimensions (ibid.)."""
    wide: float = 1.0
    """Nats of standard deviation of one log estimate above which the mean weight rests on few particles, and
    the bounds are not credible. Not studied."""


SETTINGS = BoundsSettings()
