"""Hyperparameters by evidence, with weak log-normal priors, for kernels s^2 (SE_l + sum_j b_j C_j).

C_j are fixed matrices between the m points. With D outputs sharing K, the scale profiled out and, where asked
for, a constant too (its generalised least-squares value, taken off Y), s^2 = tr(Y^T K^-1 Y) / (m D), the
evidence is

    -(m D / 2) ln tr(Y^T K^-1 Y) - (D / 2) ln|K| + constant,

and its gradient in a log hyperparameter t is tr((alpha alpha^T / s^2 - D K^-1) dK/dt) / 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from bqvi.quadrature.positive_definite import cholesky_inverse

ITERATIONS = 15
"""Of L-BFGS; fits are repeated as data come in, each from where the last one ended."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The data of one fit."""

    smooth: Callable[[float], tuple[np.ndarray, np.ndarray]]
    """SE at lengthscale l, and its derivative in ln l."""
    components: Sequence[np.ndarray]
    """C_j, (m, m) each."""
    noise: np.ndarray
    """What is added to the diagonal of K / s^2, (m,)."""
    targets: np.ndarray
    """Y, (m, D)."""
    basis: np.ndarray | None = None
    """What an unknown constant adds to each row of Y, (m,); None for a mean of zero."""

    def negative(self, logs: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the evidence at ln (l, b_1, ..), and its gradient."""
        m, d = self.targets.shape
        lengthscale, *sizes = np.exp(logs)
        smooth, stretched = self.smooth(float(lengthscale))
        gram = smooth + sum(b * c for b, c in zip(sizes, self.components, strict=True))
        np.einsum("ii->i", gram)[:] += self.noise
        factor, inverse = cholesky_inverse(gram)
        y = self.targets
        if self.basis is not None:
            pulled = inverse @ self.basis
            y = y - np.outer(self.basis, (pulled @ y) / (pulled @ self.basis))
        alpha = inverse @ y
        quadratic = float(np.vdot(y, alpha)) + 1e-300
        value = 0.5 * m * d * np.log(quadratic) + d * np.log(np.diagonal(factor)).sum()
        sensitivity = d * inverse - (m * d / quadratic) * (alpha @ alpha.T)
        slopes = [np.vdot(sensitivity, stretched)]
        slopes += [b * np.vdot(sensitivity, c) for b, c in zip(sizes, self.components, strict=True)]
        return float(value), 0.5 * np.array(slopes)


def most_likely(
    evidence: Evidence, centre: np.ndarray, spread: np.ndarray, start: np.ndarray | None
) -> np.ndarray:
    """Ln (l, b_1, ..) a posteriori, under independent normal priors on them."""

    def objective(logs: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = evidence.negative(logs)
        gap = (logs - centre) / spread
        return value + 0.5 * gap @ gap, slope + gap / spread

    found = scipy.optimize.minimize(
        objective,
        centre if start is None else start,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(centre - 5.0 * spread, centre + 4.0 * spread, strict=True)),
        options={"maxiter": ITERATIONS},
    )
    logs: np.ndarray = found.x
    return logs


def squared_distances(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m, m) inner products and squared distances of (m, D) points."""
    inner = points @ points.T
    squares = np.diagonal(inner)
    return inner, np.maximum(squares[:, None] + squares[None, :] - 2.0 * inner, 0.0)


def squared_exponential(distances: np.ndarray) -> Callable[[float], tuple[np.ndarray, np.ndarray]]:
    """Of the lengthscale: exp(-distances / (2 l^2)), and its derivative in ln l."""

    def smooth(lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
        scaled = distances / lengthscale**2
        kernel = np.exp(-0.5 * scaled)
        return kernel, kernel * scaled

    return smooth
