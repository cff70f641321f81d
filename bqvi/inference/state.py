"""The records of the one loop (`bqvi.inference.loop`): its problem, the state, the trace, and its end."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, TypeAlias

import numpy as np

from acquisition.minibatch import Learning, Strategy
from bqvi.arguments import AtLeast, Checked
from bqvi.calls import Account, Evaluations
from bqvi.gradients.gradient import Anchor, Estimator
from bqvi.inference.geometry import Geometry
from bqvi.inference.schedules import Schedule
from bqvi.models.amortised import AmortisedModel
from bqvi.models.conjugate import ConjugateModel, PerDatumModel, is_conjugate
from bqvi.models.data import Data
from bqvi.models.log_joint import LogJointModel
from gp.arrays import shown
from gp.checks import require_integer


@dataclass(frozen=True)
class TraceRow:
    """One record; the cost of making it is not in ``seconds``."""

    iteration: int
    """Steps taken before it."""
    seconds: float
    """Time of those steps, less all recording."""
    step_evaluations: int
    """Per-datum evaluations of those steps (of the log joint for a model without data)."""
    samples: int
    """Draws of theta of those steps."""
    elbo: float
    """ELBO of q, nats: exact with all its constants, or an estimate if ``elbo_sd`` > 0."""
    elbo_sd: float
    """Standard deviation of ``elbo``; 0 where it is exact."""
    bound: float
    """The estimator's own bound at this iteration (IWAE's L_L, say), nats; NaN where it has none."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The caller's own measures of q."""
    setup_seconds: float = 0.0
    """Time of the mini-batch strategy before the first step; not in ``seconds``."""
    minibatch_seconds: float = 0.0
    """Time of the strategy in those steps; in ``seconds``."""
    record_evaluations: int = 0
    """Evaluations for the ELBO of this record, in the units of ``step_evaluations``, which leave them out."""
    n_evaluations: int = 0
    """All evaluations so far: of the steps, of this record and of those before it."""


@dataclass(frozen=True)
class Recorder:
    """The iterations that are recorded: one in ``every``, or these; the last always."""

    every: int | frozenset[int] = 1
    first: bool = True
    """Whether the start is recorded."""

    def is_due(self, iteration: int) -> bool:
        """Whether ``iteration`` is to be recorded."""
        if iteration == 0:
            return self.first
        return iteration % self.every == 0 if isinstance(self.every, int) else iteration in self.every


Metrics = Mapping[str, Callable[[Any], float]]
"""Functions of q by name, recorded with the ELBO."""


def _iterations(name: str, given: object) -> Any:
    if isinstance(given, int | np.integer):
        return require_integer(name, given, 1)
    if not isinstance(given, Iterable) or (isinstance(given, np.ndarray) and not given.ndim):
        raise TypeError(f"{name} is {shown(given)}; it must be an integer of at least 1, or iterations")
    return frozenset(require_integer(name, t, 0) for t in given)


def _require_metrics(argument: str, metrics: object) -> None:
    if not isinstance(metrics, Mapping):
        given = type(metrics).__name__
        raise TypeError(f"{argument} is a {given}; it must be a mapping, name -> function of q")
    columns = [column.name for column in fields(TraceRow) if column.name != "metrics"]
    for name, metric in metrics.items():
        if not isinstance(name, str) or name in columns:
            raise ValueError(
                f"metrics has the name {name!r}; it must be text, and none of {', '.join(columns)}"
            )
        if not callable(metric):
            raise TypeError(f"metrics[{name!r}] is {metric!r}; it must be a function of q")


@dataclass(frozen=True)
class Record(Checked):
    """What `bqvi.fit` records in its trace, and when.

    Parameters
    ----------
    every : the number of iterations from one record to the next, or the iterations that are recorded; the end
        always is. Default 1 for full-batch conjugate methods (their ELBO comes with the gradient), the
        end alone for estimators with memory, else a hundredth of the steps. Where a record of a
        mini-batch run takes a pass over all data, those before the end take a tenth of the steps' evaluations
    metrics : name -> function of q, recorded with the ELBO
    elbo_samples : fresh draws for each recorded ELBO that has no closed form, at least 2; each is an
        evaluation, counted in ``trace['record_evaluations']`` and in the budget. None: the ELBO is estimated
        from evaluations that are kept ('bq'), with the standard deviation of the surrogate, or from the draws
        of the latest tenth of the steps, with a standard error
    """

    every: Annotated[int | Iterable[int] | None, _iterations] = None
    metrics: Annotated[Metrics | None, _require_metrics] = None
    elbo_samples: Annotated[int | None, AtLeast(2)] = None


def as_record(name: str, given: object) -> Record:
    """The record that `fit` is given, or one of the iterations that it is given."""
    return given if isinstance(given, Record) else Record(_iterations(name, given))


Model: TypeAlias = ConjugateModel | LogJointModel | AmortisedModel
"""A model in one of the three forms that estimators accept."""


@dataclass(frozen=True)
class LoopProblem:
    """A model, its data, and the four choices of the loop.

    Attributes
    ----------
    model : the model whose posterior q approximates; of any type, as callers use methods of their own model.
    data : N rows, one array or several.
    estimator : estimates the gradient of the ELBO in q's parameters.
    geometry : turns a gradient into a direction, and moves q along it.
    schedule : the step size at each step.
    minibatch : chooses the data of a step, and their weights; ``None`` for all data.
    """

    model: Any
    data: Data
    estimator: Estimator
    geometry: Geometry
    schedule: Schedule
    minibatch: Strategy | None = None

    @cached_property
    def learning(self) -> bool:
        """Whether the strategy uses the gradients of single rows."""
        return isinstance(self.minibatch, Learning)

    @cached_property
    def per_datum(self) -> bool:
        """Whether gradients are computed row by row.

        They are for a strategy that uses them, and where weights can be negative: the weighted sum of
        statistics is then projected onto sums that data can have. A log joint at draws has no statistics.
        """
        signed = getattr(self.minibatch, "signed", False) and isinstance(self.model, PerDatumModel)
        return self.learning or (signed and (self.estimator.samples == 0 or is_conjugate(self.model)))

    @cached_property
    def limits(self) -> Any:
        """The limits of sums over the data; None if the model has none."""
        return self.model.term_limits(self.data) if isinstance(self.model, PerDatumModel) else None


@dataclass(frozen=True)
class LoopState:
    """The state of a run, which determines its further steps.

    Attributes
    ----------
    q : the approximation.
    rng : the generator, which changes with each draw: a copy of the state needs a copy of it (`fork`).
    schedule, minibatch : states of the schedule and of the strategy.
    memory : the memory of a `RememberingEstimator`; ``None`` for others.
    iteration : the number of steps made.
    seconds : the time of these steps.
    step_evaluations : evaluations of the steps; those of records are in the trace.
    samples : draws of theta by the steps.
    setup_seconds : the time of the strategy before the first step; not in ``seconds``.
    minibatch_seconds : the time of the strategy since then, for draws and for processing gradients; in
        ``seconds``.
    rows : the records.
    record_evaluations : evaluations of the records, the closing ones included, in the units of
        ``step_evaluations``.
    estimates : estimates of the ELBO less ln h of the data, by the latest steps from their draws; at most
        256.
    anchor : what mini-batches know of the sum over all data; None for nothing.
    whole_seconds : the time of the run: of its steps, its records and the strategy before the first step.
    noise : the seed of the draws of records.
    repeated : evaluations of steps that were cut short and made again by an estimator that keeps none.
    unfinished : evaluations of the next step that returned before it was made. They are those of an attempt
        that was cut short, and take the place of calls when the step is made again; or, where points are
        asked for, those that were told.
    pending : points theta (m, D) that were chosen and have no values yet, where they are asked for.
    latest : at most 256 evaluations of a `LogJoint` by an estimator that keeps none, for checks; None before.
    claim : the q that was judged last for convergence (`convergence`), and its ELBO; None before.
    begins : whether the run begins with a search for another q (`beginning`).
    tested : the iteration of the latest test of what a further step would gain (`remaining_gain`); -1 before.
    reasons : why the run has not converged, sentences of the latest test of it; () where it has, and where no
        test was made.
    """

    q: Any
    rng: np.random.Generator
    schedule: Any = None
    minibatch: Any = None
    memory: Any = None
    iteration: int = 0
    seconds: float = 0.0
    step_evaluations: int = 0
    samples: int = 0
    setup_seconds: float = 0.0
    minibatch_seconds: float = 0.0
    rows: tuple[TraceRow, ...] = ()
    record_evaluations: int = 0
    estimates: np.ndarray = field(default_factory=lambda: np.empty(0))
    anchor: Anchor | None = None
    whole_seconds: float = 0.0
    noise: int = 0
    repeated: int = 0
    unfinished: Evaluations | None = None
    pending: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    latest: Evaluations | None = None
    claim: Any = None
    begins: bool = False
    tested: int = -1
    reasons: tuple[str, ...] = ()

    @property
    def n_evaluations(self) -> int:
        """The number of all evaluations, in the units of ``step_evaluations``."""
        unfinished = 0 if self.unfinished is None else self.unfinished.n_evaluations
        return self.step_evaluations + self.record_evaluations + self.repeated + unfinished

    @property
    def finite_latest(self) -> Evaluations | None:
        """The `latest` evaluations of finite value, with gradients where all are; None for none."""
        if self.latest is None:
            return None
        found = replace(self.latest[np.isfinite(self.latest.values)], noise_variance=None)
        return found if found.good.all() else replace(found, gradients=None)

    def fork(self) -> LoopState:
        """A copy of the state that shares no mutable object with it."""
        fork = getattr(self.minibatch, "fork", None)
        minibatch = self.minibatch if fork is None else fork()
        return replace(self, rng=copy.deepcopy(self.rng), minibatch=minibatch)


@dataclass(frozen=True)
class Stop:
    """The conditions on which a run ends; ``None`` for no condition.

    Attributes
    ----------
    steps : iterations in all.
    tolerance : nats; by the change of the ELBO between two records, or as of `convergence`, a run ends.
    budget : the most evaluations; `bqvi.inference.fit_run.affordable` shortens a step that would exceed them.
    seconds : the longest time of the run, records included.
    """

    steps: int | None = None
    tolerance: float | None = None
    budget: int | None = None
    seconds: float | None = None

    def reached(self, state: LoopState) -> str | None:
        """The reason why ``state`` is the last, or None."""
        if self.steps is not None and state.iteration >= self.steps:
            return "steps"
        if self.seconds is not None and state.whole_seconds >= self.seconds:
            return "seconds"
        return None

    def settled(self, rows: tuple[TraceRow, ...]) -> bool:
        """Whether the last two of the records ``rows`` agree, by two standard errors of their difference."""
        if self.tolerance is None or len(rows) < 2:
            return False
        before, now = rows[-2:]
        error = math.hypot(before.elbo_sd, now.elbo_sd)
        return abs(now.elbo - before.elbo) + 2.0 * error < self.tolerance


def with_unused(state: LoopState, account: Account) -> LoopState:
    """The state after a repeated step, with evaluations of the first attempt that the second did not use.

    Parameters
    ----------
    state : the state after the step. account : that of the step's evaluations.
    """
    if account.unfinished is None:
        return state
    unused = account.unfinished.left()
    memory = state.memory
    if not hasattr(memory, "with_evaluations"):
        return replace(state, unfinished=None, repeated=state.repeated + unused.n_evaluations)
    if len(unused):
        memory = memory.with_evaluations(unused)
    spent = state.step_evaluations + unused.n_evaluations
    return replace(state, memory=memory, unfinished=None, step_evaluations=spent)
