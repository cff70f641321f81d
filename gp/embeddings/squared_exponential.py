"""The squared exponential kernel against Gaussians and mixtures of them, of any covariance.

With Lambda = diag(lengthscale^2), A = Lambda + Sigma, P = A^-1, a = P (x - m) for a component N(m, Sigma),

    z(x)      = variance |Lambda|^1/2 |A|^-1/2 exp(-(x - m)^T a / 2)
    dz/dx     = -z a
    dz/dm     = z a                          dz/dSigma = z (a a^T - P) / 2

and the double integral between N(m, Sigma) and N(m', Sigma') is z(m) for N(m', Sigma + Sigma'), because the
difference of the two Gaussians is one. A mixture is the weighted sum over its components; a
Gaussian is a mixture of one. All components are done at once, as arrays with a leading dimension K.

Lengths are divided by the lengthscales before A is factorised, and determinants are added up as logarithms,
so that nothing under- or overflows (O'Hagan 1991; Rasmussen & Ghahramani 2003).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gp.arrays import Array, as_like, namespace
from gp.embeddings.profiles import column_lengthscale, squared_exponential_profile
from gp.embeddings.registry import Formulas, Parameters, choose, embedding
from gp.embeddings.separable import product_by_column
from gp.kernels import SquaredExponential
from gp.linear_maps import cholesky, log_diagonal_sum, lower_inverse
from gp.measures import (
    Gaussian,
    GaussianMixture,
    GaussianParameters,
    Measure,
    MixtureParameters,
    Uniform,
)


@dataclass(frozen=True, eq=False)
class Bumps:
    """z(x) of N(means_k, covariances_k) for all k, and the arrays of its derivatives.

    Attributes
    ----------
    variance : (), lengthscale : (D,), means : (K, D), covariances : (K, D, D)
    """

    variance: Array
    lengthscale: Array
    means: Array
    covariances: Array

    @cached_property
    def _factor(self) -> Array:
        """Lower Cholesky factors of Lambda^-1/2 A Lambda^-1/2, (K, D, D)."""
        xp = namespace(self.means)
        scale = 1 / self.lengthscale
        eye = xp.eye(scale.shape[0], dtype=scale.dtype, device=scale.device)
        return cholesky("covariances", eye + scale[:, None] * self.covariances * scale)

    @cached_property
    def whitening(self) -> Array:
        """W with W^T W = P, (K, D, D)."""
        return lower_inverse(self._factor) / self.lengthscale

    @cached_property
    def precision(self) -> Array:
        """P, (K, D, D)."""
        return namespace(self.means).matrix_transpose(self.whitening) @ self.whitening

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return z, (K, n), and W (x - m), (K, n, D), for points x (n, D) or (K, n, D)."""
        xp = namespace(self.means)
        whitened = (x - self.means[:, None, :]) @ xp.matrix_transpose(self.whitening)
        exponent = -log_diagonal_sum(self._factor)[:, None] - 0.5 * xp.sum(whitened**2, axis=-1)
        return self.variance * xp.exp(exponent), whitened


def _bumps(kernel: SquaredExponential, means: Array, covariances: Array) -> Bumps:
    lengthscale = column_lengthscale(kernel, means[0, :])
    return Bumps(as_like(kernel.variance, means), lengthscale, means, covariances)


def _components(measure: Measure) -> tuple[Array, Array, Array]:
    """Weights (K,), means (K, D) and covariances (K, D, D) of a Gaussian or a mixture."""
    if isinstance(measure, Gaussian):
        one = namespace(measure.mean).ones_like(measure.mean[:1])
        return one, measure.mean[None, :], measure.covariance[None, :, :]
    assert isinstance(measure, GaussianMixture)  # the only other class it is called with
    return measure.weights, measure.means, measure.covariances


@embedding(SquaredExponential, Gaussian)
@embedding(SquaredExponential, GaussianMixture)
def _squared_exponential_gaussian(
    kernel: SquaredExponential, measure: Gaussian | GaussianMixture
) -> Formulas:
    """Return z, its derivatives and double integrals with Gaussians, mixtures and boxes."""
    weights, means, covariances = _components(measure)
    bumps = _bumps(kernel, means, covariances)

    def mean_gradient(x: Array) -> Array:
        z, whitened = bumps(x)
        return -namespace(x).sum((weights[:, None] * z)[:, :, None] * (whitened @ bumps.whitening), axis=0)

    def with_box(other: Uniform) -> Array:
        assert isinstance(measure, Gaussian)  # a mixture has a function of its own
        profile = squared_exponential_profile(kernel, measure.mean)
        return product_by_column(kernel, profile, measure).cross(other)

    known = {
        Gaussian: lambda other: _pairs(kernel, measure, other).total(),
        GaussianMixture: lambda other: _pairs(kernel, measure, other).total(),
    }
    if isinstance(measure, Gaussian) and measure.is_diagonal:
        known[Uniform] = with_box
    return Formulas(
        mean=lambda x: weights @ bumps(x)[0],
        cross=lambda other: choose(kernel, measure, other, known),
        mean_gradient=mean_gradient,
        pullback=lambda x, alpha, beta: _pullback(bumps, measure, x, alpha, beta),
        cross_gradient=lambda other: choose(
            kernel,
            measure,
            other,
            dict.fromkeys((Gaussian, GaussianMixture), lambda o: _pairs(kernel, measure, o).gradient()),
        ),
    )


def _named(measure: Measure, parts: tuple[Array, Array, Array]) -> Parameters:
    """Gradients (K, ...) of each component as those of the measure.

    ``parts`` are the gradients in the weights, and those of the component's own integral in its
    mean and covariance, which a mixture multiplies by the weight of the component.
    """
    if isinstance(measure, Gaussian):
        return GaussianParameters(*(part[0] for part in parts[1:]))
    assert isinstance(measure, GaussianMixture)  # the only other class it is called with
    w = measure.weights
    return MixtureParameters(parts[0], w[:, None] * parts[1], w[:, None, None] * parts[2])


def _pullback(bumps: Bumps, measure: Measure, x: Array, alpha: Array, beta: Array) -> Parameters:
    xp = namespace(x)
    z, whitened = bumps(x)
    a = whitened @ bumps.whitening  # (K, n, D)
    values = z * (alpha - xp.sum(beta * a, axis=-1))  # (K, n)
    slopes = z[..., None] * (beta @ bumps.precision)  # (K, n, D)
    means = xp.sum(values[..., None] * a + slopes, axis=1)
    half = xp.matrix_transpose(slopes) @ a
    covariances = (
        xp.matrix_transpose(a) @ (values[..., None] * a)
        - xp.sum(values, axis=1)[:, None, None] * bumps.precision
        + half
        + xp.matrix_transpose(half)
    ) / 2
    return _named(measure, (xp.sum(values, axis=1), means, covariances))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """All pairs of components of two measures, as integrals of K K' kernels at single points."""

    measure: Measure
    bumps: Bumps
    points: Array  # (K K', 1, D)
    weights: Array  # (K',), of the other measure

    def total(self) -> Array:
        """Return the double integral, ()."""
        z = self.bumps(self.points)[0].reshape(-1, self.weights.shape[0])
        return _components(self.measure)[0] @ z @ self.weights

    def gradient(self) -> Parameters:
        """Return its gradient in the first measure: the points move with its means."""
        xp = namespace(self.points)
        count, dimension = self.weights.shape[0], self.points.shape[-1]
        z, whitened = self.bumps(self.points)
        a = (whitened @ self.bumps.whitening)[:, 0, :]
        z = z.reshape(-1, count) * self.weights  # (K, K')
        outer = (a[:, :, None] * a[:, None, :] - self.bumps.precision).reshape(
            -1, count, dimension, dimension
        )
        means = -xp.sum(z[..., None] * a.reshape(-1, count, dimension), axis=1)
        covariances = xp.sum(z[..., None, None] * outer, axis=1) / 2
        return _named(self.measure, (xp.sum(z, axis=1), means, covariances))


def _pairs(kernel: SquaredExponential, measure: Measure, other: Measure) -> _Pairs:
    _, means, covariances = _components(measure)
    weights, other_means, other_covariances = _components(other)
    xp, dimension = namespace(means), means.shape[1]
    shape = (means.shape[0], other_means.shape[0], dimension)
    points = xp.broadcast_to(means[:, None, :], shape).reshape(-1, 1, dimension)
    centres = xp.broadcast_to(other_means, shape).reshape(-1, dimension)
    sums = (covariances[:, None] + other_covariances).reshape(-1, dimension, dimension)
    return _Pairs(measure, _bumps(kernel, centres, sums), points, weights)
