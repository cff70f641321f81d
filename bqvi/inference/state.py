"""Records of the loop (`bqvi.inference.loop`): its problem, state and end, and the trace with the ELBO."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np

from acquisition.minibatch import Learning, Strategy
from bqvi.arguments import AtLeast, Checked
from bqvi.calls import Account, Evaluations
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.families.family import Distribution, ExponentialFamily
from bqvi.gradients import BayesianQuadrature, RememberingEstimator
from bqvi.gradients.gradient import Anchor, Batch, Estimator, Gradient
from bqvi.gradients.memory import Memory
from bqvi.inference.steps import Geometry, Schedule
from bqvi.models.contracts import (
    AmortisedModel,
    ConjugateModel,
    LocalStep,
    PerDatumModel,
    is_amortised,
    is_conjugate,
)
from bqvi.models.data import Data, n_rows
from bqvi.models.log_joint import LogJointModel, is_moving
from gp.arrays import Array, shown, to_numpy
from gp.checks import require_integer
from gp.threads import users_threads


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
    def is_judged(self) -> bool:
        """Whether its runs keep evaluations of one log joint, by which they are judged (`convergence`)."""
        keeps = isinstance(self.estimator, BayesianQuadrature) and self.estimator.memory > 0
        return keeps and not is_moving(self.model)

    def gain_is_tested(self, q: Any) -> bool:
        """Whether runs from q are tested for a gain: a Gaussian q, of draws, or of mini-batches of data."""
        model, estimator = self.model, self.estimator
        if is_conjugate(model) or is_amortised(model) or is_moving(model):
            return False
        if isinstance(estimator, RememberingEstimator) or getattr(estimator, "divided", False):
            return False
        sampled = estimator.samples > 0 or self.minibatch is not None
        return sampled and isinstance(q, Gaussian | DiagonalGaussian) and np.ndim(q.mean) == 1

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
    tested : the iteration of the latest test of what a further step would gain (`convergence`); -1 before.
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

    @property
    def recorded(self) -> bool:
        """Whether its q has a record."""
        return bool(self.rows) and self.rows[-1].iteration >= self.iteration

    @property
    def is_beginning(self) -> bool:
        """Whether the next step is the search: it is the first, and nothing was evaluated."""
        if not self.begins or self.iteration:
            return False
        return self.memory is None or not (len(self.memory) or len(self.memory.failed))

    def has_converged(self, tolerance: float | None) -> bool:
        """Whether the claim about its q stands, for a ``tolerance`` in nats; None for none."""
        claim = self.claim
        if claim is None or tolerance is None or not claim.stands:
            return False
        return bool(claim.at == len(self.memory) and claim.sd < tolerance)

    @property
    def has_no_gain(self) -> bool:
        """Whether its q was tested, and found to be at its optimum."""
        return self.tested == self.iteration and not self.reasons

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


class Value(NamedTuple):
    """The ELBO of q, and the evaluations for it."""

    elbo: float
    """Nats."""
    elbo_sd: float
    """0 where the ELBO is exact."""
    n_evaluations: int
    """Per datum, or of the log joint for a model without data."""


@dataclass(frozen=True)
class Monitor:
    """Evaluates q on all the data.

    The ELBO is exact for conjugate models and for models with an ``elbo`` of their own. Otherwise, where
    ``samples`` is None, it takes no further evaluation: of an estimator that keeps evaluations it is the
    integral of a Gaussian process on them, with its standard deviation (`bqvi.gradients.remembered`); of
    another the mean of the estimates by the latest tenth of the steps from their own draws, with its
    standard deviation, which is infinite for fewer than four. It is NaN where there is neither.

    With ``samples`` it is the mean of this number of fresh draws of ln p(X, theta) - ln q(theta), with its
    standard error. All records of a run use the same noise, so that differences have smaller errors than
    levels; another seed has another. Draws at which the log joint raises, is NaN, infinite or beyond
    `LARGEST` are left out, up to a share `FAULTY` of them. Minus infinity is not left out, as q then has mass
    where the posterior has none. Beyond that share the ELBO includes them, and where the log joint raises at
    every draw of a block, the record raises too.
    """

    model: Any
    data: Data
    samples: int | None = None
    metrics: Metrics = field(default_factory=dict)

    FAULTY = 0.1

    KEPT = 256

    @cached_property
    def exact(self) -> bool:
        """Whether the ELBO has a closed form."""
        return is_conjugate(self.model) or hasattr(self.model, "elbo")

    @cached_property
    def cost(self) -> int:
        """Evaluations of a record that is made without a step."""
        rows = n_rows(self.data)
        return rows if self.exact else (self.samples or 0) * max(rows, 1)

    @cached_property
    def base(self) -> float:
        """sum_n ln h(x_n), for models that leave it out."""
        return log_base_measure(self.model, self.data)

    def value(
        self,
        q: ExponentialFamily,
        local: LocalStep | None = None,
        memory: Any = None,
        values: np.ndarray | None = None,
        account: Account | None = None,
        seed: int = 0,
    ) -> Value:
        """The metric of q.

        Parameters
        ----------
        local : the local step at q over all data, if there is one. memory : the memory of an estimator.
        values : estimates of the ELBO by the latest steps, less ln h of the data.
        account : the account of fresh draws. seed : their seed.
        """
        if is_conjugate(self.model):
            spent = n_rows(self.data) if local is None else 0
            local = local or self.model.local_step(q, self.data)
            return Value(local.bound + self.base - float(q.kl(self.model.prior)), 0.0, spent)
        if hasattr(self.model, "elbo"):
            return Value(self.model.elbo(q, self.data), 0.0, n_rows(self.data))
        if self.samples is not None:
            if is_amortised(self.model):
                return self._amortised(q, self.samples, seed)
            return self._sampled(q, self.samples, account or Account(), seed)
        if is_of_one_function(self.model, q, memory):
            return self.remembered(q, memory)
        found = self._of_steps(np.empty(0) if values is None else values)
        # estimates from the same evaluations have errors that do not average out
        return found if memory is None else found._replace(elbo_sd=math.inf)

    def _of_steps(self, values: np.ndarray) -> Value:
        """The mean of estimates (t,) by the latest steps, with the sd of Student's t of its error."""
        if not len(values):
            return Value(math.nan, math.inf, 0)
        error = math.inf if len(values) < 4 else float(values.std() / np.sqrt(len(values) - 3))
        return Value(float(values.mean()) + self.base, error, 0)

    def remembered(self, q: Any, memory: Memory) -> Value:
        """The ELBO from kept evaluations; NaN with an infinite error where too few are near q."""
        from bqvi.gradients.remembered import remembered_elbo

        found = remembered_elbo(q, memory)
        if found is None:
            return Value(math.nan, math.inf, 0)
        return Value(found.value + self.base, found.sd, 0)

    def bound(self, gradient: Gradient | None) -> float:
        """The estimator's own bound with the data's constants; NaN if it has none."""
        if gradient is None or gradient.bound is None:
            return math.nan
        return gradient.bound + self.base

    @users_threads()
    def measure(self, q: Distribution) -> dict[str, float]:
        """The caller's metrics of q."""
        return {name: float(metric(q)) for name, metric in self.metrics.items()}

    def _amortised(self, q: Any, samples: int, seed: int) -> Value:
        from bqvi.gradients.amortised import elbo_draws

        values = elbo_draws(self.model, q, self.data, samples, seed)
        return self._of_steps(values)._replace(n_evaluations=self.cost)

    def _sampled(self, q: Distribution, samples: int, account: Account, seed: int) -> Value:
        import torch

        from bqvi.calls.function import LARGEST
        from bqvi.gradients.black_box import reference_tensor, torch_posterior

        batch = Batch(self.data, n_rows(self.data), account=account)
        with torch.no_grad(), users_threads():
            frozen = torch_posterior(q, reference_tensor(self.model, self.data)).stopped
            rng = np.random.default_rng(seed)
            values, spent = [np.empty(0)], 0
            for done in range(0, samples, 32):  # in parts, to bound the memory of (draws, data) tables
                theta = frozen.sample(min(32, samples - done), rng)
                found, calls = _log_joint_at(self.model, q, batch, theta)
                values.append(found - to_numpy(frozen.log_prob(theta))[: len(found)])
                spent += calls
        drawn = np.concatenate(values).astype(float, copy=False)
        faulty = ~(drawn < LARGEST)  # true for NaN too
        if faulty.any() and faulty.mean() <= self.FAULTY:
            drawn = drawn[~faulty]
        with np.errstate(over="ignore", invalid="ignore"):  # the log joint may be infinite at a draw
            return self._of_steps(drawn)._replace(n_evaluations=spent)


def log_base_measure(model: Model, data: Data) -> float:
    """sum_n ln h(x_n), for models that leave it out; 0 for others."""
    measure = getattr(model, "log_base_measure", None)
    return 0.0 if measure is None else float(measure(data))


def is_of_one_function(model: Model, q: Distribution, memory: object) -> bool:
    """Whether ``memory`` holds evaluations of a log joint that does not change with q, a Gaussian."""
    return isinstance(memory, Memory) and isinstance(q, Gaussian | DiagonalGaussian) and not is_moving(model)


def _log_joint_at(model: Any, q: Distribution, batch: Batch, theta: Array) -> tuple[np.ndarray, int]:
    """Values (L,) at draws of theta, and evaluations; fewer than L where the budget does not suffice."""
    from bqvi.gradients.black_box import cost, in_graph, spending
    from bqvi.gradients.evaluations import evaluate_values

    if isinstance(theta, dict) or is_conjugate(model):
        with spending(model, batch, theta):
            found = to_numpy(in_graph(model, q, batch)(theta))
        return found, cost(model, batch, len(found))
    made = evaluate_values(model, q, batch, to_numpy(theta).astype(float, copy=False))
    return made.values, made.n_evaluations
