"""The ELBO and the log evidence of a Gaussian q from the kept evaluations of the log joint, without others.

In units whitened by q, theta = mu + L u, the process of `gp.conditioning.function_kernel` is on phi(u) = f +
|u|^2 / 2, with f the log joint. It is given the values of the latest evaluations and, where there are
gradients, those of the evaluations whose |u|^2 is nearest to D, as that of draws of q is, as many as
`EvidenceSettings.rows` allows; evaluations at which phi differs by tens of nats from phi near q are left out.
Hyperparameters are fitted to the values and to one derivative of each evaluation, along a random direction.
The integral under q is in closed form:

    ELBO = E_q[f] + H(q) = E[phi] - D / 2 + H(q),        u ~ N(0, I) under q.

The standard deviation is that of the process and that of the difference between f and the process,

    sd^2 = z2 V + d^2 + s^2.

V is the posterior variance, with the constant profiled out, and z2 the mean squared standardised error of the
latest evaluations as predicted from those before, not less than one. With r_i the residual of a value that is
left out, and w_i weights of the evaluations as draws of q, d = sum_i w_i r_i is the mean of the difference
under q and s its standard error. Evaluations that failed, or lie below a cliff, are left out: the ELBO is
that over the region where the log joint is finite, and its sd infinite where they represent a share of q.

*The log evidence* has q as the proposal. In units whitened by q the log joint f is the same process, and

    Z = int exp(f) = E_q[exp(r)],        r = f - ln q,        ELBO = E_q[r].

At draws u of g = (1 - a) q + a q widened, r has the posterior mean m and variance v. Where v is large the
mean m is an extrapolation by the kernel, so that r is shrunk there towards its median c,

    r~ = c + t (m - c),        t = 1 / (1 + v^2),      log w = r~ + t^2 v / 2 + ln q - ln g + ln p.

Where v is less than a squared nat the density is that of the process, where it is more it is exp(c) q, whose
integral is exp(c). The probability p that the log joint can be evaluated at u is that of `designs`. The
standard deviation is the root of the sum of three squares: of the process, with E_P[t f] and its difference
from f under q (`Trust`), of the draws, from the sums of weights of blocks of the Sobol points, and of what is
not seen, the largest of

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
from scipy.special import gammainc, gammaincc, logsumexp

from bqvi.calls.faults import contradicted
from bqvi.calls.returned import understated_noise
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients.designs import LogisticFeasibility
from bqvi.gradients.memory import Memory
from bqvi.gradients.settings import EVIDENCE, LEFT_OUT
from bqvi.gradients.surrogates import OnFunction, fitted, of_rows, over_scale
from bqvi.gradients.whitened import WhitenedFrame, distance_noise
from bqvi.importance import Proposal, effective_size, log_student, pareto_shape, weighted_quantile
from bqvi.runs.settings import ENGINES
from gp.arrays import LOG_2PI
from gp.conditioning.conditioned import Conditioned
from gp.conditioning.function_kernel import DirectionalKernel, slope_rows, value_rows
from gp.evidence import LogPosterior
from gp.low_discrepancy import normal_sobol
from gp.threads import single_threaded

_LARGEST = 1e150
"""The largest residual, whose square is finite."""
_MANY = 4.0
"""Standard deviations: the largest residual has fewer in 70 runs on densities without a narrow mode."""


@dataclass(frozen=True)
class ElboEstimate:
    """An ELBO and its standard deviation, nats."""

    value: float
    sd: float
    failing: float
    """The share of q where evaluations fail; 0 below a fiftieth."""
    doubts: tuple[str, ...] = ()
    """Reasons by residuals: values vary by more than their noise, or one is far above its prediction."""


@single_threaded()
def remembered_elbo(q: Gaussian | DiagonalGaussian, memory: Memory) -> ElboEstimate | None:
    """Return the ELBO of a Gaussian q, or None where fewer than D + 2 evaluations are near q.

    Parameters
    ----------
    q : a `Gaussian` or `DiagonalGaussian` over R^D.
    memory : m evaluations; the latest are used where there are more than `EvidenceSettings.rows`, with the
        gradients of those whose distances from the mean are most like those of draws of q.
    """
    found = process_near(q, memory)
    if found is None:
        return None
    process, dimension = found.process, len(found.frame.mean)
    value = process.posterior_mean.integrate(np.zeros(dimension), np.eye(dimension)).value
    trust = Trust.of(q, memory, found)
    sd = trust.sd(found.elbo_variance) if not trust.failing else np.inf
    stated = float(np.sqrt(np.median(memory.noise_variances[:, 0])))
    noise = understated_noise(*found.fitted.noisier(found.logs), stated) if stated else ()
    return ElboEstimate(value - 0.5 * dimension + float(q.entropy), sd, trust.failing, noise + found.above)


@dataclass(frozen=True)
class Trust:
    """How well the process near q represents the evaluations."""

    squares: float
    """z2, the mean squared standardised error of predictions of the latest evaluations, at least 1."""
    difference: float
    """(d^2 + s^2)^(1/2), nats."""
    failing: float
    """The share of q where evaluations fail; 0 below a fiftieth."""

    @classmethod
    def of(cls, q: Gaussian | DiagonalGaussian, memory: Memory, found: NearQ) -> Trust:
        """That of the process ``found`` from a ``memory``; another is made from its earlier evaluations."""
        count = max(int(EVIDENCE.predicted * len(memory)), 1)
        before = process_near(q, memory.earliest(max(len(memory) - count, 0)))
        squares = 1.0 if before is None else before.squared_error(memory, count)
        failing = 0.0
        if len(memory.censored.failed):
            succeeds = LogisticFeasibility.near(found.frame, memory)
            failing = 1.0 - float(succeeds(normal_sobol(len(found.frame.mean), 1024, 0)).mean())
        return cls(squares, float(np.hypot(*found.difference(memory))), failing * (failing >= 0.02))

    def sd(self, variance: float) -> float:
        """The standard deviation of an integral whose posterior ``variance`` is given."""
        return float(np.hypot(np.sqrt(self.squares * variance), self.difference))


@dataclass(frozen=True, eq=False)
class NearQ:
    """The process on phi in units whitened by q.

    Attributes
    ----------
    frame, process : the units and the process.
    nodes : the rows of each evaluation, in sets (k, R) of evaluations with R rows each, of which the first is
        the value's.
    used : the evaluations of the memory whose values are the first rows, (m,).
    fitted, logs : what was fitted, and the logarithms of the hyperparameters that were found.
    contradicted : the evaluation that was left out, as all others contradict its gradient; or -1.
    """

    frame: WhitenedFrame
    process: Conditioned
    nodes: tuple[np.ndarray, ...]
    used: np.ndarray
    fitted: LogPosterior
    logs: np.ndarray
    contradicted: int = -1

    @property
    def elbo_variance(self) -> float:
        """Posterior variance V of E[phi] under N(0, I)."""
        given, kernel, dimension = self.process, self.process.kernel, len(self.frame.mean)
        level, prior = np.ones(1), np.array([[kernel.integral_variance(dimension)]])
        whitened = given.whitening @ kernel.with_integral(given.points)[:, None]
        return max(float(given.covariance(prior, whitened, level)[0, 0]), 0.0)

    @property
    def above(self) -> tuple[str, ...]:
        """The reason that the value most above what all others predict is so by many sds, if it is."""
        errors, sds = (part[: len(self.used), 0] for part in self.process.evidence.leave_one_out())
        error, sd = errors[row := int(errors.argmax())], sds[row]
        if not error > max(_MANY * sd, 0.05):  # less moves no ELBO by its tolerance
            return ()
        return (
            f"an evaluation lies {error:.2g} nats, or {error / sd:.2g} standard deviations, above what all "
            "others predict, as on the flank of a narrow mode; bqvi.vbmc finds several modes",
        )

    @property
    def gradient_errors(self) -> np.ndarray:
        """The mean squared errors (k,) of gradients left out, over their variances for unit scale."""
        return self.process.evidence.squares_left_out(self.nodes[0][:, 1:])

    def variances(self, points: np.ndarray, whitened: np.ndarray | None = None) -> np.ndarray:
        """Posterior variances of phi at points (M, D), with the constant unknown, (M,).

        ``whitened`` are the columns of `Conditioned.whitened_covariance` there.
        """
        given, kernel = self.process, self.process.kernel
        if whitened is None:
            whitened = given.whitened_covariance(kernel.at(value_rows(points)))
        squares = np.einsum("md,md->m", points, points)
        prior = kernel.height + squares * (kernel.linear + 0.5 * kernel.quadratic * squares)
        return given.evidence.variances(prior, whitened, np.ones(len(points)))

    def residuals(self, memory: Memory, rows: np.ndarray) -> np.ndarray:
        """What values in some ``rows`` (k,) of the memory exceed the process' mean by, (k,)."""
        u = self.frame.whiten(memory.points[rows])
        phi = memory.values[rows] + 0.5 * np.einsum("nd,nd->n", u, u)
        return np.clip(phi - self.process.posterior_mean(u), -_LARGEST, _LARGEST)

    def squared_error(self, memory: Memory, count: int) -> float:
        """z2 of the latest ``count`` evaluations of a memory, which the process was not given.

        They count by their weights as draws of q, and as many as ``EVIDENCE.prior`` of one beside them.
        """
        rows = np.arange(len(memory))[-count:]
        rows = rows[~memory.below[rows]]
        u = self.frame.whiten(memory.points[rows])
        weights = _weights(u)
        if not weights.any():
            return 1.0
        noise = memory.noise_variances[rows, 0] if memory.noise_variances.size else 0.0
        rounding = np.square(np.spacing(np.abs(memory.values).max())) + 1e-300
        variances = self.variances(u) + noise + rounding
        total = np.square(weights.sum()) / np.square(weights).sum()
        squares = np.minimum(np.square(self.residuals(memory, rows)) / variances, _LARGEST)
        mean = float(weights @ squares / weights.sum())
        return max((total * mean + EVIDENCE.prior) / (total + EVIDENCE.prior), 1.0)

    def difference(self, memory: Memory) -> tuple[float, float]:
        """d and s."""
        known, failed = (self.frame.whiten(points) for points in (memory.points, memory.failed))
        weights = _weights(np.concatenate([known, failed]))[: len(known)] * ~memory.below
        residuals, others = np.zeros(len(known)), weights > 0.0
        for rows in self.nodes:
            residuals[self.used[rows[:, 0]]] = self.process.evidence.left_out(rows)[:, 0]
        others[self.used] = False
        residuals[others] = self.residuals(memory, np.flatnonzero(others))
        mean = float(weights @ residuals)
        return mean, float(np.linalg.norm(weights * (residuals - mean)))


def log_designs(u: np.ndarray) -> np.ndarray:
    """The log density (n,) of designs at u (n, D), in the units of q, but for 2 (2 pi)^D/2.

    Evaluations are taken as draws of N(0, I) and of N(0, c^2 I) in equal parts, as designs choose them.
    """
    squares, dimension = np.einsum("nd,nd->n", u, u), u.shape[1]
    wide = -0.5 * squares / ENGINES.wider**2 - dimension * np.log(ENGINES.wider)
    return np.asarray(np.logaddexp(-0.5 * squares, wide))


def _weights(u: np.ndarray) -> np.ndarray:
    """Weights of evaluations (n, D), in the units of q, as draws of q, (n,); their sum is at most one.

    No weight exceeds the mass of q beyond the evaluation. One so near to the mean of q that fewer than one of
    n draws would be counts as this number of draws: in many dimensions a climb to the mode is no draw of q.
    """
    squares, half = 0.5 * np.einsum("nd,nd->n", u, u), 0.5 * u.shape[1]
    weights = np.exp(-squares - log_designs(u)) * np.minimum(len(u) * gammainc(half, squares), 1.0)
    return np.asarray(np.minimum(weights / max(weights.sum(), 1e-300), gammaincc(half, squares)))


def process_near(q: Gaussian | DiagonalGaussian, memory: Memory) -> NearQ | None:
    """Return the process near q, or None; arguments are as of `remembered_elbo`.

    An evaluation whose gradient all others contradict is left out (`bqvi.calls.faults.contradicted`).
    """
    found = _process_near(q, memory)
    if found is None or memory.noise_variances.any() or not found.nodes[0][:, 1:].size:
        return found
    rows, again = found.used[found.nodes[0][:, 0]], found

    def without(row: int) -> tuple[np.ndarray, float, np.ndarray] | None:
        nonlocal again
        left = _process_near(q, memory, int(rows[row]))
        whole = None if left is None else _process_near(q, memory, logs=left.logs)
        if left is None or whole is None:
            return None
        again = left
        return left.gradient_errors, left.process.scale, whole.gradient_errors

    row = contradicted(found.gradient_errors, found.process.scale, without)
    return found if row is None else replace(again, contradicted=int(rows[row]))


def _process_near(
    q: Gaussian | DiagonalGaussian, memory: Memory, without: int = -1, logs: np.ndarray | None = None
) -> NearQ | None:
    """The process near q ``without`` an evaluation, or None; its ``logs`` are fitted where there are none."""
    frame, steep = WhitenedFrame.of(q), memory.gradients.shape[1] > 0
    u = frame.whiten(memory.points)
    phi = memory.values + 0.5 * np.einsum("nd,nd->n", u, u)
    above = np.flatnonzero(~memory.below & (np.arange(len(memory)) != without))
    near = _near(u[above], phi[above], EVIDENCE.rows // (1 + steep))
    if near is None:
        return None
    near = above[near]
    u = u[near]
    kind = OnFunction(values=True, gradients=steep)
    targets = kind.targets(frame, u, memory.values[near], memory.gradients[near])
    measured = kind.noise(frame, memory.noise_variances[near])
    last, rows = memory.hyperparameters, _rows(u, targets, measured)
    start = np.append(last[:3], [] if measured is None else last[-1:]) if len(last) else None
    logs = fitted(rows, start) if logs is None else logs
    return NearQ(frame, *_process(u, targets, measured, logs, steep), near, rows, logs)


def _process(
    u: np.ndarray, targets: np.ndarray, measured: np.ndarray | None, logs: np.ndarray, steep: bool
) -> tuple[Conditioned, tuple[np.ndarray, ...]]:
    """The process on all values and, if ``steep``, on gradients as at draws of q, and each node's rows."""
    m, d = u.shape
    count = min(m, (EVIDENCE.rows - m) // d) if steep else 0
    whole = np.argsort(np.abs(np.einsum("nd,nd->n", u, u) - d), kind="stable")[:count]
    rows = np.concatenate([value_rows(u), slope_rows(u[whole])])
    noise = None if measured is None else _shown(measured, whole)
    lengthscale, linear, quadratic = (float(x) for x in np.exp(logs[:3]))
    kernel = DirectionalKernel(lengthscale, linear, quadratic, steep)
    slopes = m + np.arange(count * d).reshape(count, d)
    nodes = np.column_stack([whole, slopes]), np.setdiff1d(np.arange(m), whole)[:, None]
    measured, shown = over_scale(noise, logs), _shown(targets, whole)
    return Conditioned.of(kernel, rows, shown[:, None], _noise, measured), nodes


def _near(points: np.ndarray, phi: np.ndarray, most: int) -> np.ndarray | None:
    """Which of (m, D) points are used, the latest; None where fewer than D + 2 are near."""
    d = points.shape[1]
    squares = np.einsum("nd,nd->n", points, points)
    near = np.flatnonzero(squares <= LEFT_OUT * d)
    if len(near) < d + 2:
        return None
    near = near[squares[near] <= max(EVIDENCE.furthest * d, _least(squares[near], 2 * d + 2))]
    typical = np.median(phi[near[squares[near] <= _least(squares[near], (len(near) + 1) // 2)]])
    gaps = np.abs(phi[near] - typical)
    similar: np.ndarray = near[gaps <= max(EVIDENCE.apart, _least(gaps, 2 * d + 2))]
    return similar[-max(most, d + 2) :]


def _least(numbers: np.ndarray, n: int) -> float:
    """The n-th smallest number, or the largest if there are fewer."""
    return float(np.sort(numbers)[min(n, len(numbers)) - 1])


def _rows(u: np.ndarray, targets: np.ndarray, measured: np.ndarray | None) -> LogPosterior:
    """What is fitted, by the latest points: values, and one derivative each along a random direction."""
    u, targets = u[-100:], targets[-100:]
    m, d = u.shape
    blocks, shown = [value_rows(u)], [targets[:, 0]]
    noise = None if measured is None else [measured[-m:, 0]]
    if targets.shape[1] > 1:
        along = np.random.default_rng(0).standard_normal((m, d))
        along /= np.linalg.norm(along, axis=1)[:, None]
        blocks.append(slope_rows(u, along[:, None]))
        shown.append(np.einsum("md,md->m", along, targets[:, 1:]))
        if measured is not None and noise is not None:
            noise.append(np.einsum("md,md->m", np.square(along), measured[-m:, 1:]))
    flat = None if noise is None else np.concatenate(noise)
    return of_rows(np.concatenate(blocks), np.concatenate(shown), flat, targets.shape[1] > 1)


def _shown(numbers: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """From (m, B) numbers the first of each point, and all others of the points that are ``whole``."""
    return np.concatenate([numbers[:, 0], numbers[whole, 1:].reshape(-1)])


def _noise(rows: np.ndarray) -> np.ndarray:
    return distance_noise(rows[:, : rows.shape[1] // 2])


_MOST_MASS = 300.0
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
    failing: float
    """The share of q where evaluations fail; 0 below a fiftieth."""
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
    unseen = (
        float(weights @ ((1.0 - shrinkage) * np.minimum(np.abs(at.deviation), np.sqrt(at.variance)))),
        float(weights @ (1.0 - at.possible)),
        error,
        abs((EVIDENCE.share_at(shape) if len(beyond) > 1 else 1.0) * (value - elbo)),
        _rise(memory),
    )
    trust = Trust.of(q, memory, found)
    sd = float(np.linalg.norm([trust.sd(variance), _of_draws(weights), max(unseen)]))
    return EvidenceEstimate(value, sd, shape, effective, trust.failing, found.contradicted)


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
        whitened = process.whitened_covariance(process.kernel.at(value_rows(points)))
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
        return weighted_quantile(self.residual, self.shrinkage * np.exp(self.log_ratio))

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


def _missed(found: NearQ, at: _AtDraws, memory: Memory, rows: np.ndarray, inside: float) -> list[float]:
    """Mass that the process lacks at ``rows`` left out, over that ``inside`` (its ln), and its error."""
    n, u = int((~memory.below).sum()), found.frame.whiten(memory.points[rows])
    constant = 0.5 * u.shape[1] * LOG_2PI
    volume = float(np.log(np.abs(np.diagonal(found.frame.scale))).sum())
    mean = found.process.posterior_mean(u) + volume + constant
    logs = np.stack([mean + found.residuals(memory, rows), at.shrunk(mean, found.variances(u))])
    designs, share = log_designs(u) - np.log(2.0) - constant, EVIDENCE.tail_draws / n
    log_evaluated = np.logaddexp(np.log1p(-share) + designs, np.log(share) + log_student(u, EVIDENCE.wider))
    logs += -0.5 * np.einsum("nd,nd->n", u, u) - constant - log_evaluated - np.log(n) - inside
    true, stated = np.exp(np.minimum(logs, _MOST_MASS))
    return [max(float((true - stated).sum()), -0.5), float(np.linalg.norm(true - stated))]


def _of_draws(weights: np.ndarray) -> float:
    """Standard deviation of the logarithm of the sum of weights (M,), of sum one, from consecutive blocks.

    It is rather too large, as the blocks of a Sobol set together are more even than each block.
    """
    sums = ENGINES.groups * weights.reshape(ENGINES.groups, -1).sum(1)
    return float(sums.std(ddof=1) / np.sqrt(ENGINES.groups))


def _of_process(near: NearQ, points: np.ndarray, whitened: np.ndarray, weights: np.ndarray) -> float:
    """Posterior variance of the sum of phi at the points with weights (M,)."""
    given, kernel = near.process, near.process.kernel
    places = kernel.at(value_rows(points))
    prior = kernel.covariance(places, places)
    together, level = (whitened @ weights)[:, None], np.array([weights.sum()])
    variance = float(given.covariance(np.array([[weights @ prior @ weights]]), together, level)[0, 0])
    return max(variance, 0.0)
