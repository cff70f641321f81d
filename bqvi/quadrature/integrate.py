"""`integrate`: a function, a measure and a method's name, and out comes the integral.

Everything is checked before any work. Sampling methods are one call of the integrand; the others are
the loop of :mod:`bayesian` and nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from acquisition.pointwise import Criterion
from bqvi.arrays import Seed, generator
from bqvi.checks import require_above, require_integer, require_one_of, require_seed
from bqvi.quadrature import bayesian, checkpoint
from bqvi.quadrature.bayesian import Problem, State, number, standardised
from bqvi.quadrature.charts import Linear
from bqvi.quadrature.direct import Direct
from bqvi.quadrature.integral import Integral, Row, Trace, log_moments
from bqvi.quadrature.integrand import Integrand, IntegrandError
from bqvi.quadrature.learnt import Learnt
from bqvi.quadrature.monte_carlo import average, effective_sample_size, in_range, unlogged
from bqvi.quadrature.quasi_monte_carlo import LEAST_REPLICATES, over_replicates, replicated
from bqvi.quadrature.tails import verdict
from bqvi.quadrature.warped import Warped
from gp.arrays import Array, as_like, is_torch, to_numpy
from gp.embeddings import embed
from gp.embeddings.registry import in_kind_of
from gp.kernels import SquaredExponential
from gp.measures import Empirical, Measure

METHODS = ("monte-carlo", "qmc", "bq", "wsabi-l", "wsabi-m")
SAMPLING = ("monte-carlo", "qmc")
_NO_STATE = (
    "resume holds no state to go on from: give a result of 'bq' or 'wsabi', its saved file, or an exception "
    "raised after the first step"
)


class IntegrationInterrupted(KeyboardInterrupt):
    """A run that was interrupted; pass the exception to ``integrate`` as ``resume`` to go on."""

    def __init__(self, state: State, nodes: Any, values: Any) -> None:
        super().__init__(
            f"interrupted after {len(state)} evaluations; pass this exception as resume to go on"
        )
        self.state = state
        self.nodes = nodes
        self.values = values


@dataclass(frozen=True)
class Stop:
    """When a run ends before its budget is spent; ``None`` never does."""

    tolerance: float | None = None
    seconds: float | None = None

    def __call__(self, state: State) -> str | None:
        """Why ``state`` is the last, or ``None``."""
        if self.tolerance is not None and float(np.max(state.rows[-1].sd)) <= self.tolerance:
            return "tolerance"
        if self.seconds is not None and state.seconds >= self.seconds:
            return "seconds"
        return None


def integrate(
    f: Callable[[Array], Array],
    measure: Measure,
    budget: int = 60,
    method: str = "bq",
    *,
    log: bool = False,
    vectorised: bool = True,
    gradient: Callable[[Array], Array] | str | None = None,
    noise: Any = None,
    log_density: Callable[[Array], Array] | None = None,
    initial: int | None = None,
    batch: int | None = None,
    acquisition: Criterion | None = None,
    tolerance: float | None = None,
    max_seconds: float | None = None,
    replicates: int = 8,
    callback: Callable[[State], None] | None = None,
    seed: Seed = 0,
    resume: Integral | IntegrandError | IntegrationInterrupted | str | Path | None = None,
) -> Integral:
    """Integrate f against a probability measure, from ``budget`` evaluations.

    Parameters
    ----------
    f : points (n, D) to values (n,), or (n, o) for o outputs that share nodes and weights. Points are
        arrays of the measure's kind (NumPy or torch).
    measure : of :mod:`gp.measures`: Gaussian, mixture of Gaussians, box, or finite.
    budget : n, evaluations of f.
    method : 'monte-carlo' (thesis Eq. 7.10), 'qmc' (scrambled Sobol in replicates), 'bq' (Bayesian
        quadrature, 7.12), 'wsabi-l' or 'wsabi-m' (for non-negative f).
    log : f returns its logarithm, which may be -inf and as low as it likes. The result then has
        ``log_mean`` and ``log_sd``.
    vectorised : ``False`` if f takes one point (D,) at a time and returns a number or (o,).
    gradient : derivatives of f, used as observations by 'bq': a function from points (n, D) to (n, D)
        or (n, o, D), or 'autodiff' for a torch function.
    noise : of f's values: ``None``, 'learn', their known variance, or a function from points (n, D) to
        variances (n,). For 'bq'.
    log_density : logarithm of a density p, normalised, points (n, D) to (n,): then the integral is
        int f p, and ``measure`` is only where points are proposed (importance re-weighting, 7.11).
    initial : nodes of the initial design; by default 2 D + 4, and at least 8.
    batch : nodes a step; by default 30 % of those there are. 1 is one at a time.
    acquisition : a criterion of :mod:`acquisition.pointwise` that chooses nodes; by default the
        reduction of the integral's variance (7.17).
    tolerance : stop when the standard deviation is at most this.
    max_seconds : stop after a step that ends later than this.
    replicates : of 'qmc'.
    callback : told of each state.
    seed : or a generator; the same seed gives the same result.
    resume : a result, a saved one's path, or the exception that ended a run: go on from there, with the
        same f, measure and choices, to a budget that may be larger.

    Returns
    -------
    Integral

    Raises
    ------
    ValueError, TypeError
        Bad input, before any work.
    gp.embeddings.UnknownPairError
        The measure has no embedding of the kernels used, before any work.
    IntegrandError
        f failed; the error names the point and holds all evaluations.
    IntegrationInterrupted
        Ctrl-C; holds all evaluations.
    """
    _check(f, measure, budget, method, tolerance=tolerance, max_seconds=max_seconds)
    _check_choices(method, gradient, noise, log_density, acquisition, log)
    inside = in_kind_of(measure, np.zeros(1))
    like = measure.parameters()[0]
    weight = None if log_density is None else _log_ratio(log_density, measure)
    warped = method.startswith("wsabi")
    integrand = Integrand(f, like, vectorised, gradient, log, warped, weight)
    require_seed("seed", seed)
    number_of_seed = int(seed) if isinstance(seed, int | np.integer) else int(generator(seed).integers(2**31))
    if method in SAMPLING:
        require_integer("replicates", replicates, LEAST_REPLICATES)
        return _sampled(integrand, inside, budget, method, replicates=replicates, seed=number_of_seed)
    problem = Problem(
        integrand=integrand,
        measure=inside,
        standard=standardised(inside),
        seed=number_of_seed,
        initial=_initial(initial, budget, inside),
        budget=budget,
        batch=None if batch is None else require_integer("batch", batch, 1),
        criterion=acquisition,
        noise=noise,
        model=Warped(matched=method == "wsabi-m") if warped else Direct(),
    )
    embed(SquaredExponential(), problem.standard.measure).double()  # raises where there is none
    state = None if resume is None else _resumed(resume, problem, method)
    return _run(problem, state, method, Stop(tolerance, max_seconds), callback)


def save(result: Integral, path: str | Path) -> None:
    """Write a result of Bayesian quadrature to an .npz file that ``resume`` takes."""
    if result.state is None:
        raise ValueError(f"a {result.method} estimate has no state to go on from: nothing to save")
    dimension = int(result.nodes.shape[1])
    checkpoint.write(path, result.state, {"method": result.method, "dimension": dimension})


def _run(
    problem: Problem,
    state: State | None,
    method: str,
    stop: Stop,
    callback: Callable[[State], None] | None,
) -> Integral:
    latest: list[State] = [] if state is None else [state]

    def keep(reached: State) -> None:
        latest.append(reached)
        if callback is not None:
            callback(reached)

    try:
        state, reason = bayesian.run(problem, state, stop, keep)
    except KeyboardInterrupt:
        if not latest:
            raise
        nodes = problem.standard.map.from_standard(latest[-1].u)
        raise IntegrationInterrupted(latest[-1], nodes, latest[-1].values) from None
    return _result(problem, state, method, reason)


def _result(problem: Problem, state: State, method: str, reason: str) -> Integral:
    state = bayesian.prepared(problem, state)
    if reason == "exhausted" and problem.noise is None and problem.integrand.log_weight is None:
        return _exact(problem, state, method)
    mean, covariance, units, judgement = bayesian.final(problem, state)
    sd = np.sqrt(np.diag(covariance))
    result = _described(problem, state, method, reason)
    result = replace(
        result,
        **_scaled(mean, sd, covariance, units.shift),
        credible=judgement.credible,
        reason=judgement.reason,
    )
    if problem.integrand.logarithmic or method != "bq":
        log_mean, log_sd = log_moments(float(mean[0]), float(sd[0]), units.shift)
        result = replace(result, log_mean=log_mean, log_sd=log_sd)
    return result if method != "bq" else replace(result, surrogate=_learnt(problem, state, units))


def _described(problem: Problem, state: State, method: str, reason: str) -> Integral:
    """A result without its numbers."""
    x = problem.standard.map.from_standard(state.u)
    like = problem.integrand.like
    weights = None
    if problem.integrand.log_weight is not None:
        weights = problem.integrand.log_weights(x[state.sobol])
    drawn = state.values[state.sobol]
    shape, _, _ = verdict(unlogged(drawn)[0] if problem.integrand.logarithmic else drawn, weights)
    values = state.values[:, 0] if state.values.shape[1] == 1 else state.values
    return Integral(
        mean=math.nan,
        sd=math.nan,
        n_evaluations=len(state),
        nodes=as_like(x, like) if is_torch(like) else x,
        values=as_like(values, like) if is_torch(like) else values,
        trace=Trace(state.rows),
        method=method,
        stopped=reason,
        effective_sample_size=None if weights is None else effective_sample_size(weights),
        tail_shape=shape,
        state=replace(state, ensemble=None),
    )


def _exact(problem: Problem, state: State, method: str) -> Integral:
    """The weighted sum over all points of a finite measure."""
    measure = problem.standard.measure
    assert isinstance(measure, Empirical)  # nothing else is exhausted
    values, shift = unlogged(state.values) if problem.integrand.logarithmic else in_range(state.values)
    place = {tuple(row): i for i, row in enumerate(state.u)}
    rows = [place[tuple(point)] for point in measure.points]
    mean = measure.weights @ values[rows]
    none = np.zeros((len(mean), len(mean)))
    result = _described(problem, state, method, "exhausted")
    result = replace(result, **_scaled(mean, np.zeros(len(mean)), none, shift))
    if problem.integrand.logarithmic:
        log_mean, log_sd = log_moments(float(mean[0]), 0.0, shift)
        result = replace(result, log_mean=log_mean, log_sd=log_sd)
    return replace(result, reason="All points of the measure have been evaluated: the sum is exact.")


def _scaled(mean: Any, sd: Any, covariance: Any, shift: float) -> dict[str, Any]:
    scale = math.exp(min(shift, 700.0))
    joint = scale**2 * covariance if len(mean) > 1 else None
    return {"mean": number(scale * mean), "sd": number(scale * sd), "covariance": joint}


def _learnt(problem: Problem, state: State, units: bayesian.Units) -> Learnt:
    for member in bayesian.whole_ensemble(problem, state).members:
        if isinstance(member.chart, Linear) and member.family.smooth:
            to_x = problem.standard.map
            linear = member.chart.rotation.T @ np.linalg.inv(to_x.scale)
            scale = math.exp(min(units.shift, 700.0))
            return Learnt(member, to_x.shift, linear, scale * units.centre, scale * units.unit)
    raise AssertionError("the plain surrogate is always among the members")


def _sampled(
    integrand: Integrand, measure: Measure, budget: int, method: str, *, replicates: int, seed: int
) -> Integral:
    began = time.perf_counter()
    if method == "qmc":
        parts = replicated(measure, budget, min(replicates, budget // 2), seed)
    else:
        parts = [measure.sample(budget, np.random.default_rng(seed))]
    x = np.concatenate(parts)
    raw = integrand(x).values
    values, shift = unlogged(raw) if integrand.logarithmic else in_range(raw)
    if method == "qmc":
        pieces = np.split(values, np.cumsum([len(part) for part in parts])[:-1])
        estimate = over_replicates(np.array([piece.mean(axis=0) for piece in pieces]))
    else:
        estimate = average(values)
    sd = np.sqrt(np.diag(estimate.covariance))
    numbers = _scaled(estimate.mean, sd, estimate.covariance, shift)
    log_mean, log_sd = None, None
    if integrand.logarithmic:
        log_mean, log_sd = log_moments(float(estimate.mean[0]), float(sd[0]), shift)
    log_weights = None if integrand.log_weight is None else integrand.log_weights(x)
    shape, credible, reason = verdict(values, log_weights)
    values = raw[:, 0] if raw.shape[1] == 1 else raw
    torch = is_torch(integrand.like)
    return Integral(
        n_evaluations=len(x),
        nodes=as_like(x, integrand.like) if torch else x,
        values=as_like(values, integrand.like) if torch else values,
        trace=Trace((Row(len(x), time.perf_counter() - began, numbers["mean"], numbers["sd"]),)),
        method=method,
        stopped="budget",
        credible=credible,
        reason=reason,
        effective_sample_size=None if log_weights is None else effective_sample_size(log_weights),
        tail_shape=shape,
        log_mean=log_mean,
        log_sd=log_sd,
        **numbers,
    )


def _log_ratio(log_density: Callable[[Array], Array], measure: Measure) -> Callable[[Array], Array]:
    def ratio(x: Array) -> Array:
        return to_numpy(log_density(x)).reshape(-1) - to_numpy(measure.log_density(x))

    return ratio


def _initial(initial: int | None, budget: int, measure: Measure) -> int:
    if initial is None:
        return min(budget, max(8, 2 * measure.dimension + 4))
    require_integer("initial", initial, 2)
    if initial > budget:
        raise ValueError(
            f"budget is {budget}, below the initial design of {initial}: raise one or lower the other"
        )
    return initial


def _resumed(resume: Any, problem: Problem, method: str) -> State:
    if isinstance(resume, str | Path):
        state, settings = checkpoint.read(resume)
        if settings["method"] != method:
            raise ValueError(f"{resume} was saved by method {settings['method']!r}, not {method!r}")
    else:
        found = getattr(resume, "state", None)
        if not isinstance(found, State):
            raise ValueError(_NO_STATE)
        state = found
    if state.u.shape[1] != problem.measure.dimension:
        raise ValueError(
            f"resume has nodes of dimension {state.u.shape[1]}, the measure {problem.measure.dimension}"
        )
    if len(state) > problem.budget:
        raise ValueError(f"budget is {problem.budget}; {len(state)} evaluations have been made: raise it")
    return state


def _check(
    f: Any, measure: Any, budget: Any, method: str, *, tolerance: float | None, max_seconds: float | None
) -> None:
    if not callable(f):
        raise TypeError(f"f is {f!r}; it must be a function of points (n, D)")
    if not isinstance(measure, Measure):
        raise TypeError(
            f"measure is {measure!r}; it must be one of gp.measures, such as Gaussian(mean, covariance)"
        )
    require_one_of("method", method, METHODS)
    least = {"monte-carlo": 2, "qmc": 2 * LEAST_REPLICATES}.get(method, 4)
    require_integer("budget", budget, least)
    if tolerance is not None:
        require_above("tolerance", tolerance, 0.0)
    if max_seconds is not None:
        require_above("max_seconds", max_seconds, 0.0)


def _check_choices(
    method: str, gradient: Any, noise: Any, log_density: Any, acquisition: Any, log: bool
) -> None:
    only_bq = {"gradient": gradient, "noise": noise}
    for name, given in only_bq.items():
        if given is not None and method != "bq":
            raise ValueError(f"{name} is given, and method is {method!r}: only 'bq' uses it")
    if gradient is not None and (log or log_density is not None):
        raise ValueError("gradient is given with log or log_density: those of f itself are needed, without")
    if gradient is not None and not callable(gradient) and gradient != "autodiff":
        raise ValueError(f"gradient is {gradient!r}; it must be a function, 'autodiff' or None")
    if noise is not None and not callable(noise) and noise != "learn":
        require_above("noise", noise, 0.0)
    if noise is not None and log:
        raise ValueError("noise is given with log: the noise of ln f is not that of f")
    if acquisition is not None and not isinstance(acquisition, Criterion):
        raise TypeError(f"acquisition is {acquisition!r}; it must be a criterion of acquisition.pointwise")
