"""The problem of a Bayesian quadrature, and the state of a run of it.

Problem    the integrand, its measure, the number of nodes, and a Model: which function is a Gaussian process
State      nodes, values, fits, estimates so far, and the nodes to be evaluated next
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from acquisition.pointwise import Criterion
from bqvi.calls import Caller
from bqvi.calls.faults import NONE_FAILED, Failures
from bqvi.quadrature.ensemble import Ensemble, Fits
from bqvi.quadrature.integral import EstimateRow
from bqvi.quadrature.surrogate import CandidateProcess, StandardData
from bqvi.records import DERIVED, fingerprint
from gp.arrays import Array
from gp.measures import Empirical, Measure
from gp.measures.base import Standardised


@dataclass(frozen=True, eq=False)
class IntegrandUnits:
    """f = e^shift (centre + unit g), with g the modelled function; shift a number, centre and unit (o,)."""

    shift: float
    centre: np.ndarray
    unit: np.ndarray


def identity(integrand: Caller, measure: Measure, method: str, log_volume: float) -> dict[str, Any]:
    """The choices that a run has in common with the run that it resumes.

    Parameters
    ----------
    integrand, measure, method, log_volume : those of the run, as in `IntegrationProblem`.
    """
    function = integrand.function
    return {
        "method": method,
        "log_volume": log_volume,
        "measure": f"{type(measure).__name__} {fingerprint(tuple(measure.parameters()))}",
        "log": function.range.logarithmic,
        "log_density": function.log_weight is not None,
        "gradient": function.gradient is not None,
    }


class Model(Protocol):
    """The function that is a Gaussian process, and the integral that follows from it."""

    def data(
        self, problem: IntegrationProblem, state: IntegrationState, values: np.ndarray, shift: float
    ) -> tuple[StandardData, np.ndarray, np.ndarray]:
        """Return the data of the process for values (n, o) of f e^-shift, and centre and unit, (o,)."""

    def moments(self, member: CandidateProcess) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (o,) and covariance (o, o) of the integral of f in these units."""

    def weights(self, member: CandidateProcess) -> np.ndarray:
        """Return the derivatives of that mean in the m observations of the process, (m,)."""

    def variance_of_the_prior(self, member: CandidateProcess) -> np.ndarray:
        """Return a variance, (o,), for the part of the mean that is due to the prior alone."""

    def choose(
        self, member: CandidateProcess, candidates: np.ndarray, count: int, given: int = 0, before: int = 0
    ) -> np.ndarray:
        """Return the indices of ``count`` of the candidates (M, D) to evaluate next.

        The first ``given`` of the candidates will be evaluated anyway, and are not counted; ``before`` were
        chosen before these, where nodes are chosen one at a time.
        """


@dataclass(frozen=True, eq=False)
class IntegrationProblem:
    """The integrand, its measure, and the choices of a run.

    Attributes
    ----------
    integrand, measure : with NumPy arrays. standard : the measure in standard coordinates.
    seed : seed of nodes and draws. initial : number of nodes at first. budget : the most nodes.
    model : the modelled function.
    batch : nodes in a step; ``None`` for 30 % of the present number.
    criterion : chooses nodes; ``None`` for greedy reduction of the integral's variance from a pool.
    noise_sd : noise of the values: ``None``, "unknown", a number, or a function of points that returns (n,).
    log_volume : logarithm of the factor of integrals against the measure (:mod:`integrate`).
    """

    integrand: Caller
    measure: Measure
    standard: Standardised
    seed: int
    initial: int
    budget: int
    model: Model
    batch: int | None = None
    criterion: Criterion | None = None
    noise_sd: float | str | Callable[[Array], Array] | None = None
    log_volume: float = 0.0

    @property
    def is_given_by_logarithms(self) -> bool:
        """Whether f is given by its logarithm, and integrated between points too."""
        return self.integrand.function.range.logarithmic and not isinstance(self.measure, Empirical)


@dataclass(frozen=True, eq=False)
class IntegrationState:
    """The state of a run.

    Attributes
    ----------
    u : (n, D), nodes in standard coordinates. values : (n, o). slopes : df/dx, (n, D, o), or ``None``.
    sobol : (n,), which nodes come from the Sobol sequence.
    noise_variance : (n,), noise of the values, where noise_sd is a function, NaN where it failed; otherwise
        ``None``.
    without_node : evaluations without a node, in batches that failed and were repeated point by point.
    failures : the evaluations without a value, at nodes where the integrand counts as zero.
    pending : (m, D), nodes to be evaluated next, in the coordinates of the measure. pending_u : (m, D), these
        nodes in standard coordinates. pending_sobol : (m,), which of them are from the sequence.
    log_weights, pending_log_weights : (n,) and (m,), ln p of nodes that test the answer over the density from
        which they are drawn (:mod:`credibility`); NaN at others.
    fits : hyperparameters. fitted_at : the number of nodes from which they were found.
    rows : the trace.
    seconds : time spent. ensemble : the surrogates given these data; not saved, but made again.
    """

    u: np.ndarray
    values: np.ndarray
    slopes: np.ndarray | None
    sobol: np.ndarray
    pending: np.ndarray
    pending_u: np.ndarray
    pending_sobol: np.ndarray
    log_weights: np.ndarray
    pending_log_weights: np.ndarray
    noise_variance: np.ndarray | None = None
    without_node: int = 0
    failures: Failures = NONE_FAILED
    fits: Fits | None = None
    fitted_at: int = 0
    rows: tuple[EstimateRow, ...] = ()
    seconds: float = 0.0
    ensemble: Ensemble | None = field(default=None, repr=False, metadata=DERIVED)

    @property
    def estimated(self) -> bool:
        """Whether the last record is an estimate from all present nodes."""
        return bool(self.rows) and self.rows[-1].n_evaluations == self.n_evaluations

    @property
    def n_evaluations(self) -> int:
        """The number of evaluations that count in the budget."""
        return len(self) + self.without_node

    def __len__(self) -> int:
        return len(self.u)
