"""Bayesian quadrature as a loop (thesis Eqs 7.12, 7.17; O'Hagan 1991).

    nodes     = Sobol points mapped to the measure, at first and while the surrogate does not predict;
                then those that reduce the variance of the integral most, and as checks one of the
                sequence for each three of these
    values    = integrand(nodes)
    ensemble  = surrogates fitted to all values              (:mod:`ensemble`)
    integral  = that of the ensemble, judged                 (:mod:`credibility`)

The `Model` (:mod:`state`) defines which function is a Gaussian process, and how the integral follows: the
integrand itself (:mod:`direct`) or its square root (:mod:`warped`). Computations are in standard coordinates,
where the measure has mean 0 and covariance I, and on values in units in which they vary by 1, so that the
result does not depend on the user's units.

An `IntegrationState` determines the continuation of a run, with the nodes to be evaluated next.
`initial_state` makes the first, `step` maps a state to the next, and `final` computes the integral from a
state. Random numbers are determined by the seed and the number of nodes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from bqvi.calls import Budget, Evaluations, Ledger
from bqvi.calls.given import selected, told
from bqvi.calls.table import joined_rows, matched
from bqvi.quadrature import ensemble as ensembles
from bqvi.quadrature.credibility import (
    Judgement,
    combined,
    explained_by,
    judge,
    predicts,
)
from bqvi.quadrature.ensemble import Ensemble
from bqvi.quadrature.integral import EstimateRow
from bqvi.quadrature.monte_carlo import as_wide, in_units, shifted_back, with_zeros
from bqvi.quadrature.nodes import by_criterion, outermost, pool
from bqvi.quadrature.peaks import PeakFamily
from bqvi.quadrature.refutation import Answer, test_of
from bqvi.quadrature.rises import doubts, nodes_of_logarithms, unseen_modes
from bqvi.quadrature.settings import DESIGN, PRECISE, REFUTATION, ROUGHLY
from bqvi.quadrature.state import IntegrandUnits, IntegrationProblem, IntegrationState
from bqvi.quadrature.surrogate import StandardData
from gp.low_discrepancy import scrambled_sobol
from gp.measures import AffineMap, Empirical, Measure, Uniform
from gp.measures.base import Standardised


def standardised(measure: Measure) -> Standardised:
    """Return the measure in standard coordinates; points of a finite one are only scaled."""
    if not isinstance(measure, Empirical):
        return measure.standardise()
    sd = np.sqrt(np.diag(measure.covariance))
    scale = np.where(sd > 0, sd, 1.0)
    points = (measure.points - measure.mean) / scale
    return Standardised(Empirical(points, measure.weights), AffineMap(measure.mean, np.diag(scale)))


def initial_state(problem: IntegrationProblem) -> IntegrationState:
    """Return the state before the first evaluation, with the initial design to be evaluated.

    For an f that is given by its logarithm the measure is a proposal, whose centre is where its user expects
    f to be large: that is a node.
    """
    central = problem.integrand.function.logarithmic and not isinstance(problem.measure, Empirical)
    u = _sequence(problem, problem.initial - central, None)
    from_sobol = np.arange(problem.initial) < len(u)
    u = np.concatenate([u, np.zeros((int(central), u.shape[1]))])
    nothing, none, untested = u[:0], np.zeros(0, dtype=bool), np.full(len(u), np.nan)
    pending = (_points(problem, u), u, from_sobol[: len(u)])
    return IntegrationState(nothing, np.zeros((0, 1)), None, none, *pending, untested[:0], untested)


def step(problem: IntegrationProblem, state: IntegrationState, ledger: Ledger) -> IntegrationState:
    """Evaluate the pending nodes, as far as the budget goes, and fit the surrogates to all nodes.

    Parameters
    ----------
    problem : integrand, measure and budget. state : the state before, with its pending nodes.
    ledger : in which evaluations are entered as they return.
    """
    began = time.perf_counter()
    if len(state.pending):
        budget = Budget(problem.budget, state.n_evaluations)
        made = problem.integrand.evaluate(state.pending, ledger, budget, first=len(state) == 0)
        state = with_evaluations(problem, state, made)
    require_nodes(state)
    return with_estimate(problem, state, began)


def require_nodes(state: IntegrationState) -> None:
    """Raise ValueError unless there are enough nodes for a surrogate."""
    if len(state) < DESIGN.least:
        raise ValueError(
            f"{len(state)} nodes have values after {state.n_evaluations} evaluations; an estimate needs "
            f"{DESIGN.least}: raise the budget, or give vectorised=False where f fails at some points of a "
            "batch"
        )


def with_next(problem: IntegrationProblem, state: IntegrationState) -> IntegrationState:
    """Return the state with the nodes to be evaluated next; with known noise the last four are a step."""
    left = problem.budget - state.n_evaluations
    known = left > 4 and problem.noise_sd not in (None, "unknown")
    return with_more(problem, state, min(_batch(problem, state), left - 4 * known))


def with_more(problem: IntegrationProblem, state: IntegrationState, count: int) -> IntegrationState:
    """Return the state with ``count`` further nodes, given that the pending ones will be evaluated too.

    The first design is continued until there is an estimate. Where values seem to vary by more than a noise
    that is known, the last four of the budget are earlier nodes once more, which decide whether they do.
    """
    began = time.perf_counter()
    if not count:
        return state
    if not state.rows:
        state = _with_pending(problem, state, _sequence(problem, count, state), count)
    else:
        state = prepared(problem, state)
        after = problem.budget - state.n_evaluations - len(state.pending) - count
        last, best = max(min(4 - after, count), 0), state.ensemble.best if state.ensemble else None
        if last and state.slopes is None and best is not None and best.understated(1.0, repeats=False):
            state, count = _with_pending(problem, state, state.u[after : after + last], 0), count - last
        state = _with_pending(problem, state, *_chosen(problem, state, count)) if count else state
    return replace(state, seconds=state.seconds + time.perf_counter() - began)


def _with_pending(
    problem: IntegrationProblem,
    state: IntegrationState,
    u: np.ndarray,
    from_sobol: int,
    log_weights: np.ndarray | None = None,
) -> IntegrationState:
    """The state with further pending nodes u (k, D).

    The first ``from_sobol`` of these are from the sequence, and the last are tests with ``log_weights`` (m,).
    """
    tests = np.zeros(0) if log_weights is None else log_weights
    untested = np.full(len(u) - len(tests), np.nan)
    return replace(
        state,
        pending=np.concatenate([state.pending, _points(problem, u)]),
        pending_u=np.concatenate([state.pending_u, u]),
        pending_sobol=np.append(state.pending_sobol, np.arange(len(u)) < from_sobol),
        pending_log_weights=np.concatenate([state.pending_log_weights, untested, tests]),
    )


def with_estimate_if_due(problem: IntegrationProblem, state: IntegrationState) -> IntegrationState:
    """Return the state with a record of all its nodes, if one is due while others are pending.

    The first record is due when half of the first design has values, to which nodes that were known before
    the run do not belong; others when the nodes since the last one are as many as a batch, or no node is
    pending.
    """
    if not state.rows:
        due = state.sobol.sum() >= max(DESIGN.least, problem.initial // 2)
    else:
        since = state.n_evaluations - state.rows[-1].n_evaluations
        due = since >= _batch(problem, state) or (since > 0 and not len(state.pending))
    return with_estimate(problem, state) if due else state


def with_evaluations(
    problem: IntegrationProblem, state: IntegrationState, made: Evaluations
) -> IntegrationState:
    """Return the state with evaluations, in the user's coordinates, of pending nodes.

    Parameters
    ----------
    problem : integrand and measure. state : the state before. made : the evaluations, of as many nodes as
        have returned.
    """
    function, spent = problem.integrand.function, made.n_evaluations
    failures = state.failures.after(made)
    made = with_zeros(function, made)
    if not len(made):
        return replace(state, without_node=state.without_node + spent)
    made = made[made.good]  # a value whose gradient failed is left out
    rows, remaining = matched(state.pending, made.points)
    slopes = None if made.gradients is None else np.swapaxes(made.gradients, 1, 2)
    first = len(state) == 0
    before, values = (made.values[:0], made.values) if first else as_wide(state.values, made.values)
    return replace(
        state,
        u=np.concatenate([state.u, state.pending_u[rows]]),
        values=np.concatenate([before, values]),
        slopes=slopes if first or slopes is None else np.concatenate([state.slopes, slopes]),
        noise_variance=joined_rows(state.noise_variance, len(state), made.noise_variance, len(made)),
        without_node=state.without_node + spent - len(made),
        failures=failures,
        sobol=np.append(state.sobol, state.pending_sobol[rows]),
        log_weights=np.append(state.log_weights, state.pending_log_weights[rows]),
        pending=state.pending[remaining],
        pending_u=state.pending_u[remaining],
        pending_sobol=state.pending_sobol[remaining],
        pending_log_weights=state.pending_log_weights[remaining],
        ensemble=None,
    )


def finished(problem: IntegrationProblem, state: IntegrationState) -> str | None:
    """The reason why a run ends, or ``None``, also while the latest nodes have no estimate."""
    if not state.estimated:
        return None
    among = problem.measure.points if isinstance(problem.measure, Empirical) else None
    if among is not None and len(np.unique(state.u, axis=0)) >= len(np.unique(among, axis=0)):
        return "exhausted"
    return "budget" if state.n_evaluations >= problem.budget else None


def final(
    problem: IntegrationProblem, state: IntegrationState
) -> tuple[np.ndarray, np.ndarray, IntegrandUnits, Judgement]:
    """Return mean (o,) and covariance (o, o) in units, with hyperparameters marginalised."""
    state = prepared(problem, state)
    assert state.ensemble is not None  # set by the preparation of the step
    moments = state.ensemble.marginal_integral(problem.model.moments, problem.draws, problem.seed)
    _, values, units = modelled(problem, state)
    mean, covariance, judgement = _estimate(problem, state, moments, values, units)
    log_mean = float(np.log(max(float(mean[0]), 1e-300))) + units.shift
    unexplored, beyond = doubts(problem, state, _seed(problem, len(state)), log_mean)
    judgement = replace(judgement, unexplored=unexplored, beyond=beyond)
    return mean, covariance + np.diag(np.square(beyond * mean)), units, judgement


def prepared(problem: IntegrationProblem, state: IntegrationState) -> IntegrationState:
    """Return the state with its ensemble."""
    if state.ensemble is not None or state.fits is None:
        return state
    data = modelled(problem, state)[0]
    return replace(state, ensemble=ensembles.condition(problem.standard.measure, data, state.fits))


def whole_ensemble(problem: IntegrationProblem, state: IntegrationState) -> Ensemble:
    """Return all candidates so far, also those that the last fit left out."""
    assert state.fits is not None  # there has been a fit since the start
    fits = replace(state.fits, left_out_next=())
    return ensembles.condition(problem.standard.measure, modelled(problem, state)[0], fits)


def _estimate(
    problem: IntegrationProblem,
    state: IntegrationState,
    integral: tuple[np.ndarray, np.ndarray],
    values: np.ndarray,
    units: IntegrandUnits,
) -> tuple[np.ndarray, np.ndarray, Judgement]:
    """Mean (o,), covariance (o, o) and judgement of an ``integral``; ``values``, ``units`` by `modelled`."""
    assert state.ensemble is not None  # set by the caller
    weights = problem.model.weights(state.ensemble.best)
    tested = None
    if _is_tested(problem):
        whole = max(float(units.centre[0] + units.unit[0] * integral[0][0]), 1e-300)
        answer, log_integral = _answer(problem, state, units), float(np.log(whole)) + units.shift
        tested = test_of(answer, state.log_weights, log_integral)
    judgement = judge(state.ensemble, state.sobol, values / units.unit, weights, tested)
    prior_variance = problem.model.variance_of_the_prior(state.ensemble.best)
    judgement = replace(judgement, excess=judgement.excess + prior_variance)
    in_units = (values - units.centre) / units.unit
    mean, covariance = combined(*integral, judgement, in_units, state.sobol)
    covariance = np.outer(units.unit, units.unit) * covariance
    covariance[judgement.zero, judgement.zero] = np.inf
    mean = units.centre + units.unit * mean
    unseen = unseen_modes(problem, state) ** 2 + (0.0 if tested is None else tested.variance)
    return mean, covariance + np.diag(unseen * np.where(mean == 0, 0.0, mean) ** 2), judgement


def with_estimate(
    problem: IntegrationProblem, state: IntegrationState, began: float | None = None
) -> IntegrationState:
    """Return the state with a record of all its nodes; ``began`` is the time at which the step began."""
    began = time.perf_counter() if began is None else began
    (data, values, units), last = modelled(problem, state), state.n_evaluations >= problem.budget
    if state.fits is None or last or len(state) >= DESIGN.growth * state.fitted_at:
        found = ensembles.fit(problem.standard.measure, data, state.fits, PRECISE if last else ROUGHLY)
        wrong = found.best.contradicted()
        if wrong is not None and state.slopes is not None:
            left = np.arange(len(state))[:, None, None] == wrong  # from now on
            blank = replace(state, slopes=np.where(left, np.nan, state.slopes), fits=None)
            return with_estimate(problem, blank, began)
        state = replace(state, fits=found.fits(state.fits), fitted_at=len(state))
    else:
        found = ensembles.condition(problem.standard.measure, data, state.fits)
    state = replace(state, ensemble=found)
    moments = found.integral(problem.model.moments)
    mean, covariance, _ = _estimate(problem, state, moments, values, units)
    seconds = state.seconds + time.perf_counter() - began
    shift = units.shift + problem.log_volume
    sd = shifted_back(np.sqrt(np.diag(covariance)), shift)
    row = EstimateRow(state.n_evaluations, seconds, number(shifted_back(mean, shift)), number(sd))
    ensemble = None if last else found  # the result makes it again, as that of a resumed run does
    return replace(state, seconds=seconds, rows=(*state.rows, row), ensemble=ensemble)


def number(values: np.ndarray) -> float | np.ndarray:
    """Return one output as a number, and several as an array."""
    return float(values[0]) if len(values) == 1 else values


def modelled(
    problem: IntegrationProblem, state: IntegrationState
) -> tuple[StandardData, np.ndarray, IntegrandUnits]:
    """Return the data to which the surrogates are fitted, the values they are made from, and their units."""
    values, shift = in_units(problem.integrand.function, state.values)
    data, centre, unit = problem.model.data(problem, state, values, shift)
    return data, values, IntegrandUnits(shift, centre, unit)


def _batch(problem: IntegrationProblem, state: IntegrationState) -> int:
    return problem.batch or max(2, int((DESIGN.growth - 1) * len(state)))


def _chosen(
    problem: IntegrationProblem, state: IntegrationState, count: int
) -> tuple[np.ndarray, int, np.ndarray]:
    """Return nodes (k, D) in standard coordinates, the first of them from the Sobol sequence.

    Then the number of these, and the logarithms of weights (m,) of the last nodes, which test the answer.
    """
    found, measure, seed = state.ensemble, problem.standard.measure, _seed(problem, len(state))
    assert found is not None  # set by the caller
    taken, log = np.concatenate([state.u, state.pending_u]), problem.integrand.function.logarithmic
    if problem.criterion is not None:
        candidates = pool(measure, found.best, seed, taken, log)
        among = candidates if isinstance(measure, Empirical) else None
        count = min(count, len(candidates)) if among is not None else count
        u = by_criterion(found.best, problem.criterion, count, seed, among, state.pending_u)
        return u, 0, np.zeros(0)
    tests, log_weights = _tests(problem, state, count)
    count -= len(tests)
    peaked = isinstance(found.best.family, PeakFamily)  # nodes of the sequence would miss the peaks
    explained = explained_by(found, state.sobol)
    poor = explained < predicts(measure.dimension) and not peaked
    high = nodes_of_logarithms(problem, state, count, seed, explained > 0.99)[:count]
    if poor:
        u = _sequence(problem, count - len(high), state)
        return np.concatenate([u, high, tests]), len(u), log_weights
    checks = _sequence(problem, _checks(state, count), state)
    high = high[: count - len(checks)]
    edge = outermost(measure, taken, seed)[: count - len(checks) - len(high)]
    first = np.concatenate([checks, high, edge])
    given, waiting = len(first), len(state.pending_u)
    others = pool(measure, found.best, seed, np.concatenate([taken, first]), log)
    candidates = np.concatenate([state.pending_u, first, others])
    before = len(taken) if waiting else 0
    chosen = problem.model.choose(found.best, candidates, count - given, waiting + given, before)
    return np.concatenate([first, candidates[chosen], tests]), len(checks), log_weights


def _is_tested(problem: IntegrationProblem) -> bool:
    """Whether some nodes test the answer (:mod:`refutation`): f is given by its logarithm."""
    chosen = problem.criterion is None and not isinstance(problem.measure, Empirical)
    return problem.integrand.function.logarithmic and chosen


def _tests(problem: IntegrationProblem, state: IntegrationState, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Those of the next ``count`` nodes that test the answer, (m, D), and ln of their weights (m,)."""
    n = len(state) + len(state.pending_u)
    due = int(np.ceil(REFUTATION.share * (n + count))) - _tests_made(state)
    number = min(due, (count + 1) // 2, REFUTATION.tests)
    if number < 1 or not _is_tested(problem):
        return np.zeros((0, state.u.shape[1])), np.zeros(0)
    return _answer(problem, state, modelled(problem, state)[2]).tests(number, _seed(problem, n))


def _tests_made(state: IntegrationState) -> int:
    return int(np.sum(~np.isnan(state.log_weights)) + np.sum(~np.isnan(state.pending_log_weights)))


def _answer(problem: IntegrationProblem, state: IntegrationState, units: IntegrandUnits) -> Answer:
    assert state.ensemble is not None  # set by the caller
    level, log_unit = float(units.centre[0] / units.unit[0]), float(np.log(units.unit[0])) + units.shift
    return Answer(state.ensemble.best, problem.standard.measure, level, log_unit)


def _checks(state: IntegrationState, count: int) -> int:
    """The number of the next ``count`` nodes that continue the Sobol sequence.

    Those that test the answer are checks as well.
    """
    made = int(state.sobol.sum()) + int(state.pending_sobol.sum()) + _tests_made(state)
    due = int(np.ceil(DESIGN.checks * (len(state) + len(state.pending_u) + count))) - made
    return min(max(due, 0), count)


def _seed(problem: IntegrationProblem, n: int) -> int:
    return int(np.random.default_rng([problem.seed, n]).integers(2**31))


def _sequence(problem: IntegrationProblem, count: int, state: IntegrationState | None) -> np.ndarray:
    """Return the next ``count`` points of the Sobol sequence, in standard coordinates."""
    if count == 0:
        return np.zeros((0, problem.measure.dimension))
    used = 0 if state is None else int(state.sobol.sum()) + int(state.pending_sobol.sum())
    if isinstance(problem.measure, Empirical):
        return _drawn(problem, count, state)
    cube = scrambled_sobol(problem.measure.dimension, used + count, problem.seed)[used:]
    return problem.standard.map.to_standard(problem.measure.from_unit_cube(cube))


def _drawn(problem: IntegrationProblem, count: int, state: IntegrationState | None) -> np.ndarray:
    """Points of a finite measure drawn without replacement: a Sobol sequence would repeat them."""
    measure = problem.standard.measure
    assert isinstance(measure, Empirical)  # checked by the caller
    points, inverse = np.unique(measure.points, axis=0, return_inverse=True)
    weights = np.bincount(inverse.reshape(-1), weights=measure.weights)
    keys = np.random.default_rng(problem.seed).exponential(size=len(points)) / np.maximum(weights, 1e-300)
    order = np.argsort(keys)
    seen = set() if state is None else {tuple(row) for row in [*state.u, *state.pending_u]}
    remaining = [i for i in order if tuple(points[i]) not in seen]
    return points[remaining[:count]]


def _points(problem: IntegrationProblem, u: np.ndarray) -> np.ndarray:
    """Return nodes (n, D) in the coordinates of the measure."""
    x = problem.standard.map.from_standard(u)
    if isinstance(problem.measure, Uniform):
        x = np.clip(x, problem.measure.lower, problem.measure.upper)
    return x


def with_known(problem: IntegrationProblem, arrays: tuple[Any, ...]) -> IntegrationState:
    """The state before the first evaluation, with nodes and values that are known.

    Parameters
    ----------
    arrays : x (n, D), values as f returns them, then gradients and noise sds, where the run has them.
    """
    x = np.atleast_2d(arrays[0])
    if x.ndim != 2 or x.shape[1] != problem.measure.dimension:
        raise ValueError(f"evaluations' x has shape {x.shape}; it must be (n, {problem.measure.dimension})")
    if isinstance(problem.measure, Empirical):
        raise ValueError("evaluations is given with a finite measure, whose points are all that can be nodes")
    density = np.asarray(problem.measure.log_density(x), float)
    if not np.isfinite(density).all():
        i = int(np.argmin(np.isfinite(density)))
        raise ValueError(
            f"evaluations' x[{i}] is {x[i].tolist()}, where the measure has no density; leave it out"
        )
    made = told(problem.integrand, x, *arrays[1:])
    logarithmic = problem.integrand.function.logarithmic
    if logarithmic:
        density = density + made.values.reshape(len(x), -1)[:, 0]
    noisy = problem.noise_sd is not None
    made = selected(made, problem.budget, noisy, density, reserved=problem.initial)
    first = initial_state(problem)
    known = replace(
        first,
        pending=np.concatenate([made.points, first.pending]),
        pending_u=np.concatenate([problem.standard.map.to_standard(made.points), first.pending_u]),
        pending_sobol=np.append(np.zeros(len(made), bool), first.pending_sobol),
        pending_log_weights=np.full(len(made) + len(first.pending), np.nan),
    )
    return with_evaluations(problem, known, made)
