"""The state of a run: the pilot run, the plan that follows from it, the chains backwards, the particles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.calls import Evaluations
from bqvi.records import named
from bqvi.sampled_bounds.particles import Particles
from bqvi.sampled_bounds.transitions import MoveUnits

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
    n_failed : the number of failed evaluations in completed steps, at which the density counts as zero.
    n_raised, first_raised : how many of these raised an exception; the first one and its place, in words.
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
    n_failed: int = 0
    n_raised: int = 0
    first_raised: str = ""
    noisy: bool = False
    separately: bool = False
    unfinished: Evaluations | None = None

    @property
    def n_evaluations(self) -> int:
        """The number of evaluations, including those of an unfinished step."""
        return self.completed + (0 if self.unfinished is None else self.unfinished.n_evaluations)


RECORDS = named(BoundsState, Pilot, AnnealingPlan, Pass, Particles, MoveUnits, Evaluations)
"""The classes of a saved run."""
