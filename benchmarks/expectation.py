"""E_q of a Gaussian process with its gradient in q, beside the same formulas as bare NumPy.

The bare forms check no input and are for one kernel each, as an engine's own code would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import gp
from benchmarks.paired import Line, paired
from gp.expectation import AnovaSum, Quadratic, expectation
from gp.kernels import Anova
from gp.measures import Gaussian, GaussianMixture

DIMENSION = 5
LARGEST_RATIO = 1.3
MICROSECONDS = 100.0


def run() -> Iterator[Line]:
    """A posterior at m = 100 against the clock; posteriors and sums at m = 50, 200, K = 1, 20."""
    measured = _times(*_posterior(100, 1))
    yield Line(
        "E_q and its gradient, D = 5, m = 100",
        f"{1e6 * measured[0]:.0f} microseconds, {measured[0] / measured[1]:.2f} of bare NumPy",
        f"at most {MICROSECONDS:g}",
        1e6 * measured[0] <= MICROSECONDS,
    )
    for m in (50, 200):
        for count in (1, 20):
            yield _line(f"E_q, squared exponential, m = {m}, K = {count}", *_posterior(m, count))
            yield _line(f"E_q, analysis of variance, m = {m}, K = {count}", *_anova(m, count))


def _line(what: str, ours: Callable[[], object], bare: Callable[[], object]) -> Line:
    mine, theirs = _times(ours, bare)
    measured = f"{mine / theirs:.2f} ({1e6 * mine:.0f} of {1e6 * theirs:.0f} microseconds)"
    return Line(what, measured, f"at most {LARGEST_RATIO} of bare NumPy", mine <= LARGEST_RATIO * theirs)


def _times(ours: Callable[[], object], bare: Callable[[], object]) -> tuple[float, float]:
    """The least seconds of each, timed in turns, as other processes of the machine only add time."""
    found = paired({"ours": ours, "bare": bare}, rounds=60, calls=10).seconds
    return float(found["ours"].min()), float(found["bare"].min())


def _posterior(m: int, count: int) -> tuple[Callable[[], object], Callable[[], object]]:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((m, DIMENSION)), rng.standard_normal(m)
    process = gp.GaussianProcess(gp.kernels.SquaredExponential(1.5, 2.0), noise=1e-4)
    posterior = process.condition(x, y)
    means = 0.1 * rng.standard_normal((count, DIMENSION))
    covariances = np.repeat(0.3 * np.eye(DIMENSION)[None], count, axis=0)
    weights = np.full(count, 1.0 / count)
    q = Gaussian(means[0], covariances[0]) if count == 1 else GaussianMixture(weights, means, covariances)

    def bare() -> object:
        parts = [_gaussian(x, posterior.weights, m, s) for m, s in zip(means, covariances, strict=True)]
        return [np.array(part) for part in zip(*parts, strict=True)]

    return lambda: expectation(posterior, q), bare


def _gaussian(
    x: np.ndarray, weights: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """The formulas for a squared exponential of lengthscale 1.5 and variance 2."""
    total = covariance + 2.25 * np.eye(DIMENSION)
    precision = np.linalg.inv(total)
    gap = x - mean
    a = gap @ precision
    height = 2.0 * 1.5**DIMENSION / np.sqrt(np.linalg.det(total))
    z = height * np.exp(-0.5 * (gap * a).sum(1)) * weights
    return float(z.sum()), z @ a, 0.5 * ((a.T * z) @ a - z.sum() * precision)


def _anova(m: int, count: int) -> tuple[Callable[[], object], Callable[[], object]]:
    rng = np.random.default_rng(0)
    x, alpha = rng.standard_normal((m, DIMENSION)), rng.standard_normal(m)
    kernel = Anova(np.full(DIMENSION, 1.5), 0.7, 2.0)
    linear, curved = rng.standard_normal(DIMENSION), -np.eye(DIMENSION)
    psi = AnovaSum(x, kernel, Quadratic(0.0, linear, curved), alpha)
    means, variances = rng.standard_normal((count, DIMENSION)), rng.uniform(0.1, 1.0, (count, DIMENSION))
    l2, height = 2.25, float(kernel.height)

    def bare() -> object:
        spread = 1.0 / (l2 + variances.T)[:, :, None]
        gap = x.T[:, None, :] - means.T[:, :, None]
        a = gap * spread
        z = 0.7 * np.sqrt(l2 * spread) * np.exp(-0.5 * gap * a)
        p = height * np.prod(1.0 + z, axis=0) * alpha
        r = z / (1.0 + z)
        of_means = np.einsum("dkn,kn->kd", r * a, p)
        values = p.sum(1) - height * alpha.sum() + means @ linear + 0.5 * ((means @ curved) * means).sum(1)
        of_means += linear + means @ curved
        of_variances = np.einsum("dkn,kn->kd", 0.5 * r * (a * a - spread), p)
        bent = 0.5 * np.diag(curved)
        return values + variances @ bent, of_means, of_variances + bent

    return lambda: psi.integrate(means, variances), bare
