"""`fit`: a model, data and a method's name, and out comes q.

Everything is checked before any work; then it is the loop of `loop`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from acquisition.minibatch import Strategy
from bqvi.arrays import Seed, generator
from bqvi.checks import require_integer, require_one_of, require_seed
from bqvi.gradients import Estimator, RememberingEstimator
from bqvi.inference import checkpoint, starting
from bqvi.inference.choices import check_model, default_recorder, identity, problem_of, stop_of
from bqvi.inference.geometry import Geometry
from bqvi.inference.loop import NotFiniteError, Problem, State, Stop, run, start
from bqvi.inference.methods import defaults_for, method_named
from bqvi.inference.monitor import Monitor
from bqvi.inference.schedules import Schedule
from bqvi.inference.trace import Metrics, Recorder, Row, Trace, require_metrics
from bqvi.models.conjugate import settled
from bqvi.models.data import Data
from gp.threads import single_threaded


@dataclass(frozen=True)
class Fit:
    """What `fit` found, and what it took."""

    q: Any
    """The variational posterior."""
    elbo: float
    """Its ELBO, nats."""
    trace: Trace
    """Iterations, seconds, evaluations, samples, ELBO and metrics along the way."""
    stopped: str
    """Why it ended: 'tolerance', 'steps', 'evaluations', 'seconds', 'interrupted' or 'failed'."""
    state: State = field(repr=False)
    """Where the run stands; pass the fit as ``resume`` to go on from here."""
    problem: Problem = field(repr=False)
    """What was run."""
    settings: dict[str, str] = field(repr=False)
    """The choices, in words."""
    starts: tuple[float, ...] = ()
    """Final ELBO of each start, where there were several."""

    @property
    def converged(self) -> bool:
        """Whether the ELBO settled within the tolerance."""
        return self.stopped == "tolerance"

    @property
    def evaluations(self) -> int:
        """Spent by the steps: per datum, or of the log joint for a model without data."""
        return self.state.evaluations

    @property
    def record_evaluations(self) -> int:
        """Spent on the records of the trace beside that, in the same units, to know the ELBO."""
        return int(self.trace["record_evaluations"].sum())

    def save(self, path: str | Path) -> None:
        """Write the state and the trace to an .npz file that ``resume`` takes."""
        checkpoint.write(path, self.state, self.trace, self.problem.geometry, self.settings)


class FitError(RuntimeError):
    """A run that failed on the way; ``fit`` has all it reached until then."""

    def __init__(self, message: str, fit: Fit) -> None:
        super().__init__(message)
        self.fit = fit


class FitInterrupted(KeyboardInterrupt):
    """A run that was interrupted; ``fit`` has all it reached, and can be resumed."""

    def __init__(self, fit: Fit) -> None:
        super().__init__(
            f"interrupted at iteration {fit.state.iteration}; pass this exception's .fit as resume to go on"
        )
        self.fit = fit


def fit(
    model: Any,
    data: Data = None,
    method: str | Estimator = "cavi",
    *,
    minibatch: Strategy | int | str | None = None,
    schedule: Schedule | None = None,
    geometry: Geometry | None = None,
    samples: int | None = None,
    family: str = "full",
    start_from: str | Any = "k-means++",
    starts: int = 1,
    steps: int | None = None,
    tolerance: float | None = None,
    max_evaluations: int | None = None,
    max_seconds: float | None = None,
    record: int | Iterable[int] | None = None,
    metrics: Metrics | None = None,
    elbo_samples: int | None = None,
    progress: bool = False,
    seed: Seed = 0,
    resume: Fit | str | Path | None = None,
) -> Fit:
    """Fit a variational posterior q(theta) by ascending the ELBO.

    Parameters
    ----------
    model : a `ConjugateModel` or a `LogJointModel`
    data : what the model takes, N rows; None for a `LogJoint`
    method : 'cavi', 'gd', 'ngd', 'sgd', 'sngd' (conjugate models), 'score', 'pathwise', 'iwae', 'dreg'
        (any model), 'bq' (a `LogJointModel` with a Gaussian q: the fewest evaluations), or an estimator
        such as ``Pathwise(5, entropy="sticking-the-landing")``, with 'pathwise's geometry, schedule and steps
        by default; a ``BayesianQuadrature`` has those of 'bq'
    minibatch : strategy of `acquisition.minibatch`; or S, for uniform without replacement; or 'balanced':
        batches that each look like the data, S = min(100, N). That one can be trusted on an unknown
        problem: it is unbiased, has positive weights and nothing to tune, and is random reshuffling where
        its kernel is of no use. It takes about 40 microseconds a datum once (``trace['setup_seconds']``),
        which pays over many epochs, or where a datum is expensive. The stochastic methods default to
        random reshuffling with S = min(100, N), which takes none
    schedule : step sizes; default by method (`methods`)
    geometry : `Natural`, `Riemannian`, `Euclidean` or `TrustRegion`; default by method
    samples : L, draws of theta a step, for the sampling methods; new evaluations a step, for 'bq'
    family : of a Gaussian q: 'full', 'mean-field', or 'point' for MAP (EM, for a conjugate model)
    start_from : 'k-means++', 'random', or a distribution to start at: for q a mixture of Gaussians over R^D a
        `families.GaussianMixture`, with 'pathwise', 'score' or a `MixtureQuadrature`
    starts : number of starts; the fit with the best ELBO is returned
    steps : most iterations in all; default by method, unless evaluations or seconds are limited
    tolerance : change of the ELBO between two records that ends the run, nats; by default 1e-6 for
        the exact full-batch methods and none for the others
    max_evaluations, max_seconds : further limits of the steps, without records. The step that reaches one is
        the last, and it is made whole: 8 evaluations for a limit of 7 at 2 a step
    record : record every so many iterations, or at these, and at the end; default 1 for full-batch conjugate
        methods (their ELBO comes with the gradient), for estimators with memory the end only, else a
        hundredth of the steps
    metrics : name -> function of q, recorded beside the ELBO
    elbo_samples : fresh draws for each recorded ELBO that has no closed form, at least 2. Each is an
        evaluation beside those of the steps, in ``Fit.record_evaluations`` and
        ``trace['record_evaluations']``. None: the ELBO comes from the evaluations that the method has
        kept ('bq'), at no further one and with the standard deviation of its surrogate; methods that
        keep none draw 256
    progress : show a progress bar
    seed : or a generator; the same seed gives the same result
    resume : a `Fit` or a saved one's path: go on from there, with the same model, data and choices;
        the result is that of an uninterrupted run

    Returns
    -------
    Fit

    Raises
    ------
    ValueError, TypeError
        Bad input, before any work.
    FitError
        The run failed (a log joint that raised or was not finite); carries the fit so far.
    FitInterrupted
        Ctrl-C; carries the fit so far.

    Another `BaseException`, such as the ``SystemExit`` of a signal's handler, passes as it is, with the fit
    so far as its attribute ``fit``. However a run ends, that has every good evaluation of an estimator with
    memory, those of the round that was cut short among them: all calls that returned, so a log joint that
    takes minutes should take one point a call (``vectorised=False``).
    """
    require_one_of("family", family, starting.FAMILIES)
    require_integer("starts", starts, 1)
    if elbo_samples is not None:
        require_integer("elbo_samples", elbo_samples, 2)
    require_seed("seed", seed)
    require_metrics(metrics or {})
    named = method_named(method) if isinstance(method, str) else None
    model = settled(model, data)
    check_model(model, method, family)
    data = model.check(data)
    problem = problem_of(model, data, method, named, minibatch, schedule, geometry, samples)
    stop = stop_of(named or defaults_for(method, geometry), steps, tolerance, max_evaluations, max_seconds)
    recorder = default_recorder(problem, stop) if record is None else Recorder.of(record)
    monitor = Monitor(model, data, elbo_samples, metrics or {})
    settings = identity(problem, family)
    job = _Job(problem, stop, recorder, monitor, settings, progress)
    rng = generator(seed)
    if starts > 1:
        if resume is not None or not isinstance(start_from, str):
            raise ValueError(f"starts is {starts}; several starts can neither resume nor be given")
        return _best_of(job, [_initial(job, start_from, family, child) for child in rng.spawn(starts)])
    state = _initial(job, start_from, family, rng)
    if resume is None:
        return _drive(job, state, Trace())
    return _drive(job, *_resumed(job, resume, state))


@dataclass(frozen=True)
class _Job:
    problem: Problem
    stop: Stop
    recorder: Recorder
    monitor: Monitor
    settings: dict[str, str]
    progress: bool


def _initial(job: _Job, start_from: str | Any, family: str, rng: np.random.Generator) -> State:
    q = starting.starting_q(job.problem, start_from, family, rng)
    return start(job.problem, q, rng)


def _resumed(job: _Job, resume: Fit | str | Path, template: State) -> tuple[State, Trace]:
    if not isinstance(resume, Fit | str | Path):
        raise TypeError(f"resume is {resume!r}; it must be a Fit or the path of a saved one")
    stored = resume if isinstance(resume, Fit) else checkpoint.read(resume)
    for name, now in job.settings.items():
        before = stored.settings[name]
        if before != now:
            raise ValueError(
                f"the fit to resume had {name} {before}, this call has {now}; resume with the same "
                "model, data and choices"
            )
    if isinstance(stored, Fit):
        geometry = job.problem.geometry
        checkpoint.require_shapes(geometry.coordinates(stored.state.q), geometry.coordinates(template.q))
        return stored.state.fork(), stored.trace
    return checkpoint.restore(stored, template, job.problem.geometry)


def _best_of(job: _Job, states: list[State]) -> Fit:
    fits: list[Fit] = []
    failures: list[FitError] = []
    for state in states:
        try:
            fits.append(_drive(job, state, Trace()))
        except FitInterrupted as interrupt:
            raise FitInterrupted(_best([*fits, interrupt.fit])) from interrupt
        except FitError as error:
            failures.append(error)
            fits.append(error.fit)
    if len(failures) == len(states):
        raise FitError(f"every start failed; the first: {failures[0]}", _best(fits)) from failures[0]
    return _best(fits)


def _best(fits: list[Fit]) -> Fit:
    best = max(fits, key=lambda found: found.elbo if _is_sound(found) else -np.inf)
    return replace(best, starts=tuple(found.elbo for found in fits))


def _is_sound(found: Fit) -> bool:
    return found.stopped != "failed" and bool(np.isfinite(found.elbo))


def _drive(job: _Job, state: State, trace: Trace) -> Fit:
    """Run to the end; a surrogate's matrices are small, and take one thread."""
    small = isinstance(job.problem.estimator, RememberingEstimator)
    with single_threaded() if small else nullcontext():
        return _driven(job, state, trace)


def _driven(job: _Job, state: State, trace: Trace) -> Fit:
    """Run to the end, and keep what was reached whatever happens."""
    rows = list(trace.rows)
    if rows and rows[-1].iteration == state.iteration:
        rows.pop()  # the closing record of a run that now goes on: it had no gradient, hence no bound
    reason: str | None = None
    reached = state
    with _bar(job, state.iteration) as bar:
        try:
            steps = run(job.problem, state, job.monitor, job.recorder, job.stop, rows)
            for reached, reason in steps:  # noqa: B007 (both are wanted when the loop is cut short)
                bar.update(reason is None)
        except KeyboardInterrupt as interrupt:
            raise FitInterrupted(_finish(job, reached, rows, "interrupted")) from interrupt
        except NotFiniteError as error:
            raise FitError(str(error), _finish(job, reached, rows, "failed")) from error
        except Exception as error:
            message = f"iteration {reached.iteration} failed: {type(error).__name__}: {error}"
            if "LinAlgError" in type(error).__name__:  # NumPy's or torch's
                message += (
                    "; unless the log joint raised it, a covariance of q became singular: the steps are too "
                    "large, lower the schedule's scale"
                )
            raise FitError(message, _finish(job, reached, rows, "failed")) from error
        except BaseException as stop:  # not ours to change
            stop.fit = _finish(job, reached, rows, "interrupted")  # type: ignore[attr-defined]
            raise
    return _finish(job, reached, rows, reason or "steps")


def _finish(job: _Job, state: State, rows: list[Row], stopped: str) -> Fit:
    return Fit(
        q=state.q,
        elbo=rows[-1].elbo if rows else float("nan"),
        trace=Trace(tuple(rows)),
        stopped=stopped,
        state=state.fork(),
        problem=job.problem,
        settings=job.settings,
    )


def _bar(job: _Job, done: int) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=job.stop.steps, initial=done, unit="step", disable=not job.progress, leave=False)
