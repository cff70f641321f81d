"""Sample paths that are functions: a weighted sum of random features, then a pathwise update.

A stationary kernel is the Fourier transform of its spectral density (Bochner), so with frequencies
w_j drawn from that density and phases from the uniform distribution,

    f(x) = sqrt(2 variance / F) sum_j a_j cos(w_j . x + b_j),   a_j ~ N(0, 1),

has mean zero and covariance k (Rahimi & Recht 2007). The spectral density of the squared
exponential is Gaussian, that of a Matern kernel a multivariate t, that of a rational quadratic a
Gaussian with a Gamma precision; the frequencies of a product of kernels add, the paths of a sum do, and
products of sums are multiplied out.
A periodic kernel is exp(-z) exp(z cos phi) in each dimension, z = 1 / lengthscale^2, phi = 2 pi (x - y) /
period: the characteristic function in phi of the difference of two Poisson variables of mean z / 2
(Skellam 1946), which therefore are its harmonics.
Linear and constant kernels need no approximation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from math import pi, sqrt
from typing import Any, Protocol

import numpy as np

from gp.arrays import Array, as_like, namespace, to_numpy
from gp.kernels.base import DifferentiableKernel, Kernel
from gp.kernels.composite import Columns, Product, Sum
from gp.kernels.matern import Matern12, Matern32, Matern52
from gp.kernels.periodic import Periodic
from gp.kernels.polynomial import Constant, Linear
from gp.kernels.rational_quadratic import RationalQuadratic
from gp.kernels.squared_exponential import SquaredExponential
from gp.kernels.stationary import Stationary
from gp.means import Mean
from gp.observations import Functional, Gradients, Values, covariance


class Component(Protocol):
    """A known function with its gradient."""

    def __call__(self, x: Array) -> Array:
        """Return f(x_i), (m,)."""
        ...

    def gradient(self, x: Array) -> Array:
        """Return df/dx, (m, D)."""
        ...


@dataclass(frozen=True, eq=False)
class Waves:
    """sum_j amplitude_j cos(frequency_j . x + phase_j); frequencies (F, D), the others (F,)."""

    frequencies: Array
    phases: Array
    amplitudes: Array

    def __call__(self, x: Array) -> Array:
        """Return f(x_i), (m,)."""
        return namespace(x).cos(x @ self.frequencies.T + self.phases) @ self.amplitudes

    def gradient(self, x: Array) -> Array:
        """Return df/dx, (m, D)."""
        slope = -namespace(x).sin(x @ self.frequencies.T + self.phases) * self.amplitudes
        return slope @ self.frequencies


@dataclass(frozen=True, eq=False)
class Plane:
    """intercept + slope . x; slope (D,)."""

    intercept: Array
    slope: Array

    def __call__(self, x: Array) -> Array:
        """Return f(x_i), (m,)."""
        return x @ self.slope + self.intercept

    def gradient(self, x: Array) -> Array:
        """Return the slope, (m, D)."""
        return namespace(x).ones_like(x) * self.slope


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
    components: tuple[Component, ...]
    kernel: Kernel
    observations: Functional | None = None
    weights: Array | None = None

    def __call__(self, x: Array) -> Array:
        """Return the path's values, (m,)."""
        value = sum((part(x) for part in self.components), self.mean_function(x))
        return value + self._update(Values(x))

    def gradient(self, x: Array) -> Array:
        """Return the path's gradient, (m, D). TypeError if the kernel has no derivatives."""
        if not isinstance(self.kernel, DifferentiableKernel):
            raise TypeError(f"{type(self.kernel).__name__} has no derivatives")
        parts = (part.gradient(x) for part in self.components)
        value = sum(parts, self.mean_function.gradient(x))
        update = self._update(Gradients(x))
        return value + (update if isinstance(update, float) else update.reshape(x.shape))

    def _update(self, at: Functional) -> Array:
        if self.observations is None:
            return 0.0
        return covariance(self.kernel, at, self.observations) @ self.weights

    def updated(self, observations: Functional, weights: Array) -> Path:
        """Return the path plus k(x, observations) weights."""
        return replace(self, observations=observations, weights=weights)


def draw_path(kernel: Kernel, mean: Mean, like: Array, n_features: int, rng: np.random.Generator) -> Path:
    """Draw a prior path for points of the kind and the number of columns of ``like``."""
    if n_features < 1:
        raise ValueError(f"n_features = {n_features}: give 1 or more")
    return Path(mean, _components(kernel, like, n_features, rng), kernel)


def _components(
    kernel: Kernel, like: Array, n_features: int, rng: np.random.Generator
) -> tuple[Component, ...]:
    terms = _terms(kernel)
    if len(terms) > 1:
        parts = (_components(term, like, n_features, rng) for term in terms)
        return tuple(component for part in parts for component in part)
    kernel, dimension = terms[0], like.shape[1]
    plane = _plane(kernel, dimension, rng)
    if plane is not None:
        return (Plane(as_like(plane[0], like), as_like(plane[1], like)),)
    frequencies, variance = _spectrum(kernel, dimension, n_features, rng)
    amplitudes = sqrt(2 * variance / n_features) * rng.standard_normal(n_features)
    phases = rng.uniform(0, 2 * pi, n_features)
    return (Waves(as_like(frequencies, like), as_like(phases, like), as_like(amplitudes, like)),)


def _terms(kernel: Kernel) -> tuple[Kernel, ...]:
    """Return kernels that add up to a kernel and are no sums: products of sums are multiplied out."""
    if isinstance(kernel, Sum):
        return tuple(inner for term in kernel.terms for inner in _terms(term))
    if isinstance(kernel, Columns):
        return tuple(Columns(term, kernel.columns) for term in _terms(kernel.kernel))
    if isinstance(kernel, Product):
        return tuple(
            Product(factors) if len(factors) > 1 else factors[0]
            for factors in product(*(_terms(factor) for factor in kernel.factors))
        )
    return (kernel,)


def _plane(kernel: Kernel, dimension: int, rng: np.random.Generator) -> tuple[Any, Any] | None:
    """Intercept and slope (D,) of a function drawn from a kernel of linear functions."""
    if isinstance(kernel, Constant):
        return sqrt(float(kernel.variance)) * rng.standard_normal(), np.zeros(dimension)
    if isinstance(kernel, Linear):
        slope = np.sqrt(to_numpy(kernel.variance)) * rng.standard_normal(dimension)
        return -np.sum(slope * to_numpy(kernel.offset)), slope
    if isinstance(kernel, Columns):
        inner = _plane(kernel.kernel, len(kernel.columns), rng)
        if inner is not None:
            slope = np.zeros(dimension)
            slope[list(kernel.columns)] = inner[1]
            return inner[0], slope
    return None


def _spectrum(kernel: Kernel, dimension: int, size: int, rng: np.random.Generator) -> tuple[Any, float]:
    """Frequencies (F, D) drawn from the spectral density of a kernel, and its variance."""
    if isinstance(kernel, Product):
        parts = [_spectrum(factor, dimension, size, rng) for factor in kernel.factors]
        return sum(part[0] for part in parts), float(np.prod([part[1] for part in parts]))
    if isinstance(kernel, Columns):
        inner, variance = _spectrum(kernel.kernel, len(kernel.columns), size, rng)
        frequencies = np.zeros((size, dimension))
        frequencies[:, list(kernel.columns)] = inner
        return frequencies, variance
    if isinstance(kernel, Constant):
        return np.zeros((size, dimension)), float(kernel.variance)
    if isinstance(kernel, Periodic):
        mean = np.broadcast_to(0.5 / to_numpy(kernel.lengthscale) ** 2, (size, dimension))
        harmonics = rng.poisson(mean) - rng.poisson(mean)
        return 2 * pi * harmonics / to_numpy(kernel.period), float(kernel.variance)
    for kind, precision in _PRECISIONS.items():
        if isinstance(kernel, kind) and isinstance(kernel, Stationary):
            normal = rng.standard_normal((size, dimension)) / to_numpy(kernel.lengthscale)
            scale = np.sqrt(precision(kernel, size, rng))[:, None]
            return normal * scale, float(kernel.variance)
    raise TypeError(
        f"{type(kernel).__name__} has no random features: sample paths are there for "
        f"{', '.join(kind.__name__ for kind in _PRECISIONS)}, Periodic, products of these, sums, and linear "
        "functions; `sample(x, n, seed)` draws from any kernel, at points known beforehand"
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
