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
from bqvi.gradients import derivative_process, joint_process
from bqvi.gradients.derivative_process import DerivativeProcess
from bqvi.gradients.directions import Directions
from bqvi.gradients.doubtful import Doubts
from bqvi.gradients.evidence import Evidence, most_likely, squared_distances, squared_exponential
from bqvi.gradients.gradient_kernel import Shape
from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.joint_process import JointProcess
from bqvi.gradients.observed import JITTER
from bqvi.gradients.value_process import JITTER as VALUE_JITTER
from bqvi.gradients.value_process import ValueProcess, ValueShape
from bqvi.gradients.whitened import Frame, remoteness

MOST_POINTS = 100
"""The evidence looks at no more points than this, the most recent."""
LARGEST_EVIDENCE = 300
"""Rows of K that the evidence of a derivative process looks at."""
_SPREAD = np.array([0.7, 3.0, 2.0])
"""Prior standard deviations of ln (l, b, b); of a further b too."""
_SIMPLE = np.array([3.0, 3.5, 3.5, -4.0])
"""Hyperparameters, in these, with which little but a quadratic log joint is likely: one is found exactly."""


Process = GradientProcess | DerivativeProcess | JointProcess | ValueProcess


@runtime_checkable
class Kind(Protocol):
    """A kind of process."""

    def targets(
        self, frame: Frame, whitened: np.ndarray, values: np.ndarray, gradients: np.ndarray
    ) -> np.ndarray:
        """(m, outputs), of f (m,) and grad f (m, D) at ``whitened`` (m, D)."""

    def fit(self, points: np.ndarray, targets: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """Logarithms of the hyperparameters, from where they were."""

    def process(self, points: np.ndarray, targets: np.ndarray, logs: np.ndarray) -> Process:
        """Given (m, D) points and their targets."""


@dataclass(frozen=True)
class OnGradients:
    """`gradient_process`.

    Parameters
    ----------
    jitter : > 0, on the diagonal of K / s^2
    prior_slope : C, the prior mean of y is c u: 0 for sticking-the-landing's, 1 for grad f = 0
    """

    jitter: float = JITTER
    prior_slope: float = 0.0

    def __post_init__(self) -> None:
        require_above("jitter", self.jitter, 0.0)
        require_at_least("prior_slope", self.prior_slope, 0.0)

    def targets(
        self, frame: Frame, whitened: np.ndarray, values: np.ndarray, gradients: np.ndarray
    ) -> np.ndarray:
        """Y = L^T grad f + u."""
        del values
        y: np.ndarray = gradients @ frame.scale + whitened
        return y

    def fit(self, points: np.ndarray, targets: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """Ln (l, b0, b1, b2), around l = 2 sqrt(D), b0 = b1 = 1 / 10 and b2 = 1 / (10 D)."""
        u = points[-MOST_POINTS:]
        y = targets[-MOST_POINTS:] - self.prior_slope * u
        directions = Directions.of(u, y)
        inner, distances = squared_distances(directions.scaled(u))
        components = (np.ones_like(inner), u @ u.T, 0.5 * inner * inner)
        noise = self.jitter * Doubts.of(u, y, directions).noise(u, y)
        evidence = Evidence(squared_exponential(distances), components, noise, y)
        d = u.shape[1]
        centre, spread = np.append(_centre(d), np.log(0.1 / d)), np.append(_SPREAD, 2.0)
        return most_likely(evidence, centre, spread, start, _SIMPLE)

    def process(self, points: np.ndarray, targets: np.ndarray, logs: np.ndarray) -> GradientProcess:
        """Given (m, D) points and Y."""
        directions = Directions.of(points, targets - self.prior_slope * points)
        lengthscale, constant, linear, quadratic = (float(x) for x in np.exp(logs))
        shape = Shape(lengthscale, constant, linear, quadratic, directions)
        return GradientProcess.of(points, targets, shape, self.jitter, self.prior_slope)


@dataclass(frozen=True)
class OnValues:
    """`value_process`."""

    def targets(
        self, frame: Frame, whitened: np.ndarray, values: np.ndarray, gradients: np.ndarray
    ) -> np.ndarray:
        """Psi = f + |u|^2 / 2."""
        del frame, gradients
        psi: np.ndarray = values + 0.5 * np.square(whitened).sum(1)
        return psi[:, None]

    def fit(self, points: np.ndarray, targets: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """Ln (l, b1, b2), around l = 2 sqrt(D) and b = 1 / 10."""
        u, psi = points[-MOST_POINTS:], targets[-MOST_POINTS:]
        inner, distances = squared_distances(u)
        noise = VALUE_JITTER * remoteness(u)
        evidence = Evidence(
            squared_exponential(distances), (inner, 0.5 * inner * inner), noise, psi, basis=np.ones(len(u))
        )
        return most_likely(evidence, _centre(u.shape[1]), _SPREAD, start, _SIMPLE[:3])

    def process(self, points: np.ndarray, targets: np.ndarray, logs: np.ndarray) -> ValueProcess:
        """Given (m, D) points and psi."""
        return ValueProcess(points, targets, ValueShape(*(float(x) for x in np.exp(logs))))


@dataclass(frozen=True)
class OnDerivatives:
    """`derivative_process`."""

    def targets(
        self, frame: Frame, whitened: np.ndarray, values: np.ndarray, gradients: np.ndarray
    ) -> np.ndarray:
        """Y = L^T grad f + u."""
        return OnGradients().targets(frame, whitened, values, gradients)

    def fit(self, points: np.ndarray, targets: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """Ln (l, b1, b2), around l = 2 sqrt(D) and b = 1 / 10; on no more than LARGEST_EVIDENCE numbers."""
        most = max(2, LARGEST_EVIDENCE // points.shape[1])
        u, y = points[-most:], targets[-most:]
        evidence = Evidence(
            lambda lengthscale: derivative_process.smooth_matrix(u, lengthscale),
            derivative_process.trend_matrices(u),
            derivative_process.noise(u),
            y.reshape(-1, 1),
        )
        return most_likely(evidence, _centre(u.shape[1]), _SPREAD, start, _SIMPLE[:3])

    def process(self, points: np.ndarray, targets: np.ndarray, logs: np.ndarray) -> DerivativeProcess:
        """Given (m, D) points and Y."""
        return DerivativeProcess(points, targets, ValueShape(*(float(x) for x in np.exp(logs))))


@dataclass(frozen=True)
class OnBoth:
    """`joint_process`."""

    def targets(
        self, frame: Frame, whitened: np.ndarray, values: np.ndarray, gradients: np.ndarray
    ) -> np.ndarray:
        """(psi, y), (m, 1 + D)."""
        psi = OnValues().targets(frame, whitened, values, gradients)
        return np.concatenate([psi, OnGradients().targets(frame, whitened, values, gradients)], 1)

    def fit(self, points: np.ndarray, targets: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        """Ln (l, b1, b2), around l = 2 sqrt(D) and b = 1 / 10; on no more than LARGEST_EVIDENCE numbers."""
        most = max(2, LARGEST_EVIDENCE // (1 + points.shape[1]))
        u, y = points[-most:], targets[-most:]
        evidence = Evidence(
            lambda lengthscale: joint_process.smooth_matrix(u, lengthscale),
            joint_process.trend_matrices(u),
            joint_process.noise(u),
            y.reshape(-1, 1),
            basis=joint_process.constant_basis(u),
        )
        return most_likely(evidence, _centre(u.shape[1]), _SPREAD, start, _SIMPLE[:3])

    def process(self, points: np.ndarray, targets: np.ndarray, logs: np.ndarray) -> JointProcess:
        """Given (m, D) points and (psi, y)."""
        return JointProcess(points, targets, ValueShape(*(float(x) for x in np.exp(logs))))


def _centre(dimension: int) -> np.ndarray:
    return np.log([2.0 * np.sqrt(dimension), 0.1, 0.1])
