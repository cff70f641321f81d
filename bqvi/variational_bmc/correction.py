"""Correction of q to the surrogate's posterior by importance weights: the evidence and its sd.

    draws u_s of g = (1 - a) q + a q widened,     log w_s = mean(u_s) - log g(u_s)
    log Z = log mean w_s,     P = normalised weights

No evaluation of the log joint is made. The effective sample size and the shape of the weights' tail
(Vehtari et al. 2024, "Pareto smoothed importance sampling") show whether the draws represent the surrogate.

The surrogate's error moves log Z by E_P[f - mean] to first order, with the variance P^T C P at a part of the
draws, C the posterior covariance of f there. The expectation of the density is that of a log-normal variable,
exp(mean + var / 2), by which a draw is weighted up to a variance of one squared nat. Where it is larger the
surrogate is close to its prior, and the weight falls with the variance, exp(mean + 1 - var / 2), so that no
mass is added where nothing was evaluated. Where it exceeds a squared nat even at the draws of least variance,
only the excess over these counts. The excess of the mean over the highest evaluated value is divided by the
variance, if this is above one: with few data it can be hundreds of nats, which the next evaluation refutes.

The same draws give the ELBO of q, restricted to where the log joint can be evaluated,

    ELBO = sum_s c_s (mean(u_s) - log q(u_s)) / sum_s c_s + log(sum_s c_s / sum_s q(u_s) / g(u_s)),

with c_s = p_s q(u_s) / g(u_s), and p_s the probability that u_s is feasible. It has no error where q is the
posterior. Between bounds the last sum is the number of draws.

*Moments* from weighted draws alone would differ between two samples of one posterior by a symmetric KL
divergence of about D^2 / (2 M). Those of q have closed forms, and its weights on the draws are known. With
w_s the weights of the posterior and c_s those of q, both normalised,

    E[h] = beta E_q[h] + sum_s (w_s - beta c_s) h(u_s),     beta = sum_s w_s c_s / sum_s c_s^2,

has no error where q is the posterior. Otherwise, in units z in which the posterior is N(0, I), the moments of
two independent samples differ, to second order, by at most the divergence

    sum_s a_s^2 (|z_s|^4 + D) / 2,     a_s = w_s - beta c_s.

*Hyperparameters* psi_j are drawn from Laplace's approximation of their posterior, at scrambled Sobol points,
and weighted by posterior over approximation (importance sampling, as in :func:`gp.marginalise`). Each draw
defines a surrogate with mean m_j and therefore an evidence, to second order in d_s = m_j(u_s) - m(u_s)

    log Z_j - log Z = log sum_s P_s exp(d_s) = E_P[d] + Var_P[d] / 2 + ...,      u_s draws, P_s their weights,

which is exact where d is Gaussian; the logarithm of the mean itself can depend on a single one of 512 draws
in a tail. The root mean square of these differences is a standard deviation that is added, as a variance, to
that of the surrogate (`spread`).

*The pool* has draws beyond those of q, where the posterior may have further mass.

    q and q widened           the draws of the correction
    q widened four times      draws further away
    Gaussians at some         further draws, where f is high or little known
      of all these
    pool                      the draws of all three, weighed by the mixture of the three proposals

For a thin curved posterior draws of q do not extend beyond the evaluations. The acquisition is integrated
over the pool (:mod:`next_points`). Draws at which the sd of f exceeds ``PooledSettings.known`` nats are left
out. q is given components where draws or evaluations show mass that it lacks: with n evaluations at most
n^(2/3), and ``ComponentSettings.longer`` times as many where evaluations show it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from bqvi.importance import WIDE, WIDER, Proposal, covering, effective_size, pareto_shape, resampled
from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc.frame import Feasibility
from bqvi.variational_bmc.settings import COMPONENTS, FITTING, NODES, POOLED, WEIGHTS
from bqvi.variational_bmc.surrogate import Surrogate, log_posterior
from bqvi.variational_bmc.variational import DiagonalMixture, grown
from gp import laplace
from gp.low_discrepancy import normal_sobol
from gp.matrices import cholesky, solve_lower, symmetric_eigen

ANYWHERE = Feasibility(None, None, None, 1.0)


@dataclass(frozen=True, eq=False)
class Correction:
    """The M weighted draws, and the estimates from them.

    Attributes
    ----------
    u : the draws (M, D), in the frame. whitened : W k of f there, (N, M); (0, 0) once `polished`.
    mean, variance : the moments of f there, (M,). log_proposal, log_q : log g and log q there, (M,).
    log_weights : the logarithms of the normalised weights, (M,).
    log_evidence, elbo : the estimates, in the frame's units.
    surrogate_sd : the standard deviation of the log evidence by the surrogate's uncertainty.
    monte_carlo_sd : the standard deviation of the log evidence by the finite number of draws.
    effective_sample_size : the effective sample size. pareto_k : the Pareto shape k of the weights.
    feasible : the probability (M,) that the log joint can be evaluated there, with no failure as isolated.
    edge_sd : the standard deviation of the log evidence by unknown edges of where it can be evaluated.
    inside : the share of the proposal's mass between the bounds, to which it is restricted.
    """

    u: np.ndarray
    whitened: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    log_proposal: np.ndarray
    log_q: np.ndarray
    log_weights: np.ndarray
    log_evidence: float
    elbo: float
    surrogate_sd: float
    monte_carlo_sd: float
    effective_sample_size: float
    pareto_k: float
    feasible: np.ndarray
    edge_sd: float = 0.0
    inside: float = 1.0

    @property
    def weights(self) -> np.ndarray:
        """The normalised weights, (M,)."""
        return np.exp(self.log_weights)


def proposal_of(q: DiagonalMixture, wide: float = WIDE, widening: float = WIDER) -> Proposal:
    """The proposal (1 - a) q + a q widened, with a = ``wide`` and scales ``widening`` times as large."""
    plain = Proposal(q.weights, q.means, q.scales[:, :, None] * np.eye(q.means.shape[1]))
    return plain.widened(wide, widening)


def bounded(mean: np.ndarray, variance: np.ndarray, top: float) -> np.ndarray:
    """The mean (m,), with its excess over the highest value ``top`` divided by a variance above one."""
    return mean - np.maximum(mean - top, 0.0) * (1.0 - 1.0 / np.maximum(variance, 1.0))


def variance_penalised(mean: np.ndarray, variance: np.ndarray, top: float) -> np.ndarray:
    """The log density (m,) by which draws are weighted.

    Parameters
    ----------
    mean, variance : the moments of the surrogate at the draws, (m,) each.
    top : the highest evaluated value.
    """
    excess = variance - max(float(np.quantile(variance, 0.05)) - 1.0, 0.0)
    return bounded(mean, variance, top) + 0.5 * np.minimum(np.maximum(excess, 0.0), 2.0 - excess)


def correct(
    surrogate: Surrogate, q: DiagonalMixture, count: int, seed: int, feasible: Feasibility = ANYWHERE
) -> Correction:
    """Weight ``count`` draws of q by the surrogate, and return the evidence with its sd."""
    found = weighed(surrogate, q, count, seed, feasible)
    index = resampled(found.weights, 256, seed)
    return replace(found, surrogate_sd=_sd(surrogate, found.u[index], found.whitened[:, index]))


def polished(
    surrogate: Surrogate,
    q: DiagonalMixture,
    count: int,
    seed: int,
    feasible: Feasibility = ANYWHERE,
    tolerance: float = 0.0,
) -> Correction:
    """Weigh ``count`` draws, or more, of a proposal that covers the surrogate's mass near its data.

    The q of highest ELBO is narrower than the posterior, a good proposal is wider. To q and q widened
    Gaussians are added at evaluated points where the surrogate's density exceeds that of the proposal
    (`covering`), as q may have no draws in a tail. Draws are doubled until the error is below a tenth of the
    surrogate's sd or of the ``tolerance``, in nats. Where the sums over three grids (`_over_grid`) differ by
    less than this error, and no more lies beyond the last, this is the evidence.
    """

    def log_density(u: np.ndarray) -> np.ndarray:
        return variance_penalised(*surrogate.moments(u), surrogate.data.top) + np.log(feasible(u))

    near = surrogate.data.values >= surrogate.data.top - 0.5 * surrogate.dimension - 10.0
    g = covering(proposal_of(q, 0.3, 2.0), surrogate.data.points[near], log_density, 1024, seed)
    moments, sums = (np.empty(0), np.empty(0)), list[float]()
    while True:
        found = weighed(surrogate, q, count, seed, feasible, g, moments)
        moments = found.mean, found.variance
        at = found.u[resampled(found.weights, 1024, seed)]
        sd = _sd(surrogate, at, surrogate.whitened(at))
        allowed = 0.1 * max(sd, tolerance)
        many = found.effective_sample_size > WEIGHTS.corrected and count >= 4**surrogate.dimension
        if found.monte_carlo_sd >= allowed and many:
            log_evidence, beyond = _over_grid(surrogate, found, count, seed, feasible)
            sums.append(log_evidence)
            error = float(np.ptp(sums[-3:])) + beyond if len(sums) > 2 else np.inf
            if error < found.monte_carlo_sd:
                found = replace(found, log_evidence=log_evidence, monte_carlo_sd=error)
        count *= 2
        if found.monte_carlo_sd < allowed or count > 2**16:
            return replace(found, surrogate_sd=sd)


def _over_grid(
    surrogate: Surrogate, found: Correction, count: int, seed: int, feasible: Feasibility
) -> tuple[float, float]:
    """The log evidence by the trapezoidal rule, over at most ``count`` points, and the share beyond them.

    The grid has principal axes and a random shift, and ends with the draws within 25 nats of the highest
    value beyond D / 2. The error falls exponentially with the distance of the points where the density is
    smooth (Trefethen and Weideman 2014, "The exponentially convergent trapezoidal rule"). Beyond an edge may
    lie as much as in an sd with the density there.
    """
    mean, top, dimension = found.weights @ found.u, surrogate.data.top, surrogate.dimension
    vectors = symmetric_eigen(((found.u - mean).T * found.weights) @ (found.u - mean))[1]
    z = (found.u - mean) @ vectors
    sds, z = np.sqrt(found.weights @ z**2), z[found.mean > top - 0.5 * dimension - 25.0]
    widths = np.ptp(z, axis=0)
    per_sd = (count / np.prod(widths / sds)) ** (1.0 / dimension)
    numbers = np.maximum(per_sd * widths / sds, 1.0).astype(int)
    cells, steps = np.indices(numbers).reshape(dimension, -1).T, widths / numbers
    shift = np.random.default_rng([seed, count]).random(dimension)
    u = mean + (z.min(0) + steps * (cells + shift)) @ vectors.T
    moments = [(found.mean, found.variance), *(surrogate.moments(part) for part in np.array_split(u, 8))]
    means, variances = np.hstack(moments)
    logs = variance_penalised(means, variances, top)[len(found.u) :] + np.log(feasible(u))
    total, outermost = logsumexp(logs), (cells == 0) | (cells == numbers - 1)
    return float(total + np.log(steps).sum()), float(np.exp(logs - total) @ outermost @ (sds / steps))


def weighed(
    surrogate: Surrogate,
    q: DiagonalMixture,
    count: int,
    seed: int,
    feasible: Feasibility = ANYWHERE,
    proposal: Proposal | None = None,
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> Correction:
    """Weight ``count`` draws of q's or another proposal by the surrogate; ``surrogate_sd`` is NaN.

    The Monte Carlo error is that of independent draws. If the moments at the first draws are ``known``, the
    proposal's Gaussians, whose integrals are known, are control variates (Owen and Zhou 2000), the error is
    by the spread of the rest among eight consecutive parts of the sequence, and nothing is ``whitened``.
    """
    g = proposal_of(q) if proposal is None else proposal
    u, share = feasible.between_bounds(lambda n: g.draws(n, seed), count)
    log_g = g.density.log_density(u) - np.log(share)
    if known is None:
        whitened = surrogate.whitened(u)
        mean, variance = surrogate.moments(u, whitened)
    else:
        whitened = np.empty((0, 0))
        more = np.array_split(u[len(known[0]) :], 8)
        mean, variance = np.hstack([known, *(surrogate.moments(part) for part in more)])
    possible = feasible(u)
    top = surrogate.data.top
    log_ratio = variance_penalised(mean, variance, top) + np.log(possible) - log_g
    total = float(logsumexp(log_ratio))
    log_weights = log_ratio - total
    weights = np.exp(log_weights)
    effective = float(effective_size(weights))
    log_q = q.log_density(u)
    log_c = np.log(possible) + log_q - log_g
    mass = float(logsumexp(log_c))
    whole = float(logsumexp(log_q - log_g) if share == 1.0 else np.log(len(u)))
    error = float(np.sqrt(max(1.0 / effective - 1.0 / len(u), 0.0)))
    if known is not None:
        rest = len(u) * weights
        if share == 1.0:  # between bounds the Gaussians have other integrals
            parts, mixed = np.exp(g.density.log_parts(u) - log_g), g.weights / g.weights.sum()
            values, vectors = symmetric_eigen(parts @ parts.T)
            shares = vectors @ (vectors.T @ (parts @ rest) / np.maximum(values, 1e-10 * values.max()))
            rest = rest + shares @ (mixed[:, None] - parts)
        error = float(np.std([part.mean() for part in np.array_split(rest, 8)], ddof=1) / np.sqrt(8))
        total += float(np.log(rest.mean()))
    return Correction(
        u=u,
        whitened=whitened,
        mean=mean,
        variance=variance,
        log_proposal=log_g,
        log_q=log_q,
        log_weights=log_weights,
        log_evidence=total - float(np.log(len(u))),
        elbo=float(np.exp(log_c - mass) @ (bounded(mean, variance, top) - log_q)) + mass - whole,
        surrogate_sd=float("nan"),
        monte_carlo_sd=error,
        effective_sample_size=effective,
        pareto_k=float(pareto_shape(weights)),
        feasible=feasible.of_all_failures(u),
        edge_sd=feasible.uncertainty(u, weights),
        inside=share,
    )


def _sd(surrogate: Surrogate, u: np.ndarray, whitened: np.ndarray) -> float:
    """The standard deviation of the mean of f over draws u (M, D), with W k (N, M)."""
    explained = whitened.mean(1)
    return float(np.sqrt(max(float(surrogate.kernel(u, u).mean()) - explained @ explained, 0.0)))


@dataclass(frozen=True, eq=False)
class PosteriorMoments:
    """The moments of the posterior, in the frame.

    Attributes
    ----------
    mean : the mean (D,). covariance : the covariance (D, D).
    floor : the divergence between two samples of the same posterior, nats.
    """

    mean: np.ndarray
    covariance: np.ndarray
    floor: float


def moments_of(found: Correction, q: DiagonalMixture) -> PosteriorMoments:
    """The moments by the weighted draws ``found`` of the mixture q, or of q if few draws carry weight."""
    of_q = np.exp(found.log_q - found.log_proposal)
    of_q = of_q / of_q.sum()
    blend = min(1.0, found.effective_sample_size / WEIGHTS.blended)
    weights = blend * found.weights + (1.0 - blend) * of_q
    weights = weights / weights.sum()
    # the closed forms of q hold where it does not extend beyond bounds
    beta = 0.0 if found.inside < 1.0 else float(weights @ of_q) / float(of_q @ of_q)
    for share in (beta, 0.0):
        try:
            return _controlled(found.u, weights - share * of_q, share, q)
        # the difference of two weighted covariance matrices need not be positive definite
        except np.linalg.LinAlgError:
            continue
    return _controlled(found.u, np.zeros_like(weights), 1.0, q)  # the draws have no covariance


def _controlled(u: np.ndarray, rest: np.ndarray, share: float, q: DiagonalMixture) -> PosteriorMoments:
    """The moments from q with weight ``share`` and draws u (M, D) with the weights ``rest`` (M,)."""
    mean = share * q.mean + rest @ u
    centred, offset = u - mean, q.mean - mean
    covariance = share * (q.covariance + np.outer(offset, offset)) + (centred.T * rest) @ centred
    squares = np.square(solve_lower(cholesky(covariance), centred.T)).sum(0)
    return PosteriorMoments(mean, covariance, 0.5 * float(rest**2 @ (squares**2 + u.shape[1])))


def spread(surrogate: Surrogate, found: Correction, seed: int) -> float:
    """The standard deviation of log Z over the hyperparameters' posterior; infinite if Laplace's fails."""
    data, psi = surrogate.data, surrogate.psi
    objective = log_posterior(data.thinned)
    try:
        best = objective.expanded(psi)
    except np.linalg.LinAlgError:  # the covariance matrix is singular within rounding
        return np.inf
    sd = objective.prior.sd  # no standard deviation exceeds that of the prior
    scale = sd[:, None] * laplace.root(best.curvature * np.outer(sd, sd), 1.0)
    u = found.u[resampled(found.weights, ENGINES.draws, seed)]
    known = surrogate.mean(u)
    steps = np.clip(normal_sobol(len(psi), FITTING.sets, seed), -FITTING.furthest, FITTING.furthest)

    def evaluate(at: np.ndarray) -> tuple[float, float]:
        value, change = objective.value(at), Surrogate.of(data, at).mean(u) - known
        return value, float(np.mean(change) + 0.5 * np.var(change))

    shifts, weights = laplace.weighed(evaluate, psi, (best.value, 0.0), scale, steps, 2.0)
    return float(np.sqrt(weights @ np.square(shifts)))


@dataclass(frozen=True, eq=False)
class PooledDraws:
    """Draws of several proposals.

    Attributes
    ----------
    u : the draws (M, D), in the frame. whitened : W k of f there, (N, M).
    mean, variance : the moments of f there, (M,); the excess of the mean over the highest value is bounded.
    log_proposal, log_plain, log_q : the log densities (M,) of the mixture of all proposals, of q and q
        widened, and of q.
    feasible : the probability (M,) that the log joint can be evaluated there.
    count : the number of all draws, including those that were not kept.
    """

    u: np.ndarray
    whitened: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    log_proposal: np.ndarray
    log_plain: np.ndarray
    log_q: np.ndarray
    feasible: np.ndarray
    count: int

    def of_q(self) -> PooledDraws:
        """The draws of q and q widened alone."""
        n = self.count - 2 * ENGINES.further
        return replace(
            self, u=self.u[:n], whitened=self.whitened[:, :n], mean=self.mean[:n], variance=self.variance[:n],
            log_proposal=self.log_plain[:n], log_plain=self.log_plain[:n], log_q=self.log_q[:n],
            feasible=self.feasible[:n], count=n,
        )  # fmt: skip

    def possible_rise(self, log_evidence: float, top: float) -> float:
        """The rise of the log evidence, nats, if f were one sd higher where its sd exceeds one nat.

        Parameters
        ----------
        log_evidence : the log evidence, in the frame's units. top : the highest evaluated value.
        """
        sd = np.sqrt(self.variance)
        uncertain = (sd > 1.0) & (self.feasible > 0.5)
        high = np.minimum(self.mean + sd, top) - self.log_proposal - log_evidence
        # an exponential that does not overflow
        return float(np.log1p(np.exp(np.minimum(high[uncertain], 50.0)).sum() / self.count))


@dataclass(frozen=True, eq=False)
class PointMoments:
    """Points u (m, D), with W k (N, m), the mean and the variance (m,) of f there."""

    u: np.ndarray
    whitened: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def at(cls, surrogate: Surrogate, u: np.ndarray) -> PointMoments:
        """The points u (m, D) with the moments of the surrogate."""
        whitened = surrogate.whitened(u)
        return cls(u, whitened, *surrogate.moments(u, whitened))

    @classmethod
    def among(cls, draws: PooledDraws | PointMoments, index: np.ndarray) -> PointMoments:
        """Those of the draws at an index, or at a mask."""
        return cls(draws.u[index], draws.whitened[:, index], draws.mean[index], draws.variance[index])

    def joined(self, *others: PointMoments) -> PointMoments:
        """These points and others, in order."""
        parts = (self, *others)
        return PointMoments(
            np.concatenate([part.u for part in parts]),
            np.concatenate([part.whitened for part in parts], axis=1),
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.variance for part in parts]),
        )


def pool_of(
    surrogate: Surrogate, q: DiagonalMixture, found: Correction, seed: int, feasible: Feasibility
) -> PooledDraws:
    """The draws of a correction by q's proposal together with draws beyond those of q.

    Parameters
    ----------
    surrogate : the surrogate of the log joint. q : the mixture, in the surrogate's frame.
    found : the correction with draws of `proposal_of` (q).
    seed : seed of the further draws.
    feasible : the probability that the log joint can be evaluated at points.
    """
    top, count = surrogate.data.top, len(found.u)
    plain = q.joined(q.widened(WIDER), WIDE)
    wide = q.widened(POOLED.wider)
    first = PointMoments(found.u, found.whitened, found.mean, found.variance)
    further = _known(surrogate, proposal_of(wide, 0.0).draws(ENGINES.further, seed))
    local = _local(q, plain, (first, further), top, seed)
    draws = first.joined(further, _known(surrogate, proposal_of(local, 0.0).draws(ENGINES.further, seed + 1)))
    total = count + 2 * ENGINES.further
    shares = np.array([count, ENGINES.further, ENGINES.further]) / total
    logs = np.stack([one.log_density(draws.u) for one in (plain, wide, local)])
    return PooledDraws(
        u=draws.u,
        whitened=draws.whitened,
        mean=bounded(draws.mean, draws.variance, top),
        variance=draws.variance,
        log_proposal=logsumexp(logs + np.log(shares)[:, None], axis=0),
        log_plain=logs[0],
        log_q=q.log_density(draws.u),
        feasible=np.concatenate([found.feasible, feasible(draws.u[count:])]),
        count=total,
    )


def _known(surrogate: Surrogate, u: np.ndarray) -> PointMoments:
    """The points among u (m, D) at which the sd of f is below `PooledSettings.known`."""
    points = PointMoments.at(surrogate, u)
    return PointMoments.among(points, points.variance < POOLED.known**2)


def _local(
    q: DiagonalMixture, plain: DiagonalMixture, draws: tuple[PointMoments, ...], top: float, seed: int
) -> DiagonalMixture:
    """Gaussians with the scales of q's components, at some of the draws where f or its variance is large.

    The draws are chosen by the integrand of the interquantile range (:mod:`next_points`).
    """
    u, mean, variance = (
        np.concatenate([getattr(part, name) for part in draws]) for name in ("u", "mean", "variance")
    )
    parts = q.widened(POOLED.wider).log_parts(u)
    log_g = np.logaddexp(plain.log_density(u), logsumexp(parts, axis=0))
    spread = np.minimum(np.sqrt(variance), NODES.most)
    mean = bounded(mean, variance, top)
    log_share = NODES.tempers[1] * (mean - top) - log_g + np.log(np.sinh(spread))
    chosen = np.unique(resampled(np.exp(log_share - log_share.max()), POOLED.places, seed))
    weights = np.full(len(chosen), 1.0 / len(chosen))
    return DiagonalMixture(weights, u[chosen], q.scales[parts[:, chosen].argmax(0)])


def with_more(
    surrogate: Surrogate, q: DiagonalMixture, n: int, seed: int, feasible: Feasibility
) -> DiagonalMixture:
    """The mixture q with components where evaluations or draws show that it lacks mass; or q itself.

    Parameters
    ----------
    surrogate : the surrogate, in the frame. q : its mixture. n : the number of evaluations. seed : of the
        draws. feasible : the probability that the log joint can be evaluated at points.
    """
    most = max(2, int(n ** (2 / 3)))
    if q.count >= COMPONENTS.longer * most:
        return q
    found = weighed(surrogate, q, 512, seed + 1, feasible)
    missed = _missed(surrogate, q, found)
    if len(missed):
        sloped = surrogate.data.gradients is not None
        count = COMPONENTS.added_with_gradients if sloped else COMPONENTS.added
        return grown(q, missed, np.zeros(len(missed)), count)
    # the effective share from which q lacks nothing
    if q.count >= most or found.effective_sample_size > 0.7 * len(found.u):
        return q
    # the largest deficit of q that counts, nats
    log_q = np.logaddexp(found.log_q, found.log_proposal - 5.0)
    log_ratio = found.log_weights + found.log_proposal - log_q
    return grown(q, found.u, log_ratio, min(COMPONENTS.added, most - q.count))


def _missed(surrogate: Surrogate, q: DiagonalMixture, found: Correction) -> np.ndarray:
    """Evaluated points (m, D) of high density where draws of q are improbable, the best first.

    No diagnostic of the draws shows an evaluated mode without draws of q.
    """
    data = surrogate.data
    best = np.flatnonzero(data.top - data.values < 0.5 * surrogate.dimension + COMPONENTS.shallow)
    best = best[np.argsort(-data.values[best])]
    u = data.points[best]
    log_density = surrogate.mean(u) - found.log_evidence
    return u[log_density - proposal_of(q).density.log_density(u) > COMPONENTS.unseen]
