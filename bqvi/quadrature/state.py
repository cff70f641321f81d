"""The problem of a Bayesian quadrature, what the process models, and the state of a run.

Problem    the integrand, its measure, the number of nodes, and a Model: which function is a Gaussian process
State      nodes, values, fits, estimates so far, and the nodes to be evaluated next

*Which function is a Gaussian process*: the integrand itself (`Direct`), or its square root (`Warped`).

The integral of an f that is one itself is Gaussian (thesis Eq. 7.12). WSABI (Gunter et al. 2014) has

    f(x) = g(x)^2 / 2,     g ~ GP(0, s k).

Given the values, g ~ GP(m, C) with m = k_x w, w = K^-1 g. The integral is a quadratic functional of g:

    WSABI-L   f linearised at m:    Z ~ pi[m^2]/2 + pi[m (g - m)],      a linear functional
    WSABI-M   moments matched:      cov(f, f') = C^2/2 + m C m'

    mean L    w^T Q w / 2                           mean M    mean L + s (1 - tr K^-1 Q) / 2
    var L     s (w^T T w - (Q w)^T K^-1 (Q w))
    var M     var L + s^2 (c - 2 tr K^-1 T + tr K^-1 Q K^-1 Q) / 2

with the moments of products of kernels

    Q_ij = int k(x, x_i) k(x, x_j) pi(dx),    c = int int k(x, x')^2 pi pi',
    T_ij = int int k(x, x_i) k(x, x') k(x', x_j) pi(dx) pi(dx')

(:mod:`gp.embeddings.kernel_products`).

The original paper has no variance of the integral. Its offset alpha = 0.8 min f is left out, as it distorts g
where f is smallest. Values are given as logarithms or divided by their largest: 1e-300 does not underflow.

Nodes are chosen to reduce the variance of the linearised integral, pi[m g]. As it vanishes where m = 0, one
node in four is the candidate, distributed by the measure, at which the variance of f, C^2/2 + m^2 C, is
largest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Protocol

import numpy as np

from acquisition.conditioned import ConditionedPool, variance_reduction
from acquisition.pointwise import Criterion
from bqvi.calls import Caller
from bqvi.calls.faults import NONE_FAILED, Failures
from bqvi.quadrature.ensemble import Ensemble, Fits
from bqvi.quadrature.integral import EstimateRow
from bqvi.quadrature.nodes import among, by_variance, conditioned, whitened_cross
from bqvi.quadrature.settings import DESIGN
from bqvi.quadrature.surrogate import CandidateProcess, StandardData
from bqvi.records import DERIVED, fingerprint
from gp.arrays import Array
from gp.embeddings import kernel_products
from gp.matrices import lapack
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
        "function": function.digest,
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


_ROUNDING = 1e-13
"""The standard deviation of values over their size up to which they are the same."""


@dataclass(frozen=True)
class Direct:
    """f ~ GP, after subtraction of its mean and division by its standard deviation over the nodes."""

    def data(
        self, problem: IntegrationProblem, state: IntegrationState, values: np.ndarray, shift: float
    ) -> tuple[StandardData, np.ndarray, np.ndarray]:
        unit, centre = _spread(values, problem.noise_sd is not None), values.mean(axis=0)
        slopes = None
        if state.slopes is not None:
            in_units = state.slopes * np.exp(-shift) / unit
            slopes = np.einsum("ndo,de->neo", in_units, problem.standard.map.scale)
        relative, variance = None, None
        noisy = problem.noise_sd is not None
        # if all values are zero, as of a density that vanishes at the nodes, there is no size to divide the
        # noise by; logarithms, whose shift may have no exponential, have no noise
        if values.any() and (noisy or state.noise_variance is not None):
            relative, variance = _noise(problem, state, float(unit[0]) * float(np.exp(shift)))
        centred = np.where(values.std(axis=0) > _ROUNDING * np.abs(values).max(axis=0), values - centre, 0.0)
        data = StandardData(state.u, centred / unit, slopes, relative, variance, noisy)
        return data, centre, unit

    def moments(self, member: CandidateProcess) -> tuple[np.ndarray, np.ndarray]:
        mean, unit = member.integral()
        return mean, member.process.inflation * unit * member.process.output_covariance

    def weights(self, member: CandidateProcess) -> np.ndarray:
        return member.process.rules(
            member.process.factor.solve(member.with_integral), float(member.data.centred)
        )

    def variance_of_the_prior(self, member: CandidateProcess) -> np.ndarray:
        """Return zero, (o,): far from nodes the mean tends to that of the data."""
        return np.zeros(member.data.outputs)

    def choose(
        self, member: CandidateProcess, candidates: np.ndarray, count: int, given: int = 0, before: int = 0
    ) -> np.ndarray:
        """Return the candidates that reduce the integral's variance most."""
        return by_variance(member, candidates, count, given)


def _spread(values: np.ndarray, shared: bool) -> np.ndarray:
    """Standard deviations of the outputs, or their sizes where these are 0; one for all if ``shared``."""
    sizes = np.abs(values).max(axis=0)
    spread = values.std(axis=0)
    spread = np.where(spread > _ROUNDING * sizes, spread, np.maximum(sizes, 1e-300))
    return np.full_like(spread, spread.max()) if shared else spread


def _noise(
    problem: IntegrationProblem, state: IntegrationState, unit: float
) -> tuple[np.ndarray | None, float | None]:
    """Relative noise variances (n,) or ``None``, and their mean in ``unit``, if it is known.

    Nodes at which f counts as zero because it failed have the smallest of the known variances.
    """
    if state.noise_variance is not None:
        known = np.isfinite(state.noise_variance)
        noise = np.where(known, state.noise_variance, state.noise_variance[known].min())
        mean = float(noise.mean())
        return noise / mean, (sqrt(mean) / unit) ** 2
    sd = problem.noise_sd
    # where noise_sd is a function, the variances are in the state
    if sd is None or isinstance(sd, str) or callable(sd):
        return None, None
    return None, (float(sd) / unit) ** 2


@dataclass(frozen=True, eq=False)
class Products:
    """Q (n, n) and T (n, n) at the data's points."""

    single: np.ndarray
    triple: np.ndarray


def products(member: CandidateProcess) -> Products:
    """Return the products for the data of a surrogate."""
    lengths, measure, x = np.exp(member.psi[:-1]), member.chart.measure, member.view.observed.x
    return Products(
        kernel_products.single(lengths, measure, x, x), kernel_products.triple(lengths, measure, x)
    )


@dataclass(frozen=True)
class Warped:
    """f = g^2/2; with ``matched`` its moments are matched (M), otherwise f is linearised (L)."""

    matched: bool

    def data(
        self, problem: IntegrationProblem, state: IntegrationState, values: np.ndarray, shift: float
    ) -> tuple[StandardData, np.ndarray, np.ndarray]:
        root = np.sqrt(2 * values)
        size = max(float(np.sqrt(np.mean(root**2))), 1e-150)
        data = StandardData(state.u, root / size, centred=False, least_noise=1e-9)
        return data, np.zeros(1), np.array([size**2])

    def moments(self, member: CandidateProcess) -> tuple[np.ndarray, np.ndarray]:
        found = member.process
        p = products(member)
        w = found.weights[:, 0]
        scale = found.inflation * float(found.scales[0])
        whitened = found.factor.solve(p.single @ w)
        mean = 0.5 * float(w @ p.single @ w)
        rounding = 1e-15 * float(w @ w)
        variance = scale * max(float(w @ p.triple @ w - whitened @ whitened), rounding)
        if self.matched:
            more_mean, more_variance = _quadratic(member, p)
            mean += scale * more_mean
            variance += scale**2 * more_variance
        return np.array([mean]), np.array([[variance]])

    def weights(self, member: CandidateProcess) -> np.ndarray:
        """Return the weights of the values of g in the linearised integral pi[m g], (n,)."""
        lengths, data = np.exp(member.psi[:-1]), member.view.observed.x
        of_mean = (
            kernel_products.single(lengths, member.chart.measure, data, data) @ member.process.weights[:, 0]
        )
        return member.process.projected(of_mean)

    def variance_of_the_prior(self, member: CandidateProcess) -> np.ndarray:
        """Return a third of the squared difference of the means of M and L, (1,), for M; zero for L.

        The difference is the prior variance where there are no nodes. It is right where g is large, and too
        large around a peak: the integral may be anywhere from L to M, and 1/3 is the mean square of a uniform
        variable.
        """
        if not self.matched:
            return np.zeros(1)
        scale = member.process.inflation * float(member.process.scales[0])
        more_mean, _ = _quadratic(member, products(member))
        return np.array([(scale * more_mean) ** 2 / 3])

    def choose(
        self, member: CandidateProcess, candidates: np.ndarray, count: int, given: int = 0, before: int = 0
    ) -> np.ndarray:
        """Return candidates that reduce the variance of the linearised integral, and explore."""
        state, mean = _linearised(member, candidates)
        scale, every = float(member.process.scales[0]), round(1.0 / DESIGN.checks)

        def score(state: ConditionedPool) -> np.ndarray:
            explore = (before + state.count - given) % every == every - 1
            if not explore:
                return variance_reduction(state)
            # C^2/2 + m^2 C without a density, as candidates are distributed by the measure
            variance = np.maximum(scale * state.variance, 0.0)
            return variance * (variance / 2 + mean**2)

        return among(state, count, given, score)


def _quadratic(member: CandidateProcess, p: Products) -> tuple[float, float]:
    """pi[C]/2 and pi pi'[C^2]/2 for unit scale, the terms that moment matching adds."""
    lower, reduced = member.process.factor.lower, lapack("sygst", p.single.dtype)
    # C^-1 M C^-T of a symmetric M, of which LAPACK finds the lower triangle by half of the work of two solves
    of_single, of_triple = (np.tril(reduced(part, lower, lower=1)[0]) for part in (p.single, p.triple))
    squares = 2 * float(np.sum(of_single**2)) - float(np.sum(of_single.diagonal() ** 2))
    mean = 0.5 * max(1.0 - float(np.trace(of_single)), 0.0)
    square = kernel_products.square(np.exp(member.psi[:-1]), member.chart.measure)
    variance = square - 2 * float(np.trace(of_triple)) + squares
    return mean, 0.5 * max(variance, 0.0)


def _linearised(member: CandidateProcess, candidates: np.ndarray) -> tuple[ConditionedPool, np.ndarray]:
    """The candidates for pi[m g], whose prior covariance with g(x) is Q_x w, and m there, (M,)."""
    found = member.process
    v = member.chart.forward(candidates)
    w = found.weights[:, 0]
    data, lengths, measure = member.view.observed.x, np.exp(member.psi[:-1]), member.chart.measure
    cross, with_data = (kernel_products.single(lengths, measure, at, data) @ w for at in (v, data))
    whitened = whitened_cross(member, v)
    return conditioned(member, v, whitened, cross, with_data), whitened.T @ found.residual[:, 0]
