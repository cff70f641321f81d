"""`fit`: a model, data and a method's name, and out comes q.

Everything is checked before any work; then it is the loop of `loop`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from acquisition.minibatch import Balanced, Features, Reshuffled, Strategy, Uniform
from bqvi.arrays import Seed, generator
from bqvi.checks import require_above, require_integer, require_one_of, require_seed
from bqvi.gradients import Estimator, RememberingEstimator
from bqvi.inference import checkpoint, starting
from bqvi.inference.geometry import Geometry, Natural, Riemannian, TrustRegion
from bqvi.inference.loop import NotFiniteError, Problem, State, Stop, gives_none, run, start
from bqvi.inference.methods import EXACT, METHODS, Method, method_named
from bqvi.inference.monitor import Monitor
from bqvi.inference.schedules import Schedule
from bqvi.inference.trace import Metrics, Recorder, Row, Trace, require_metrics
from bqvi.models.conjugate import ConjugateModel, LocalModel, PerDatumModel
from bqvi.models.data import Data, fingerprint, n_rows
from bqvi.models.log_joint import LogJointModel
from bqvi.models.representation import representation

_SIZE = 100
"""S where nobody said."""


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
    elbo_samples: int = 256,
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
        such as ``Pathwise(5, entropy="sticking-the-landing")``
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
    start_from : 'k-means++', 'random', or a distribution to start at
    starts : number of starts; the fit with the best ELBO is returned
    steps : most iterations in all; default by method, unless evaluations or seconds are limited
    tolerance : change of the ELBO between two records that ends the run, nats; by default 1e-6 for
        the exact full-batch methods and none for the others
    max_evaluations, max_seconds : further limits; seconds exclude recording
    record : record every so many iterations, or at these; default 1 for full-batch conjugate methods
        (their ELBO comes with the gradient), for estimators with memory the end only (a
        record costs ``elbo_samples`` evaluations that are not counted), else a hundredth of the steps
    metrics : name -> function of q, recorded beside the ELBO
    elbo_samples : draws for the recorded ELBO where it has no closed form
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
    """
    require_one_of("family", family, starting.FAMILIES)
    require_integer("starts", starts, 1)
    require_integer("elbo_samples", elbo_samples, 2)
    require_seed("seed", seed)
    require_metrics(metrics or {})
    named = method_named(method) if isinstance(method, str) else None
    _check_model(model, method, family)
    data = model.check(data)
    problem = _problem(model, data, method, named, minibatch, schedule, geometry, samples)
    stop = _stop(named, steps, tolerance, max_evaluations, max_seconds)
    recorder = _record_default(problem, stop) if record is None else Recorder.of(record)
    monitor = Monitor(model, data, elbo_samples, metrics or {})
    settings = _settings(problem, family)
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


def _check_model(model: Any, method: str | Estimator, family: str) -> None:
    if isinstance(model, type) or not isinstance(model, ConjugateModel | LogJointModel):
        raise TypeError(
            f"model is {model!r}; it must be a ConjugateModel (GaussianMixture, "
            "MultinomialMixture, ...) or a LogJointModel (LogJoint, LogisticRegression, ...)"
        )
    if method in EXACT and not isinstance(model, ConjugateModel if method == "cavi" else LocalModel):
        exact = [name for name in EXACT if name != "cavi"] if isinstance(model, LocalModel) else []
        others = exact + [name for name in METHODS if name not in EXACT]
        raise ValueError(
            f"method is {method!r}, which takes exact expectations that a {type(model).__name__} does not "
            f"have; use one of {', '.join(others)}"
        )
    if method in EXACT and family != "full" and not isinstance(model, ConjugateModel):
        raise ValueError(
            f"family is {family!r}, but the exact expectations of a {type(model).__name__} are under a full "
            "Gaussian q; use 'full', or method 'pathwise'"
        )


def _problem(
    model: Any,
    data: Data,
    method: str | Estimator,
    named: Method | None,
    minibatch: Strategy | int | str | None,
    schedule: Schedule | None,
    geometry: Geometry | None,
    samples: int | None,
) -> Problem:
    estimator = named.estimator(samples) if named is not None else method
    if not isinstance(estimator, Estimator):
        raise TypeError(f"method is {method!r}; it must be a method's name or an estimator")
    if named is None and samples is not None:
        raise ValueError("samples was given beside an estimator, which has its own; leave it out")
    choices = named or METHODS["pathwise"]
    geometry = choices.geometry if geometry is None else geometry
    schedule = choices.schedule if schedule is None else schedule
    if not isinstance(geometry, Geometry):
        raise TypeError(
            f"geometry is {geometry!r}; it must be one of Natural(), Riemannian(), Euclidean(), or have "
            "their methods"
        )
    if not isinstance(schedule, Schedule):
        raise TypeError(
            f"schedule is {schedule!r}; it must be one of Constant, Exponential, RobbinsMonro, Adam, "
            "or have their methods"
        )
    _check_steps(estimator, geometry, schedule)
    if isinstance(estimator, RememberingEstimator) and minibatch is not None:
        raise ValueError(
            f"minibatch is {minibatch!r}, but {type(estimator).__name__} keeps evaluations, which must be of "
            "the same log joint at each step; leave it out"
        )
    if minibatch is not None and getattr(model, "full_batch", False):
        raise ValueError(
            f"minibatch is {minibatch!r}, but a {type(model).__name__} has parameters for each datum and "
            "works on all the data; leave minibatch out"
        )
    if isinstance(minibatch, str):
        require_one_of("minibatch", minibatch, ("balanced",))
        minibatch = _balanced(model, data, choices.batch, method)
    strategy = _strategy(minibatch, choices.batch, n_rows(data), method)
    problem = Problem(model, data, estimator, geometry, schedule, strategy)
    _check_gradients(problem)
    return problem


def _check_gradients(problem: Problem) -> None:
    """Learning needs an estimator with per-datum gradients, negative weights a model that can project."""
    local = isinstance(problem.model, PerDatumModel) and (
        problem.estimator.samples == 0 or isinstance(problem.model, ConjugateModel)
    )
    if local:
        return
    if problem.learning and not getattr(problem.estimator, "per_datum", False):
        raise ValueError(gives_none(problem))
    if getattr(problem.minibatch, "signed", False) and problem.estimator.samples == 0:
        raise ValueError(
            f"minibatch is a {type(problem.minibatch).__name__}, whose weights can be negative, but a "
            f"{type(problem.model).__name__} needs positive ones: its statistics would leave their domain; "
            "use a strategy with positive weights, such as Balanced"
        )


def _check_steps(estimator: Estimator, geometry: Geometry, schedule: Schedule) -> None:
    """Natural steps must fit their estimator, and not go past 1."""
    if isinstance(geometry, Natural) and estimator.samples > 0:
        raise ValueError(
            "geometry is Natural, whose straight lines need a conjugate model's gradient; use "
            "Riemannian with a sampling estimator"
        )
    if isinstance(geometry, TrustRegion) and not isinstance(estimator, RememberingEstimator):
        raise ValueError(
            f"geometry is TrustRegion: needs BayesianQuadrature's surrogate, not {type(estimator).__name__}"
        )
    straight = isinstance(geometry, Natural | TrustRegion)
    too_far = straight if schedule.largest is None else schedule.largest > 1.0
    if too_far and isinstance(geometry, Natural | TrustRegion | Riemannian):
        raise ValueError(
            f"schedule is {schedule}; a natural step must not exceed 1, which lands on eta* (coordinate "
            "ascent; the surrogate's optimum): beyond it parameters overshoot, and can leave their domain"
        )


def _balanced(model: Any, data: Data, batch: str, method: str | Estimator) -> Strategy | str:
    """The default to trust; the name itself where a mini-batch has no place, for the error to show."""
    n = n_rows(data)
    if batch == "all" or n == 0:
        return "balanced"
    return Balanced(min(_SIZE, n), Features.of(representation(model, data)))


def _strategy(
    minibatch: Strategy | int | str | None, batch: str, n: int, method: str | Estimator
) -> Strategy | None:
    if batch == "all" and minibatch is not None:
        raise ValueError(
            f"minibatch is {minibatch!r}, but method {method!r} uses all the data at each step; use 'sngd' "
            "or 'sgd', or leave minibatch out"
        )
    if minibatch is None:
        return Reshuffled(min(_SIZE, n)) if batch == "mini-batch" else None
    if n == 0:
        raise ValueError(f"minibatch is {minibatch!r}, but the model has no data; leave it out")
    strategy = Uniform(int(minibatch)) if isinstance(minibatch, int | np.integer) else minibatch
    if isinstance(minibatch, bool) or not isinstance(strategy, Strategy):
        raise TypeError(f"minibatch is {minibatch!r}; it must be a strategy or a size, an integer")
    if not 1 <= strategy.size <= n:
        raise ValueError(f"minibatch has size {strategy.size}; it must be between 1 and N = {n}")
    return strategy


def _stop(
    named: Method | None,
    steps: int | None,
    tolerance: float | None,
    evaluations: int | None,
    seconds: float | None,
) -> Stop:
    for name, value in (("steps", steps), ("max_evaluations", evaluations)):
        if value is not None:
            require_integer(name, value, 0)
    for name, limit in (("tolerance", tolerance), ("max_seconds", seconds)):
        if limit is not None:
            require_above(name, limit, 0.0)
    choices = named or METHODS["pathwise"]
    if steps is None and evaluations is None and seconds is None:
        steps = choices.steps
    return Stop(steps, choices.tolerance if tolerance is None else tolerance, evaluations, seconds)


def _record_default(problem: Problem, stop: Stop) -> Recorder:
    if problem.minibatch is None and problem.estimator.samples == 0:
        return Recorder(every=1)
    if isinstance(problem.estimator, RememberingEstimator):
        return Recorder(chosen=frozenset(), first=False)
    return Recorder(every=max(1, (stop.steps or 1000) // 100))


def _settings(problem: Problem, family: str) -> dict[str, str]:
    """The choices that a saved state belongs to."""
    return {
        "model": type(problem.model).__name__,
        "prior": fingerprint(getattr(getattr(problem.model, "prior", None), "natural", None)),
        "rows": str(n_rows(problem.data)),
        "data": fingerprint(problem.data),
        "estimator": repr(problem.estimator),
        "geometry": repr(problem.geometry),
        "schedule": repr(problem.schedule),
        "minibatch": repr(problem.minibatch),
        "family": family,
    }


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
        checkpoint.require_shapes(stored.state.q.natural, template.q.natural)
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
