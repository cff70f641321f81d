"""Hyperparameters by evidence, under log-normal priors, for kernels s^2 (SE_l + sum_j b_j C_j).

C_j are fixed matrices between the n rows. With O outputs sharing K, the scale profiled out and, where there
is one, a constant too (`gp.conditioning.conditioned`), s^2 = tr(Y^T K^-1 Y) / (n O), the evidence is

    -(n O / 2) ln tr(Y^T K^-1 Y) - (O / 2) ln|K| + constant.

With alpha = K^-1 Y, v_i = (dK/dt_i) alpha for a log hyperparameter t_i, and Q = tr(Y^T alpha), minus the
evidence has the

    gradient    tr((O K^-1 - alpha alpha^T / s^2) dK/dt_i) / 2
    curvature   (n O / 2) (tr(v_i^T K^-1 v_j) / Q - tr(alpha^T v_i) tr(alpha^T v_j) / Q^2)

The curvature is the average of the observed and the expected one (average information, Gilmour, Thompson
and Cullis 1995): it needs no product of n x n matrices, and is never negative. With those of the priors
added, Newton steps by it take some three evaluations from where the last fit ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bqvi.gradients.settings import SEARCH
from gp.conditioning.function_kernel import Smooth
from gp.triangular import cholesky_inverse


@dataclass(frozen=True, eq=False)
class LogNormal:
    """Independent log-normal priors on P hyperparameters.

    Parameters
    ----------
    centre, spread : means and standard deviations of the logarithms, (P,)
    """

    centre: np.ndarray
    spread: np.ndarray


@dataclass(frozen=True, eq=False)
class Expansion:
    """A function to be minimised, to second order at one point."""

    value: float
    slope: np.ndarray
    """(P,)."""
    curvature: np.ndarray
    """(P, P), positive semi-definite; not the Hessian, but as good."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The data of one fit."""

    smooth: Smooth
    """The squared exponential as the lengthscale changes, and its derivative in ln l."""
    components: Sequence[np.ndarray]
    """C_j, (n, n) each."""
    noise: np.ndarray
    """Diagonal that is added to K / s^2, (n,)."""
    targets: np.ndarray
    """Targets Y, (n, O)."""
    basis: np.ndarray | None = None
    """What an unknown constant adds to each row of Y, (n,); None for a mean of zero."""

    def negative(self, logs: np.ndarray) -> Expansion:
        """Minus the evidence at ln (l, b_1, ..); LinAlgError where K is singular in floating point."""
        n, outputs = self.targets.shape
        lengthscale, *sizes = np.exp(logs)
        gram, stretched = self.smooth(float(lengthscale))
        changes = [stretched, *(b * c for b, c in zip(sizes, self.components, strict=True))]
        for change in changes[1:]:
            gram += change
        np.einsum("ii->i", gram)[:] += self.noise
        factor, inverse = cholesky_inverse(gram)
        y = self._less_constant(inverse)
        alpha = inverse @ y
        quadratic = float(np.vdot(y, alpha)) + 1e-300
        value = 0.5 * n * outputs * np.log(quadratic) + outputs * np.log(np.diagonal(factor)).sum()
        v = [change @ alpha for change in changes]
        rising = np.array([np.vdot(alpha, each) for each in v]) / quadratic
        volume = np.array([np.vdot(inverse, change) for change in changes])
        solved = inverse @ np.concatenate(v, axis=1)
        apart = solved.reshape(n, len(v), outputs).transpose(1, 0, 2).reshape(len(v), -1)
        bend = np.array([each.reshape(-1) for each in v]) @ apart.T / quadratic
        slope = 0.5 * (outputs * volume - n * outputs * rising)
        return Expansion(float(value), slope, 0.5 * n * outputs * (bend - np.outer(rising, rising)))

    def _less_constant(self, inverse: np.ndarray) -> np.ndarray:
        """Y less what the constant adds, which is fitted by generalised least squares."""
        if self.basis is None:
            return self.targets
        pulled = inverse @ self.basis
        return self.targets - np.outer(self.basis, (pulled @ self.targets) / (pulled @ self.basis))

    def posterior(self, prior: LogNormal, logs: np.ndarray) -> Expansion | None:
        """Minus the logarithm of evidence times prior; None where K is singular."""
        try:
            found = self.negative(logs)
        except np.linalg.LinAlgError:
            return None
        gap = (logs - prior.centre) / prior.spread
        return Expansion(
            found.value + 0.5 * float(gap @ gap),
            found.slope + gap / prior.spread,
            found.curvature + np.diag(1.0 / prior.spread**2),
        )


def most_likely(evidence: Evidence, prior: LogNormal, starts: Sequence[np.ndarray]) -> np.ndarray:
    """ln (l, b_1, ..) a posteriori, (P,): a local maximum, by Newton steps from the best of ``starts``."""

    def objective(logs: np.ndarray) -> Expansion | None:
        return evidence.posterior(prior, logs)

    bounds = prior.centre - 5.0 * prior.spread, prior.centre + 4.0 * prior.spread
    logs, now = starts[0], objective(starts[0])
    for other in starts[1:]:
        found = objective(other)
        if now is None or (found is not None and found.value < now.value):
            logs, now = other, found
    for _ in range(SEARCH.iterations):
        if now is None or not np.isfinite(now.value):
            break
        step = -np.linalg.solve(now.curvature, now.slope)
        if -0.5 * float(step @ now.slope) < SEARCH.settled:
            break
        step *= min(1.0, SEARCH.longest / float(np.abs(step).max()))
        lower = _lower(objective, now, logs, step, bounds)
        if lower is None:
            break
        gained, (logs, now) = now.value - lower[1].value, lower
        if gained < SEARCH.gained:
            break
    return logs


def _lower(
    objective: Callable[[np.ndarray], Expansion | None],
    now: Expansion,
    logs: np.ndarray,
    step: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, Expansion] | None:
    """The first point along ``step``, halved until it is lower; None if none is."""
    for _ in range(SEARCH.halvings):
        at = np.clip(logs + step, *bounds)
        found = objective(at)
        if found is not None and found.value < now.value:
            return at, found
        step = 0.5 * step
    return None
