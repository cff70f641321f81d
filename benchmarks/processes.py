"""Computations of which gp has two forms: each has to be faster than the other where it is used.

function_kernel   values and gradients of one squared exponential with trends, a pair of numbers at a time
directional       the same kernel for values and single derivatives, a row each
conditioned       products with the inverse of the Cholesky factor in the place of solves with it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import gp
from benchmarks.paired import Line, paired
from gp.conditioning import Conditioned, DirectionalKernel, FunctionKernel, Shown
from gp.conditioning.function_kernel import directional_gram, slope_rows, value_rows
from gp.fixed_points import gram_of
from gp.kernels import QuadraticTrend, SquaredExponential, Sum
from gp.observations import Gradients, Observations, Values

LENGTHSCALE, LINEAR, QUADRATIC = 1.5, 0.1, 0.05


def run() -> Iterator[Line]:
    """Covariances of 180 to 330 rows, a fit to 60 of them, and variances at 500 points."""
    for dimension, m in ((2, 60), (5, 30), (10, 30)):
        x = np.random.default_rng(0).standard_normal((m, dimension))
        what = f"covariances of {m} values and gradients, D = {dimension}: function_kernel over "
        yield _line(f"{what}gp.kernels", _function(x), _general(x), 0.5)
        yield _line(f"{what}directional", _function(x), _directional(x), 0.8)
    x = np.random.default_rng(1).standard_normal((30, 10))
    few = "a fit to 30 values and 30 derivatives, D = 10: directional over all derivatives by gp.kernels"
    yield _line(few, _fit_to_rows(x), _fit_to_all(x), 0.3)
    ours, general = _variances()
    yield _line(
        "variances at 500 points from 100 values, D = 5: conditioned over posterior", ours, general, 0.9
    )


def _line(what: str, ours: Callable[[], object], other: Callable[[], object], most: float) -> Line:
    seconds = paired({"ours": ours, "other": other}, rounds=40, calls=3).seconds
    mine, theirs = (1e6 * float(seconds[name].min()) for name in ("ours", "other"))
    measured = f"{mine / theirs:.2f} ({mine:.0f} of {theirs:.0f} microseconds)"
    return Line(what, measured, f"at most {most:g}", mine <= most * theirs)


def _function(x: np.ndarray) -> Callable[[], object]:
    kernel = FunctionKernel(LENGTHSCALE, LINEAR, QUADRATIC)
    places = kernel.at(x)
    return lambda: kernel.covariance(places, places)


def _sum() -> Sum:
    return Sum((SquaredExponential(LENGTHSCALE, LENGTHSCALE**2), QuadraticTrend(LINEAR, QUADRATIC)))


def _general(x: np.ndarray) -> Callable[[], object]:
    observed, kernel = Observations((Values(x), Gradients(x))), _sum()
    return lambda: gram_of(kernel, observed)(kernel)


def _directional(x: np.ndarray) -> Callable[[], object]:
    kernel = DirectionalKernel(LENGTHSCALE, LINEAR, QUADRATIC)
    places = kernel.at(np.concatenate([value_rows(x), slope_rows(x)]))
    return lambda: kernel.covariance(places, places)


def _fit_to_rows(x: np.ndarray) -> Callable[[], object]:
    """A matrix and its pull-back, as in a step of a search."""
    along = np.broadcast_to(np.full(x.shape[1], x.shape[1] ** -0.5), (len(x), 1, x.shape[1]))
    rows = np.concatenate([value_rows(x), slope_rows(x, along)])
    gram, psi, weights = (
        directional_gram(rows),
        np.log([LENGTHSCALE, LINEAR, QUADRATIC]),
        np.ones((len(rows),) * 2),
    )
    return lambda: gram(psi)[1](weights)


def _fit_to_all(x: np.ndarray) -> Callable[[], object]:
    observed, kernel = Observations((Values(x), Gradients(x))), _sum()
    gram, weights = gram_of(kernel, observed), np.ones((len(observed),) * 2)
    return lambda: gram(kernel)[1](weights)


def _variances() -> tuple[Callable[[], object], Callable[[], object]]:
    rng, kernel = np.random.default_rng(2), SquaredExponential(LENGTHSCALE, 1.0)
    x, y, new = rng.standard_normal((100, 5)), rng.standard_normal(100), rng.standard_normal((500, 5))
    posterior = gp.GaussianProcess(kernel, noise=1e-4).condition(x, y)
    observed = FunctionKernel(LENGTHSCALE, 0.0, 0.0, Shown(gradients=False))
    given = Conditioned.of(observed, x, y[:, None], lambda points: np.full(len(points), 1e-4))
    places, prior = observed.at(new), np.ones(len(new))
    return lambda: given.evidence.variances(
        prior, given.whitened_covariance(places)
    ), lambda: posterior.variance(new)
