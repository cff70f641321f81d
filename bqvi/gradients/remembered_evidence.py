"""The log evidence from the kept evaluations of the log joint, with a Gaussian q as the proposal.

In units whitened by q the log joint f is a process (`remembered_elbo`), and

    Z = int exp(f) = E_q[exp(r)],        r = f - ln q,        ELBO = E_q[r].

At draws u of g = (1 - a) q + a q widened, r has the posterior mean m and variance v. Where v is large the
mean m is an extrapolation by the kernel, so that r is shrunk there towards its median c,

    r~ = c + t (m - c),        t = 1 / (1 + v^2),      log w = r~ + t^2 v / 2 + ln q - ln g + ln p.

Where v is less than a squared nat the density is that of the process, where it is more it is exp(c) q, whose
integral is exp(c). The probability p that the log joint can be evaluated at u is that of `feasibility`. The
standard deviation is the root of the sum of the squares of

    the standard deviation of E_P[t f] by the process, and its difference from f under q (`Trust`)
    the standard deviation due to the draws, from the sums of weights of blocks of the Sobol points
    the shrinkage, E_P[(1 - t) min(|m - c|, sqrt v)]
    the mass at the edge of the feasible region, E_P[1 - p]
    the mass that the process lacks, its standard error
    a share of the correction, ln Z - ELBO: the draws cover only a part of the mass that q lacks in its
    tails, a smaller part the heavier the weights' tail; all of it if less than two evaluations are left out
    with values alone, the rise of the highest value over the latest third of the evaluations

with P the weighted draws. Neither the process nor its draws extend to tails that are heavier than those of q.
Evaluations that the process leaves out extend further, above all those drawn from Student's t distribution to
test a claim of convergence (`bqvi.inference.convergence`). With the density g of the n evaluations,

    sum_i (p(u_i) - p~(u_i)) / (n g(u_i)),

over those left out, estimates the mass that the stated density p~ lacks, which is added to Z. Pareto k of the
weights (Vehtari et al. 2024) shows whether the draws represent the process; with k above .7 they do not. Mass
that is far from all evaluations and draws of q is missed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import gammaln, logsumexp

from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients.feasibility import LogisticFeasibility
from bqvi.gradients.memory import Memory
from bqvi.gradients.observation_noise import weighted_median
from bqvi.gradients.remembered_elbo import NearQ, Trust, log_designs, process_near
from bqvi.gradients.settings import EVIDENCE
from bqvi.importance import Proposal, effective_size, pareto_shape
from bqvi.widened import WIDENING
from gp.arrays import LOG_2PI
from gp.conditioning.directional import value_rows
from gp.threads import single_threaded

_LARGEST = 300.0
"""The largest logarithm of a mass over that inside."""


@dataclass(frozen=True)
class EvidenceEstimate:
    """A log evidence, its standard deviation, and diagnostics of the importance weights.

    Attributes
    ----------
    value, sd : in nats.
    pareto_k : shape of the weights' tail; above .7 the value is unreliable.
    effective_sample_size : the effective number of the draws, by their weights.
    """

    value: float
    sd: float
    pareto_k: float
    effective_sample_size: float
    infeasible: float
    """Share of the mass of q where evaluations fail."""
    contradicted: int = -1
    """The row of a gradient that all other evaluations contradict."""


@single_threaded()
def remembered_evidence(
    q: Gaussian | DiagonalGaussian, memory: Memory, seed: int = 0
) -> EvidenceEstimate | None:
    """Return the log evidence, or None where fewer than D + 2 evaluations are near q.

    Parameters
    ----------
    q : a `Gaussian` or `DiagonalGaussian` over R^D
    memory : m evaluations of the log joint, with its gradients where it has them
    seed : seed of the draws of q, which cost no evaluation
    """
    found = _of_all(q, memory, seed)
    return None if found is None else replace(found, sd=float(np.hypot(found.sd, _rise(memory))))


def _rise(memory: Memory) -> float:
    """The rise of the highest value, nats, over the latest evaluations of values alone; 0 where it is small.

    It is small where f varies by more under a Gaussian q, whose log density has the standard deviation
    (D / 2)^1/2, or within three standard deviations of noise.
    """
    values, (n, dimension) = memory.values, memory.points.shape
    if memory.gradients.shape[1] or not n:
        return 0.0
    rise = float(values.max() - values[: max(int(EVIDENCE.before_rise * n), 1)].max())
    noise = float(np.sqrt(memory.noise_variances[:, 0].max()))
    return rise if rise > np.sqrt(0.5 * dimension) + 3.0 * noise else 0.0


@dataclass(frozen=True, eq=False)
class _AtDraws:
    """What is known at M draws of a proposal around q."""

    points: np.ndarray
    """In the units of q, (M, D)."""
    log_ratio: np.ndarray
    """ln q less the proposal's log density, (M,)."""
    residual: np.ndarray
    """The surrogate's mean of ln p - ln q, (M,)."""
    whitened: np.ndarray
    """The columns of `Conditioned.whitened_covariance` there, (n, M)."""
    variance: np.ndarray
    """Of phi, (M,)."""
    possible: np.ndarray
    """Probabilities that evaluations succeed, (M,)."""

    @classmethod
    def of(cls, found: NearQ, memory: Memory, seed: int) -> _AtDraws:
        """Of the process near q, and the evaluations that it is from."""
        process, frame = found.process, found.frame
        d = len(frame.mean)
        standard = Proposal(np.ones(1), np.zeros((1, d)), np.eye(d)[None])
        proposal = standard.widened()
        points = proposal.draws(EVIDENCE.draws, seed)
        log_q = standard.density.log_density(points)
        log_volume = float(np.log(np.abs(np.diagonal(frame.scale))).sum())
        squares = np.einsum("md,md->m", points, points)
        whitened = process.given.whitened_covariance(process.kernel.at(value_rows(points)))
        return cls(
            points,
            log_q - proposal.density.log_density(points),
            process.posterior_mean(points) - 0.5 * squares + log_volume - log_q,
            whitened,
            found.variances(points, whitened),
            LogisticFeasibility.near(frame, memory)(points),
        )

    @cached_property
    def shrinkage(self) -> np.ndarray:
        """Factors (M,) of the residual's deviation from its typical value; small for variances above 1."""
        return 1.0 / (1.0 + np.square(self.variance))

    @cached_property
    def deviation(self) -> np.ndarray:
        """The residual less what is typical of it, (M,)."""
        return self.residual - self._centre

    @cached_property
    def _centre(self) -> float:
        return weighted_median(self.residual, self.shrinkage * np.exp(self.log_ratio))

    @property
    def log_weights(self) -> np.ndarray:
        """Of the draws in the evidence, (M,)."""
        with np.errstate(divide="ignore"):
            log_possible = np.log(self.possible)
        return self.shrunk(self.residual, self.variance) + self.log_ratio + log_possible

    def shrunk(self, residual: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """The logarithm of the mean of exp(r~), (M,), for residuals m and variances v (M,)."""
        shrinkage = 1.0 / (1.0 + np.square(variance))
        return self._centre + shrinkage * (residual - self._centre) + 0.5 * shrinkage**2 * variance


def _of_all(q: Gaussian | DiagonalGaussian, memory: Memory, seed: int) -> EvidenceEstimate | None:
    """The log evidence from all evaluations, without the change by the latest ones in its sd."""
    found = process_near(q, memory)
    if found is None:
        return None
    at, d = _AtDraws.of(found, memory, seed), len(found.frame.mean)
    logs, shrinkage = at.log_weights, at.shrinkage
    total = float(logsumexp(logs))
    weights = np.exp(logs - total)
    effective = float(effective_size(weights))
    inside = total - float(np.log(len(weights)))
    beyond = np.setdiff1d(np.flatnonzero(~memory.below), found.used)
    missed, error = _missed(found, at, memory, beyond, inside) if len(beyond) else [0.0, 0.0]
    value = inside + float(np.log1p(missed))
    under_q = found.process.posterior_mean.integrate(np.zeros(d), np.eye(d)).value
    elbo = under_q - 0.5 * d + float(q.entropy)
    first, shape = slice(1024), float(pareto_shape(weights))
    shrunk = weights[first] * shrinkage[first] / weights[first].sum()
    variance = _of_process(found, at.points[first], at.whitened[:, first], shrunk)
    parts = (
        Trust.of(q, memory, found).sd(variance),
        _of_draws(weights),
        float(weights @ ((1.0 - shrinkage) * np.minimum(np.abs(at.deviation), np.sqrt(at.variance)))),
        float(weights @ (1.0 - at.possible)),
        error,
        (EVIDENCE.share_at(shape) if len(beyond) > 1 else 1.0) * (value - elbo),
    )
    of_q = np.exp(at.log_ratio)
    infeasible = float(of_q @ (1.0 - at.possible) / of_q.sum())
    sd = float(np.linalg.norm(parts))
    return EvidenceEstimate(value, sd, shape, effective, infeasible, found.contradicted)


def _missed(found: NearQ, at: _AtDraws, memory: Memory, rows: np.ndarray, inside: float) -> list[float]:
    """Mass that the process lacks at ``rows`` left out, over that ``inside`` (its ln), and its error."""
    n, u = int((~memory.below).sum()), found.frame.whiten(memory.points[rows])
    constant = 0.5 * u.shape[1] * LOG_2PI
    volume = float(np.log(np.abs(np.diagonal(found.frame.scale))).sum())
    mean = found.process.posterior_mean(u) + volume + constant
    logs = np.stack([mean + found.residuals(memory, rows), at.shrunk(mean, found.variances(u))])
    designs, share = log_designs(u) - np.log(2.0) - constant, EVIDENCE.tail_draws / n
    log_evaluated = np.logaddexp(np.log1p(-share) + designs, np.log(share) + _log_tails(u))
    logs += -0.5 * np.einsum("nd,nd->n", u, u) - constant - log_evaluated - np.log(n) - inside
    true, stated = np.exp(np.minimum(logs, _LARGEST))
    return [max(float((true - stated).sum()), -0.5), float(np.linalg.norm(true - stated))]


def _log_tails(u: np.ndarray) -> np.ndarray:
    """The log density (n,) at u (n, D), in the units of q, of the t distribution of `EvidenceSettings`."""
    freedom, dimension = WIDENING.freedom, u.shape[1]
    squares = np.einsum("nd,nd->n", u, u) / EVIDENCE.wider**2
    constant = gammaln(0.5 * (freedom + dimension)) - gammaln(0.5 * freedom)
    constant -= 0.5 * dimension * np.log(freedom * np.pi * EVIDENCE.wider**2)
    return np.asarray(constant - 0.5 * (freedom + dimension) * np.log1p(squares / freedom))


def _of_draws(weights: np.ndarray) -> float:
    """Standard deviation of the logarithm of the sum of weights (M,), of sum one, from consecutive blocks.

    It is rather too large, as the blocks of a Sobol set together are more even than each block.
    """
    sums = EVIDENCE.blocks * weights.reshape(EVIDENCE.blocks, -1).sum(1)
    return float(sums.std(ddof=1) / np.sqrt(EVIDENCE.blocks))


def _of_process(near: NearQ, points: np.ndarray, whitened: np.ndarray, weights: np.ndarray) -> float:
    """Posterior variance of the sum of phi at the points with weights (M,)."""
    given, kernel = near.process.given, near.process.kernel
    places = kernel.at(value_rows(points))
    prior = kernel.covariance(places, places)
    together, level = (whitened @ weights)[:, None], np.array([weights.sum()])
    variance = float(given.covariance(np.array([[weights @ prior @ weights]]), together, level)[0, 0])
    return max(variance, 0.0)
