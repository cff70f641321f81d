"""Simple Monte Carlo, importance sampling, and quasi-Monte Carlo (thesis Eqs 7.10, 7.11, 7.19 and 7.20).

    Z = (1/n) sum_i f(x_i),   x_i ~ p          sd(Z)^2 = Var(f) / n,
    Z = (1/n) sum_i w_i f(x_i),   x_i ~ q,   w = p/q,

with Var(f) = sum_i (f(x_i) - Z)^2 / (n - 1) (7.19 with the square that its print lacks). The second is
the first for the integrand f p/q, and is computed as such. The effective sample size (sum w)^2 / sum w^2
(Kong 1992) is approximately the number of draws from p itself with the same variance.

Quasi-Monte Carlo averages over the first n points of one scrambled Sobol sequence. Owen's scrambling makes
every point uniform and keeps the net, so the average of f is unbiased (Owen 1997). Its error is estimated
from the spread of the averages over R successive blocks of the sequence, each of which is a net as well:

    Z = (1/n) sum_i f(x_i),   sd(Z)^2 = sum_r (Z_r - Z)^2 / (R (R - 1)).

Errors of blocks cancel in part, so that it is about right where f is rough, and too large where it is smooth.
The spread has R - 1 degrees of freedom: the variance is multiplied by that of Student's t, (R - 1)/(R - 3).

All nodes are known at the beginning, and one step evaluates them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bqvi.calls import Budget, Caller, Evaluations, Ledger
from bqvi.calls.faults import NONE_FAILED, Failures
from bqvi.calls.table import matched
from bqvi.quadrature.credibility import ALL_THE_SAME, NOTHING_SEEN, average
from bqvi.quadrature.integral import (
    DOOR,
    EstimateRow,
    Integral,
    as_wide,
    described,
    in_units,
    moments,
    with_failures,
    with_zeros,
)
from bqvi.quadrature.state import identity
from bqvi.records import named
from bqvi.runs import Checkpoint, RunStatus
from gp.low_discrepancy import scrambled_sobol
from gp.measures import Measure

LEAST_REPLICATES = 4
"""The smallest number of blocks, as fewer do not estimate their spread."""
_EQUAL_BLOCKS = "Blocks of the sequence have equal means, as of a step: their spread does not tell the error."


@dataclass(frozen=True, eq=False)
class Sampled:
    """The state of a run.

    Attributes
    ----------
    nodes : (n, D), all nodes. values : (n, o), NaN where the integrand has not been evaluated.
    known : (n,), whether it has. seconds : time spent.
    without_node : evaluations without a node, in batches that failed and were repeated point by point.
    failures : the evaluations without a value, at nodes where the integrand counts as zero.
    """

    nodes: np.ndarray
    values: np.ndarray
    known: np.ndarray
    seconds: float = 0.0
    without_node: int = 0
    failures: Failures = NONE_FAILED

    @property
    def n_evaluations(self) -> int:
        """The number of evaluations that count in the budget."""
        return int(self.known.sum()) + self.without_node


RECORDS = named(Sampled, Failures)
"""What a saved run is made of."""


class SamplingRun:
    """The engine of simple Monte Carlo and of quasi-Monte Carlo (:class:`bqvi.runs.Engine`).

    Parameters
    ----------
    method : 'monte-carlo' or 'qmc'. budget : n. replicates : blocks of 'qmc'. seed : of the nodes.
    log_volume : logarithm of the factor of integrals against the measure (:mod:`integrate`).
    """

    small = True

    def __init__(
        self,
        integrand: Caller,
        measure: Measure,
        budget: int,
        method: str,
        replicates: int,
        seed: int,
        log_volume: float = 0.0,
    ) -> None:
        self.caller, self.measure, self.budget, self.method = integrand, measure, budget, method
        self.replicates, self.seed, self.log_volume = min(replicates, budget // 2), seed, log_volume
        self.ledger = Ledger(measure.dimension)
        self.identity = identity(integrand, measure, method, log_volume)

    def init(self) -> Sampled:
        if self.method == "qmc":
            x = self.measure.from_unit_cube(scrambled_sobol(self.measure.dimension, self.budget, self.seed))
        else:
            x = self.measure.sample(self.budget, np.random.default_rng(self.seed))
        return Sampled(x, np.full((len(x), 1), np.nan), np.zeros(len(x), dtype=bool))

    def step(self, state: Sampled) -> Sampled:
        began = time.perf_counter()
        budget, first = self.budget_of(state), not state.known.any()
        made = self.caller.evaluate(self.pending(state), self.ledger, budget, first=first)
        reached = self.with_evaluations(state, made)
        return replace(reached, seconds=state.seconds + time.perf_counter() - began)

    def budget_of(self, state: Sampled) -> Budget:
        """The budget that remains at ``state``."""
        return Budget(self.budget, state.n_evaluations)

    def pending(self, state: Sampled) -> np.ndarray:
        """Nodes to be evaluated, (m, D)."""
        return state.nodes[~state.known]

    def with_more(self, state: Sampled, count: int) -> Sampled:
        """The unchanged state, as all nodes are known at the beginning."""
        return state

    def finished(self, state: Sampled) -> str | None:
        return "budget" if state.known.all() or state.n_evaluations >= self.budget else None

    def with_evaluations(self, state: Sampled, evaluations: Evaluations) -> Sampled:
        failures = state.failures.after(evaluations)
        evaluations = with_zeros(self.caller.function, evaluations)
        at = np.flatnonzero(~state.known)[matched(state.nodes[~state.known], evaluations.points)[0]]
        before, new = as_wide(state.values[state.known], evaluations.values)
        values = np.full((len(state.nodes), new.shape[1]), np.nan)
        values[state.known], values[at] = before, new
        known = state.known.copy()
        known[at] = True
        spent = state.without_node + evaluations.n_evaluations - len(evaluations)
        return replace(state, values=values, known=known, without_node=spent, failures=failures)

    def checkpoint(self, state: Sampled) -> Checkpoint:
        settings = self.identity | {"budget": self.budget, "seed": self.seed}
        settings |= {"replicates": self.replicates} if self.method == "qmc" else {}
        return Checkpoint(DOOR, settings, state, state.n_evaluations)

    def status(self, state: Sampled) -> RunStatus:
        return RunStatus(state.n_evaluations, self.budget, "evaluations")

    def result(self, state: Sampled, reason: str) -> Integral:
        n = int(state.known.sum())
        if n < 2 or (self.method == "qmc" and n < len(state.nodes)):
            raise ValueError(
                f"{n} of {len(state.nodes)} nodes have been evaluated, too few for an estimate; give "
                "vectorised=False where f fails at some points of a batch, whose call is then lost"
            )
        returned, x = state.values[state.known], state.nodes[state.known]
        function = self.caller.function
        values, shift = in_units(function, returned)
        numbers = self._numbers(values, shift + self.log_volume)
        row = EstimateRow(state.n_evaluations, state.seconds, numbers["mean"], numbers["sd"])
        found = described(
            function, x, returned, (row,), n_evaluations=state.n_evaluations, method=self.method,
            stopped=reason, checkpoint=self.checkpoint(state), **numbers,
        )  # fmt: skip
        varies = np.ptp(values, axis=0).any()
        if not varies or (np.isinf(numbers["sd"]).any() and np.isfinite(numbers["mean"]).all()):
            why = _EQUAL_BLOCKS if varies else ALL_THE_SAME if values.any() else NOTHING_SEEN
            found = replace(found, converged=False, checks=(why,))
        return with_failures(found, state.failures, function.place)

    def _numbers(self, values: np.ndarray, shift: float) -> dict[str, Any]:
        """Mean, sd and covariance of the integral, and its logarithm where f is one; values over e^shift."""
        (mean, covariance), count = average(values), self.replicates
        if self.method == "qmc":  # successive blocks
            centred = np.array([block.mean(axis=0) - mean for block in np.array_split(values, count)])
            covariance = centred.T @ centred / (count * (count - 3))
        covariance = covariance + np.diag(of_constants(values) ** 2)
        unknown = np.diag(covariance) == 0.0  # values that are all zero, or blocks with equal means
        covariance[unknown, unknown] = np.inf
        return moments(mean, covariance, shift, self.caller.function.range.logarithmic)


def of_constants(values: np.ndarray) -> np.ndarray:
    """Return the standard deviations (o,) for outputs whose n values (n, o) are all the same; 0 for others.

    By the rule of succession the next of n + 2 nodes would be the first at which f differs, by its size.
    """
    return np.where(np.ptp(values, axis=0) == 0, np.abs(values).max(axis=0), 0.0) / (len(values) + 2.0)
