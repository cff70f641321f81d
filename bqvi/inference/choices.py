"""The arguments of `fit`, checked and completed with defaults, as the records that the loop takes.

name      gradient                      geometry    data          step
cavi      eta* - eta                    natural     all           1
ngd       eta* - eta                    natural     all           1/2
gd        the same, pulled back         Euclidean   all           Adam
memoised  the same, kept by batch       natural     a batch       1
sngd      eta* - eta of a mini-batch    natural     mini-batch    Robbins-Monro
sgd       the same, pulled back         Euclidean   mini-batch    Adam
score, pathwise, iwae, dreg             Euclidean   all, or       Adam
                                                    mini-batch
bq        Bayesian quadrature, with memory  trust       all           to the surrogate's
          of earlier evaluations            region                    optimum

model, data, method, minibatch, schedule, geometry  ->  Problem
steps, tolerance, limits                            ->  Stop
record                                              ->  Recorder
run, evaluations                                    ->  the model as the run evaluates it, the first state

Earlier evaluations and the treatment of points without a value are for estimators that keep evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from acquisition.minibatch import Balanced, Features, Reshuffled, Strategy, Uniform
from bqvi.arguments import instead
from bqvi.calls import Run, make_coordinates
from bqvi.calls.caller import Caller
from bqvi.calls.given import evaluation_arrays, given, selected
from bqvi.calls.target_model import box_around
from bqvi.gradients import (
    BayesianQuadrature,
    Conjugate,
    Estimator,
    Memoised,
    RefinedConjugate,
    RememberingEstimator,
)
from bqvi.gradients.conjugate import RefinableModel
from bqvi.gradients.evaluations import caller_of, is_as_stated
from bqvi.gradients.settings import MEMOISED, STOCHASTIC
from bqvi.inference.loop import no_gradients_message
from bqvi.inference.settings import DEFAULTS
from bqvi.inference.state import LoopProblem, LoopState, Model, Monitor, Recorder, Stop
from bqvi.inference.steps import (
    Adam,
    Constant,
    Euclidean,
    Geometry,
    Natural,
    Riemannian,
    RobbinsMonro,
    Schedule,
    TrustRegion,
)
from bqvi.models.contracts import (
    AmortisedModel,
    ConjugateModel,
    LocalModel,
    PerDatumModel,
    is_amortised,
    is_conjugate,
)
from bqvi.models.data import Data, n_rows
from bqvi.models.log_joint import VALUES_ONLY, LogJoint, LogJointModel
from bqvi.models.representation import representation
from bqvi.records import fingerprint
from bqvi.runs.settings import ENGINES
from gp.arrays import shown
from gp.checks import require_above, require_integer, require_shape


@dataclass(frozen=True)
class Method:
    """A named choice."""

    estimator: Callable[[int | None], Estimator]
    """A function of the number of samples (None: the estimator's default) that returns the estimator."""
    geometry: Geometry
    schedule: Schedule
    batch: str
    """'all', 'mini-batch', or 'either'."""
    steps: int
    """Iterations when neither steps nor another stop is given."""
    tolerance: float | None = None
    """The tolerance by default, nats."""


def _exact(samples: int | None) -> Estimator:
    if samples is not None:
        raise ValueError(
            f"samples is {samples}, but this method takes exact expectations; leave it out, or use "
            "'score', 'pathwise', 'iwae', 'dreg' or 'bq'"
        )
    return Conjugate()


def _memoised(samples: int | None) -> Estimator:
    _exact(samples)
    return Memoised()


def _sampling(name: str) -> Callable[[int | None], Estimator]:
    def make(samples: int | None) -> Estimator:
        from bqvi import gradients

        kind: Any = getattr(gradients, name)
        return kind() if samples is None else kind(samples=samples)

    return make


def _quadrature(nodes: int | None) -> Estimator:
    from bqvi.gradients import BayesianQuadrature

    if nodes is None:
        return BayesianQuadrature()
    return BayesianQuadrature(nodes=require_integer("samples", nodes, 1))


_STEADY, _FALLING = Adam(DEFAULTS.rate), Adam(DEFAULTS.rate, decay=DEFAULTS.decay)

METHODS: dict[str, Method] = {
    "cavi": Method(_exact, Natural(), Constant(1.0), "all", 1000, DEFAULTS.tolerance),
    "memoised": Method(_memoised, Natural(), Constant(1.0), "all", 1000, DEFAULTS.tolerance),
    "ngd": Method(_exact, Natural(), Constant(0.5), "all", 1000, DEFAULTS.tolerance),
    "gd": Method(_exact, Euclidean(), _STEADY, "all", 1000, DEFAULTS.tolerance),
    "sngd": Method(_exact, Natural(), RobbinsMonro(STOCHASTIC.power, STOCHASTIC.delay), "mini-batch", 1000),
    "sgd": Method(_exact, Euclidean(), _FALLING, "mini-batch", 1000),
    "score": Method(_sampling("Score"), Euclidean(), _FALLING, "either", 1000),
    "pathwise": Method(_sampling("Pathwise"), Euclidean(), _FALLING, "either", 1000),
    "iwae": Method(_sampling("IWAE"), Euclidean(), _FALLING, "either", 1000),
    "dreg": Method(_sampling("DReG"), Euclidean(), _FALLING, "either", 1000),
    "bq": Method(_quadrature, TrustRegion(), Constant(1.0), "all", 50, ENGINES.tolerance),
}

EXACT = tuple(_name for _name, _method in METHODS.items() if _method.estimator in (_exact, _memoised))


def for_networks(choices: Method) -> Method:
    """The defaults where parameters are those of networks: smaller steps, and a mini-batch in any case."""
    return replace(choices, schedule=Adam(DEFAULTS.network_rate), batch="mini-batch", geometry=Euclidean())


def gives_surrogate(estimator: object) -> bool:
    """Whether the estimator's gradients are those of a surrogate, which a trust region needs."""
    return isinstance(estimator, RememberingEstimator) and getattr(estimator, "gives_surrogate", True)


def defaults_for(estimator: object, geometry: Geometry | None, drawn: bool = False) -> Method:
    """The default choices for an estimator, of ``drawn`` mini-batches or not: those of 'bq' or 'pathwise'."""
    if isinstance(estimator, Memoised):
        return METHODS["memoised"]
    in_region = isinstance(geometry, TrustRegion) or (geometry is None and not drawn)
    return METHODS["bq" if in_region and gives_surrogate(estimator) else "pathwise"]


_MODELS = ConjugateModel | LogJointModel | AmortisedModel


def _is_model(given: object) -> bool:
    """Whether ``given`` keeps one of the contracts of models, also where its prior is taken from data."""
    try:
        return isinstance(given, _MODELS)
    except ValueError:  # raised by the prior: before Python 3.12 a protocol's check reads this attribute
        return True


def check_model(model: Model, data: Any, method: str | Estimator, family: str) -> None:
    """Raise TypeError where ``model`` keeps no contract, ValueError where it lacks what the method needs.

    Parameters
    ----------
    model : what the user gave as model. data : what was given as data, which messages look at where the two
        are exchanged.
    method : the estimator or its name. family : the name of q's family.
    """
    if isinstance(model, type) or not isinstance(model, _MODELS):
        of_function = (
            f"; of a function it is bqvi.models.LogJoint({getattr(model, '__name__', 'f')}, dimension)"
        )
        if _is_model(data):
            raise TypeError(
                f"model is a {type(model).__name__} and data a {type(data).__name__}, which is a model: give "
                "them in the order fit(model, data)"
            )
        raise TypeError(
            f"model is {shown(model)}; it must be a ConjugateModel (GaussianMixture, "
            "MultinomialMixture, ...), a LogJointModel (LogJoint, LogisticRegression, ...) or a "
            f"VariationalAutoencoder{instead(model) or of_function * callable(model)}"
        )
    if is_amortised(model):
        if family != "full":
            raise ValueError(
                f"family is {family!r}; a {type(model).__name__} determines q itself: weights are "
                "points, or Gaussian where they have a prior; leave family out"
            )
        return
    exactly = isinstance(method, str) and method in EXACT
    if exactly and not isinstance(model, ConjugateModel if method == "cavi" else LocalModel):
        exact = ["ngd", "memoised", "sngd", "gd", "sgd"] if isinstance(model, LocalModel) else []
        others = exact + [name for name in METHODS if name not in EXACT]
        raise ValueError(
            f"method is {method!r}, which takes exact expectations that a {type(model).__name__} does not "
            f"have; use one of {', '.join(others)}"
        )
    if exactly and family != "full" and not isinstance(model, ConjugateModel):
        raise ValueError(
            f"family is {family!r}, but the exact expectations of a {type(model).__name__} are under a full "
            "Gaussian q; use 'full', or method 'pathwise'"
        )


def problem_of(
    model: Model,
    data: Data,
    estimator: Estimator,
    method: str | Estimator,
    defaults: Method,
    minibatch: Strategy | int | str | None,
    schedule: Schedule | None,
    geometry: Geometry | None,
) -> LoopProblem:
    """The problem of the loop; ValueError or TypeError where choices exclude each other or the model.

    Parameters
    ----------
    model, data : the model, and N rows of its data. estimator : as of `estimator_of`.
    method : the estimator or its name. defaults : of the arguments that are None.
    minibatch : a strategy, S, the name of a strategy, or None. schedule, geometry : how far and in which
        direction q moves.
    """
    if isinstance(estimator, Memoised) and isinstance(minibatch, int) and not isinstance(minibatch, bool):
        estimator, minibatch = Memoised(require_integer("minibatch", minibatch, 1)), None
    if is_amortised(model):
        _check_amortised(model, estimator, method)
        defaults = for_networks(defaults)
    geometry = defaults.geometry if geometry is None else geometry
    schedule = defaults.schedule if schedule is None else schedule
    _check_steps(estimator, geometry, schedule)
    _check_minibatch(model, estimator, minibatch)
    if isinstance(minibatch, str):
        if minibatch != "balanced":
            raise ValueError(
                f"minibatch is {minibatch!r}; it must be 'balanced', the number of data in a mini-batch (an "
                "integer), or a strategy of acquisition.minibatch"
            )
        minibatch = _balanced(model, data, defaults.batch)
    strategy = _strategy(minibatch, defaults.batch, n_rows(data), method)
    problem = LoopProblem(model, data, estimator, geometry, schedule, strategy)
    _check_gradients(problem)
    return problem


def estimator_of(model: Any, method: str | Estimator, named: Method | None, samples: int | None) -> Estimator:
    """The estimator, with ``samples`` draws a step, of a ``method`` for a ``model``, ``named`` if it was."""
    estimator = named.estimator(samples) if named is not None else method
    if not isinstance(estimator, Estimator) or isinstance(estimator, type):
        raise TypeError(
            f"method is {shown(method)}; it must be a method's name or an estimator{instead(method)}; "
            "x and y of a regression are given as (x, y)"
        )
    if named is None and samples is not None:
        raise ValueError("samples was given beside an estimator, which has its own; leave it out")
    if isinstance(estimator, Conjugate) and named is not None and named.batch == "all":
        return RefinedConjugate() if isinstance(model, RefinableModel) else estimator
    return estimator


def _check_amortised(model: AmortisedModel, estimator: object, method: str | Estimator) -> None:
    """Raise ValueError unless the estimator has a form for q(z | x) of an encoder."""
    if not hasattr(estimator, "local_bound"):
        raise ValueError(
            f"method is {method!r}; for a {type(model).__name__} it must be 'pathwise', 'score', 'iwae', "
            "'dreg', or one of their estimators"
        )
    estimator.local_bound(model)


def _check_minibatch(model: object, estimator: Estimator, minibatch: Strategy | int | str | None) -> None:
    """Raise ValueError for a mini-batch where the estimator or the model needs all data at each step."""
    keeps = isinstance(estimator, RememberingEstimator) and getattr(estimator, "memory", None) != 0
    if keeps and minibatch is not None:
        without = " or use BayesianQuadrature(memory=0)" if hasattr(estimator, "memory") else ""
        raise ValueError(
            f"minibatch is {shown(minibatch)}, but {type(estimator).__name__} keeps evaluations, which must "
            f"be of the same log joint at each step; leave it out{without}"
        )
    if minibatch is not None and getattr(model, "full_batch", False):
        raise ValueError(
            f"minibatch is {shown(minibatch)}, but a {type(model).__name__} has parameters for each datum "
            "and works on all the data; leave minibatch out"
        )


def _check_gradients(problem: LoopProblem) -> None:
    """Raise ValueError where gradients, those of single data or a projection are needed and not there."""
    if is_amortised(problem.model):
        return
    needed = getattr(problem.estimator, "needs_gradients", False)
    if needed and isinstance(problem.model, LogJoint) and not problem.model.differentiable:
        raise ValueError(VALUES_ONLY)
    local = isinstance(problem.model, PerDatumModel) and (
        problem.estimator.samples == 0 or isinstance(problem.model, ConjugateModel)
    )
    if local:
        return
    if problem.learning and not getattr(problem.estimator, "per_datum", False):
        raise ValueError(no_gradients_message(problem))
    if getattr(problem.minibatch, "signed", False) and problem.estimator.samples == 0:
        raise ValueError(
            f"minibatch is a {type(problem.minibatch).__name__}, whose weights can be negative, but a "
            f"{type(problem.model).__name__} needs positive ones: its statistics would leave their domain; "
            "use a strategy with positive weights, such as Balanced"
        )


def _check_steps(estimator: Estimator, geometry: object, schedule: object) -> None:
    """Raise an error where geometry, schedule and estimator exclude each other, or natural steps exceed 1."""
    if not isinstance(geometry, Geometry) or isinstance(geometry, type):
        raise TypeError(
            f"geometry is {shown(geometry)}; it must be one of Natural(), Riemannian(), Euclidean(), "
            f"TrustRegion(), or have their methods{instead(geometry)}"
        )
    if not isinstance(schedule, Schedule) or isinstance(schedule, type):
        constant = (
            f"; a constant step is bqvi.Constant({schedule})" if isinstance(schedule, float | int) else ""
        )
        raise TypeError(
            f"schedule is {shown(schedule)}; it must be one of Constant, Exponential, RobbinsMonro, Adam, "
            f"Cosine, or have their methods{instead(schedule) or constant}"
        )
    if isinstance(geometry, Natural) and estimator.samples > 0:
        raise ValueError(
            "geometry is Natural, whose straight lines need a conjugate model's gradient; use "
            "Riemannian with a sampling estimator"
        )
    if isinstance(geometry, TrustRegion) and not gives_surrogate(estimator):
        raise ValueError(
            f"geometry is TrustRegion, which needs a surrogate as BayesianQuadrature's: a "
            f"{type(estimator).__name__} has none; use Riemannian or Euclidean"
        )
    straight = isinstance(geometry, Natural | TrustRegion)
    too_far = straight if schedule.largest is None else schedule.largest > 1.0
    if too_far and isinstance(geometry, Natural | TrustRegion | Riemannian):
        raise ValueError(
            f"schedule is {schedule}; a natural step must not exceed 1, which lands on eta* (coordinate "
            "ascent; the surrogate's optimum): beyond it parameters overshoot, and can leave their domain"
        )


def _balanced(model: object, data: Data, batch: str) -> Strategy | str:
    """The strategy of the name 'balanced'; the name itself where no mini-batch is possible, for the error."""
    n = n_rows(data)
    if batch == "all" or n == 0:
        return "balanced"
    return Balanced(min(MEMOISED.least, n), Features.of(representation(model, data)))


def _strategy(
    minibatch: Strategy | int | str | None, batch: str, n: int, method: str | Estimator
) -> Strategy | None:
    if batch == "all" and minibatch is not None:
        raise ValueError(
            f"minibatch is {shown(minibatch)}, but method {method!r} uses all the data at each step; use "
            "'sngd', 'sgd' or 'memoised', or leave minibatch out"
        )
    if minibatch is None:
        return Reshuffled(min(MEMOISED.least, n)) if batch == "mini-batch" else None
    if n == 0:
        raise ValueError(f"minibatch is {shown(minibatch)}, but the model has no data; leave it out")
    strategy = Uniform(int(minibatch)) if isinstance(minibatch, int | np.integer) else minibatch
    if isinstance(minibatch, bool | type) or not isinstance(strategy, Strategy):
        raise TypeError(
            f"minibatch is {shown(minibatch)}; it must be a strategy or a size, an integer"
            f"{instead(minibatch)}"
        )
    if not 1 <= strategy.size <= n:
        raise ValueError(f"minibatch has size {strategy.size}; it must be between 1 and N = {n}")
    return strategy


def with_natural_steps(
    problem: LoopProblem, q: Any, geometry: Geometry | None, schedule: Schedule | None, begins: bool
) -> LoopProblem:
    """The problem with natural steps of 1 / (t + tau), where these have no other length.

    Natural steps are the same in all coordinates, so that they need no scale where q begins at the mode, as
    wide as the curvature says. Steps of 1 / t average the noise of all gradients. tau is the number of draws
    whose mean has a matrix of second moments, (D, D), with a noise that is small.

    Parameters
    ----------
    problem : the problem with the method's own defaults. q : the first q.
    geometry, schedule : those that were chosen, or None. begins : whether the run begins at a mode.
    """
    natural = begins and geometry is None and isinstance(problem.geometry, Euclidean)
    if schedule is not None or not (natural or isinstance(geometry, Riemannian)):
        return problem
    tau = STOCHASTIC.delay + 2.0 * getattr(q, "dimension", 0)
    return replace(problem, geometry=Riemannian(), schedule=RobbinsMonro(1.0, tau=tau))


def stop_of(
    choices: Method,
    steps: int | None,
    tolerance: float | Literal["default"] | None,
    budget: int | None,
    seconds: float | None,
) -> Stop:
    """The conditions on which the loop ends; without a limit, the method's own number of steps.

    Parameters
    ----------
    choices : the method, whose number of steps and tolerance are the defaults. steps : the most iterations.
    tolerance : nats, or 'default'. budget : the most evaluations. seconds : the longest time of the steps.
        None of the four is a limit where it is None.
    """
    if tolerance == "default":
        tolerance = choices.tolerance
    if tolerance is not None:
        require_above("tolerance", tolerance, 0.0)
    if steps is None and budget is None and seconds is None:
        steps = choices.steps
    return Stop(steps, tolerance, budget, seconds)


def default_recorder(problem: LoopProblem, stop: Stop, monitor: Monitor) -> Recorder:
    """Records at every step or pass where they take no time, at the end alone where they do, else 100.

    Those of a mini-batch run before the closing one take a tenth of the evaluations of its steps at most.

    Parameters
    ----------
    problem : the problem of the loop. stop : when the run ends. monitor : makes the records.
    """
    if isinstance(problem.estimator, Memoised):  # free once a pass, but not before the first pass has ended
        return Recorder(every=problem.estimator.batches(n_rows(problem.data)), first=False)
    if problem.minibatch is None and problem.estimator.samples == 0:
        return Recorder(every=1)
    if isinstance(problem.estimator, RememberingEstimator):
        return Recorder(frozenset(), first=False)
    steps = stop.steps or 1000
    every = max(1, steps // 100)
    if problem.minibatch is None or not monitor.exact:
        return Recorder(every=every)
    draws = 1 if is_conjugate(problem.model) else max(problem.estimator.samples, 1)
    every = max(every, math.ceil(monitor.cost / (DEFAULTS.records * problem.minibatch.size * draws)))
    return Recorder(every=every, first=2 * every <= steps)


def identity(problem: LoopProblem, family: str) -> dict[str, str | bool]:
    """The choices with which a saved state was made."""
    function = getattr(problem.model, "function", None)
    noise_sd = getattr(function, "noise_sd", None)
    coordinates = getattr(problem.model, "coordinates", None)
    called = {} if function is None else Caller(function, coordinates).identity
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
        "settings": getattr(problem.model, "settings", ""),
        "gradient": bool(getattr(problem.model, "differentiable", False)),
        "noise_sd": "a function" if callable(noise_sd) else str(noise_sd),
        "gradient_noise_sd": fingerprint(getattr(function, "gradient_noise_sd", None)),
        **called,
    }


def with_calls(model: Any, estimator: Estimator, method: str | Estimator, run: Run, known: object) -> Any:
    """The model as a ``run`` evaluates it, one of another package in the coordinates of its box.

    Methods that keep no evaluations begin at N(0, I) for such a model, as for any log joint.

    Parameters
    ----------
    estimator, method : as of `problem_of`. run, known : as of `fit`, with its ``evaluations``.
    """
    keeps = isinstance(estimator, RememberingEstimator)
    stated = {"run.executor": run.executor, "evaluations": known, "run.errors": run.errors,
              "run.n_jobs": None if run.n_jobs == 1 else run.n_jobs}  # fmt: skip
    given = [name for name, value in stated.items() if value is not None]
    if not is_as_stated(model):
        if given:
            raise TypeError(
                f"{given[0]} was given, but model is a {type(model).__name__}; it is for a LogJoint"
            )
        return model
    if not keeps and (known is not None or run.errors == "infeasible"):
        name = "run.errors='infeasible'" if known is None else "evaluations"
        raise ValueError(
            f"{name} was given with method {method!r}, which averages over draws from q; it is for methods "
            "that keep their evaluations, such as 'bq'"
        )
    if model.function.noise_sd is not None and not isinstance(estimator, BayesianQuadrature):
        raise ValueError(
            f"the log joint has a noise_sd, and method is {method!r}; it is for 'bq', whose process takes it"
        )
    target = model.target
    if target is None or not keeps:
        return model.within(None, run) if given else model
    around = (None, None) if target.boxed else box_around(np.atleast_2d(np.asarray(target.start)))
    return model.within(make_coordinates(None, None, *target.box(*around), names=target.names), run)


def with_known(model: LogJoint, state: LoopState, evaluations: object, budget: int | None) -> LoopState:
    """The state before the first step with evaluations that were made before.

    Parameters
    ----------
    evaluations : theta and values, then gradients; see `fit`.
    budget : the budget, in which the evaluations count.
    """
    arrays = evaluation_arrays(evaluations)
    if len(arrays) == 4:
        raise ValueError("evaluations has noise sds; give them as noise_sd of the LogJoint")
    if not hasattr(state.memory, "with_evaluations"):
        raise ValueError("evaluations was given, and the estimator keeps none (memory=0)")
    if model.differentiable and (len(arrays) < 3 or arrays[2] is None):
        raise ValueError(
            "evaluations has no gradients, and the log joint has; give (theta, values, gradients), or a log "
            "joint with gradient=None"
        )
    if model.coordinates is None:
        require_shape("evaluations' theta", np.atleast_2d(np.asarray(arrays[0])), ("N", model.dimension))
    rows = given(caller_of(model), *arrays)
    rows = selected(rows if model.differentiable else replace(rows, gradients=None), budget)
    spent = state.step_evaluations + len(rows)
    return replace(state, memory=state.memory.with_evaluations(rows), step_evaluations=spent)
