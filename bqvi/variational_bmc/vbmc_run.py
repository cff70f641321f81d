"""VBMC as a run: evaluate, fit, choose the next points, until convergence or the end of the budget.

    pending points --evaluate--> values --learn--> surrogate, q --> record --> exploration, or next points

`learn` is a function of the evaluations and of the state before. With asynchronous workers other points are
being evaluated between evaluations (`VBMCRun.with_more`). A fit is then due once as many values as a batch
are new, or none is pending. The surrogate's variances are conditioned on pending points (Ginsbourger et al.
2010: by a rank-one update for each), and its mean is not, as their values are unknown. The first design is
continued until half of it has values. Exploration proposes its points in the same way, and is repeated from
the known values each time values return, as a climb is; without workers it evaluates them itself. A run is
determined by the seed and by the order in which values return between proposals.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls import AsksError, Budget, Caller, Coordinates, Evaluations, Ledger, require_good
from bqvi.calls.climb import Asking
from bqvi.calls.faults import require_consistent
from bqvi.calls.table import rows_of
from bqvi.posterior import of_model
from bqvi.records import named
from bqvi.runs import Checkpoint, RunStatus
from bqvi.runs.settings import ENGINES
from bqvi.unseen import HIDDEN
from bqvi.variational_bmc.exploration import Explored, Modes, explore
from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.learning import learn, with_scales
from bqvi.variational_bmc.next_points import batch_size, design, next_step, with_next
from bqvi.variational_bmc.result import VBMCResult, thorough
from bqvi.variational_bmc.scaling import Scaling, UserUnits
from bqvi.variational_bmc.settings import CONVERGENCE, EXPLORATION, NOISE
from bqvi.variational_bmc.state import (
    CheapModel,
    Estimate,
    InferenceStep,
    Row,
    Settings,
    State,
    evaluated,
    observation_noise,
    with_pending,
)
from bqvi.variational_bmc.stopping import (
    NOT_EXPLORED,
    again,
    differing,
    is_due,
    judge,
    needs_test,
    record,
    repeated,
    verifies,
    with_points,
)
from bqvi.variational_bmc.variational import DiagonalMixture
from gp.user_warnings import warn_user_of_each


class Clock:
    """The seconds that one process has spent on a run, and a forecast whether another step would end in time.

    A run may not take longer than its user allows, including calls of the log joint and the thorough estimate
    at the end. The forecast of a step is the number of its calls times the duration of the latest ones, and
    the time of the latest step without its calls. The forecast of the thorough estimate is the duration of
    the latest one or, before there was one, ten times that of a step without its calls.

    Parameters
    ----------
    limit : the largest duration of the whole run, in seconds; None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._began: float | None = None
        self._before = self._begun_at = 0.0
        self._calls = self._each = 0.0
        self._own = self._thorough = 0.0

    def starts(self, seconds: float) -> None:
        """Begin a step, ``seconds`` after the beginning of the run."""
        self._began, self._before = time.perf_counter(), max(seconds, self._before)
        self._begun_at, self._calls = self._before, 0.0

    @property
    def runs(self) -> bool:
        """Whether a step is under way."""
        return self._began is not None

    def ends(self) -> float:
        """End a step; return the seconds since the run began."""
        spent = self.spent
        self._own = spent - self._begun_at - self._calls
        self._began, self._before = None, spent
        return spent

    @contextmanager
    def calls(self, count: int) -> Iterator[None]:
        """Measure ``count`` calls of the log joint."""
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            self._calls, self._each = self._calls + spent, spent / max(count, 1)

    @contextmanager
    def thorough(self) -> Iterator[None]:
        """Measure a thorough estimate."""
        began = time.perf_counter()
        yield
        self._thorough = time.perf_counter() - began
        if self._began is None:  # this is called between two steps
            self._before += self._thorough

    @property
    def spent(self) -> float:
        """The seconds since the run began, as far as they have been measured."""
        return self._before + (0.0 if self._began is None else time.perf_counter() - self._began)

    def allows(self, seconds: float, count: int) -> bool:
        """Whether a step and the thorough estimate would end in time.

        Parameters
        ----------
        seconds : the seconds since the run began, from its state.
        count : the number of calls of the log joint in the step.
        """
        if self._limit is None:
            return True
        # the thorough estimate took 6 to 12 times a step on posteriors of 2 to 10 dimensions
        forecast = count * self._each + self._own + (self._thorough or 10.0 * self._own)
        return max(seconds, self.spent) + forecast < self._limit

    @property
    def over(self) -> bool:
        """Whether the time has run out."""
        return self._limit is not None and self.spent >= self._limit


DOOR = "vbmc"
RECORDS = named(
    State, Evaluations, Frame, Scaling, UserUnits, DiagonalMixture, Row, Explored, Coordinates, CheapModel,
)  # fmt: skip
"""The classes of a saved run."""


@dataclass(frozen=True)
class Limits:
    """The limits of a run: the number of evaluations, the sd of the log evidence (nats), the seconds."""

    budget: int
    tolerance: float | None
    seconds: float | None


class VBMCRun:
    """The engine of a run of VBMC (:class:`bqvi.runs.Engine`).

    Parameters
    ----------
    target : the log joint. coordinates : the coordinates of the parameters.
    first : the state before the first evaluation of this run.
    settings, limits, seed : the settings, the limits and the seed of the run.
    """

    small = True

    def __init__(
        self,
        target: Caller,
        coordinates: Coordinates,
        first: State,
        settings: Settings,
        limits: Limits,
        seed: int,
    ) -> None:
        self.target = self.caller = target
        self.coordinates, self.first = coordinates, first
        self.settings, self.limits, self.seed = settings, limits, seed
        self.ledger = Ledger(target.dimension)
        self.clock = Clock(limits.seconds)
        self.learned: tuple[tuple[Row, ...], Estimate] | None = None
        """The estimate of the last of these records, kept for the choice of further points."""
        self._latest: tuple[tuple[Row, ...], Evaluations, VBMCResult] | None = None

    def init(self) -> State:
        return self.first

    def resumed(self, state: State) -> State:
        """The state of an earlier run, whose budget may have been smaller."""
        dimension = state.evaluations.points.shape[1]
        if dimension != self.target.dimension:
            raise ValueError(f"resume has dimension {dimension}, the target {self.target.dimension}")
        if state.coordinates is not None:
            self.coordinates.require_like(state.coordinates)
        self.budget_of(state).require_enough()
        return state

    def step(self, state: State) -> State:
        """Evaluate the pending points, fit to all evaluations, explore if that is due, and choose points."""
        self.clock.starts(state.seconds)
        if state.fits_at:
            state = state.before_last_record()  # an exploration was cut short
        reached = self._evaluated(state)
        if self.budget_of(reached).left:
            explores = len(reached) > len(state) or state.fits_at > 0
            reached = self.with_more(reached, None, explores)
        return replace(reached, seconds=self.clock.ends())

    def _evaluated(self, state: State) -> State:
        """The state with its pending points evaluated, within the budget; with the climb at the beginning."""
        reached, budget = state, self.budget_of(state)
        if len(state.pending) and budget.left:
            made = self.call(state.pending, budget, bool(state.evaluations.failed.all()))
            reached = evaluated(state, made)
        while not state.rows and budget.left and not self.clock.over:
            point = next_step(reached.evaluations)
            if point is None:
                break
            reached = evaluated(reached, self.call(point[None], budget))
        return reached

    def with_more(self, state: State, count: int | None, explores: bool = True) -> State:
        """The ``state`` after a fit, if one is due, with further pending points.

        There are up to ``count`` of these, or a batch where it is None, as all pending points have been
        evaluated then. There are none where the run has ended or exploration has evaluated points.
        ``explores`` is False in the step after an exploration, so that it is followed by points of the
        acquisition.
        """
        if not self.clock.runs:
            self.clock.starts(state.seconds)
        if count is not None and self._in_design(state):
            reached = self._designed(state, count)
        else:
            new = len(state) - (state.rows[-1].n_evaluations if state.rows else 0)
            fits = (
                not state.rows
                or new >= batch_size(state, self.settings)
                or (new > 0 and not len(state.pending))
            )
            reached = self._learned(state, count is None, explores) if fits else state
            left = 1 if count is None else count - (len(reached.pending) - len(state.pending))
            ready = count is not None or reached.recorded
            if left > 0 and ready and self.finished(reached) is None:
                reached = self._chosen(reached, None if count is None else left)
        return replace(reached, seconds=self.clock.spent)

    def _in_design(self, state: State) -> bool:
        """Whether too few points have values for a surrogate, while others are being evaluated or can be."""
        if state.rows:
            return False
        design = len(self.first.pending) + len(self.first.evaluations)
        good = int((~state.evaluations.failed).sum())
        if 0 < good < 2 and len(state) >= design:
            return self.budget_of(state).room(1) > 0
        least = min(design, max(self.target.dimension + 3, design // 2))
        return good < least and len(state) < design

    def _designed(self, state: State, count: int) -> State:
        """The state with points of the climb to the mode, if there are gradients, and of the first design."""
        begun = len(state) + len(state.pending)
        climb = self._climbing(state)
        more = design(self.target.dimension, begun + count, self.seed)[begun : begun + count - len(climb)]
        return with_pending(state, np.concatenate([climb, more]))

    def _climbing(self, state: State) -> np.ndarray:
        """The next point of the climb to the mode, (1, D), or none, (0, D)."""
        point = next_step(state.evaluations)
        return state.pending[:0] if point is None else _not_pending(state, point[None])

    def _learned(self, state: State, calls: bool, explores: bool) -> State:
        """The state with a record of its values, and the points of an exploration; or with their values.

        Where exploration evaluates its points itself (``calls``), the record is made from these too, in the
        next step or, if the budget cuts it short, in this one; a run that goes on repeats it from the fit
        before it.
        """
        begun = state.begun
        require_good(begun.evaluations, 2, self.target.function.range.title)
        fitted, estimate = self.learn(begun)
        row = record(begun, fitted, estimate)
        most = self.explores(begun, row, estimate) if explores else 0
        reached = replace(fitted, rows=(*begun.rows, row), before=begun.known, fits_at=0)
        if most:
            source = _Exploring(self, state, len(begun)) if calls else Asking(state.evaluations.censored)
            try:
                log_evidence = estimate.found.log_evidence + fitted.frame.log_volume
                modes = Modes.of(estimate.surrogate, estimate.q, fitted.frame, log_evidence)
                sequence = design(self.target.dimension, 512, self.seed)
                noise_sd = math.sqrt(observation_noise(fitted, estimate))
                surprising = _surprising(fitted, estimate, modes)
                found = explore(source, modes, sequence, most, noise_sd, surprising)
                row = record(begun, replace(fitted, exploration=found), estimate)
                reached = replace(reached, exploration=found, rows=(*begun.rows, row))
            except AsksError as asks:
                room = self.budget_of(state).room(len(state.pending) + len(asks.points)) - len(state.pending)
                reached = with_pending(reached, _not_pending(state, asks.points)[: max(room, 0)])
            if isinstance(source, _Exploring) and len(source.reached) > len(begun):
                further = replace(source.reached, exploration=found, fits_at=0)
                if not source.cut:
                    return further
                return replace(self._learned(further, calls, False), fits_at=len(begun))
        reached, estimate = self.with_scales(begun, reached, estimate)
        self.learned = (reached.rows, estimate)
        return reached

    def _chosen(self, state: State, count: int | None) -> State:
        """The state with points chosen by the acquisition, given the points that are being evaluated."""
        reached = state
        if count is not None:
            reached = with_pending(state, self._climbing(state)[:count])
            count -= len(reached.pending) - len(state.pending)
            if count <= 0:
                return reached
        learned, estimate = self._last_estimate(state)
        test = _not_pending(reached, self.test_of_noise(reached, estimate))
        reached = with_pending(reached, test)
        tested = self.tested(reached, estimate)
        if tested is not None:
            return tested
        each, alone = batch_size(reached, self.settings), count is None
        count = each if count is None else count - len(test)
        if count <= 0:
            return reached
        begun = len(reached) + len(reached.pending)
        seed = self.seed_at(state, *(() if alone else (begun,)))
        waiting = np.concatenate([reached.evaluations.points[learned:], reached.pending])
        leading = -begun % each < count
        return with_next(reached, estimate, count, seed, self.settings.variational, waiting, leading)

    def _last_estimate(self, state: State) -> tuple[int, Estimate]:
        """The number of values of the last fit and its estimate, computed again where it is not kept."""
        n = state.rows[-1].n_evaluations
        if self.learned is None or self.learned[0] is not state.rows:
            then = replace(state, evaluations=state.evaluations[:n], predicted=state.predicted[:n])
            before = then.before_last_record()
            reached, estimate = self.learn(before)
            reached = replace(reached, rows=(*before.rows, record(before, reached, estimate)))
            self.learned = (state.rows, self.with_scales(before, reached, estimate)[1])
        return n, self.learned[1]

    def learn(self, state: State, final: bool = False) -> tuple[State, Estimate]:
        """The inference of a step, with a fitted noise where two values at nearly the same point differ."""
        settings = self.settings_at(state)
        if settings.noise_unknown and not self.settings.noise_unknown:
            state = replace(state, psi=None)  # that of an exact surrogate may have no noise
        step = InferenceStep(settings, self.seed_at(state), final, tolerance=self.limits.tolerance or 0.0)
        return learn(state, step)

    def settings_at(self, state: State) -> Settings:
        """The settings, with a noise that is not known where two values at nearly the same point differ."""
        found = self.settings.noise_unknown or differing(state.evaluations.censored) is not None
        return replace(self.settings, noise_unknown=found)

    def test_of_noise(self, state: State, estimate: Estimate) -> np.ndarray:
        """The point (1, D) whose value shows whether values are exact, once it is due; or none, (0, D)."""
        earlier = state.rows[-2].n_evaluations if len(state.rows) > 1 else 0
        late = earlier < NOISE.at * self.limits.budget <= len(state)
        due = late or (is_due(state) and needs_test(state.rows, self.tolerance))
        return again(state.evaluations.censored, estimate.surrogate) if due else state.pending[:0]

    def with_scales(self, before: State, reached: State, estimate: Estimate) -> tuple[State, Estimate]:
        """The result of a step; where the run may soon converge, another map of scales is tried."""
        recent = len(reached) < CONVERGENCE.again * reached.scaled_at
        if recent or not needs_test(reached.rows, self.tolerance):
            return reached, estimate
        step = InferenceStep(self.settings_at(reached), self.seed_at(before))
        fitted, found = with_scales(reached, estimate, step)
        return replace(fitted, rows=(*before.rows, record(before, fitted, found))), found

    def budget_of(self, state: State) -> Budget:
        return Budget(self.limits.budget, state.n_evaluations)

    def kept(self, state: State) -> Evaluations | None:
        """The evaluations that have values; None where their noise is not known."""
        return None if self.settings_at(state).noise_unknown else state.evaluations[~state.evaluations.failed]

    def require_consistent(self, before: State, after: State) -> None:
        count = int((~before.evaluations.failed).sum())
        require_consistent(self.caller.function, count, self.kept(after))

    def pending(self, state: State) -> np.ndarray:
        """The pending points (m, D)."""
        return state.pending

    def call(self, points: np.ndarray, budget: Budget, first: bool = False) -> Evaluations:
        """The evaluations at points (m, D) within the budget; ``first`` is True if none is finite so far."""
        with self.clock.calls(budget.room(len(points))):
            return self.target.evaluate(points, self.ledger, budget, first)

    def explores(self, before: State, row: Row, estimate: Estimate) -> int:
        """The largest number of points of an exploration that is due, or 0.

        It is due before convergence, or after half the budget if the sd of the log evidence, but for unseen
        modes, is below what these may add and the sd of the noise of a value. ``row`` and ``estimate`` are
        of the evaluations of ``before``.
        """
        if before.exploration.complete:
            return 0
        left = self.limits.budget - before.n_evaluations
        if judge((*before.rows, row), self.tolerance) == (NOT_EXPLORED,):
            return max(left // 2, EXPLORATION.points)
        late = left <= before.n_evaluations and not before.exploration.limited
        most = row.unseen + math.sqrt(observation_noise(before, estimate))
        return EXPLORATION.late if late and row.elbo_sd < most else 0

    def tested(self, state: State, estimate: Estimate) -> State | None:
        """The state with the points of a test of its claim pending; None where none is due or affordable."""
        if not (is_due(state) and needs_test(state.rows, self.tolerance)):
            return None
        asked = with_points(state, estimate, self.seed_at(state))
        count = len(asked.pending)
        return asked if self.budget_of(state).room(count) == count else None

    @property
    def tolerance(self) -> float:
        """The tolerance of the log evidence, nats, by which convergence is judged."""
        return ENGINES.tolerance if self.limits.tolerance is None else self.limits.tolerance

    def seed_at(self, state: State, *more: int) -> int:
        """The seed of the step that fits to the evaluations of ``state``; of another choice by ``more``."""
        return int(np.random.SeedSequence([self.seed, len(state), *more]).generate_state(1)[0] >> 1)

    def finished(self, state: State) -> str | None:
        """The reason 'converged' (by the thorough estimate, too), 'budget' or 'seconds'; or None."""
        if state.n_evaluations >= self.limits.budget:
            return "budget"
        if not state.recorded:
            return None
        tolerance = self.limits.tolerance
        if tolerance is not None and verifies(state.rows, tolerance) and self._final(state).converged:
            return "converged"
        count = min(batch_size(state, self.settings), self.limits.budget - state.n_evaluations)
        return None if self.clock.allows(state.seconds, count) else "seconds"

    def result(self, state: State, reason: str) -> VBMCResult:
        """The result by the thorough estimate; its warnings are raised."""
        found = replace(self._final(state), stopped=reason, checkpoint=self.checkpoint(state))
        found = replace(found, posterior=of_model(found.posterior))
        warn_user_of_each(found.warnings)
        return found

    def _final(self, state: State) -> VBMCResult:
        """The thorough estimate, computed once for a state."""
        last = self._latest
        if last is not None and last[0] is state.rows and last[1] is state.evaluations:
            return last[2]
        with self.clock.thorough():
            found = thorough(self, state)
        self._latest = (state.rows, state.evaluations, found)
        return found

    def with_evaluations(self, state: State, evaluations: Evaluations) -> State:
        fits_at = state.fits_at or len(state) + max(len(state.pending), 1)
        found = evaluated(state, evaluations)
        return replace(found, fits_at=fits_at) if state.rows and len(found) >= fits_at else found

    def checkpoint(self, state: State) -> Checkpoint:
        settings = {"dimension": self.target.dimension, "seed": self.seed, **self.target.identity}
        cheap = state.n_cheap_evaluations
        return Checkpoint(DOOR, settings, state, state.n_evaluations, n_cheap_evaluations=cheap)

    def status(self, state: State) -> RunStatus:
        message = ""
        if state.rows:
            row = state.rows[-1]
            message = f"ELBO {row.elbo:.2f}, log evidence {row.log_evidence:.2f} +- {row.log_evidence_sd:.2g}"
        return RunStatus(state.n_evaluations, self.limits.budget, "evaluations", message)


def _not_pending(state: State, points: np.ndarray) -> np.ndarray:
    """The points among (m, D) that are not pending."""
    return points[rows_of(state.pending, points) < 0]


class _Exploring:
    """A run of VBMC as a source of evaluations for exploration (`bqvi.calls.climb.Evaluating`).

    An exploration that was cut short is made again from its beginning: its evaluations are shown in the order
    in which they are asked for, and are not made again.
    """

    def __init__(self, run: VBMCRun, reached: State, shown: int) -> None:
        self._run, self.reached, self._shown = run, reached, shown
        self.cut = False
        """Whether the budget allowed a part of the points only."""

    @property
    def made(self) -> Evaluations:
        return self.reached.evaluations[np.arange(self._shown)].censored

    def evaluate(self, points: np.ndarray) -> bool:
        needed = points[len(self.reached) - self._shown :]
        if len(needed):
            budget = self._run.budget_of(self.reached)
            room = 0 if self._run.clock.over else budget.room(len(needed))
            if room:
                self.reached = evaluated(self.reached, self._run.call(needed[:room], budget))
            self.cut = room < len(needed)
        self._shown = min(self._shown + len(points), len(self.reached))
        return not self.cut


def _surprising(state: State, estimate: Estimate, modes: Modes) -> tuple[int, ...]:
    """The rows of evaluations in modes that lie far above what all others predict, the farthest first."""
    points = state.frame.out(estimate.surrogate.data.points)
    z = estimate.surrogate.left_out(repeated(points))
    chosen = [i for i in np.argsort(-z) if z[i] > HIDDEN.surprising and modes.contain(points[[i]])[0]]
    return tuple(int(np.square(state.evaluations.points - points[i]).sum(1).argmin()) for i in chosen)
