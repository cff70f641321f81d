"""Bayesian quadrature as a loop (thesis Eqs 7.12, 7.17; O'Hagan 1991).

    nodes     = Sobol points mapped to the measure, at first and while the surrogate does not predict;
                then those that reduce the variance of the integral most, and as checks one of the
                sequence for each three of these
    values    = integrand(nodes)
    ensemble  = surrogates fitted to all values              (:mod:`ensemble`)
    integral  = that of the ensemble, judged                 (:mod:`credibility`)

The `Model` (:mod:`state`) defines which function is a Gaussian process, and how the integral follows: the
integrand itself or its square root (:mod:`state`). Computations are in standard coordinates,
where the measure has mean 0 and covariance I, and on values in units in which they vary by 1, so that the
result does not depend on the user's units.

An `IntegrationState` determines the continuation of a run, with the nodes to be evaluated next. Random
numbers are determined by the seed and the number of nodes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bqvi.calls import Budget, Evaluations, Ledger
from bqvi.calls.coordinates import make_coordinates
from bqvi.calls.faults import Failures, left_out, require_consistent
from bqvi.calls.given import selected, told
from bqvi.calls.table import joined_rows, matched
from bqvi.posterior import Posterior, WeightedDraws
from bqvi.quadrature import ensemble as ensembles
from bqvi.quadrature.credibility import Answer, Judgement, combined, explained_by, judge, test_of
from bqvi.quadrature.ensemble import Fits
from bqvi.quadrature.integral import (
    DOOR,
    EstimateRow,
    Integral,
    IntegrandProcess,
    as_wide,
    described,
    in_units,
    moments,
    number,
    shifted_back,
    with_failures,
    with_zeros,
)
from bqvi.quadrature.nodes import by_criterion, outermost, pool
from bqvi.quadrature.peaks import PeakFamily
from bqvi.quadrature.rises import doubts, nodes_of_logarithms, unseen_modes
from bqvi.quadrature.settings import CREDIBILITY, DESIGN, PRECISE, ROUGHLY
from bqvi.quadrature.state import IntegrandUnits, IntegrationProblem, IntegrationState, identity
from bqvi.quadrature.surrogate import AffineChart, StandardData
from bqvi.records import named
from bqvi.runs import Checkpoint, RunStatus
from bqvi.runs.settings import ENGINES
from gp.checks import require_shape
from gp.low_discrepancy import scrambled_sobol
from gp.matrices import lower_inverse
from gp.measures import AffineMap, Empirical, Measure, Uniform
from gp.measures.base import Standardised
from gp.user_warnings import warn_user_of_each

RECORDS = named(IntegrationState, Fits, EstimateRow, Failures)
"""What a saved run is made of."""


class BayesianRun:
    """The engine of a run of Bayesian quadrature (:class:`bqvi.runs.Engine`).

    Parameters
    ----------
    problem : the problem. method : the name of the method.
    tolerance, seconds : the standard deviation, and the time, at which the run ends; None for no such end.
    """

    small = True

    def __init__(
        self,
        problem: IntegrationProblem,
        method: str,
        tolerance: float | None = None,
        seconds: float | None = None,
    ) -> None:
        self.problem, self.method, self.caller = problem, method, problem.integrand
        self.tolerance, self.seconds = tolerance, seconds
        self.ledger = Ledger(problem.measure.dimension)
        self.identity = identity(problem.integrand, problem.measure, method, problem.log_volume)

    def init(self) -> IntegrationState:
        """Return the state before the first evaluation, with the initial design to be evaluated.

        For an f that is given by its logarithm the measure is a proposal, whose centre is where its user
        expects f to be large: that is a node.
        """
        problem = self.problem
        central = problem.is_given_by_logarithms
        u = self._sequence(problem.initial - central, None)
        from_sobol = np.arange(problem.initial) < len(u)
        u = np.concatenate([u, np.zeros((int(central), u.shape[1]))])
        nothing, none, untested = u[:0], np.zeros(0, dtype=bool), np.full(len(u), np.nan)
        pending = (self._points(u), u, from_sobol[: len(u)])
        return IntegrationState(nothing, np.zeros((0, 1)), None, none, *pending, untested[:0], untested)

    def with_known(self, arrays: tuple[Any, ...]) -> IntegrationState:
        """The state before the first evaluation, with nodes and values that are known.

        Parameters
        ----------
        arrays : x (n, D), values as f returns them, then gradients and noise sds, where the run has them.
        """
        problem = self.problem
        x = np.atleast_2d(arrays[0])
        require_shape("evaluations' x", x, ("N", problem.measure.dimension))
        if isinstance(problem.measure, Empirical):
            raise ValueError(
                "evaluations is given with a finite measure, whose points are all that can be nodes"
            )
        density = np.asarray(problem.measure.log_density(x), float)
        if not np.isfinite(density).all():
            i = int(np.argmin(np.isfinite(density)))
            raise ValueError(
                f"evaluations' x[{i}] is {x[i].tolist()}, where the measure has no density; leave it out"
            )
        made = told(problem.integrand, x, *arrays[1:])
        logarithmic = problem.integrand.function.range.logarithmic
        if logarithmic:
            density = density + made.values.reshape(len(x), -1)[:, 0]
        noisy = problem.noise_sd is not None
        made = selected(made, problem.budget, noisy, density, reserved=problem.initial)
        first = self.init()
        known = replace(
            first,
            pending=np.concatenate([made.points, first.pending]),
            pending_u=np.concatenate([problem.standard.map.to_standard(made.points), first.pending_u]),
            pending_sobol=np.append(np.zeros(len(made), bool), first.pending_sobol),
            pending_log_weights=np.full(len(made) + len(first.pending), np.nan),
        )
        return self.with_evaluations(known, made)

    def resumed(self, state: IntegrationState) -> IntegrationState:
        """A state of an earlier run, whose budget may have been smaller."""
        if state.u.shape[1] != self.problem.measure.dimension:
            raise ValueError(
                f"resume has nodes of dimension {state.u.shape[1]}, the measure "
                f"{self.problem.measure.dimension}"
            )
        self.budget_of(state).require_enough()
        return self._with_next(state) if state.estimated and not len(state.pending) else state

    def step(self, state: IntegrationState) -> IntegrationState:
        """Evaluate the pending nodes within the budget, fit the surrogates, and choose the next nodes."""
        began = time.perf_counter()
        if len(state.pending):
            first, budget = len(state) == 0, self.budget_of(state)
            state = self.with_evaluations(
                state, self.caller.evaluate(state.pending, self.ledger, budget, first=first)
            )
        require_nodes(state)
        return self._with_next(self._with_estimate(state, began))

    def _with_next(self, state: IntegrationState) -> IntegrationState:
        """The state with the nodes to be evaluated next; with known noise the last four are a step."""
        if self.finished(state) is not None:
            return state
        left = self.problem.budget - state.n_evaluations
        known = left > 4 and self.problem.noise_sd not in (None, "unknown")
        return self._with_nodes(state, min(self._batch(state), left - 4 * known))

    def with_more(self, state: IntegrationState, count: int) -> IntegrationState:
        """The state with further nodes, given the pending ones; with no more once the run has finished.

        A record of all nodes with values is made first, if one is due while others are pending. The first is
        due when half of the first design has values, to which nodes that were known before the run do not
        belong; others when the nodes since the last one are as many as a batch, or no node is pending.
        """
        if not state.rows:
            due = state.sobol.sum() >= max(DESIGN.first[0], self.problem.initial) // 2
        else:
            since = state.n_evaluations - state.rows[-1].n_evaluations
            due = since >= self._batch(state) or (since > 0 and not len(state.pending))
        state = self._with_estimate(state) if due else state
        return self._with_nodes(state, count) if self.finished(state) is None else state

    def _with_nodes(self, state: IntegrationState, count: int) -> IntegrationState:
        """Return the state with ``count`` further nodes, given that the pending ones will be evaluated too.

        The first design is continued until there is an estimate. Where values seem to vary by more than a
        noise that is known, the last four of the budget are earlier nodes once more, which decide whether
        they do.
        """
        began = time.perf_counter()
        if not count:
            return state
        if not state.rows:
            state = self._with_pending(state, self._sequence(count, state), count)
        else:
            state = self._prepared(state)
            after = self.problem.budget - state.n_evaluations - len(state.pending) - count
            last, best = max(min(4 - after, count), 0), state.ensemble.best if state.ensemble else None
            if last and state.slopes is None and best is not None and best.understated(1.0, repeats=False):
                state, count = self._with_pending(state, state.u[after : after + last], 0), count - last
            state = self._with_pending(state, *self._chosen(state, count)) if count else state
        return replace(state, seconds=state.seconds + time.perf_counter() - began)

    def _with_pending(
        self, state: IntegrationState, u: np.ndarray, from_sobol: int, log_weights: np.ndarray | None = None
    ) -> IntegrationState:
        """The state with further pending nodes u (k, D).

        The first ``from_sobol`` of these are from the sequence, and the last are tests with ``log_weights``
        (m,).
        """
        tests = np.zeros(0) if log_weights is None else log_weights
        untested = np.full(len(u) - len(tests), np.nan)
        return replace(
            state,
            pending=np.concatenate([state.pending, self._points(u)]),
            pending_u=np.concatenate([state.pending_u, u]),
            pending_sobol=np.append(state.pending_sobol, np.arange(len(u)) < from_sobol),
            pending_log_weights=np.concatenate([state.pending_log_weights, untested, tests]),
        )

    def budget_of(self, state: IntegrationState) -> Budget:
        return Budget(self.problem.budget, state.n_evaluations)

    def kept(self, state: IntegrationState) -> Evaluations | None:
        """The nodes and their values; None where their noise is not known."""
        if isinstance(self.problem.noise_sd, str):
            return None
        noise, n, sd = state.noise_variance, len(state), self.problem.noise_sd
        if noise is None and sd is not None and not callable(sd):
            noise = np.full(n, float(sd) ** 2)
        x = self.problem.standard.map.from_standard(state.u)
        slopes = None if state.slopes is None else np.swapaxes(state.slopes, 1, 2)
        return Evaluations(x, state.values, slopes, noise, np.zeros(n, bool), ("",) * n)

    def require_consistent(self, before: IntegrationState, after: IntegrationState) -> None:
        require_consistent(self.caller.function, len(before), self.kept(after))

    def pending(self, state: IntegrationState) -> np.ndarray:
        """Nodes to be evaluated, (m, D)."""
        return state.pending

    def finished(self, state: IntegrationState) -> str | None:
        """The reason why the run ends; None also while the latest nodes have no estimate."""
        if not state.estimated:
            return None
        measure = self.problem.measure
        among = measure.points if isinstance(measure, Empirical) else None
        if among is not None and len(np.unique(state.u, axis=0)) >= len(np.unique(among, axis=0)):
            return "exhausted"
        if state.n_evaluations >= self.problem.budget:
            return "budget"
        if self.tolerance is not None and float(np.max(state.rows[-1].sd)) <= self.tolerance:
            return "tolerance"
        return "seconds" if self.seconds is not None and state.seconds >= self.seconds else None

    def with_evaluations(self, state: IntegrationState, evaluations: Evaluations) -> IntegrationState:
        """The state with evaluations, in the user's coordinates, of the pending nodes that have returned."""
        function, spent = self.caller.function, evaluations.n_evaluations
        failures = state.failures.after(evaluations)
        made = with_zeros(function, evaluations)
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

    def checkpoint(self, state: IntegrationState) -> Checkpoint:
        """The state without its surrogates, which follow from the rest."""
        settings = {"dimension": self.problem.measure.dimension} | self.identity
        return Checkpoint(DOOR, settings, replace(state, ensemble=None), state.n_evaluations)

    def status(self, state: IntegrationState) -> RunStatus:
        message = ""
        if state.rows:
            row = state.rows[-1]
            message = f"{np.max(np.abs(row.mean)):.4g} +- {np.max(row.sd):.2g}"
        return RunStatus(state.n_evaluations, self.problem.budget, "evaluations", message)

    def _prepared(self, state: IntegrationState) -> IntegrationState:
        """Return the state with its ensemble."""
        if state.ensemble is not None or state.fits is None:
            return state
        data = self.modelled(state)[0]
        return replace(state, ensemble=ensembles.condition(self.problem.standard.measure, data, state.fits))

    def _estimate(
        self,
        state: IntegrationState,
        integral: tuple[np.ndarray, np.ndarray],
        values: np.ndarray,
        units: IntegrandUnits,
        decides: bool = True,
    ) -> tuple[np.ndarray, np.ndarray, Judgement]:
        """Mean, covariance but for what was not seen, and judgement, of singularities if it ``decides``."""
        problem = self.problem
        assert state.ensemble is not None  # set by the caller
        best = state.ensemble.best
        m, p = len(best.process.weights) * best.data.outputs, len(best.psi)
        integral = integral[0], (m / max(m - p, 1)) ** 2 * integral[1]
        weights, tested = problem.model.weights(best), None
        if self._is_tested():
            whole = max(float(units.centre[0] + units.unit[0] * integral[0][0]), 1e-300)
            answer, log_integral = self._answer(state, units), float(np.log(whole)) + units.shift
            tested = test_of(answer, state.log_weights, log_integral)
        f, measure = values / units.unit, problem.standard.measure if decides else None
        judgement = judge(state.ensemble, state.sobol, f, weights, np.diag(integral[1]), measure, tested)
        prior_variance = problem.model.variance_of_the_prior(best)
        (modes, hidden), excess = unseen_modes(problem, state), np.maximum(judgement.excess, prior_variance)
        judgement = replace(judgement, excess=excess, modes=modes, hidden=hidden)
        in_units = (values - units.centre) / units.unit
        mean, covariance = combined(*integral, judgement, in_units, state.sobol)
        covariance = np.outer(units.unit, units.unit) * covariance
        covariance[judgement.zero, judgement.zero] = np.inf
        return units.centre + units.unit * mean, covariance, judgement

    def _with_estimate(self, state: IntegrationState, began: float | None = None) -> IntegrationState:
        """Return the state with a record of all its nodes; ``began`` is the time at which the step began."""
        problem = self.problem
        began = time.perf_counter() if began is None else began
        (data, values, units), last = self.modelled(state), state.n_evaluations >= problem.budget
        if state.fits is None or last or len(state) >= DESIGN.growth * state.fitted_at:
            found = ensembles.fit(problem.standard.measure, data, state.fits, PRECISE if last else ROUGHLY)
            wrong = found.best.contradicted()
            if wrong is not None and state.slopes is not None:
                left = np.arange(len(state))[:, None, None] == wrong  # from now on
                blank = replace(state, slopes=np.where(left, np.nan, state.slopes), fits=None)
                return self._with_estimate(blank, began)
            state = replace(state, fits=found.fits(state.fits), fitted_at=len(state))
        else:
            found = ensembles.condition(problem.standard.measure, data, state.fits)
        state = replace(state, ensemble=found)
        moments = found.integral(problem.model.moments)
        decides = last or self.tolerance is not None
        mean, covariance, judgement = self._estimate(state, moments, values, units, decides)
        covariance = judgement.with_unseen(mean, covariance)
        seconds = state.seconds + time.perf_counter() - began
        shift = units.shift + problem.log_volume
        sd = shifted_back(np.sqrt(np.diag(covariance)), shift)
        row = EstimateRow(state.n_evaluations, seconds, number(shifted_back(mean, shift)), number(sd))
        ensemble = None if last else found  # the result makes it again, as that of a resumed run does
        return replace(state, seconds=seconds, rows=(*state.rows, row), ensemble=ensemble)

    def modelled(self, state: IntegrationState) -> tuple[StandardData, np.ndarray, IntegrandUnits]:
        """The data to which the surrogates are fitted, the values they are made from, and their units."""
        problem = self.problem
        values, shift = in_units(problem.integrand.function, state.values)
        data, centre, unit = problem.model.data(problem, state, values, shift)
        return data, values, IntegrandUnits(shift, centre, unit)

    def _batch(self, state: IntegrationState) -> int:
        return self.problem.batch or max(2, int((DESIGN.growth - 1) * len(state)))

    def _chosen(self, state: IntegrationState, count: int) -> tuple[np.ndarray, int, np.ndarray]:
        """Return nodes (k, D) in standard coordinates, the first of them from the Sobol sequence.

        Then the number of these, and the logarithms of weights (m,) of the last nodes, which test the answer.
        """
        problem = self.problem
        found, measure, seed = state.ensemble, problem.standard.measure, self._seed(len(state))
        assert found is not None  # set by the caller
        taken, log = np.concatenate([state.u, state.pending_u]), problem.integrand.function.range.logarithmic
        if problem.criterion is not None:
            candidates = pool(measure, found.best, seed, taken, log)
            among = candidates if isinstance(measure, Empirical) else None
            count = min(count, len(candidates)) if among is not None else count
            u = by_criterion(found.best, problem.criterion, count, seed, among, state.pending_u)
            return u, 0, np.zeros(0)
        tests, log_weights = self._tests(state, count)
        count -= len(tests)
        peaked = isinstance(found.best.family, PeakFamily)  # nodes of the sequence would miss the peaks
        explained = explained_by(found, state.sobol)
        poor = explained < max(CREDIBILITY.explained, 1 - 1 / measure.dimension) and not peaked
        high = nodes_of_logarithms(problem, state, count, seed, explained > 0.99)[:count]
        if poor:
            u = self._sequence(count - len(high), state)
            return np.concatenate([u, high, tests]), len(u), log_weights
        checks = self._sequence(_checks(state, count), state)
        high = high[: count - len(checks)]
        edge = outermost(measure, taken, seed)[: count - len(checks) - len(high)]
        first = np.concatenate([checks, high, edge])
        given, waiting = len(first), len(state.pending_u)
        others = pool(measure, found.best, seed, np.concatenate([taken, first]), log)
        candidates = np.concatenate([state.pending_u, first, others])
        before = len(taken) if waiting else 0
        chosen = problem.model.choose(found.best, candidates, count - given, waiting + given, before)
        return np.concatenate([first, candidates[chosen], tests]), len(checks), log_weights

    def _is_tested(self) -> bool:
        """Whether some nodes test the answer (:mod:`credibility`): f is given by its logarithm."""
        return self.problem.criterion is None and self.problem.is_given_by_logarithms

    def _tests(self, state: IntegrationState, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of the next ``count`` nodes that test the answer, (m, D), and ln of their weights (m,)."""
        n = len(state) + len(state.pending_u)
        due = int(np.ceil(DESIGN.checks * (n + count))) - _tests_made(state)
        number = min(due, (count + 1) // 2)
        if number < 1 or not self._is_tested():
            return np.zeros((0, state.u.shape[1])), np.zeros(0)
        return self._answer(state, self.modelled(state)[2]).tests(number, self._seed(n))

    def _answer(self, state: IntegrationState, units: IntegrandUnits) -> Answer:
        assert state.ensemble is not None  # set by the caller
        level, log_unit = float(units.centre[0] / units.unit[0]), float(np.log(units.unit[0])) + units.shift
        return Answer(state.ensemble.best, self.problem.standard.measure, level, log_unit)

    def _seed(self, n: int) -> int:
        return int(np.random.default_rng([self.problem.seed, n]).integers(2**31))

    def _sequence(self, count: int, state: IntegrationState | None) -> np.ndarray:
        """Return the next ``count`` points of the Sobol sequence, in standard coordinates."""
        problem = self.problem
        if count == 0:
            return np.zeros((0, problem.measure.dimension))
        used = 0 if state is None else int(state.sobol.sum()) + int(state.pending_sobol.sum())
        if isinstance(problem.measure, Empirical):
            return self._drawn(count, state)
        cube = scrambled_sobol(problem.measure.dimension, used + count, problem.seed)[used:]
        return problem.standard.map.to_standard(problem.measure.from_unit_cube(cube))

    def _drawn(self, count: int, state: IntegrationState | None) -> np.ndarray:
        """Points of a finite measure drawn without replacement: a Sobol sequence would repeat them."""
        problem = self.problem
        measure = problem.standard.measure
        assert isinstance(measure, Empirical)  # checked by the caller
        points, inverse = np.unique(measure.points, axis=0, return_inverse=True)
        weights = np.bincount(inverse.reshape(-1), weights=measure.weights)
        keys = np.random.default_rng(problem.seed).exponential(size=len(points)) / np.maximum(weights, 1e-300)
        order = np.argsort(keys)
        seen = set() if state is None else {tuple(row) for row in [*state.u, *state.pending_u]}
        remaining = [i for i in order if tuple(points[i]) not in seen]
        return points[remaining[:count]]

    def _points(self, u: np.ndarray) -> np.ndarray:
        """Return nodes (n, D) in the coordinates of the measure."""
        problem = self.problem
        x = problem.standard.map.from_standard(u)
        if isinstance(problem.measure, Uniform):
            x = np.clip(x, problem.measure.lower, problem.measure.upper)
        return x

    def _final(self, state: IntegrationState) -> tuple[np.ndarray, np.ndarray, IntegrandUnits, Judgement]:
        """Return mean (o,) and covariance (o, o) in units, with hyperparameters marginalised."""
        problem = self.problem
        state = self._prepared(state)
        assert state.ensemble is not None  # set by the preparation of the step
        moments = state.ensemble.marginal_integral(problem.model.moments, DESIGN.draws, problem.seed)
        _, values, units = self.modelled(state)
        mean, covariance, judgement = self._estimate(state, moments, values, units)
        log_mean = float(np.log(max(float(mean[0]), 1e-300))) + units.shift
        unexplored, beyond = doubts(problem, state, self._seed(len(state)), log_mean)
        judgement = replace(judgement, unexplored=unexplored, beyond=beyond)
        return mean, judgement.with_unseen(mean, covariance), units, judgement

    def result(self, state: IntegrationState, reason: str) -> Integral:
        require_nodes(state)
        found = self._integral(state if state.estimated else self._with_estimate(state), state, reason)
        if self.tolerance is not None and reason in ("budget", "seconds"):
            found = replace(found, converged=False, checks=("The tolerance was not reached.", *found.checks))
        return with_failures(found, state.failures, self.caller.function.place)

    def _integral(self, state: IntegrationState, saved: IntegrationState, reason: str) -> Integral:
        """The integral of a state with an estimate of all nodes; ``saved`` is that of the checkpoint."""
        problem, function = self.problem, self.caller.function
        if state.fits is not None:  # candidates far behind at the last fit are left out, as in a resumed run
            state = self._prepared(replace(state, ensemble=None))
        x = problem.standard.map.from_standard(state.u)
        result = partial(
            described, function, x, state.values, state.rows, state.sobol, n_evaluations=state.n_evaluations,
            method=self.method, stopped=reason, checkpoint=self.checkpoint(saved),
        )  # fmt: skip
        if reason == "exhausted" and problem.noise_sd is None and function.log_weight is None:
            checks = ("All points of the measure have been evaluated: the sum is exact.",)
            return result(**self._exact(state), converged=True, checks=checks)
        mean, covariance, units, judgement = self._final(state)
        warnings = state.ensemble.best.understated(float(units.unit[0])) if state.ensemble else ()
        if state.slopes is not None and np.isnan(state.slopes).any():
            rows = np.flatnonzero(np.isnan(state.slopes).any(axis=(1, 2)))
            warnings = (*warnings, left_out(len(rows), len(state), function.place(x[rows[0]])))
        warn_user_of_each(warnings)
        logs, is_density = function.range.logarithmic or self.method != "bq", problem.is_given_by_logarithms
        return result(
            **moments(mean, covariance, units.shift + problem.log_volume, logs),
            converged=judgement.credible,
            hidden=judgement.hidden,
            checks=(judgement.reason,),
            warnings=warnings,
            surrogate=self._process(state, units) if self.method == "bq" else None,
            posterior=self._posterior(state, units) if is_density and mean[0] > 0 else None,
        )

    def _posterior(self, state: IntegrationState, units: IntegrandUnits) -> Posterior:
        """The density f p by weighted draws of the answer."""
        measure, to_x = self.problem.measure, self.problem.standard.map
        u, logs = self._answer(state, units).draws(self._seed(len(state)), ENGINES.groups * ENGINES.draws)
        u, logs = u[np.isfinite(logs)], logs[np.isfinite(logs)]
        lower, upper = (measure.lower, measure.upper) if isinstance(measure, Uniform) else (None, None)
        reach = ENGINES.wider * np.linalg.norm(to_x.scale, axis=1)  # within such a box
        coordinates = make_coordinates(lower, upper, to_x.shift - reach, to_x.shift + reach)
        draws = WeightedDraws(coordinates.from_user(to_x.from_standard(u)), logs)
        return Posterior(draws.mixture(np.zeros(len(u), int)), coordinates, draws)

    def _exact(self, state: IntegrationState) -> dict[str, Any]:
        """The weighted sum over all points of a finite measure."""
        measure, function = self.problem.standard.measure, self.caller.function
        assert isinstance(measure, Empirical)  # only finite measures are exhausted
        values, shift = in_units(function, state.values)
        place = {tuple(row): i for i, row in enumerate(state.u)}
        mean = measure.weights @ values[[place[tuple(point)] for point in measure.points]]
        return moments(mean, np.zeros((len(mean), len(mean))), shift, function.range.logarithmic)

    def _process(self, state: IntegrationState, units: IntegrandUnits) -> IntegrandProcess:
        """The best linear candidate so far, also one that the last fit left out."""
        assert state.fits is not None  # there has been a fit since the start
        to_x, fits = self.problem.standard.map, replace(state.fits, left_out_next=())
        whole = ensembles.condition(self.problem.standard.measure, self.modelled(state)[0], fits)
        for member in whole.members:
            if isinstance(member.chart, AffineChart) and member.family.smooth:
                linear = member.chart.rotation.T @ lower_inverse(to_x.scale)
                centre, unit = (shifted_back(part, units.shift) for part in (units.centre, units.unit))
                return IntegrandProcess(member, to_x.shift, linear, centre, unit)
        raise AssertionError("the plain surrogate is always among the members")


def standardised(measure: Measure) -> Standardised:
    """Return the measure in standard coordinates; points of a finite one are only scaled."""
    if not isinstance(measure, Empirical):
        return measure.standardise()
    sd = np.sqrt(np.diag(measure.covariance))
    scale = np.where(sd > 0, sd, 1.0)
    points = (measure.points - measure.mean) / scale
    return Standardised(Empirical(points, measure.weights), AffineMap(measure.mean, np.diag(scale)))


def require_nodes(state: IntegrationState) -> None:
    """Raise ValueError unless there are enough nodes for a surrogate."""
    if len(state) < DESIGN.first[0] // 2:
        raise ValueError(
            f"{len(state)} nodes have values after {state.n_evaluations} evaluations; an estimate "
            f"needs {DESIGN.first[0] // 2}: raise the budget, or give vectorised=False where f fails at some "
            "points of a batch"
        )


def _tests_made(state: IntegrationState) -> int:
    return int(np.sum(~np.isnan(state.log_weights)) + np.sum(~np.isnan(state.pending_log_weights)))


def _checks(state: IntegrationState, count: int) -> int:
    """The number of the next ``count`` nodes that continue the Sobol sequence.

    Those that test the answer are checks as well.
    """
    made = int(state.sobol.sum()) + int(state.pending_sobol.sum()) + _tests_made(state)
    due = int(np.ceil(DESIGN.checks * (len(state) + len(state.pending_u) + count))) - made
    return min(max(due, 0), count)
