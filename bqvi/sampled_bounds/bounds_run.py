"""Bounds on an evidence as a run: pilot run, chains backwards, particles forwards, by temperatures."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bqvi.calls import Budget, Caller, Evaluations, Ledger
from bqvi.calls.faults import require_consistent
from bqvi.runs import Checkpoint, RunStatus
from bqvi.sampled_bounds import passes
from bqvi.sampled_bounds.particles import (
    BACKWARDS,
    FORWARDS,
    PILOT,
    AnnealedTarget,
    AnnealingPlan,
    BoundsState,
    Pilot,
    Proposals,
    Systems,
    Transition,
    with_numbers,
)
from bqvi.sampled_bounds.result import EvidenceBounds, bounds_of
from bqvi.sampled_bounds.settings import SETTINGS
from gp.user_warnings import warn_user_of_each

DOOR = "evidence_bounds"
_SMALLEST_PILOT, _RUNGS = 16, 8
"""The least number of particles of a pilot run; the number of temperatures that its budget should allow."""


@dataclass(frozen=True, eq=False)
class Choices:
    """The choices that define a run.

    Attributes
    ----------
    method : "smc", "ais" or "importance".
    transition : the name of the transition, one of `TRANSITIONS`; "" where there is none.
    systems : the numbers of systems. particles, temperatures : L and T, or None to choose them by the budget.
    budget : the total number of evaluations.
    seed : the seed of all random numbers.
    draws : draws of the posterior (M, n, D) in the coordinates, or None.
    exact : whether the user gave these draws, as opposed to draws of a fitted posterior.
    """

    method: str
    transition: str
    systems: Systems
    particles: int | None
    temperatures: int | None
    budget: int
    seed: int
    draws: np.ndarray | None
    exact: bool

    def least(self, transition: Transition | None) -> int:
        """The least budget, for a pilot run and a main run with the given temperatures or one between."""
        particles = self.particles or 1
        if transition is None:
            return self.systems.cost(1, particles, 1)
        main = self.systems.cost(self.temperatures or 2, particles, transition.cost)
        return main + math.ceil(SETTINGS.pilot_share * main) + self.systems.problems * _SMALLEST_PILOT


class BoundsRun:
    """The engine of a run of bounds (:class:`bqvi.runs.Engine`).

    Parameters
    ----------
    caller : the caller of the log joint. proposals : the proposals of the M problems.
    transition : the transition of the moves; None for importance sampling.
    choices : the choices that define the run.
    """

    small = True

    def __init__(
        self,
        caller: Caller,
        proposals: Proposals,
        transition: Transition | None,
        choices: Choices,
    ) -> None:
        self.caller, self.proposals = caller, proposals
        self.transition, self.choices = transition, choices
        self.ledger = Ledger(proposals.dimension + (len(proposals) > 1))

    def init(self) -> BoundsState:
        if self.transition is not None:
            return BoundsState(PILOT)
        particles = self.choices.particles or self.choices.budget // self.choices.systems.cost(1, 1, 1)
        return self._after_pilot(BoundsState(PILOT, plan=AnnealingPlan(np.array([0.0, 1.0]), particles, ())))

    def resumed(self, before: Checkpoint) -> BoundsState:
        """The state of an earlier run, whose budget may have been smaller."""
        state: BoundsState = before.state
        Budget(self.choices.budget, state.n_evaluations).require_enough()
        return state

    def step(self, state: BoundsState) -> BoundsState:
        """The state after one temperature of a phase, or after the beginning of a phase."""
        budget = Budget(self.choices.budget, state.n_evaluations)
        caller = replace(self.caller, separately=state.separately)
        before = state.unfinished, state.failures
        target = AnnealedTarget(caller, self.proposals, self.ledger, budget, *before)
        step = {PILOT: self._piloted, BACKWARDS: self._backwards, FORWARDS: self._forwards}[state.phase]
        reached = step(state, target)
        return replace(
            reached,
            completed=state.completed + target.n_evaluations,
            failures=target.failures,
            noisy=state.noisy or target.noisy,
            separately=target.separately,
            unfinished=None,
        )

    def budget_of(self, state: BoundsState) -> Budget:
        """The budget of the next step: the remaining budget less what the rest of the run needs."""
        if state.phase == PILOT:
            return Budget(max(self._pilot_budget, 0), state.n_evaluations)
        return Budget(max(self.choices.budget - self._to_come(state), 0), state.completed)

    def _to_come(self, state: BoundsState) -> int:
        """The most evaluations that the plan has yet to make, including those of an unfinished step."""
        assert state.plan is not None  # the plan ends the pilot run
        systems, each = self.choices.systems, 0 if self.transition is None else self.transition.cost
        moves = len(state.plan) - 1
        chains = systems.problems * systems.conditional
        particles = systems.problems * systems.each * state.plan.particles - chains
        backwards = 0 if state.backwards is None else 1 + each * (moves - state.to_go)
        forwards = 0 if state.forwards is None else 1 + each * min(state.forwards.passed, moves)
        whole = 1 + each * moves
        return chains * (whole - backwards) + particles * (whole - forwards)

    def kept(self, state: BoundsState) -> Evaluations | None:
        """The latest particles with values; None where there are none yet, or where values are noisy."""
        if state.noisy:
            return None
        latest = state.forwards or state.pilot
        particles = state.backwards if latest is None else latest.particles
        if particles is None:
            return state.unfinished
        has_values = np.isfinite(particles.log_joint)
        rows, values = with_numbers(particles.points, has_values, len(self.proposals)), particles.log_joint
        fine = np.zeros(len(rows), bool)
        return Evaluations(rows, values[has_values], None, None, fine, ("",) * len(rows))

    def require_consistent(self, before: BoundsState, after: BoundsState) -> None:
        """Raise EvaluationError where gradients and values disagree at the first points of the pilot run.

        Of several problems only the first is checked.
        """
        if before.pilot is not None or after.pilot is None or after.pilot.particles.joint_slopes is None:
            return
        points, values, _, slopes, _ = (part[0] for part in after.pilot.particles.parts())
        failed = ~np.isfinite(values)
        made = Evaluations(points, values, slopes, None, failed, ("",) * len(points))
        require_consistent(self.caller.function, 0, made)

    def _piloted(self, state: BoundsState, target: AnnealedTarget) -> BoundsState:
        assert self.transition is not None  # a pilot run has a transition
        if state.pilot is None:
            most = int(self._pilot_budget / (_RUNGS * max(self._rung(1), 1)))
            particles = int(np.clip(most, _SMALLEST_PILOT, SETTINGS.pilot_particles))
            points = self.proposals.sample(1, particles, self._rng(0, 0))
            return replace(state, pilot=Pilot(target.at(points, first=True), np.zeros(1), np.zeros(0)))
        found, most = state.pilot, self._pilot_budget
        if state.completed + self._rung(len(found.particles.points[0])) > most:
            rng = None
        else:
            rng = self._rng(0, len(found.temperatures))
        found = passes.piloted(found, self.transition, target, rng)
        state = replace(state, pilot=found)
        if found.temperatures[-1] < 1.0:
            return state
        spent = state.completed + target.n_evaluations
        allotment = passes.Allotment(
            self.choices.budget - spent, self.choices.systems.cost, self.transition.cost
        )
        distance = float(passes.lengths(found.conditional_shares).sum())
        chosen = allotment.chosen(
            distance, self.choices.method == "smc", self.choices.temperatures, self.choices.particles
        )
        return self._after_pilot(replace(state, plan=passes.planned(found, *chosen)))

    def _after_pilot(self, state: BoundsState) -> BoundsState:
        """The state at the next phase, backwards where there are draws; it keeps the pilot's particles."""
        assert state.plan is not None
        if self.choices.draws is None:
            return replace(state, phase=FORWARDS)
        return replace(state, phase=BACKWARDS, to_go=len(state.plan) - 1)

    def _backwards(self, state: BoundsState, target: AnnealedTarget) -> BoundsState:
        plan, draws = state.plan, self.choices.draws
        assert plan is not None
        assert draws is not None
        if state.backwards is None:
            chains = passes.begun_backwards(target, draws.reshape(-1, draws.shape[-1]), len(plan))
            state = replace(state, pilot=None, backwards=chains)
        else:
            to_go, rng, transition = state.to_go, self._rng(1, state.to_go), self._moves
            chains = passes.stepped_backwards(state.backwards, plan, transition, target, to_go, rng)
            state = replace(state, backwards=chains, to_go=state.to_go - 1)
        return state if state.to_go else replace(state, phase=FORWARDS)

    def _forwards(self, state: BoundsState, target: AnnealedTarget) -> BoundsState:
        systems, plan, current = self.choices.systems, state.plan, state.forwards
        assert plan is not None
        if current is None:
            first = passes.begun(target, systems, plan.particles, state.backwards, self._rng(2, 0))
            return replace(state, pilot=None, forwards=first)
        threshold = SETTINGS.effective if self.choices.method == "smc" else 0.0
        chains, rng = state.backwards, self._rng(2, 1 + current.passed)
        found, rate = passes.stepped(current, plan, self._moves, target, systems, chains, threshold, rng)
        rates = state.acceptance if rate is None else (*state.acceptance, rate)
        return replace(state, forwards=found, acceptance=rates)

    @property
    def _moves(self) -> Any:
        """The transition, which a plan with more than one temperature has."""
        return self.transition

    def _rng(self, phase: int, step: int) -> np.random.Generator:
        """The random numbers of a step, which are the same when the step is repeated."""
        return np.random.default_rng([self.choices.seed, phase, step])

    @property
    def _pilot_budget(self) -> int:
        """The number of evaluations that the pilot run may make."""
        choices, share = self.choices, int(SETTINGS.pilot_share * self.choices.budget)
        if choices.temperatures is None:
            return share
        assert self.transition is not None
        particles = choices.particles or 1
        main = choices.systems.cost(choices.temperatures, particles, self.transition.cost)
        return min(choices.budget - main, share)

    def _rung(self, particles: int) -> int:
        """The number of evaluations of one temperature of the pilot run."""
        assert self.transition is not None
        return len(self.proposals) * particles * SETTINGS.pilot_moves * self.transition.cost

    def finished(self, state: BoundsState) -> str | None:
        """The reason 'complete' once the particles have reached temperature 1; None before."""
        arrived = state.forwards is not None and state.forwards.passed == len(state.plan or ())
        return "complete" if arrived else None

    def result(self, state: BoundsState, reason: str) -> EvidenceBounds:
        """The bounds, whose warnings are raised.

        ValueError before the particles have reached temperature 1.
        """
        if self.finished(state) is None:
            raise ValueError(
                "there are no bounds before the particles have arrived at temperature 1, and the run is in "
                f"its phase '{state.phase}': resume it"
            )
        found = bounds_of(self.choices, state, self.caller, self.proposals, self.checkpoint(state), reason)
        warn_user_of_each(found.warnings)
        return found

    def with_evaluations(self, state: BoundsState, evaluations: Evaluations) -> BoundsState:
        """The state with the evaluations of a step that was cut short.

        Further calls at the same points, as after batches that raised, are counted at once.
        """
        before, calls = state.unfinished, evaluations.n_evaluations - len(evaluations)
        found = replace(evaluations, n_evaluations=len(evaluations))
        found = found if before is None else before.joined(found)
        made, separately = state.completed + calls, state.separately or calls > 0
        return replace(state, completed=made, separately=separately, unfinished=found)

    def checkpoint(self, state: BoundsState) -> Checkpoint:
        choices, systems = self.choices, self.choices.systems
        settings = {
            "method": choices.method,
            "transitions": choices.transition,
            "particles": choices.particles,
            "replicates": systems.free,
            "draws": systems.conditional,
            "problems": systems.problems,
            "dimension": self.proposals.dimension,
            "temperatures": choices.temperatures,
            "seed": choices.seed,
            "proposal": self.proposals.fingerprint,
            **self.caller.identity,
        }
        return Checkpoint(DOOR, settings, state, state.n_evaluations)

    def status(self, state: BoundsState) -> RunStatus:
        current = state.forwards
        temperatures = (
            "" if current is None else f", {current.passed} of {len(state.plan or ())} temperatures"
        )
        progress, where = (
            f"{state.phase}{temperatures}",
            f"after {state.n_evaluations} evaluations, {state.phase}",
        )
        return RunStatus(state.n_evaluations, self.choices.budget, "evaluations", progress, where)
