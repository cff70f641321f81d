"""`vbmc`: a log joint with bounds, and out come its evidence and its posterior.

Everything is checked before any work. The rest is the loop of :mod:`bqvi.variational_bmc.loop`, kept in a
state at each moment, so that neither Ctrl-C nor a failure loses an evaluation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bqvi.arrays import Seed, generator
from bqvi.calls import (
    Caller,
    Coordinates,
    EvaluationError,
    Evaluations,
    Executor,
    Function,
    Ledger,
    make_coordinates,
    require_good,
)
from bqvi.calls.bounds import Bound
from bqvi.checks import require_above, require_integer, require_seed
from bqvi.variational_bmc import checkpoint, loop
from bqvi.variational_bmc.climbing import next_step
from bqvi.variational_bmc.diagnostics import advice
from bqvi.variational_bmc.learning import learn
from bqvi.variational_bmc.posterior import Posterior, WeightedDraws
from bqvi.variational_bmc.result import Trace, VBMCResult
from bqvi.variational_bmc.state import Settings, State, begun, evaluated
from bqvi.variational_bmc.stopping import judge
from gp.arrays import to_numpy
from gp.threads import as_the_user_has_it, single_threaded

_NEEDED = 2
"""Good evaluations to begin with."""
_CORRECTED = 100.0
"""Effective draws from which the posterior is corrected by its weights."""
_USABLE = 1.0
"""Pareto k above which it is not: the weights have no mean."""


class VBMCInterrupted(KeyboardInterrupt):
    """A run that was interrupted; pass the exception to ``vbmc`` as ``resume`` to go on.

    Attributes
    ----------
    state : what a run goes on from. evaluations : all that were made.
    """

    def __init__(self, state: State) -> None:
        super().__init__(
            f"interrupted after {len(state)} evaluations; pass this exception as resume to go on"
        )
        self.state = state
        self.evaluations = state.evaluations

    def __reduce__(self) -> Any:
        """A process that is interrupted hands over what it had."""
        return type(self), (self.state,)


class VBMCError(RuntimeError):
    """A run that could not go on; ``state`` and ``evaluations`` hold what it had, and ``resume`` takes it."""

    def __init__(self, message: str, state: State) -> None:
        super().__init__(message)
        self.state = state
        self.evaluations = state.evaluations

    def __reduce__(self) -> Any:
        """A process that fails hands over what it had."""
        return type(self), (str(self), self.state)


def vbmc(
    log_joint: Callable[[Any], Any],
    lower: Bound = None,
    upper: Bound = None,
    plausible_lower: Bound = None,
    plausible_upper: Bound = None,
    start: Any = None,
    gradient: Callable[[Any], Any] | str | None = None,
    noise_sd: float | str | None = None,
    budget: int | None = None,
    *,
    periodic: Sequence[int] | Sequence[bool] | np.ndarray = (),
    names: Sequence[str] | None = None,
    batch: int | None = None,
    executor: Executor | None = None,
    n_jobs: int = 1,
    errors: Literal["raise", "infeasible"] | None = None,
    evaluations: Sequence[Any] | None = None,
    initial: int | None = None,
    acquisition: Literal["imiqr", "viqr"] = "imiqr",
    tolerance: float | None = 0.05,
    max_seconds: float | None = None,
    progress: bool = False,
    callback: Callable[[State], None] | None = None,
    seed: Seed = 0,
    resume: VBMCResult | VBMCInterrupted | VBMCError | str | Path | None = None,
) -> VBMCResult:
    """Evidence and posterior of an expensive model (Acerbi 2018, 2020; thesis 7.3.1).

    Parameters
    ----------
    log_joint : theta (P,) to the log of prior times likelihood, -inf where that vanishes. It may
        return (value, sd) where it is noisy.
    lower, upper : (P,) or a number; infinite or None: no bound. lower == upper fixes a parameter.
    plausible_lower, plausible_upper : (P,), likely to hold most of the posterior.
    start : (P,) or (m, P), evaluated first; by default the middle of the plausible box.
    gradient : None, "autodiff" (log_joint takes and returns torch tensors) or a function (P,) -> (P,).
    noise_sd : of log_joint's values: None (exact), a number, or "unknown".
    budget : evaluations in all; by default 50 (D + 2).
    periodic : indices or booleans; the period is upper - lower.
    names : of the parameters.
    batch : evaluations a step, chosen together; by default 5 (3 with gradients), 2 (1) at first.
    executor, n_jobs : batches are evaluated through ``executor.submit``, or else ``executor.map``; or by so
        many processes of joblib.
    errors : what becomes of an exception of log_joint. None: a numerical one (ArithmeticError, ValueError,
        RuntimeError, LinAlgError) is an infeasible point, one of its code or of the system (NameError,
        TypeError, MemoryError, OSError, ...) stops the run. "raise": each stops it, and values that are not
        finite do; "infeasible": none does.
    evaluations : (theta (n, P), values (n,)) made before, then gradients (n, P) and noise sds (n,) if any.
        They count in the budget, and in place of the first design.
    initial : evaluations of the first design; by default 10, or D + 1 where that is more; with gradients 3,
        before a climb to the mode.
    acquisition : where to evaluate next, exact or noisy: where it leaves least of the density's interquantile
        range, integrated against the surrogate, tempered ("imiqr"), or against the variational posterior
        ("viqr"; Acerbi 2020, Eqs 7 and 8). The second looks nowhere that the posterior is not yet.
    tolerance : of the sd of the log evidence, nats: converged only below it. ``None``: spend the budget.
    max_seconds : stop after a step that ends later than this.
    progress : show evaluations, ELBO and sd.
    callback : told of each state.
    seed : or a generator; the same seed gives the same result.
    resume : a result, a saved one's path, or the exception that ended a run: go on from there, with the
        same bounds; ``start``, ``initial`` and ``evaluations`` are then not looked at.

    Returns
    -------
    VBMCResult

    Raises
    ------
    ValueError, TypeError
        Bad input, before any evaluation.
    EvaluationError
        log_joint is no log density, has an error in its code, or is not finite where the run begins; holds
        the state.
    VBMCInterrupted
        Ctrl-C; holds the state. VBMCError : anything else that failed; holds the state.
    """
    start, evaluations = _start(start), _made(evaluations)
    coordinates = _coordinates((lower, upper, plausible_lower, plausible_upper), start, periodic, names)
    function = Function(log_joint, gradient, noise_sd=noise_sd, errors=errors, names=coordinates.names)
    target = Caller(function, coordinates, executor, n_jobs)
    job = _job(
        target,
        coordinates,
        budget,
        batch,
        acquisition,
        tolerance,
        max_seconds,
        callback,
        progress,
        seed,
        resume,
    )
    first = _design(target, start, initial, job, evaluations)
    state = first if resume is None else _resumed(resume, job)
    return _driven(job, state)


@dataclass(frozen=True, eq=False)
class _Job:
    """What does not change in a run."""

    target: Caller
    coordinates: Coordinates
    settings: Settings
    budget: int
    tolerance: float | None
    max_seconds: float | None
    callback: Callable[[State], None] | None
    progress: bool
    seed: int

    def seed_at(self, state: State) -> int:
        """Of the step that follows ``state``."""
        return int(np.random.SeedSequence([self.seed, len(state)]).generate_state(1)[0] >> 1)


def _start(start: Any) -> np.ndarray | None:
    """(m, P) of what the user gave."""
    if start is None:
        return None
    points = np.atleast_2d(_numbers("start", start))
    if points.ndim != 2 or points.size == 0:
        raise ValueError(f"start has shape {points.shape}; it must be (P,) or (m, P) with m >= 1")
    return points


def _made(evaluations: Any) -> tuple[np.ndarray | None, ...] | None:
    """Arrays of what the user gave: theta and values, then gradients and noise sds if any."""
    if evaluations is None:
        return None
    if not isinstance(evaluations, tuple | list) or not 2 <= len(evaluations) <= 4:
        what = type(evaluations).__name__
        if isinstance(evaluations, tuple | list):
            what += f" of {len(evaluations)}"
        raise TypeError(
            f"evaluations is a {what}; it must be (theta (n, P), values (n,)), then gradients (n, P) and "
            "noise sds (n,) if any"
        )
    titles = ("theta", "values", "gradients", "noise_sd")
    return tuple(
        None if x is None else _numbers(f"evaluations' {title}", x)
        for title, x in zip(titles, evaluations, strict=False)
    )


def _numbers(name: str, given: Any) -> np.ndarray:
    """An array of real numbers."""
    try:
        array = np.asarray(to_numpy(given))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} is no array of numbers: {error}") from None
    if array.size and array.dtype.kind not in "fiu":
        raise TypeError(f"{name} is {given!r:.80}; it must be real numbers")
    return array.astype(float)


def _coordinates(
    bounds: tuple[Bound, Bound, Bound, Bound], start: np.ndarray | None, periodic: Any, names: Any
) -> Coordinates:
    dimension = None
    if start is not None:
        dimension = start.shape[1]
    lower, upper, low, high = bounds
    if start is not None and all(np.ndim(bound) == 0 for bound in bounds if bound is not None):
        return make_coordinates(lower, upper, low, high, periodic=periodic, names=names, dimension=dimension)
    return make_coordinates(lower, upper, low, high, periodic=periodic, names=names)


def _job(
    target: Caller,
    coordinates: Coordinates,
    budget: int | None,
    batch: int | None,
    acquisition: str,
    tolerance: float | None,
    max_seconds: float | None,
    callback: Any,
    progress: bool,
    seed: Seed,
    resume: Any,
) -> _Job:
    require_seed("seed", seed)
    if acquisition not in ("imiqr", "viqr"):
        raise ValueError(f'acquisition is {acquisition!r}; it must be "imiqr" or "viqr"')
    if tolerance is not None:
        require_above("tolerance", tolerance, 0.0)
    if max_seconds is not None:
        require_above("max_seconds", max_seconds, 0.0)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback is {callback!r}; it must be a function of a state")
    dimension = target.dimension
    if dimension < 1:
        raise ValueError("every parameter is fixed (lower == upper); at least one must be free")
    total = 50 * (dimension + 2) if budget is None else require_integer("budget", budget, _least(target))
    each = (3 if target.has_gradient else 5) if batch is None else require_integer("batch", batch, 1)
    number = int(seed) if isinstance(seed, int | np.integer) else int(generator(seed).integers(2**31))
    settings = Settings(
        batch=each,
        few=None if batch is None else each,
        learnt_noise=target.noise_unknown,
        variational=acquisition == "viqr",
    )
    return _Job(target, coordinates, settings, total, tolerance, max_seconds, callback, progress, number)


def _least(target: Caller) -> int:
    return target.dimension + 3


def _design(target: Caller, start: np.ndarray | None, initial: int | None, job: _Job, given: Any) -> State:
    """The state before anything is evaluated by this run."""
    dimension = target.dimension
    usual = 3 if target.has_gradient else max(10, dimension + 1)
    count = usual if initial is None else require_integer("initial", initial, 2)
    if initial is not None and initial > job.budget:
        raise ValueError(f"budget is {job.budget}, below initial, {initial}: raise one or lower the other")
    made = Evaluations.none(dimension) if given is None else target.given(*given)
    if len(made) > job.budget:
        raise ValueError(
            f"budget is {job.budget}, and evaluations has {len(made)}, which count in it: raise the budget"
        )
    points = loop.design(dimension, min(count, job.budget), job.seed)
    if start is not None:
        if start.shape[1] != job.coordinates.n_parameters:
            raise ValueError(f"start has shape {start.shape}; it must be (m, {job.coordinates.n_parameters})")
        job.coordinates.require_inside("start", start)
        begin = job.coordinates.from_user(start)
        points = np.concatenate([begin, points[1:]])[: max(len(points), len(begin))]
    missing = max(0 if start is None else 1, count - int((~made.failed).sum()))
    state = begun(points[: min(missing, max(job.budget - len(made), 0))], made)
    return replace(state, coordinates=job.coordinates)


def _resumed(resume: Any, job: _Job) -> State:
    if isinstance(resume, str | Path):
        state, _ = checkpoint.read(resume)
    else:
        found = getattr(resume, "state", None)
        if not isinstance(found, State):
            raise TypeError(f"resume is {resume!r}; it must be a result, a path or an exception of vbmc")
        state = found
    if state.evaluations.points.shape[1] != job.target.dimension:
        raise ValueError(
            f"resume has dimension {state.evaluations.points.shape[1]}, the target {job.target.dimension}"
        )
    if state.coordinates is not None and (other := job.coordinates.unlike(state.coordinates)):
        raise ValueError(f"resume was run with another {other}: give what it was begun with, or start anew")
    if len(state) > job.budget:
        raise ValueError(f"budget is {job.budget}; {len(state)} evaluations have been made: raise it")
    return state


@single_threaded()
def _driven(job: _Job, state: State) -> VBMCResult:
    """Run to the end, and keep what was reached whatever happens."""
    kept, ledger = [state], Ledger(job.target.dimension)
    with _bar(job, len(state)) as bar:

        def keep(reached: State) -> None:
            kept[0] = reached
            bar.update(len(reached) - bar.n)
            if reached.rows:
                row = reached.rows[-1]
                bar.set_postfix_str(
                    f"ELBO {row.elbo:.2f}, log evidence {row.log_evidence:.2f} +- {row.log_evidence_sd:.2g}"
                )

        try:
            return _run(job, state, keep, ledger)
        except KeyboardInterrupt:
            raise VBMCInterrupted(evaluated(kept[0], ledger.take())) from None
        except EvaluationError as error:
            reached = evaluated(kept[0], ledger.take())
            raise EvaluationError(str(error), error.point, reached.evaluations, reached) from error.__cause__
        except Exception as error:  # whatever it is, what was paid for is kept
            raise VBMCError(
                f"the run failed after {len(kept[0])} evaluations ({type(error).__name__}: {error}); this "
                "exception holds them, and resume takes it",
                kept[0],
            ) from error


def _run(job: _Job, state: State, keep: Callable[[State], None], ledger: Ledger) -> VBMCResult:
    while True:
        state = _evaluated(job, state, keep, ledger)
        if not state.rows:
            state = _climbed(job, state, keep, ledger)
        require_good(state.evaluations, _NEEDED)
        before, began = state, time.perf_counter()
        if len(state) >= job.budget:
            return _finished(job, before, "budget")
        seed = job.seed_at(state)
        learned, learnt = learn(state, job.settings, seed)
        row = loop.record(before, learned, learnt)
        rows = (*state.rows, row)
        if job.tolerance is not None and judge(rows, job.tolerance).converged:
            result = _finished(job, before, "converged")
            if result.converged:
                return result
        if job.max_seconds is not None and state.seconds >= job.max_seconds:
            return _finished(job, before, "seconds")
        learned = replace(learned, rows=rows)
        size = loop.batch_size(learned, job.settings)
        state = loop.with_next(learned, learnt, size, seed, job.settings.variational)
        state = replace(state, seconds=state.seconds + time.perf_counter() - began)
        keep(state)
        if job.callback is not None:
            with as_the_user_has_it():
                job.callback(state)


def _evaluated(job: _Job, state: State, keep: Callable[[State], None], ledger: Ledger) -> State:
    """The state with its pending points evaluated, as far as the budget goes."""
    count = min(len(state.pending), job.budget - len(state))
    if count > 0:
        unknown = bool(state.evaluations.failed.all())
        job.target.evaluate(state.pending[:count], ledger, first=unknown)
        state = evaluated(state, ledger.entries())
        keep(state)
        ledger.take()
    return state


def _climbed(job: _Job, state: State, keep: Callable[[State], None], ledger: Ledger) -> State:
    """The state after the climb to the mode, where there are gradients to climb by."""
    most = 3 * job.target.dimension + 5
    while len(state) < job.budget and (point := next_step(state.evaluations, most)) is not None:
        unknown = np.full((1, 2), np.nan)
        pending = replace(state, pending=point[None], pending_predicted=unknown)
        state = _evaluated(job, pending, keep, ledger)
    return state


def _finished(job: _Job, state: State, stopped: str) -> VBMCResult:
    """The thorough estimate; the state remains that before it, so that a resumed run is one that went on."""
    learned, learnt = learn(state, job.settings, job.seed_at(state), final=True)
    row = loop.record(state, learned, learnt)
    found, frame = learnt.found, learned.frame
    verdict = judge((*state.rows, row), 0.05 if job.tolerance is None else job.tolerance)
    corrected = found.effective > _CORRECTED and found.shape < _USABLE
    draws = WeightedDraws(frame.out(found.u), found.log_weights) if corrected else None
    posterior = Posterior(frame.measure(learnt.q), job.coordinates, draws)
    evidence, sd = row.log_evidence, row.log_evidence_sd
    if not corrected:
        gap = abs(evidence - row.elbo) if math.isfinite(row.elbo) else math.inf
        sd = math.hypot(sd, gap)
    made = state.evaluations
    return VBMCResult(
        posterior=posterior,
        elbo=row.elbo,
        elbo_sd=row.elbo_sd,
        log_evidence=evidence,
        log_evidence_sd=sd,
        converged=verdict.converged,
        stopped=stopped,
        reasons=verdict.reasons,
        warnings=advice(posterior, made, None if corrected else found.shape, not job.settings.learnt_noise),
        n_evaluations=len(state),
        evaluations=made,
        theta=job.coordinates.to_user(made.points),
        trace=Trace((*state.rows, row)),
        state=state,
        learnt=learnt,
        frame=frame,
        settings={"seed": job.seed, "dimension": job.target.dimension},
    )


def _bar(job: _Job, done: int) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=job.budget, initial=done, unit="evaluation", disable=not job.progress, leave=False)
