"""Bayesian quadrature as a run: the engine of the loop of :mod:`bayesian`, and its result."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from bqvi.calls import Budget, Evaluations, Ledger
from bqvi.calls.faults import Failures
from bqvi.calls.gradient_check import left_out, require_consistent
from bqvi.calls.returned import log_weights
from bqvi.importance import effective_size, normalised
from bqvi.quadrature import bayesian
from bqvi.quadrature.bayesian import number
from bqvi.quadrature.charts import AffineChart
from bqvi.quadrature.ensemble import Fits
from bqvi.quadrature.integral import EstimateRow, Integral, log_moments, with_doubt, with_failures
from bqvi.quadrature.integrand_process import IntegrandProcess
from bqvi.quadrature.monte_carlo import (
    in_units,
    shifted_back,
    unlogged,
)
from bqvi.quadrature.state import IntegrandUnits, IntegrationProblem, IntegrationState, identity
from bqvi.quadrature.tails import verdict
from bqvi.records import named
from bqvi.runs import Checkpoint, RunStatus, Trace
from gp.arrays import as_like, is_torch
from gp.linear_maps import lower_inverse
from gp.measures import Empirical
from gp.user_warnings import warn_user_of_each

DOOR = "integrate"
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
        self, problem: IntegrationProblem, method: str, tolerance: float | None, seconds: float | None
    ) -> None:
        self.problem, self.method, self.caller = problem, method, problem.integrand
        self.tolerance, self.seconds = tolerance, seconds
        self.ledger = Ledger(problem.measure.dimension)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What tells the integral from others, by which a run that is resumed is compared."""
        return identity(self.problem.integrand, self.problem.measure, self.method, self.problem.log_volume)

    def init(self) -> IntegrationState:
        return bayesian.initial_state(self.problem)

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
        """Evaluate the pending nodes, fit the surrogates, and choose the next nodes."""
        return self._with_next(bayesian.step(self.problem, state, self.ledger))

    def _with_next(self, state: IntegrationState) -> IntegrationState:
        return bayesian.with_next(self.problem, state) if self.finished(state) is None else state

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

    def with_more(self, state: IntegrationState, count: int) -> IntegrationState:
        """The state with further nodes, given the pending ones; with no more once the run has finished."""
        state = bayesian.with_estimate_if_due(self.problem, state)
        return bayesian.with_more(self.problem, state, count) if self.finished(state) is None else state

    def pending(self, state: IntegrationState) -> np.ndarray:
        """Nodes to be evaluated, (m, D)."""
        return state.pending

    def finished(self, state: IntegrationState) -> str | None:
        reason = bayesian.finished(self.problem, state)
        if reason is not None or not state.estimated:
            return reason
        if self.tolerance is not None and float(np.max(state.rows[-1].sd)) <= self.tolerance:
            return "tolerance"
        return "seconds" if self.seconds is not None and state.seconds >= self.seconds else None

    def result(self, state: IntegrationState, reason: str) -> Integral:
        bayesian.require_nodes(state)
        whole = state if state.estimated else bayesian.with_estimate(self.problem, state)
        found = _integral_of(self.problem, whole, self.checkpoint(state), reason)
        if self.tolerance is not None and reason in ("budget", "seconds"):
            found = replace(found, converged=False, checks=("The tolerance was not reached.", *found.checks))
        found = with_failures(found, state.failures, self.caller.function.place)
        return found if self.problem.integrand.function.logarithmic else with_doubt(found, state.values)

    def with_evaluations(self, state: IntegrationState, evaluations: Evaluations) -> IntegrationState:
        return bayesian.with_evaluations(self.problem, state, evaluations)

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


def _integral_of(
    problem: IntegrationProblem, state: IntegrationState, checkpoint: Checkpoint, reason: str
) -> Integral:
    """Return the integral of a state with an estimate of all nodes; ``checkpoint`` is its saved form."""
    method = checkpoint.settings["method"]
    if state.fits is not None:  # candidates far behind at the last fit are left out, as in a resumed run
        state = bayesian.prepared(problem, replace(state, ensemble=None))
    if reason == "exhausted" and problem.noise_sd is None and problem.integrand.function.log_weight is None:
        return _exact(problem, state, checkpoint)
    mean, covariance, units, judgement = bayesian.final(problem, state)
    warnings = state.ensemble.best.understated(float(units.unit[0])) if state.ensemble else ()
    if state.slopes is not None and np.isnan(state.slopes).any():
        rows = np.flatnonzero(np.isnan(state.slopes).any(axis=(1, 2)))
        x = problem.standard.map.from_standard(state.u[rows[:1]])
        warnings = (*warnings, left_out(len(rows), len(state), problem.integrand.function.place(x[0])))
    warn_user_of_each(warnings)
    state = replace(state, ensemble=None)  # large matrices
    sd = np.sqrt(np.diag(covariance))
    result = _described(problem, state, checkpoint, reason)
    result = replace(
        result,
        **scaled(mean, sd, covariance, units.shift + problem.log_volume),
        converged=judgement.credible,
        checks=(judgement.reason,),
        warnings=warnings,
    )
    if problem.integrand.function.logarithmic or method != "bq":
        log_mean, log_sd = log_moments(float(mean[0]), float(sd[0]), units.shift + problem.log_volume)
        result = replace(result, log_mean=log_mean, log_sd=log_sd)
    return result if method != "bq" else replace(result, surrogate=_integrand_process(problem, state, units))


def _described(
    problem: IntegrationProblem, state: IntegrationState, checkpoint: Checkpoint, reason: str
) -> Integral:
    """A result without estimate and standard deviation."""
    x = problem.standard.map.from_standard(state.u)
    like = problem.integrand.function.like
    weights = None
    if problem.integrand.function.log_weight is not None:
        weights = log_weights(problem.integrand.function, x[state.sobol])
    drawn = state.values[state.sobol]
    shape, _, _ = verdict(unlogged(drawn)[0] if problem.integrand.function.logarithmic else drawn, weights)
    values = state.values[:, 0] if state.values.shape[1] == 1 else state.values
    return Integral(
        mean=math.nan,
        sd=math.nan,
        n_evaluations=state.n_evaluations,
        nodes=as_like(x, like) if is_torch(like) else x,
        values=as_like(values, like) if is_torch(like) else values,
        trace=Trace(state.rows),
        method=checkpoint.settings["method"],
        stopped=reason,
        effective_sample_size=None if weights is None else float(effective_size(normalised(weights))),
        pareto_k=shape,
        checkpoint=checkpoint,
    )


def _exact(problem: IntegrationProblem, state: IntegrationState, checkpoint: Checkpoint) -> Integral:
    """The weighted sum over all points of a finite measure."""
    measure = problem.standard.measure
    assert isinstance(measure, Empirical)  # only finite measures are exhausted
    values, shift = in_units(problem.integrand.function, state.values)
    place = {tuple(row): i for i, row in enumerate(state.u)}
    rows = [place[tuple(point)] for point in measure.points]
    mean = measure.weights @ values[rows]
    none = np.zeros((len(mean), len(mean)))
    result = _described(problem, state, checkpoint, "exhausted")
    result = replace(result, **scaled(mean, np.zeros(len(mean)), none, shift))
    if problem.integrand.function.logarithmic:
        log_mean, log_sd = log_moments(float(mean[0]), 0.0, shift)
        result = replace(result, log_mean=log_mean, log_sd=log_sd)
    return replace(result, checks=("All points of the measure have been evaluated: the sum is exact.",))


def scaled(mean: np.ndarray, sd: np.ndarray, covariance: np.ndarray, shift: float) -> dict[str, Any]:
    """Return the fields mean, sd and covariance of a result, from numbers in units of e^shift."""
    joint = shifted_back(covariance, 2 * shift) if len(mean) > 1 else None
    return {
        "mean": number(shifted_back(mean, shift)), "sd": number(shifted_back(sd, shift)), "covariance": joint
    }  # fmt: skip


def _integrand_process(
    problem: IntegrationProblem, state: IntegrationState, units: IntegrandUnits
) -> IntegrandProcess:
    for member in bayesian.whole_ensemble(problem, state).members:
        if isinstance(member.chart, AffineChart) and member.family.smooth:
            to_x = problem.standard.map
            linear = member.chart.rotation.T @ lower_inverse(to_x.scale)
            centre, unit = (shifted_back(part, units.shift) for part in (units.centre, units.unit))
            return IntegrandProcess(member, to_x.shift, linear, centre, unit)
    raise AssertionError("the plain surrogate is always among the members")
