"""The ELBO of a Gaussian q from the kept evaluations of the log joint, without further ones.

In units whitened by q, theta = mu + L u, the process of `gp.conditioning.directional` is on phi(u) = f +
|u|^2 / 2, with f the log joint. It is given the values of the latest evaluations and, where there are
gradients, those of the evaluations nearest to q, as many as `EvidenceSettings.rows` allows; evaluations at
which phi differs by tens of nats from phi near q are left out. Hyperparameters are fitted to the values and
to one derivative of each evaluation, along a random direction. The integral under q is in closed form:

    ELBO = E_q[f] + H(q) = E[phi] - D / 2 + H(q),        u ~ N(0, I) under q.

The standard deviation is that of the process and that of the difference between f and the process,

    sd^2 = z2 V + d^2 + s^2.

V is the posterior variance, with the constant profiled out, and z2 the mean squared standardised error of the
latest evaluations as predicted from those before, not less than one. With r_i the residual of a value that is
left out, and w_i weights of the evaluations as draws of q, d = sum_i w_i r_i is the mean of the difference
under q and s its standard error. Evaluations that failed, or lie below a cliff, are left out: the ELBO is
that over the region where the log joint is finite, and its sd infinite where they represent a share of q.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaincc

from bqvi.calls.returned import understated_noise
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients.memory import Memory
from bqvi.gradients.settings import DESIGN, EVIDENCE, NOISE
from bqvi.gradients.surrogates import OnFunction, fitted, of_rows, over_scale
from bqvi.gradients.whitened import WhitenedFrame, distance_noise
from gp.conditioning.conditioned import Conditioned
from gp.conditioning.directional import DirectionalKernel, slope_rows, value_rows
from gp.conditioning.function_kernel import FunctionProcess
from gp.evidence import LogPosterior
from gp.threads import single_threaded

_LARGEST = 1e150
"""The largest residual, whose square is finite."""


@dataclass(frozen=True)
class ElboEstimate:
    """An ELBO and its standard deviation, nats."""

    value: float
    sd: float
    failing: float
    """The share of q where evaluations failed."""
    understated: tuple[str, ...] = ()
    """The reason that values vary by more than their noise, if they do."""


@single_threaded()
def remembered_elbo(q: Gaussian | DiagonalGaussian, memory: Memory) -> ElboEstimate | None:
    """Return the ELBO of a Gaussian q, or None where fewer than D + 2 evaluations are near q.

    Parameters
    ----------
    q : a `Gaussian` or `DiagonalGaussian` over R^D.
    memory : m evaluations; the latest are used where there are more than `EvidenceSettings.rows`, with the
        gradients of those nearest to q.
    """
    found = process_near(q, memory)
    if found is None:
        return None
    process, dimension = found.process, len(found.frame.mean)
    value = process.posterior_mean.integrate(np.zeros(dimension), np.eye(dimension)).value
    trust = Trust.of(q, memory, found)
    sd = trust.sd(found.elbo_variance) if trust.failing <= 1e-3 else np.inf
    stated = float(np.sqrt(np.median(memory.noise_variances[:, 0])))
    noise = understated_noise(*found.fitted.noisier(found.logs), stated) if stated else ()
    return ElboEstimate(value - 0.5 * dimension + float(q.entropy), sd, trust.failing, noise)


@dataclass(frozen=True)
class Trust:
    """How well the process near q represents the evaluations."""

    squares: float
    """z2, the mean squared standardised error of predictions of the latest evaluations, at least 1."""
    difference: float
    """(d^2 + s^2)^(1/2), nats."""
    failing: float
    """The share of q where evaluations failed."""

    @classmethod
    def of(cls, q: Gaussian | DiagonalGaussian, memory: Memory, found: NearQ) -> Trust:
        """That of the process ``found`` from a ``memory``; another is made from its earlier evaluations."""
        count = max(int(EVIDENCE.predicted * len(memory)), EVIDENCE.fewest)
        before = process_near(q, memory.earliest(max(len(memory) - count, 0)))
        squares = 1.0 if before is None else before.squared_error(memory, count)
        mean, error, failing = found.difference(memory)
        return cls(squares, float(np.hypot(mean, error)), failing)

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
    process: FunctionProcess
    nodes: tuple[np.ndarray, ...]
    used: np.ndarray
    fitted: LogPosterior
    logs: np.ndarray
    contradicted: int = -1

    @property
    def elbo_variance(self) -> float:
        """Posterior variance V of E[phi] under N(0, I)."""
        given, kernel, dimension = self.process.given, self.process.kernel, len(self.frame.mean)
        level, prior = np.ones(1), np.array([[kernel.integral_variance(dimension)]])
        whitened = given.whitening @ kernel.with_integral(given.points)[:, None]
        return max(float(given.covariance(prior, whitened, level)[0, 0]), 0.0)

    @property
    def gradient_errors(self) -> np.ndarray:
        """The mean squared errors (k,) of gradients left out, over their variances for unit scale."""
        return self.process.given.evidence.squares_left_out(self.nodes[0][:, 1:])

    def variances(self, points: np.ndarray, whitened: np.ndarray | None = None) -> np.ndarray:
        """Posterior variances of phi at points (M, D), with the constant unknown, (M,).

        ``whitened`` are the columns of `Conditioned.whitened_covariance` there.
        """
        given, kernel = self.process.given, self.process.kernel
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
        near = weights > 0.0
        rows, u, weights = rows[near], u[near], weights[near]
        if not len(rows):
            return 1.0
        noise = memory.noise_variances[rows, 0] if memory.noise_variances.size else 0.0
        rounding = np.square(np.spacing(np.abs(memory.values).max())) + 1e-300
        variances = self.variances(u) + noise + rounding
        total = np.square(weights.sum()) / np.square(weights).sum()
        squares = np.minimum(np.square(self.residuals(memory, rows)) / variances, _LARGEST)
        mean = float(weights @ squares / weights.sum())
        return max((total * mean + EVIDENCE.prior) / (total + EVIDENCE.prior), 1.0)

    def difference(self, memory: Memory) -> tuple[float, float, float]:
        """d, s, and the share of q that failed evaluations represent."""
        known = self.frame.whiten(memory.points)
        weights = _weights(np.concatenate([known, self.frame.whiten(memory.failed)]))
        failed = np.append(memory.below, np.ones(len(memory.failed), bool))
        failing, weights = float(weights[failed].sum()), np.where(failed, 0.0, weights)[: len(known)]
        residuals, others = np.zeros(len(known)), weights > 0.0
        for rows in self.nodes:
            residuals[self.used[rows[:, 0]]] = self.process.given.evidence.left_out(rows)[:, 0]
        others[self.used] = False
        residuals[others] = self.residuals(memory, np.flatnonzero(others))
        mean = float(weights @ residuals)
        return mean, float(np.linalg.norm(weights * (residuals - mean))), failing


def log_designs(u: np.ndarray) -> np.ndarray:
    """The log density (n,) of designs at u (n, D), in the units of q, but for 2 (2 pi)^D/2.

    Evaluations are taken as draws of N(0, I) and of N(0, c^2 I) in equal parts, as designs choose them.
    """
    squares, dimension = np.einsum("nd,nd->n", u, u), u.shape[1]
    wide = -0.5 * squares / DESIGN.spread**2 - dimension * np.log(DESIGN.spread)
    return np.asarray(np.logaddexp(-0.5 * squares, wide))


def _weights(u: np.ndarray) -> np.ndarray:
    """Weights of evaluations (n, D), in the units of q, as draws of q, (n,); their sum is at most one.

    No weight exceeds the mass of q beyond the evaluation.
    """
    squares, dimension = np.einsum("nd,nd->n", u, u), u.shape[1]
    logs = -0.5 * squares - log_designs(u)
    weights = np.exp(logs - logs.max(initial=-np.inf))
    return np.asarray(np.minimum(weights / weights.sum(), gammaincc(0.5 * dimension, 0.5 * squares)))


def process_near(q: Gaussian | DiagonalGaussian, memory: Memory) -> NearQ | None:
    """Return the process near q, or None; arguments are as of `remembered_elbo`.

    An evaluation whose gradient all others contradict by ten sds, once fitted without it, is left out.
    """
    found = _process_near(q, memory)
    if found is None or memory.noise_variances.any() or not found.nodes[0][:, 1:].size:
        return found
    errors = found.gradient_errors
    row = int(errors.argmax())
    left = int(found.used[found.nodes[0][row, 0]])
    # in the fit with it, it is contradicted by three sds at least
    again = _process_near(q, memory, left) if errors[row] > 9.0 * found.process.given.scale else None
    whole = None if again is None else _process_near(q, memory, logs=again.logs)
    if again is None or whole is None:
        return found
    others = max(again.gradient_errors.max(initial=0.0), again.process.given.scale)
    return replace(again, contradicted=left) if whole.gradient_errors[row] > 100.0 * others else found


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
) -> tuple[FunctionProcess, tuple[np.ndarray, ...]]:
    """The process on all values and, if ``steep``, on gradients nearest to q, and the rows of each node."""
    m, d = u.shape
    count = min(m, (EVIDENCE.rows - m) // d) if steep else 0
    whole = np.argsort(np.einsum("nd,nd->n", u, u), kind="stable")[:count]
    rows = np.concatenate([value_rows(u), slope_rows(u[whole])])
    noise = None if measured is None else _shown(measured, whole)
    lengthscale, linear, quadratic = (float(x) for x in np.exp(logs[:3]))
    kernel = DirectionalKernel(lengthscale, linear, quadratic, steep)
    given = Conditioned.of(kernel, rows, _shown(targets, whole)[:, None], _noise, over_scale(noise, logs))
    slopes = m + np.arange(count * d).reshape(count, d)
    nodes = np.column_stack([whole, slopes]), np.setdiff1d(np.arange(m), whole)[:, None]
    return FunctionProcess(kernel, given), nodes


def _near(points: np.ndarray, phi: np.ndarray, most: int) -> np.ndarray | None:
    """Which of (m, D) points are used, the latest; None where fewer than D + 2 are near."""
    d = points.shape[1]
    squares = np.einsum("nd,nd->n", points, points)
    near = np.flatnonzero(squares <= NOISE.left_out * d)
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


def _noise(rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return distance_noise(rows[:, : rows.shape[1] // 2], targets)
