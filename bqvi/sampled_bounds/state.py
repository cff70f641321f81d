"""Where a run stands: the pilot run, the plan that follows from it, the chains backwards, the particles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.calls import Evaluations
from bqvi.runs.records import named
from bqvi.sampled_bounds.particles import Particles
from bqvi.sampled_bounds.transitions import MoveUnits

__all__ = ["PILOT", "RECORDS", "AnnealingPlan", "BoundsState", "Pass", "Pilot"]

PILOT, BACKWARDS, FORWARDS = "pilot run", "backwards", "forwards"
"""The phases of a run, in order."""


@dataclass(frozen=True, eq=False)
class Pilot:
    """The pilot run, up to one of its temperatures.

    Attributes
    ----------
    particles : (M, L', .), of equal weights.
    temperatures : (j + 1,), from 0 on. ess : (j,), conditional effective sample sizes over L' between them.
    frames : j, one for each temperature above 0.
    """

    particles: Particles
    temperatures: np.ndarray
    ess: np.ndarray
    frames: tuple[MoveUnits, ...] = ()


@dataclass(frozen=True, eq=False)
class AnnealingPlan:
    """The settings of the estimates, which are fixed after the pilot run.

    Attributes
    ----------
    temperatures : (T + 1,), from 0 to 1.
    particles : L.
    frames : T - 1, one for each temperature strictly between.
    """

    temperatures: np.ndarray
    particles: int
    frames: tuple[MoveUnits, ...]

    def __len__(self) -> int:
        return len(self.temperatures) - 1


@dataclass(frozen=True, eq=False)
class Pass:
    """The G systems on their way from temperature 0 to 1.

    Attributes
    ----------
    particles : (G, L, .), after the move at the latest temperature.
    log_weights : (G, L), since the latest resampling. log_estimates : (G,), ln of what came before it.
    ess : (G, t), effective sample sizes at the temperatures passed, before resampling.
    """

    particles: Particles
    log_weights: np.ndarray
    log_estimates: np.ndarray
    ess: np.ndarray


@dataclass(frozen=True, eq=False)
class BoundsState:
    """Where a run stands.

    Attributes
    ----------
    phase : "pilot run", "backwards" or "forwards". n_evaluations : in whole steps.
    pilot, plan, forwards : None before there are any.
    backwards : (R', T, .), the chains from draws of the posterior, by temperature: all of them once
        ``to_go`` is 0; None where there are no draws.
    to_go : temperatures that the chains backwards have yet to pass.
    acceptance : (t,), mean rates of the moves forwards.
    n_failed : evaluations that failed, in whole steps: the density counts as zero there.
    noisy : whether the log joint has returned noisy values. separately : whether it has raised at a batch,
        and gets one point a call.
    unfinished : evaluations of the next step, made before it was cut short.
    """

    phase: str
    n_evaluations: int = 0
    pilot: Pilot | None = None
    plan: AnnealingPlan | None = None
    backwards: Particles | None = None
    to_go: int = 0
    forwards: Pass | None = None
    acceptance: tuple[float, ...] = ()
    n_failed: int = 0
    noisy: bool = False
    separately: bool = False
    unfinished: Evaluations | None = None

    @property
    def spent(self) -> int:
        """Evaluations, those of an unfinished step among them."""
        return self.n_evaluations + (0 if self.unfinished is None else self.unfinished.n_evaluations)


RECORDS = named(BoundsState, Pilot, AnnealingPlan, Pass, Particles, MoveUnits, Evaluations)
"""What a saved run is made of."""
