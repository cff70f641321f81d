"""What the log joint may be, given its process: draws of psi, and psi without each node.

A functional that is linear in psi has its posterior variance in closed form (`moment_covariance`). For others
there are functions to evaluate it on. A draw of the posterior is a draw h of the prior and what the process
makes of the observations less those of h (Matheron's rule; Wilson et al. 2020, "Efficiently sampling
functions from Gaussian process posteriors"),

    psi_s = h + sum_n k(., u_n) beta_n,      beta = P (observations - observations of h - noise),

where P is K^-1 less what the constant explains. Only h is approximate, by F random features (Rahimi and Recht
2007) that draws share, so that their covariance is right to 1 / sqrt(F):

    h(u) = s (sqrt(2 v / F) sum_j a_j cos(w_j . u + p_j) + sqrt(b1) g . u + sqrt(b2 / 2) u^T Z u)

with a, g, Z standard normal and w ~ N(0, I / l^2). Without node i the posterior mean's weights alpha are
alpha - P_i r_i (`jackknife`). Constants are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bqvi.gradients.derivative_process import DerivativeProcess
from bqvi.gradients.jackknife import block_residuals
from bqvi.gradients.joint_process import JointProcess
from bqvi.gradients.value_process import JITTER, ValueProcess
from bqvi.gradients.whitened import remoteness
from gp.expectation import KernelSum

FEATURES = 256
"""F."""

FunctionProcess = ValueProcess | DerivativeProcess | JointProcess


@dataclass(frozen=True, eq=False)
class Seen:
    """A function at M points."""

    values: np.ndarray
    """(M,)."""
    gradients: np.ndarray
    """(M, D)."""

    @classmethod
    def of(cls, psi: KernelSum, points: np.ndarray) -> Seen:
        """At (M, D) points."""
        return cls(psi(points), psi.gradient(points))

    def plus(self, other: Seen) -> Seen:
        """The sum of two."""
        return Seen(self.values + other.values, self.gradients + other.gradients)


@dataclass(frozen=True, eq=False)
class Waves:
    """cos(w_j . u + p_j) and its slope along w_j, at M points."""

    points: np.ndarray
    """U, (M, D)."""
    frequencies: np.ndarray
    """W, (F, D)."""
    cosines: np.ndarray
    """(M, F)."""
    slopes: np.ndarray
    """(M, F)."""

    @classmethod
    def at(cls, points: np.ndarray, frequencies: np.ndarray, phases: np.ndarray) -> Waves:
        """At (M, D) points."""
        angles = points @ frequencies.T + phases
        return cls(points, frequencies, np.cos(angles), -np.sin(angles))

    def sum(self, heights: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> Seen:
        """With heights (F,), and slope . u + u^T curvature u / 2 for (D,) and a symmetric (D, D)."""
        bent = self.points @ curvature
        return Seen(
            self.cosines @ heights + self.points @ slope + 0.5 * np.einsum("md,md->m", self.points, bent),
            self.slopes @ (heights[:, None] * self.frequencies) + slope + bent,
        )


def drawn(
    process: FunctionProcess, points: np.ndarray, count: int, rng: np.random.Generator
) -> Iterator[Seen]:
    """``count`` draws of psi at (M, D) points; O(M F D + w^2) each for w observed numbers, after O(w^3)."""
    shape, d, s = process.shape, process.points.shape[1], np.sqrt(process.scale)
    precision = process.precision()
    noise_sd = s * np.sqrt(JITTER * remoteness(process.points))[:, None]
    height = 1.0 if isinstance(process, ValueProcess) else shape.lengthscale**2
    frequencies = rng.standard_normal((FEATURES, d)) / shape.lengthscale
    phases = rng.uniform(0.0, 2.0 * np.pi, FEATURES)
    here, there = (Waves.at(u, frequencies, phases) for u in (process.points, points))
    for _ in range(count):
        square = rng.standard_normal((d, d))
        prior = (
            s * np.sqrt(2.0 * height / FEATURES) * rng.standard_normal(FEATURES),
            s * np.sqrt(shape.linear) * rng.standard_normal(d),
            s * np.sqrt(0.5 * shape.quadratic) * (square + square.T),
        )
        observed = _observed(process, here.sum(*prior))
        observed += noise_sd * rng.standard_normal(observed.shape)
        weights = precision @ (process.targets - observed).reshape(-1)
        update = process.function(weights.reshape(observed.shape))
        yield there.sum(*prior).plus(Seen.of(update, points))


def left_out(process: FunctionProcess) -> Iterator[KernelSum]:
    """The posterior mean of psi without each node in turn, the hyperparameters kept."""
    precision, shape = process.precision(), process.targets.shape
    weights = precision @ process.targets.reshape(-1)
    left = block_residuals(precision, weights.reshape(shape))
    rules = precision.reshape(-1, *shape)
    for i, residual in enumerate(left):
        yield process.function((weights - rules[:, i] @ residual).reshape(shape))


def _observed(process: FunctionProcess, psi: Seen) -> np.ndarray:
    """What the process observes of psi at its nodes, a new array."""
    if isinstance(process, DerivativeProcess):
        return psi.gradients.copy()
    values = psi.values[:, None]
    return values.copy() if isinstance(process, ValueProcess) else np.concatenate([values, psi.gradients], 1)
