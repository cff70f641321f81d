"""`fit`: the variational posterior of a model and data, by the method that is named.

All arguments are checked here, before any work. The engine is :mod:`fit_run`, on :mod:`loop`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from acquisition.minibatch import Strategy
from bqvi.arguments import Apart, AtLeast, one_of
from bqvi.calls import HERE, Run, TargetModel
from bqvi.families.family import Distribution
from bqvi.gradients import BayesianQuadrature, Estimator
from bqvi.inference import beginning
from bqvi.inference.beginning import searches
from bqvi.inference.choices import (
    METHODS,
    check_model,
    default_recorder,
    defaults_for,
    estimator_of,
    problem_of,
    stop_of,
    with_calls,
    with_known,
    with_natural_steps,
)
from bqvi.inference.data_parallel import require_same_end
from bqvi.inference.fit_run import DOOR, FitRun, classes
from bqvi.inference.loop import Records, start
from bqvi.inference.result import Fit
from bqvi.inference.starts_run import Starts, StartsRun
from bqvi.inference.state import LoopState, Model, Monitor, Record, Recorder, as_record
from bqvi.inference.steps import Geometry, Schedule
from bqvi.models.contracts import settled
from bqvi.models.data import Data
from bqvi.models.log_joint import LogJoint
from bqvi.records import named
from bqvi.runs import Checkpoint, Ended, Steps, door, resumed
from gp.arrays import Array
from gp.checks import Seed, generator, require_one_of, require_seed


@door(Fit)
def fit(
    model: Model | TargetModel,
    data: Data = None,
    method: str | Estimator = "cavi",
    *,
    minibatch: Strategy | int | str | None = None,
    schedule: Schedule | None = None,
    geometry: Geometry | None = None,
    samples: int | None = None,
    family: Annotated[str, one_of(beginning.FAMILIES)] = "full",
    start_from: str | Distribution = "k-means++",
    starts: Annotated[int, AtLeast(1)] = 1,
    steps: Annotated[int | None, AtLeast(0)] = None,
    tolerance: float | Literal["default"] | None = "default",
    budget: Annotated[int | None, AtLeast(0)] = None,
    record: Annotated[Record | int | Iterable[int] | None, as_record] = None,
    evaluations: Annotated[Sequence[Array] | None, Apart("starts", "they are for one start")] = None,
    seed: Annotated[Seed, require_seed] = 0,
    resume: Fit | Ended | str | Path | None = None,
    run: Run = HERE,
) -> Steps[Any, Fit]:
    """Fit a variational posterior q(theta) by ascending the ELBO.

    Parameters
    ----------
    model : a `ConjugateModel`, a `LogJointModel` or an `AmortisedModel` (a `VariationalAutoencoder`); or a
        `TargetModel` of `bqvi.adapters`, which is used as a `LogJoint` with the model's names and plausible
        box. Where that box is only a guess and none is given here, q begins around the model's start
    data : N rows of the kind that the model takes; None for a `LogJoint`, which has its own
    method : 'cavi', 'memoised', 'gd', 'ngd', 'sgd', 'sngd' (conjugate models), 'score', 'pathwise', 'iwae',
        'dreg' (any model; for an `AmortisedModel` these four), 'bq' (a `LogJointModel` with a Gaussian q: the
        fewest evaluations), or an estimator such as ``Pathwise(5, entropy="sticking-the-landing")``. The
        defaults of geometry, schedule and steps for an estimator are those of 'pathwise', and for a
        ``BayesianQuadrature`` those of 'bq', or with a mini-batch of 'pathwise'
    minibatch : a strategy of `acquisition.minibatch`; or S, for uniform draws without replacement; or
        'balanced': batches that each resemble the data, S = min(100, N), recommended on an unknown problem:
        they are unbiased, have positive weights and no settings, and where their kernel explains no variance
        are a random reshuffling. Their set-up takes about 40 microseconds a datum (``setup_seconds``). The
        stochastic methods default to random reshuffling with S = min(100, N). 'memoised' takes S alone,
        and visits each batch in turn; its default is a tenth of the data, at least 100. Of 'bq', which keeps
        evaluations of one log joint, only ``BayesianQuadrature(memory=0)`` takes mini-batches
    schedule : the step sizes; default by method (`choices`)
    geometry : `Natural`, `Riemannian`, `Euclidean` or `TrustRegion`; default by method
    samples : L, draws of theta in each step, for the sampling methods; new evaluations in each step, for 'bq'
    family : of a Gaussian q: 'full', 'mean-field', or 'point' for MAP (EM, for a conjugate model)
    start_from : 'k-means++', 'random', or a distribution to start at: for q a mixture of Gaussians over R^D a
        `families.GaussianMixture`, with 'pathwise' or 'score'. By default one start of 'score', 'pathwise',
        'iwae' or 'dreg' on a `LogJointModel` begins with a search (`beginning`): a climb to a mode and the
        curvature there, by at most half of the budget, and makes natural steps if no schedule is given. With
        'bq' a search begins at a Gaussian q that is far from the posterior, by its first evaluations
    starts : number of starts; the fit with the best ELBO is returned
    steps : the largest number of iterations; default by method, unless evaluations or seconds are limited
    tolerance : nats; None: the run goes on to its other limits. Of 'bq', by default .05: the run ends, as
        ``converged``, once q stands still, the ELBO's sd is below it, and some ten evaluations that could
        have refuted this have not (`convergence`). With draws or mini-batches, and a model that is not
        conjugate, it ends once a natural step would gain less than half of it, by two standard errors,
        tested after 100, 200, 400, ... steps (`convergence`). Of others the change of the ELBO between
        two records, with two standard errors; by default 1e-6 for exact full-batch methods, else None
    budget : the largest number of evaluations, never exceeded: of the log joint, or per datum for a model
        with data. Evaluations for records and in all starts count. The evaluations of the last record are
        reserved, and the last step is shortened to those that remain, or left out
    record : what is recorded and when (`bqvi.Record`): the iterations, metrics of q, draws for the ELBO. Or
        the iterations alone, as there: a number from one record to the next, or a sequence
    evaluations : for estimators that keep evaluations, of a `LogJoint`: (theta (n, P), values (n,)) made
        before, then gradients (n, P) if the `LogJoint` has any; the noise of values is its ``noise_sd``. They
        count in the budget, and replace the design of the first step. Of thousands some hundreds are used
        (`calls.given`), and only these count
    seed : an integer or a generator; the same seed gives the same result
    resume : a `Fit`, the path of a saved one, or the exception that ended a run: the run continues from
        there, with the same model, data and choices, to the result of an uninterrupted run. Evaluations of a
        step that was cut short are used again; those of a model with data by 'score', 'pathwise', 'iwae' and
        'dreg' count, and are made again
    run : how the run is carried out (`bqvi.Run`): executor, workers, time limit, callback, progress line,
        checkpoint, verify, the treatment of errors

    Returns
    -------
    Fit

    Raises
    ------
    ValueError, TypeError
        Bad input, before any work.
    RunError
        The run failed: its cause is an `EvaluationError` where the log joint raised or was not finite.
        RunInterrupted : Ctrl-C. RunExit : SystemExit. For a `LogJoint`, and for 'bq' with any model, each of
        these exceptions has every evaluation that returned, also those of the step that was cut short, which
        are not made again when the run is resumed. A log joint that takes minutes should take one point in a
        call (``vectorised=False``), so that evaluations return one by one.

    ``fit.steps``, with the same arguments, returns the run itself, an iterator over its states.

    Examples
    --------
    The posterior of a mean, by quadrature from thirty evaluations; exactly 8 / 5 with variance 1 / 5:

    >>> import bqvi
    >>> import torch
    >>> data = torch.tensor([1.0, 3.0, 2.0, 2.0])
    >>> def log_joint(theta):  # (L, 1) -> (L,): N(theta, 1) for the data, N(0, 1) for theta
    ...     return -0.5 * ((data - theta) ** 2).sum(dim=1) - 0.5 * theta[:, 0] ** 2
    >>> model = bqvi.models.LogJoint(log_joint, dimension=1)
    >>> fit = bqvi.fit(model, method="bq", budget=30, seed=0)
    >>> print(f"{fit.q.mean[0]:.3f} {fit.q.covariance[0, 0]:.3f}")
    1.600 0.200
    """
    choice = None
    if isinstance(method, str):
        require_one_of("method", method, METHODS)
        choice = METHODS[method]
    log_joint: Any = LogJoint.of(model) if isinstance(model, TargetModel) else model
    whole: Any = settled(log_joint, data)
    check_model(whole, data, method, family)
    estimator = estimator_of(whole, method, choice, samples)
    whole = with_calls(whole, estimator, method, run, evaluations)
    if run.max_seconds is not None:
        require_same_end(whole, method, run.max_seconds)
    data = whole.check(data)
    defaults = choice or defaults_for(estimator, geometry, minibatch is not None)
    problem = problem_of(whole, data, estimator, method, defaults, minibatch, schedule, geometry)
    if isinstance(problem.estimator, BayesianQuadrature) and not problem.is_judged:
        defaults = replace(defaults, tolerance=None)
    stop = stop_of(defaults, steps, tolerance, budget, run.max_seconds)
    asked: Any = record or Record()
    monitor = Monitor(whole, data, asked.elbo_samples, asked.metrics or {})
    recorder = default_recorder(problem, stop, monitor) if asked.every is None else Recorder(asked.every)
    records = Records(monitor, recorder, stop)
    _check_budget(records, starts)
    if starts > 1 and not isinstance(start_from, str):
        raise ValueError(f"starts is {starts}; several starts cannot be given")
    rng = generator(seed)
    generators = rng.spawn(starts) if starts > 1 else [rng]
    qs = [beginning.starting_q(problem, start_from, family, one) for one in generators]
    begins = searches(problem, qs[0], isinstance(start_from, str) and starts == 1)
    problem = with_natural_steps(problem, qs[0], geometry, schedule, begins)
    first = [replace(start(problem, q, one), begins=begins) for q, one in zip(qs, generators, strict=True)]
    if evaluations is not None and resume is None:
        first = [with_known(problem.model, state, evaluations, budget) for state in first]
    runs = tuple(FitRun(problem, records, family, state) for state in first)
    engine: Any = StartsRun(runs) if starts > 1 else runs[0]
    state = None if resume is None else engine.resumed(_before(resume, first[0], starts, runs[0].settings))
    return Steps(engine, state, run, evaluations is not None and resume is None)


def _before(resume: object, first: LoopState, starts: int, settings: Mapping[str, Any]) -> Checkpoint:
    """The state of an earlier run with the same settings; the best of several starts, if one is asked for."""
    before = resumed(resume, DOOR, classes(first) | named(Starts), settings)
    if starts == 1 and isinstance(before.state, Starts):
        return replace(before, state=before.state.states[before.state.best])
    return before


def _check_budget(records: Records, starts: int) -> None:
    """Raise an error unless the fresh draws of the records leave evaluations for a step of each start."""
    monitor, budget = records.monitor, records.stop.budget
    if budget is not None and not monitor.exact and 0 < budget // starts <= monitor.cost:
        shared = f", {budget // starts} for each of {starts} starts" if starts > 1 else ""
        raise ValueError(
            f"budget is {budget}{shared}, and elbo_samples is {monitor.samples}: the last record alone takes "
            f"{monitor.cost} evaluations; raise the budget, or leave elbo_samples out"
        )
