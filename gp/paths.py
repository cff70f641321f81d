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

The path of a sum of kernels is the sum of their paths, and products of sums are multiplied out. There remain
products of factors, each a function of some columns. In such a product

- the frequencies of stationary and periodic factors add;
- a linear factor multiplies each wave by a linear function of its own, which is drawn from that
  factor: for independent h_j ~ GP(0, linear), E[a_j^2 h_j(x) h_j(y) cos cos] is the product;
- with a white factor the kernel vanishes between different points, so that the path has independent values,
  whose variance is the product of the other factors at equal points.

A linear or constant kernel alone needs no approximation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from math import pi, prod, sqrt
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from gp.arrays import Array, as_like, namespace, to_numpy
from gp.kernels.base import Differentiable, Kernel, differentiable
from gp.kernels.composite import Columns, Product, Sum
from gp.kernels.matern import Matern12, Matern32, Matern52
from gp.kernels.periodic import Periodic
from gp.kernels.polynomial import Constant, Linear
from gp.kernels.rational_quadratic import RationalQuadratic
from gp.kernels.squared_exponential import SquaredExponential
from gp.kernels.stationary import Stationary
from gp.kernels.white import White
from gp.means import Mean
from gp.observations import Functional, Gradients, Values, covariance

Factor: TypeAlias = tuple[Kernel, tuple[int, ...]]
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
        value = sum((part(x) for part in self.components), self.mean_function(x))
        return value + self._update(Values(x))

    def gradient(self, x: Array) -> Array:
        """Return the path's gradient, (m, D). TypeError if the kernel has no derivatives."""
        differentiable(self.kernel)
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
    white = [columns for kernel, columns in term if isinstance(kernel, White)]
    if white:
        key = int(rng.integers(2**63))
        return Noise(key, tuple(sorted(set(chain.from_iterable(white)))), term)
    linear = [factor for factor in term if isinstance(factor[0], Linear)]
    other = [factor for factor in term if not isinstance(factor[0], Linear)]
    if len(linear) < 2 and all(isinstance(kernel, Constant) for kernel, _ in other):
        return _plane(linear, other, like, rng)
    spectra = [_spectrum(kernel, columns, dimension, n_features, rng) for kernel, columns in other]
    frequencies = sum((part for part, _ in spectra), np.zeros((n_features, dimension)))
    variance = prod(part for _, part in spectra)
    amplitudes = sqrt(2 * variance / n_features) * rng.standard_normal(n_features)
    phases = rng.uniform(0, 2 * pi, n_features)
    drawn = [_linear(kernel, columns, dimension, n_features, rng) for kernel, columns in linear]
    planes = tuple(Planes(as_like(intercepts, like), as_like(slopes, like)) for intercepts, slopes in drawn)
    return CosineSum(as_like(frequencies, like), as_like(phases, like), as_like(amplitudes, like), planes)


def _plane(
    linear: Sequence[Factor], constant: Sequence[tuple[Any, Any]], like: Array, rng: np.random.Generator
) -> Plane:
    """Draw from a constant kernel, or a linear one times constants."""
    dimension = like.shape[1]
    size = sqrt(float(np.prod([float(kernel.variance) for kernel, _ in constant])))
    if not linear:
        return Plane(size * rng.standard_normal(), as_like(np.zeros(dimension), like))
    intercept, slope = _linear(*linear[0], dimension, 1, rng)
    return Plane(size * float(intercept[0]), as_like(size * slope[0], like))


def _linear(
    kernel: Any, columns: tuple[int, ...], dimension: int, size: int, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Intercepts (F,) and slopes (F, D) of functions drawn from a linear kernel."""
    inner = np.sqrt(to_numpy(kernel.variance)) * rng.standard_normal((size, len(columns)))
    slopes = np.zeros((size, dimension))
    slopes[:, list(columns)] = inner
    return -np.sum(inner * to_numpy(kernel.offset), axis=1), slopes


def _spectrum(
    kernel: Any, columns: tuple[int, ...], dimension: int, size: int, rng: np.random.Generator
) -> tuple[Any, float]:
    """Frequencies (F, D) drawn from the spectral density of a kernel, and its variance."""
    frequencies = np.zeros((size, dimension))
    if not isinstance(kernel, Constant):
        frequencies[:, list(columns)] = _frequencies(kernel, (size, len(columns)), rng)
    return frequencies, float(kernel.variance)


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
        f"{type(kernel).__name__} has no random features: sample paths are there for the kernels of "
        "gp.kernels, their sums, products and restrictions to columns; `sample(x, n, seed)` draws from "
        "any kernel, at points known beforehand"
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
class Plane:
    """intercept + slope . x; slope (D,)."""

    intercept: Array
    slope: Array

    def __call__(self, x: Array) -> Array:
        return x @ self.slope + self.intercept

    def gradient(self, x: Array) -> Array:
        return namespace(x).ones_like(x) * self.slope


@dataclass(frozen=True, eq=False)
class Planes:
    """F linear functions, intercept_j + slope_j . x; slopes (F, D), intercepts (F,)."""

    intercepts: Array
    slopes: Array

    def __call__(self, x: Array) -> Array:
        return x @ self.slopes.T + self.intercepts


@dataclass(frozen=True, eq=False)
class CosineSum:
    """sum_j amplitude_j cos(frequency_j . x + phase_j) prod_l plane_lj(x).

    Attributes
    ----------
    frequencies : (F, D). phases, amplitudes : (F,). planes : of F functions each; there may be none.
    """

    frequencies: Array
    phases: Array
    amplitudes: Array
    planes: tuple[Planes, ...] = ()

    def __call__(self, x: Array) -> Array:
        waves = namespace(x).cos(self._angle(x))
        return prod((plane(x) for plane in self.planes), start=waves) @ self.amplitudes

    def gradient(self, x: Array) -> Array:
        xp, angle = namespace(x), self._angle(x)
        factors = [xp.cos(angle), *(plane(x) for plane in self.planes)]
        slope = (-xp.sin(angle) * self._without(0, factors)) @ self.frequencies
        for place, plane in enumerate(self.planes, start=1):
            slope = slope + self._without(place, factors) @ plane.slopes
        return slope

    def _angle(self, x: Array) -> Array:
        return x @ self.frequencies.T + self.phases

    def _without(self, place: int, factors: Sequence[Array]) -> Array:
        """Return the amplitudes times all factors but one, (F,) or (m, F)."""
        return prod((*factors[:place], *factors[place + 1 :]), start=self.amplitudes)


@dataclass(frozen=True, eq=False)
class Noise:
    """sd(x) e(x), e(x) a standard normal number for each point, independent of those of all others.

    e(x) is computed from the digits of the point and a key by a pseudorandom function (the finaliser of
    SplitMix64; Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators", Sec. 4.1), as
    numbers cannot be stored for all points. The same point has the same number in single and in double
    precision.

    Attributes
    ----------
    key : a whole number. columns : the columns of x of which e is a function.
    factors : kernels and their columns, whose product at (x, x) is sd^2.
    """

    key: int
    columns: tuple[int, ...]
    factors: tuple[tuple[Kernel, tuple[int, ...]], ...]

    def __call__(self, x: Array) -> Array:
        variance = prod(kernel.diagonal(x[:, list(columns)]) for kernel, columns in self.factors)
        normal = _standard_normal_of(to_numpy(x)[:, list(self.columns)], self.key)
        return namespace(x).sqrt(variance) * as_like(normal, x)

    def gradient(self, x: Array) -> Array:
        raise TypeError("White has no derivatives: its paths are continuous nowhere")


def _standard_normal_of(x: Array, key: int) -> Any:
    """Return a standard normal number for each point x (m, D), (m,): equal points have equal numbers."""
    bits = (np.asarray(x, dtype=np.float64) + 0.0).view(np.uint64)  # adding 0 makes minus zero zero
    hashed = np.full(len(bits), key, dtype=np.uint64)
    for column in bits.T:
        hashed = _mixed((hashed ^ column) + _GOLDEN)
    uniform = ((hashed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return ndtri(uniform)


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio, the increment of SplitMix64 (Steele, Lea and Flood, 2014)."""


def _mixed(bits: Array) -> Any:
    """Return a bijection of 64 bits in which each bit depends on every given bit."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
