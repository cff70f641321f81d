"""`integrate`: the integral of a function against a measure, by the method that is named.

All arguments are checked here, before any work. The engines are :mod:`bayesian` and :mod:`sampling`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np

from acquisition.pointwise import Criterion
from bqvi.arguments import Above, Apart, AtLeast, Beside, Such, of, one_of
from bqvi.calls import HERE, USUAL, Caller, Design, Function, Range, Run, TargetModel
from bqvi.calls.coordinates import length_of
from bqvi.calls.given import evaluation_arrays
from bqvi.calls.run import CALLED
from bqvi.calls.target_model import require_alone
from bqvi.quadrature import bayesian, sampling
from bqvi.quadrature.bayesian import BayesianRun, standardised
from bqvi.quadrature.integral import DOOR, Integral
from bqvi.quadrature.sampling import LEAST_REPLICATES, SamplingRun
from bqvi.quadrature.settings import DESIGN
from bqvi.quadrature.state import Direct, IntegrationProblem, Warped
from bqvi.runs import Ended, Steps, door, resumed
from gp.arrays import Array, shown, to_numpy
from gp.checks import Seed, require_integer, require_seed, vector_of, whole_seed
from gp.embeddings.embed import in_kind_of, known_pair
from gp.kernels import SquaredExponential
from gp.measures import Gaussian, Measure, Uniform

METHODS = ("monte-carlo", "qmc", "bq", "wsabi-l", "wsabi-m")
SAMPLING = ("monte-carlo", "qmc")
_UNWARPED = (*SAMPLING, "bq")
_LEBESGUE = "lebesgue"
"""The measure of integrals over a box, int f(x) dx: its volume times the mean under its uniform measure."""
_ELSEWHERE = (
    "the integral over a region without bounds is that of f / p against a measure with a density p, such as "
    "gp.measures.Gaussian(mean, covariance): give that measure, and f / p as f, with x = lower + exp(t) for "
    "a half-line, dx = exp(t) dt; bqvi.vbmc takes such bounds of a log density"
)
_OF_POINTS = Such(callable, "a function of points")
_CRITERION = Such(lambda given: isinstance(given, Criterion), "a criterion of acquisition.pointwise")
_BQ, _BAYESIAN, _QMC = of("bq"), of("bq", "wsabi-l", "wsabi-m"), of("qmc")
_Gradient: TypeAlias = Annotated[
    Callable[[Array], Array] | str | None,
    _BQ,
    Apart("log", "those of f itself are needed, without, and bqvi.vbmc takes those of a log density"),
    Apart("log_density", "those of f itself are needed, without"),
]
_TIMES = Apart("lower", "integrate f times that density over the box")
_OF_A_BOX = Beside("measure", (None, _LEBESGUE))
_NOISE_OF_F = Apart("log", "the noise of ln f is not that of f; bqvi.vbmc takes that of a log density")


@door(Integral)
def integrate(
    f: Annotated[Callable[[Array], Array] | TargetModel, CALLED],
    measure: Measure | Literal["lebesgue"] | None = None,
    budget: int = 60,
    method: Annotated[str, one_of(METHODS)] = "bq",
    *,
    lower: Annotated[Array | float | None, _OF_A_BOX] = None,
    upper: Annotated[Array | float | None, _OF_A_BOX] = None,
    log: bool = False,
    vectorised: bool = True,
    gradient: _Gradient = None,
    noise_sd: Annotated[float | str | Callable[[Array], Array] | None, _BQ, _NOISE_OF_F] = None,
    log_density: Annotated[Callable[[Array], Array] | None, _OF_POINTS, _TIMES] = None,
    design: Annotated[Design | None, _BAYESIAN] = None,
    tolerance: Annotated[float | None, Above(0.0), _BAYESIAN] = None,
    replicates: Annotated[int, AtLeast(LEAST_REPLICATES), _QMC] = 8,
    evaluations: Annotated[Sequence[Array] | None, _BAYESIAN] = None,
    seed: Annotated[Seed, require_seed] = 0,
    resume: Integral | Ended | str | Path | None = None,
    run: Run = HERE,
) -> Steps[Any, Integral]:
    """Integrate f against a probability measure, or over a box, from ``budget`` evaluations.

    ``integrate(f, Uniform(lower, upper))`` is the mean of f over the box, (1 / V) int f(x) dx, V its volume.
    ``integrate(f, lower=lower, upper=upper)`` is the integral over the box, int f(x) dx.

    Parameters
    ----------
    f : a function of points (n, D) that returns values (n,), or (n, o) for o outputs that share nodes and
        weights (not with ``log`` or 'wsabi'); booleans are 0 and 1. Points are arrays of the measure's kind
        (NumPy or torch). Or a `TargetModel` of `bqvi.adapters`: the integral is then its evidence, returned
        as a logarithm (``log_mean``), and ``measure`` only proposes points.
    measure : a measure of :mod:`gp.measures`: Gaussian, mixture of Gaussians, box, or finite; or 'lebesgue',
        for the integral over a box, the default where ``lower`` and ``upper`` are given. With 'lebesgue',
        ``mean``, ``sd``, ``tolerance`` and the trace refer to int f(x) dx, and ``values`` and the surrogate
        to f. The default for a `TargetModel` is the Gaussian whose mean plus and minus two standard
        deviations are the sides of its plausible box, where this was given.
    budget : n, the number of evaluations of f.
    method : 'monte-carlo' (thesis Eq. 7.10), 'qmc' (a scrambled Sobol sequence), 'bq' (Bayesian
        quadrature, 7.12), 'wsabi-l' or 'wsabi-m' (for non-negative f). The first two take no ``design``,
        ``tolerance`` or ``evaluations``.
    lower, upper : corners of the box, (D,), finite; a number applies to each coordinate, and two numbers are
        an interval in one dimension. For 'lebesgue' only.
    log : whether f returns ln f, which may be -inf and need not be bounded below. The result then has
        ``log_mean`` and ``log_sd``.
    vectorised : ``False`` if f takes one point (D,) at a time and returns a number or (o,).
    gradient : derivatives of f, used as observations by 'bq': a function from points (n, D) to (n, D)
        or (n, o, D), or 'autodiff' for a torch function.
    noise_sd : standard deviation of the noise in f's values: ``None`` (exact), a number, "unknown", or a
        function from points (n, D) to numbers (n,), called once at each node; it takes one point (D,) where f
        does. For 'bq'.
    log_density : a function from points (n, D) to ln p (n,), with p a normalised density: the integral is
        then int f p, and ``measure`` only proposes points (importance re-weighting, 7.11).
    design : where f is evaluated (`bqvi.Design`): the sizes of the first design and of a step, and the
        criterion for further nodes.
    tolerance : stop when the standard deviation is at most this; a run that ends otherwise has not converged.
    replicates : the number of blocks of the sequence of 'qmc' whose spread is its standard deviation.
    evaluations : (x (n, D), values (n,) or (n, o)) made before, as f returns them, then gradients, None if
        there are none, and noise sds (n,), by default those of ``noise_sd``. They count in the budget, and
        are nodes beside the initial design. Of thousands some hundreds are used (`calls.given`).
    seed : an integer or a generator; the same seed gives the same result.
    resume : a result, the path of a saved one, or the exception that ended a run: the run continues from
        there, with the same f, measure and choices. For 'bq' and 'wsabi' the budget may be larger.
        ``evaluations`` is then not used.
    run : how the run is carried out (`bqvi.Run`): executor, workers, time limit, callback, progress line,
        checkpoint, verify, the treatment of errors.

    Returns
    -------
    Integral

    Raises
    ------
    ValueError, TypeError
        Bad input, before any work.
    gp.embeddings.UnknownPairError
        The measure has no embedding of the kernels used, before any work.
    RunError
        f failed: the error's cause, an `EvaluationError`, names the point. RunInterrupted : Ctrl-C. RunExit :
        SystemExit. Each of these exceptions has every evaluation that returned.

    ``integrate.steps``, with the same arguments, returns the run itself, an iterator over its states.

    Examples
    --------
    The mean of exp(x) under a standard normal distribution, exactly exp(1 / 2) = 1.6487:

    >>> import bqvi
    >>> import gp
    >>> import numpy as np
    >>> measure = gp.measures.Gaussian(np.zeros(1), np.eye(1))
    >>> integral = bqvi.integrate(lambda x: np.exp(x[:, 0]), measure, budget=30, seed=0)
    >>> print(f"{integral.mean:.3f}", integral.converged)
    1.649 True
    """
    if isinstance(f, TargetModel):
        require_alone(f, gradient=gradient, noise_sd=noise_sd, log_density=log_density)
        if measure is None and not f.boxed:
            raise ValueError(
                "measure is None, and the plausible box of the model is a guess: give a gp.measures.Gaussian "
                "near its posterior, or give the model plausible_lower and plausible_upper; bqvi.vbmc(model) "
                "finds the posterior, and its evidence, by itself"
            )
        if measure is None:  # with two standard deviations to either side in the box
            low, high = f.box(None, None)
            measure = Gaussian(0.5 * (low + high), np.diag((0.25 * (high - low)) ** 2))
        # of a density of 1, against which a log joint integrates to the evidence
        log_density = None if isinstance(measure, str) else lambda x: np.zeros(len(x))
        called = f.function()
        f, log, vectorised = called.value, True, called.vectorised
    if measure is None and not (lower is None and upper is None):
        measure = "lebesgue"
    least = {"monte-carlo": 2, "qmc": 2 * LEAST_REPLICATES}.get(method, 4)
    measure, log_volume = _integrated_against(measure, lower, upper)
    budget = require_integer("budget", budget, least)
    errors = run.errors or "raise"
    if gradient is not None and errors != "raise":
        raise ValueError(
            f"gradient is given, and run.errors is {errors!r}: where f counts as zero it has no slopes"
        )
    inside = in_kind_of(measure, np.zeros(1))
    function = Function(
        f, gradient, vectorised, noise_sd,
        log_weight=None if log_density is None else _log_ratio(log_density, measure),
        like=measure.parameters()[0], errors=errors,
        range=Range(
            "integrand", logarithmic=log, counts_as=-np.inf if log else 0.0, beside=log_density,
            outputs=not log and method in _UNWARPED, non_negative="" if log or method in _UNWARPED
            else "WSABI models a square, so it has to be non-negative; use method 'bq'",
        ),
    )  # fmt: skip
    if not callable(noise_sd):  # the process has the noise then, not each value
        function = replace(function, noise_sd=None)
    integrand = Caller(function, run=run)
    number, known = whole_seed(seed), None if evaluations is None else evaluation_arrays(evaluations)
    if method in SAMPLING:
        run.refuse(f"method {method!r}", "max_seconds")
        sampled = SamplingRun(integrand, inside, budget, method, replicates, number, log_volume)
        last = None if resume is None else _last(resume, sampled.checkpoint(sampled.init()).settings)
        return Steps(sampled, last, run)
    chosen = _design(design)
    count = chosen.first(max(DESIGN.first[0], 2 * inside.dimension + DESIGN.first[1]), budget)
    problem = IntegrationProblem(
        integrand, inside, standardised(inside), number, count, budget,
        Direct() if method in _UNWARPED else Warped(matched=method == "wsabi-m"),
        chosen.batch, chosen.acquisition, noise_sd, log_volume,
    )  # fmt: skip
    known_pair(SquaredExponential, type(problem.standard.measure))  # raises an error where there is none
    engine = BayesianRun(problem, method, tolerance, run.max_seconds)
    state = None if known is None else engine.with_known(known)
    if resume is not None:
        state = engine.resumed(_last(resume, engine.identity))
    return Steps(engine, state, run, known is not None and resume is None)


def _integrated_against(
    measure: object, lower: Array | float | None, upper: Array | float | None
) -> tuple[Measure, float]:
    """Return a probability measure, and the logarithm of the factor of integrals against it.

    Parameters
    ----------
    measure : a measure, or 'lebesgue' for integrals over the box between ``lower`` and ``upper``.
    lower, upper : (D,), or numbers; for 'lebesgue' only.
    """
    if isinstance(measure, Measure):
        return measure, 0.0
    if not isinstance(measure, str) or measure != _LEBESGUE:
        raise (ValueError if isinstance(measure, str) else TypeError)(
            f"measure is {shown(measure)}; it must be one of gp.measures, as Gaussian(mean, covariance) is; "
            f"for the integral over a box give lower=... and upper=..."
        )
    box = _box({"lower": lower, "upper": upper})
    return box, float(np.sum(np.log(to_numpy(box.width))))


def _box(bounds: dict[str, Any]) -> Uniform:
    for name, value in bounds.items():
        if value is None:
            raise ValueError(
                f"{name} is None; measure={_LEBESGUE!r} needs lower and upper, the box's corners"
            )
        where = np.flatnonzero(np.isinf(vector_of(name, value, length_of(name, value) or 1, np.inf)))
        if where.size:
            raise ValueError(f"{name} is infinite or None in coordinates {where.tolist()}; {_ELSEWHERE}")
    lower, upper = bounds["lower"], bounds["upper"]
    size = max(np.size(to_numpy(lower)), np.size(to_numpy(upper)))
    if size > 1:  # a single number beside an array is meant for each coordinate
        lower, upper = (np.full(size, end) if np.ndim(end) == 0 else end for end in (lower, upper))
    return Uniform(lower, upper)


def _last(resume: object, settings: Mapping[str, Any]) -> Any:
    """The state at which an earlier run with the same ``settings`` ended."""
    return resumed(resume, DOOR, bayesian.RECORDS | sampling.RECORDS, settings).state


def _log_ratio(log_density: Callable[[Array], Array], measure: Measure) -> Callable[[Array], Array]:
    def ratio(x: Array) -> Array:
        return to_numpy(log_density(x)).reshape(-1) - to_numpy(measure.log_density(x))

    return ratio


def _design(design: Design | None) -> Design:
    """The design, checked for what `integrate` can use."""
    chosen = design or USUAL
    if chosen.cheap is not None:
        raise ValueError(f"design.cheap is {shown(chosen.cheap)}, which integrate cannot use; bqvi.vbmc can")
    if chosen.acquisition is not None:
        _CRITERION("design.acquisition", chosen.acquisition)
    return chosen
