"""Sample paths as functions: a weighted sum of random features, then a pathwise update.

A stationary kernel is the Fourier transform of its spectral density (Bochner), so with frequencies
w_j drawn from that density and phases from the uniform distribution,

    f(x) = sqrt(2 variance / F) sum_j a_j cos(w_j . x + b_j),   a_j ~ N(0, 1),

has mean zero and covariance k (Rahimi & Recht 2007). The spectral density of the squared
exponential is Gaussian, that of a Matern kernel a multivariate t, that of a rational quadratic a
Gaussian with a Gamma precision.
A periodic kernel is exp(-z) exp(z cos phi) in each dimension, z = 1 / lengthscale^2, phi = 2 pi (x - y) /
period: the characteristic function in phi of the difference of two Poisson variables of mean z / 2
(Skellam 1946), which therefore are its harmonics.

The path of a sum of kernels is the sum of their paths; products of sums are multiplied out, and in a product
of factors, each a function of some columns, their frequencies add.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import pi, sqrt
from typing import Any, TypeAlias

import numpy as np

from gp import means
from gp.arrays import Array, as_like, namespace, to_numpy
from gp.kernels.base import Differentiable, Kernel, differentiable
from gp.kernels.composite import Columns, Product, Sum
from gp.kernels.periodic import Periodic
from gp.kernels.polynomial import Constant, Linear
from gp.kernels.stationary import (
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)
from gp.means import Mean
from gp.observations import Functional, Gradients, Values, covariance, require_same_space

Factor: TypeAlias = tuple[Any, tuple[int, ...]]
"""A kernel that is not composite, and the columns of which it is a function."""


@dataclass(frozen=True, eq=False)
class Path:
    """One function drawn from a Gaussian process: ``path(x)`` at points (m, D) gives (m,).

    Attributes
    ----------
    mean_function : the prior mean.
    components : the random part of the prior path.
    kernel, observations, weights : the update k(x, observations) weights; none for a prior path.
    """

    mean_function: Mean
    components: tuple[Differentiable, ...]
    kernel: Kernel
    observations: Functional | None = None
    weights: Array | None = None

    def __call__(self, x: Array) -> Array:
        at = Values(x)
        update = self._update(at)
        return sum((part(at.x) for part in self.components), self.mean_function(at.x)) + update

    def gradient(self, x: Array) -> Array:
        """Return the path's gradient, (m, D). TypeError if the kernel has no derivatives."""
        differentiable(self.kernel)
        at = Gradients(x)
        update = self._update(at)
        parts = (part.gradient(at.x) for part in self.components)
        value = sum(parts, self.mean_function.gradient(at.x))
        return value + (update if isinstance(update, float) else update.reshape(at.x.shape))

    def _update(self, at: Functional) -> Array:
        if self.observations is None:
            return 0.0
        require_same_space("x", at, "the observations' x", self.observations)
        return covariance(self.kernel, at, self.observations) @ self.weights


def draw_path(kernel: Kernel, mean: Mean, like: Array, n_features: int, rng: np.random.Generator) -> Path:
    """Draw a prior path for points of the kind and the number of columns of ``like``.

    Parameters
    ----------
    kernel, mean : those of the prior. like : points (m, D), of any number.
    n_features : the number of random features. rng : the generator of random numbers.
    """
    if n_features < 1:
        raise ValueError(f"n_features = {n_features}: give 1 or more")
    terms = _terms(kernel, tuple(range(like.shape[1])))
    return Path(mean, tuple(_component(term, like, n_features, rng) for term in terms), kernel)


def _terms(kernel: Kernel, columns: tuple[int, ...]) -> tuple[tuple[Factor, ...], ...]:
    """Return products of factors that add up to a kernel: products of sums are multiplied out."""
    if isinstance(kernel, Sum):
        return tuple(chain.from_iterable(_terms(term, columns) for term in kernel.terms))
    if isinstance(kernel, Product):
        parts = product(*(_terms(factor, columns) for factor in kernel.factors))
        return tuple(tuple(chain.from_iterable(part)) for part in parts)
    if isinstance(kernel, Columns):
        if max(kernel.columns) >= len(columns):
            raise ValueError(
                f"the points have {len(columns)} columns, the kernel reads columns {kernel.columns}"
            )
        return _terms(kernel.kernel, tuple(columns[column] for column in kernel.columns))
    return (((kernel, columns),),)


def _component(
    term: tuple[Factor, ...], like: Array, n_features: int, rng: np.random.Generator
) -> Differentiable:
    """Draw a function from a product of factors."""
    dimension = like.shape[1]
    linear = [factor for factor in term if isinstance(factor[0], Linear)]
    other = [factor for factor in term if not isinstance(factor[0], Linear)]
    if len(linear) < 2 and all(isinstance(kernel, Constant) for kernel, _ in other):
        return _plane(linear, other, like, rng)
    frequencies, variance = np.zeros((n_features, dimension)), 1.0
    for kernel, columns in term:
        if not isinstance(kernel, Constant):
            frequencies[:, list(columns)] += _frequencies(kernel, (n_features, len(columns)), rng)
        variance *= float(kernel.variance)
    amplitudes = sqrt(2 * variance / n_features) * rng.standard_normal(n_features)
    phases = rng.uniform(0, 2 * pi, n_features)
    return _CosineSum(as_like(frequencies, like), as_like(phases, like), as_like(amplitudes, like))


def _plane(
    linear: Sequence[tuple[Any, tuple[int, ...]]],
    constant: Sequence[tuple[Any, Any]],
    like: Array,
    rng: np.random.Generator,
) -> means.Linear:
    """Draw from a constant kernel, or a linear one times constants."""
    dimension = like.shape[1]
    size = sqrt(float(np.prod([float(kernel.variance) for kernel, _ in constant])))
    if not linear:
        return means.Linear(size * rng.standard_normal(), as_like(np.zeros(dimension), like))
    kernel, columns = linear[0]
    inner = size * np.sqrt(to_numpy(kernel.variance)) * rng.standard_normal(len(columns))
    slope = np.zeros(dimension)
    slope[list(columns)] = inner
    return means.Linear(-float(np.sum(inner * to_numpy(kernel.offset))), as_like(slope, like))


def _frequencies(kernel: Kernel, shape: tuple[int, int], rng: np.random.Generator) -> Any:
    """Frequencies in the columns that a kernel depends on."""
    if isinstance(kernel, Periodic):
        mean = np.broadcast_to(0.5 / to_numpy(kernel.lengthscale) ** 2, shape)
        harmonics = rng.poisson(mean) - rng.poisson(mean)
        return 2 * pi * harmonics / to_numpy(kernel.period)
    for kind, precision in _PRECISIONS.items():
        if isinstance(kernel, kind) and isinstance(kernel, Stationary):
            normal = rng.standard_normal(shape) / to_numpy(kernel.lengthscale)
            return normal * np.sqrt(precision(kernel, shape[0], rng))[:, None]
    raise TypeError(
        f"{type(kernel).__name__} has no random features in a product: there are sample paths of stationary, "
        "periodic and constant kernels, their products, linear kernels, sums and restrictions of these; "
        "`sample(x, n, seed)` draws from any kernel, at points known beforehand"
    )


def _student(degrees: int) -> Callable[[Any, int, np.random.Generator], Any]:
    return lambda kernel, size, rng: degrees / rng.chisquare(degrees, size)


_PRECISIONS: dict[type, Callable[[Any, int, np.random.Generator], Any]] = {
    SquaredExponential: lambda kernel, size, rng: np.ones(size),
    Matern12: _student(1),
    Matern32: _student(3),
    Matern52: _student(5),
    RationalQuadratic: lambda kernel, size, rng: rng.gamma(
        float(kernel.alpha), 1 / float(kernel.alpha), size
    ),
}
"""Squared scale of the Gaussian frequencies, lengthscale apart, of the stationary kernels."""


@dataclass(frozen=True, eq=False)
class _CosineSum:
    """sum_j amplitude_j cos(frequency_j . x + phase_j); frequencies (F, D), phases and amplitudes (F,)."""

    frequencies: Array
    phases: Array
    amplitudes: Array

    def __call__(self, x: Array) -> Array:
        return namespace(x).cos(x @ self.frequencies.T + self.phases) @ self.amplitudes

    def gradient(self, x: Array) -> Array:
        sines = namespace(x).sin(x @ self.frequencies.T + self.phases)
        return (-sines * self.amplitudes) @ self.frequencies
