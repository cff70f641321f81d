"""Which process is built on a memory: on gradients where the log joint has them, on values where not.

Each kind says what its targets are in the units of a q, how its hyperparameters are fitted (as logarithms, so
that a memory can keep them as an array), and how the process is made of them. The separable process on
gradients costs O(m^3) whatever D, and is the default wherever it is possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from bqvi.checks import require_above, require_at_least
from bqvi.gradients.directions import Directions
from bqvi.gradients.function_process import FunctionSurrogate
from bqvi.gradients.gradient_kernel import SeparableKernel
from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.observation_noise import ObservationNoise
from bqvi.gradients.settings import SEARCH
from bqvi.gradients.whitened import JITTER, Frame, distance_noise
from gp.conditioning.function_kernel import FunctionKernel, Shown
from gp.evidence import LogPosterior
from gp.fixed_points import components_gram, tied
from gp.kernels import QuadraticTrend, SquaredExponential, Sum
from gp.observations import Functional, Gradients, Observations, Values
from gp.priors import JointPrior
from gp.search import search

_SPREAD = np.array([0.7, 3.0, 2.0])
"""Prior standard deviations of ln (l, b, b); of a further b too."""
_SIMPLE = np.array([3.0, 3.5, 3.5, -4.0])
"""Hyperparameters, in these, with which little but a quadratic log joint is likely: one is found exactly."""

Process = GradientProcess | FunctionSurrogate


@runtime_checkable
class Kind(Protocol):
    """A kind of process."""

    def targets(
        self, frame: Frame, whitened: np.ndarray, values: np.ndarray, gradients: np.ndarray
    ) -> np.ndarray:
        """(m, B), of f (m,) and grad f (m, D) at ``whitened`` (m, D)."""

    def fit(self, points: np.ndarray, targets: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """Logarithms of the hyperparameters, from where the last fit ended; ``start`` None for a first."""

    def process(self, points: np.ndarray, targets: np.ndarray, logs: np.ndarray) -> Process:
        """Given (m, D) points and their targets."""


@dataclass(frozen=True)
class OnGradients:
    """The separable process on gradients, `gradient_process`.

    Parameters
    ----------
    jitter : > 0, on the diagonal of K / s^2
    prior_slope : the prior mean of y is this times u: 0 that of sticking-the-landing, 1 that of grad f = 0
    """

    jitter: float = JITTER
    prior_slope: float = 0.0

    def __post_init__(self) -> None:
        require_above("jitter", self.jitter, 0.0)
        require_at_least("prior_slope", self.prior_slope, 0.0)

    def targets(
        self, frame: Frame, whitened: np.ndarray, values: np.ndarray, gradients: np.ndarray
    ) -> np.ndarray:
        """y = L^T grad f + u, (m, D)."""
        del values
        y: np.ndarray = gradients @ frame.scale + whitened
        return y

    def fit(self, points: np.ndarray, targets: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """ln (l, b0, b1, b2), around l = 2 sqrt(D), b0 = b1 = 1 / 10 and b2 = 1 / (10 D)."""
        u = points[-SEARCH.points :]
        y = targets[-SEARCH.points :] - self.prior_slope * u
        directions = Directions.of(u, y)
        scaled = directions.scaled(u)
        inner = scaled @ scaled.T
        gram = components_gram(scaled, (np.ones_like(inner), u @ u.T, 0.5 * inner * inner))
        noise = ObservationNoise.of(u, y, directions, self.jitter)(u, y)
        prior = _prior(u.shape[1], 4)
        return _fitted(LogPosterior(gram, noise, y, prior), start)

    def process(self, points: np.ndarray, targets: np.ndarray, logs: np.ndarray) -> GradientProcess:
        """Given (m, D) points and y."""
        directions = Directions.of(points, targets - self.prior_slope * points)
        lengthscale, constant, linear, quadratic = (float(x) for x in np.exp(logs))
        kernel = SeparableKernel(lengthscale, constant, linear, quadratic, directions)
        return GradientProcess.of(points, targets, kernel, self.jitter, self.prior_slope)


@dataclass(frozen=True)
class OnFunction:
    """The process on the log joint as one function, `function_process`.

    Parameters
    ----------
    values, gradients : what of it is observed, one or both
    """

    values: bool = True
    gradients: bool = True

    def __post_init__(self) -> None:
        self._shown()

    def _shown(self) -> Shown:
        return Shown(self.values, self.gradients)

    def targets(
        self, frame: Frame, whitened: np.ndarray, values: np.ndarray, gradients: np.ndarray
    ) -> np.ndarray:
        """phi = f + |u|^2 / 2 and y = L^T grad f + u, those of them that are observed, (m, B)."""
        parts = []
        if self.values:
            parts.append((values + 0.5 * np.square(whitened).sum(1))[:, None])
        if self.gradients:
            parts.append(gradients @ frame.scale + whitened)
        return np.concatenate(parts, 1)

    def fit(self, points: np.ndarray, targets: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """ln (l, b1, b2), around l = 2 sqrt(D) and b = 1 / 10."""
        most = max(2, SEARCH.rows // targets.shape[1]) if self.gradients else SEARCH.points
        u, y = points[-most:], targets[-most:]
        n, noise, first = len(u), distance_noise(u, y), int(self.values)
        parts, blocks = list[np.ndarray](), list[Values | Gradients]()
        if self.values:
            parts, blocks = [y[:, 0]], [Values(u)]
        if self.gradients:
            parts, blocks = [*parts, y[:, first:].reshape(-1)], [*blocks, Gradients(u)]
        observed: Functional = blocks[0] if len(blocks) == 1 else Observations(tuple(blocks))
        rows = np.concatenate(parts)
        basis = np.zeros((len(rows), first))
        basis[: first * n] = 1.0
        noise = np.concatenate([np.repeat(noise, len(part) // n) for part in parts])
        # the squared exponential has the variance l^2 where gradients are observed (`FunctionKernel.height`)
        tie = np.array([[1.0, 0.0, 0.0], [2.0 * self.gradients, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        gram = tied(Sum((SquaredExponential(), QuadraticTrend())), observed, tie)
        posterior = LogPosterior(gram, noise, rows[:, None], _prior(u.shape[1], 3), basis)
        return _fitted(posterior, start)

    def process(self, points: np.ndarray, targets: np.ndarray, logs: np.ndarray) -> FunctionSurrogate:
        """Given (m, D) points and their targets."""
        lengthscale, linear, quadratic = (float(x) for x in np.exp(logs))
        return FunctionSurrogate.of(
            FunctionKernel(lengthscale, linear, quadratic, self._shown()), points, targets
        )


def _prior(dimension: int, parameters: int) -> JointPrior:
    """Of ln (l, b0, b1, b2) or of ln (l, b1, b2)."""
    centre = np.log([2.0 * np.sqrt(dimension), 0.1, 0.1, 0.1 / dimension])[:parameters]
    return JointPrior.normal(centre, np.append(_SPREAD, 2.0)[:parameters], (5.0, 4.0))


def _fitted(posterior: LogPosterior, start: np.ndarray | None) -> np.ndarray:
    """From the centre of the prior, and where the last fit ended or, of a first fit, ``_SIMPLE``."""
    prior = posterior.prior
    simple = prior.lower + _SIMPLE[: len(prior.lower)] * prior.shoulder
    starts = (prior.lower, simple) if start is None else (start, prior.lower)
    found: np.ndarray = search(posterior, starts, prior.bounds, SEARCH.search).psi
    return found
