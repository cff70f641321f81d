"""Contract tests for measures and kernel embeddings, yours included.

A measure that passes :func:`check_measure` can be used everywhere in the package: its samples, its map from
the unit cube, its moments, its density, its marginals and its standard coordinates belong to one probability
measure. An embedding that passes :func:`check_embedding` is the integral of the kernel, with the derivatives
of that integral.

The oracles share nothing with the formulas under test: averages over the measure's map of randomly shifted
Sobol sets, with the spread between independent shifts as their error, and finite differences. A comparison
allows ``_SIGMAS`` standard errors of the mean of ``_REPLICATIONS`` shifts; of 300 calls with correct measures
and different seeds, none was refused. A log density that is off by .01 is refused in up to three dimensions,
in six it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gamma, log, pi
from typing import Any

import numpy as np
import torch
from scipy.special import stdtrit

from gp.embeddings import KernelEmbedding, embed
from gp.embeddings.embed import gradient_in_parameters
from gp.kernels import Kernel
from gp.low_discrepancy import sobol
from gp.measures import Measure
from gp.testing import central_difference, partials, require, require_close

_SIGMAS = 6.0
"""The number of standard errors that a comparison allows."""
_REPLICATIONS = 64
"""The number of shifts or samples from which a standard error is estimated."""
_POINTS = 2**8
"""Points for each shift or sample; a power of two, for which Sobol's sets are balanced."""


def check_measure(measure: Measure, *, has_density: bool = True, seed: int = 0) -> None:
    """Raise AssertionError, saying what is wrong, unless ``measure`` keeps the measure contract.

    Parameters
    ----------
    measure : the measure, with NumPy parameters; up to D = 6 or so.
    has_density : whether ``measure.log_density`` is checked; else it has to raise TypeError.
    seed : seed of the points it is tried with.
    """
    require(isinstance(measure, Measure), "it has to have all methods of gp.measures.Measure")
    _check_shapes(measure, seed)
    _check_moments(measure, seed)
    if has_density:
        _check_density(measure, seed)
    else:
        _check_no_density(measure)
    _check_marginals(measure, seed)
    _check_standard(measure, seed)


def check_embedding(kernel: Kernel, measure: Measure, *, seed: int = 0) -> None:
    """Raise AssertionError, saying what is wrong, unless the pair's embedding is the integral of the kernel.

    Parameters
    ----------
    kernel, measure : a pair with an embedding, NumPy parameters, up to D = 6 or so; lengths of the
        order of 1.
    seed : seed of the points it is tried with.
    """
    pair = embed(kernel, measure)
    x = measure.sample(3, seed) + np.random.default_rng(seed).normal(size=(3, measure.dimension))
    _check_integrals(pair, x, seed)
    numeric = partials(pair.mean, x, axis=1)
    require_close(pair.mean_gradient(x), numeric, 1e-7, "mean_gradient has to be the derivative of mean")
    _check_parameter_gradients(pair, x, np.random.default_rng(seed))


def _check_shapes(measure: Measure, seed: int) -> None:
    d, u = measure.dimension, np.random.default_rng(seed).random((7, measure.dimension))
    require(measure.mean.shape == (d,), "mean has to have shape (D,)")
    require(measure.covariance.shape == (d, d), "covariance has to have shape (D, D)")
    require(measure.sample(7, seed).shape == (7, d), "sample has to return (n, D)")
    require(measure.from_unit_cube(u).shape == (7, d), "from_unit_cube has to return (n, D)")
    first, again = measure.sample(7, seed), measure.sample(7, seed)
    require_close(first, again, 0.0, "the same seed has to give the same sample")
    copy = measure.with_parameters(measure.parameters())
    require_close(copy.sample(7, seed), first, 0.0, "with_parameters has to keep the measure")


def _check_moments(measure: Measure, seed: int) -> None:
    mean, covariance = measure.mean, measure.covariance

    def moments(x: Any) -> Any:
        centred = x - mean
        return np.concatenate([x.mean(0), (centred.T @ centred / len(x)).ravel()])

    wanted = np.concatenate([mean, covariance.ravel()])
    cube = [moments(points) for points in _drawn(measure, seed)]
    rng = np.random.default_rng(seed)
    drawn = [moments(measure.sample(_POINTS, rng)) for r in range(_REPLICATIONS)]
    for values, name in ((cube, "from_unit_cube"), (drawn, "sample")):
        _agree(values, wanted, f"mean and covariance have to be those of {name}")


def _check_density(measure: Measure, seed: int) -> None:
    """Compare weighted points of a heavy-tailed proposal with points of the measure."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=measure.dimension)
    direction /= np.sqrt(direction @ measure.covariance @ direction)

    def waves(x: Any) -> Any:
        t = (x - measure.mean) @ direction
        return np.stack([np.ones(len(x)), np.cos(t), np.sin(t)])

    own = np.array([waves(points).mean(1) for points in _drawn(measure, seed)])
    weighted = []
    for cube in _shifted(measure.dimension, 8 * _POINTS, rng):
        x, log_q = _student(measure, cube)
        values = measure.log_density(x)
        require(values.shape == (len(x),), "log_density has to return (n,)")
        weighted.append((waves(x) * np.exp(values - log_q)).mean(1))
    _agree(np.array(weighted) - own, np.zeros(3), "log_density has to be that of the points")


def _student(measure: Measure, cube: np.ndarray, freedom: int = 3) -> tuple[Any, Any]:
    """Points from the unit cube, with their log density, of D independent Students in whitened coordinates.

    The distribution is about twice as wide as the measure.
    """
    d, factor = measure.dimension, 2 * np.linalg.cholesky(measure.covariance)
    t = stdtrit(freedom, cube)
    constant = log(gamma((freedom + 1) / 2) / gamma(freedom / 2)) - log(freedom * pi) / 2
    log_q = d * constant - (freedom + 1) / 2 * np.log1p(t**2 / freedom).sum(1)
    return measure.mean + t @ factor.T, log_q - np.log(np.diag(factor)).sum()


def _check_no_density(measure: Measure) -> None:
    try:
        measure.log_density(measure.sample(1, 0))
    except TypeError:
        return
    raise AssertionError("log_density has to raise TypeError where there is no density")


def _check_marginals(measure: Measure, seed: int) -> None:
    columns = list(range(measure.dimension))[::-1][:2]
    marginal = measure.marginal(columns)
    message = f"marginal({columns}) has to have the moments of those columns"
    require(marginal.dimension == len(columns), message)
    require_close(marginal.mean, measure.mean[columns], 1e-12, message)
    require_close(marginal.covariance, measure.covariance[np.ix_(columns, columns)], 1e-12, message)

    def wave(x: Any) -> Any:
        return np.cos((x - marginal.mean) / np.sqrt(np.diag(marginal.covariance))).mean(0)

    own = [wave(points) for points in _drawn(marginal, seed)]
    whole = [wave(points[:, columns]) for points in _drawn(measure, seed + 1)]
    _agree(np.array(own) - np.array(whole), np.zeros(len(columns)), "marginal is another measure")


def _check_standard(measure: Measure, seed: int) -> None:
    standard = measure.standardise()
    d, x = measure.dimension, measure.sample(5, seed)
    back = standard.map.from_standard(standard.map.to_standard(x))
    require_close(back, x, 1e-12, "to_standard and from_standard have to be inverse to each other")
    require_close(standard.measure.mean, np.zeros(d), 1e-12, "standardise has to give a mean of zero")
    require_close(standard.measure.covariance, np.eye(d), 1e-12, "standardise has to give the covariance I")
    _, log_determinant = np.linalg.slogdet(standard.map.scale)
    require_close(standard.map.log_determinant, log_determinant, 1e-12, "log_determinant of the map")


def _check_integrals(pair: KernelEmbedding, x: Any, seed: int) -> None:
    z = pair.mean(x)
    require(z.shape == (len(x),), "mean has to return (n,)")
    require(np.shape(pair.double()) == (), "double has to return a number")
    sets = list(_drawn(pair.measure, seed))
    averages = [pair.kernel(x, points).mean(1) for points in sets]
    _agree(averages, z, "mean has to be the average of the kernel over the measure")
    doubles = [pair.mean(points).mean() for points in sets]
    _agree(doubles, pair.double(), "double has to be the average of mean over the measure")


def _check_parameter_gradients(pair: KernelEmbedding, x: Any, rng: np.random.Generator) -> None:
    measure, kernel = pair.measure, pair.kernel
    alpha, beta = rng.normal(size=len(x)), rng.normal(size=x.shape)
    points, weights, slopes = (torch.from_numpy(each) for each in (x, alpha, beta))

    def weighted(p: Measure) -> Any:
        part = embed(kernel, p)
        return weights @ part.mean(points) + (slopes * part.mean_gradient(points)).sum()

    pulled = gradient_in_parameters(weighted, measure)
    doubled = gradient_in_parameters(lambda p: embed(kernel, p).double(), measure)
    for index, name in enumerate(getattr(measure.parameters(), "_fields", measure.parameters())):
        direction = _direction(measure, index, rng)

        def along(step: Any, index: int = index, direction: Any = direction) -> KernelEmbedding:
            moved = list(measure.parameters())
            moved[index] = moved[index] + step * direction
            return embed(kernel, measure.with_parameters(moved))

        def total(step: Any, along: Any = along) -> Any:
            part = along(step)
            return alpha @ part.mean(x) + np.sum(beta * part.mean_gradient(x))

        for gradient, function, what in (
            (pulled[index], total, "the gradient"),
            (doubled[index], lambda s, along=along: along(s).double(), "the gradient of double"),
        ):
            inner = np.sum(gradient * direction, axis=tuple(range(-direction.ndim, 0)))
            numeric = central_difference(function, np.zeros(()), ())
            require_close(inner, numeric, 1e-7, f"{what} in {name} has to be the derivative")


def _direction(measure: Measure, index: int, rng: np.random.Generator) -> Any:
    """Return a random direction in which a parameter may move.

    As symmetric, diagonal or summing to one as the parameter is.
    """
    parameter = np.asarray(measure.parameters()[index])
    direction = rng.normal(size=parameter.shape)
    square = parameter.ndim > 1 and parameter.shape[-1] == parameter.shape[-2]
    if square and np.array_equal(parameter, np.swapaxes(parameter, -1, -2)):
        direction = (direction + np.swapaxes(direction, -1, -2)) * (parameter != 0)
    if parameter.ndim == 1 and np.all(parameter >= 0) and np.isclose(parameter.sum(), 1):
        direction = direction - direction.mean()
    # small beside the parameter, so that weights stay positive and covariances positive definite
    return direction * 0.05 * np.abs(parameter).max() / max(np.abs(direction).max(), 1e-300)


def _drawn(measure: Measure, seed: int) -> Any:
    """Points of the measure from independent random shifts of a Sobol set."""
    for cube in _shifted(measure.dimension, _POINTS, np.random.default_rng(seed)):
        yield measure.from_unit_cube(cube)


def _shifted(dimension: int, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Independent random shifts of a Sobol set, (count, D) each."""
    points = sobol(dimension, count)
    for _ in range(_REPLICATIONS):
        yield (points + rng.random(dimension)) % 1


def _agree(replications: Any, wanted: Any, message: str) -> None:
    values, wanted = np.asarray(replications), np.asarray(wanted)
    error = values.std(0, ddof=1) / np.sqrt(len(values))
    # an exact rule differs by rounding
    allowed = _SIGMAS * error + 1e-12 * np.maximum(1.0, np.abs(wanted))
    gap = np.abs(values.mean(0) - wanted)
    require(bool(np.all(gap <= allowed)), f"{message}: off by {np.max(gap):.3g}")
