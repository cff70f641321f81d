"""Hyperparameters by evidence, with weak log-normal priors, for kernels s^2 (SE_l + sum_j b_j C_j).

C_j are fixed matrices between the m points. With D outputs sharing K, the scale profiled out and, where asked
for, a constant too (its generalised least-squares value, taken off Y), s^2 = tr(Y^T K^-1 Y) / (m D), the
evidence is

    -(m D / 2) ln tr(Y^T K^-1 Y) - (D / 2) ln|K| + constant.

With alpha = K^-1 Y, v_i = (dK/dt_i) alpha for a log hyperparameter t_i, and Q = tr(Y^T alpha), minus it has

    gradient    tr((D K^-1 - alpha alpha^T / s^2) dK/dt_i) / 2
    curvature   (m D / 2) (tr(v_i^T K^-1 v_j) / Q - tr(alpha^T v_i) tr(alpha^T v_j) / Q^2)

The curvature is the average of the observed and the expected one (average information, Gilmour, Thompson and
Cullis 1995): it needs no product of m x m matrices, and is never negative. With the priors' added, Newton's
steps by it take some three evaluations from where the last fit ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gp.triangular import cholesky_inverse

ITERATIONS = 8
"""Most of Newton's steps. Fits are repeated as data come in, each from where the last one ended; even so,
with 3 steps four runs in forty on a hierarchical model lose their way."""
SETTLED = 0.15
"""Nats that the next step promises, below which there is none."""
PAID = 0.3
"""Nats that a step must have gained for another one."""
_LONGEST = 1.0
"""Most that a step changes a log hyperparameter."""
_HALVINGS = 5


@dataclass(frozen=True, eq=False)
class Local:
    """A function to be minimised, at a place."""

    value: float
    slope: np.ndarray
    """(P,)."""
    curvature: np.ndarray
    """(P, P), positive semi-definite; not the Hessian, but as good."""


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

    def negative(self, logs: np.ndarray) -> Local:
        """Minus the evidence at ln (l, b_1, ..); LinAlgError where K is singular in floating point."""
        m, d = self.targets.shape
        lengthscale, *sizes = np.exp(logs)
        gram, stretched = self.smooth(float(lengthscale))
        changes = [stretched, *(b * c for b, c in zip(sizes, self.components, strict=True))]
        for change in changes[1:]:
            gram += change
        np.einsum("ii->i", gram)[:] += self.noise
        factor, inverse = cholesky_inverse(gram)
        y = self.targets
        if self.basis is not None:
            pulled = inverse @ self.basis
            y = y - np.outer(self.basis, (pulled @ y) / (pulled @ self.basis))
        alpha = inverse @ y
        quadratic = float(np.vdot(y, alpha)) + 1e-300
        value = 0.5 * m * d * np.log(quadratic) + d * np.log(np.diagonal(factor)).sum()
        moved = [change @ alpha for change in changes]
        rising = np.array([np.vdot(alpha, v) for v in moved]) / quadratic
        volume = np.array([np.vdot(inverse, change) for change in changes])
        solved = inverse @ np.concatenate(moved, axis=1)
        apart = solved.reshape(m, len(moved), d).transpose(1, 0, 2).reshape(len(moved), -1)
        bend = np.array([v.reshape(-1) for v in moved]) @ apart.T / quadratic
        slope = 0.5 * (d * volume - m * d * rising)
        return Local(float(value), slope, 0.5 * m * d * (bend - np.outer(rising, rising)))


def most_likely(
    evidence: Evidence,
    centre: np.ndarray,
    spread: np.ndarray,
    start: np.ndarray | None,
    simple: np.ndarray | None = None,
) -> np.ndarray:
    """Ln (l, b_1, ..) a posteriori, under independent normal priors on them; a local maximum.

    Parameters
    ----------
    centre, spread : means and standard deviations of the priors
    start : where Newton's steps start, unless it is likelier at the centre; None: there, or where the
        components alone explain the data, ``simple`` spreads from there, if that is likelier
    """

    def objective(logs: np.ndarray) -> Local | None:
        try:
            found = evidence.negative(logs)
        except np.linalg.LinAlgError:
            return None
        gap = (logs - centre) / spread
        return Local(
            found.value + 0.5 * float(gap @ gap),
            found.slope + gap / spread,
            found.curvature + np.diag(1.0 / spread**2),
        )

    low, high = centre - 5.0 * spread, centre + 4.0 * spread
    logs = centre if start is None else start
    here = objective(logs)
    if start is not None:
        logs, here = _likelier(logs, here, centre, objective)
    elif simple is not None:
        logs, here = _likelier(logs, here, centre + simple * spread, objective)
    for _ in range(ITERATIONS):
        if here is None or not np.isfinite(here.value):
            break
        step = -np.linalg.solve(here.curvature, here.slope)
        if -0.5 * float(step @ here.slope) < SETTLED:
            break
        step *= min(1.0, _LONGEST / float(np.abs(step).max()))
        found = _lower(objective, here, logs, step, (low, high))
        if found is None:
            break
        gained, (logs, here) = here.value - found[1].value, found
        if gained < PAID:
            break
    return logs


def _likelier(
    logs: np.ndarray, here: Local | None, other: np.ndarray, objective: Callable[[np.ndarray], Local | None]
) -> tuple[np.ndarray, Local | None]:
    there = objective(other)
    if here is None or (there is not None and there.value < here.value):
        return other, there
    return logs, here


def _lower(
    objective: Callable[[np.ndarray], Local | None],
    here: Local,
    logs: np.ndarray,
    step: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, Local] | None:
    """The first place along ``step``, halved until it is lower; None if none is."""
    for _ in range(_HALVINGS):
        place = np.clip(logs + step, *bounds)
        found = objective(place)
        if found is not None and found.value < here.value:
            return place, found
        step = 0.5 * step
    return None


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
