"""The ELBO of a Gaussian q from the kept evaluations of the log joint, without further ones.

In units whitened by q, theta = mu + L u, the process of `gp.conditioning.directional` is on phi(u) = f +
|u|^2 / 2, with f the log joint. It is given the values of the latest evaluations and, where there are
gradients, those of the evaluations nearest to q, as many as `EvidenceSettings.rows` allows. Where the log
joint is steep, far from q, a stationary kernel does not fit, and the D entries of a gradient distort the fit
more than a value does; evaluations at which phi differs by tens of nats from phi near q are left out.
Hyperparameters are fitted to the values and to one derivative of each evaluation, along a random direction.
The integral under q is in closed form:

    ELBO = E_q[f] + H(q) = E[phi] - D / 2 + H(q),        u ~ N(0, I) under q.

The standard deviation contains the posterior variance, with the constant profiled out, and the jackknife's
variance and bias over evaluations, which include the misfit of the kernel. Failed evaluations are left out,
so the ELBO is that over the region where the log joint is finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients.memory import Memory
from bqvi.gradients.settings import EVIDENCE, NOISE, SEARCH
from bqvi.gradients.surrogates import OnFunction, fitted_rows, over_scale
from bqvi.gradients.whitened import WhitenedFrame, distance_noise
from gp.conditioning.conditioned import Conditioned
from gp.conditioning.directional import DirectionalKernel, DirectionalProcess, slope_rows, value_rows

__all__ = ["ElboEstimate", "NearQ", "process_near", "remembered_elbo"]


@dataclass(frozen=True)
class ElboEstimate:
    """An ELBO and its standard deviation, nats."""

    value: float
    sd: float


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
    return ElboEstimate(value - 0.5 * dimension + float(q.entropy), found.elbo_sd())


@dataclass(frozen=True, eq=False)
class NearQ:
    """The process on phi in units whitened by q.

    Attributes
    ----------
    frame, process : the units and the process.
    nodes : the rows of each evaluation, in sets (k, R) of evaluations with R rows each.
    """

    frame: WhitenedFrame
    process: DirectionalProcess
    nodes: tuple[np.ndarray, ...]

    def jackknife(self, whitened: np.ndarray, level: np.ndarray) -> float:
        """Variance and squared bias of an integral of phi, over evaluations; arguments as of `changes`."""
        given = self.process.given
        changes = np.concatenate([given.changes_without(rows, whitened, level) for rows in self.nodes])
        return float(np.square(changes).sum() + changes.sum() ** 2)

    def elbo_sd(self) -> float:
        """Standard deviation of E[phi] under N(0, I), the jackknife's variance included."""
        given, kernel, dimension = self.process.given, self.process.kernel, len(self.frame.mean)
        level, prior = np.ones(1), np.array([[kernel.integral_variance(dimension)]])
        whitened = given.whitening @ kernel.with_integral(given.points)[:, None]
        variance = float(given.covariance(prior, whitened, level)[0, 0])
        return float(np.sqrt(max(variance, 0.0) + self.jackknife(whitened, level)))


def process_near(q: Gaussian | DiagonalGaussian, memory: Memory) -> NearQ | None:
    """Return the process near q, or None; arguments are as of `remembered_elbo`."""
    frame, steep = WhitenedFrame.of(q), memory.gradients.shape[1] > 0
    u = frame.whiten(memory.points)
    phi = memory.values + 0.5 * np.einsum("nd,nd->n", u, u)
    near = _near(u, phi, EVIDENCE.rows // (1 + steep))
    if near is None:
        return None
    u = u[near]
    kind = OnFunction(values=True, gradients=steep)
    targets = kind.targets(frame, u, memory.values[near], memory.gradients[near])
    measured = kind.noise(frame, memory.noise_variances[near])
    logs = _fitted(u, targets, measured, memory.hyperparameters)
    return NearQ(frame, *_process(u, targets, measured, logs, steep))


def _process(
    u: np.ndarray, targets: np.ndarray, measured: np.ndarray | None, logs: np.ndarray, steep: bool
) -> tuple[DirectionalProcess, tuple[np.ndarray, ...]]:
    """The process on all values and on the gradients nearest to q, and the rows of each node.

    Parameters
    ----------
    u : the points (m, D). targets, measured : values and gradients there, and their noise, or None.
    logs : the logarithms of the hyperparameters. steep : whether there are gradients.
    """
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
    return DirectionalProcess(kernel, given), nodes


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


def _fitted(u: np.ndarray, targets: np.ndarray, measured: np.ndarray | None, last: np.ndarray) -> np.ndarray:
    """Hyperparameters by the latest points: values, and one derivative each along a random direction."""
    u, targets = u[-SEARCH.points :], targets[-SEARCH.points :]
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
    start = np.append(last[:3], [] if noise is None else last[-1:]) if len(last) else None
    flat = None if noise is None else np.concatenate(noise)
    return fitted_rows(np.concatenate(blocks), np.concatenate(shown), start, flat, targets.shape[1] > 1)


def _shown(numbers: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """From (m, B) numbers the first of each point, and all others of the points that are ``whole``."""
    return np.concatenate([numbers[:, 0], numbers[whole, 1:].reshape(-1)])


def _noise(rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return distance_noise(rows[:, : rows.shape[1] // 2], targets)
