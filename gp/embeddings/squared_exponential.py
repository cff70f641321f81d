"""The squared exponential kernel against Gaussians and mixtures of them, of any covariance.

With Lambda = diag(lengthscale^2), A = Lambda + Sigma, P = A^-1, a = P (x - m) for a component N(m, Sigma),

    z(x)      = variance |Lambda|^1/2 |A|^-1/2 exp(-(x - m)^T a / 2),         dz/dx = -z a

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
from gp.embeddings.embed import Formulas, choose, embedding
from gp.embeddings.separable import column_lengthscale
from gp.kernels import SquaredExponential
from gp.matrices import log_diagonal_sum, lower_inverse, named_cholesky
from gp.measures import Gaussian, GaussianMixture, Measure


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
        return named_cholesky("covariances", eye + scale[:, None] * self.covariances * scale)

    @cached_property
    def whitening(self) -> Array:
        """W with W^T W = P, (K, D, D)."""
        return lower_inverse(self._factor) / self.lengthscale

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
    """Return z, its derivatives and double integrals with Gaussians and mixtures."""
    weights, means, covariances = _components(measure)
    bumps = _bumps(kernel, means, covariances)

    def mean_gradient(x: Array) -> Array:
        z, whitened = bumps(x)
        return -namespace(x).sum((weights[:, None] * z)[:, :, None] * (whitened @ bumps.whitening), axis=0)

    known = dict.fromkeys((Gaussian, GaussianMixture), lambda other: _double(kernel, measure, other))
    return Formulas(
        mean=lambda x: weights @ bumps(x)[0],
        cross=lambda other: choose(kernel, measure, other, known),
        mean_gradient=mean_gradient,
    )


def _double(kernel: SquaredExponential, measure: Measure, other: Measure) -> Array:
    """The double integral, (): that of all K K' pairs of components is a kernel at a single point."""
    weights, means, covariances = _components(measure)
    other_weights, other_means, other_covariances = _components(other)
    xp, dimension = namespace(means), means.shape[1]
    shape = (means.shape[0], other_means.shape[0], dimension)
    points = xp.broadcast_to(means[:, None, :], shape).reshape(-1, 1, dimension)
    centres = xp.broadcast_to(other_means, shape).reshape(-1, dimension)
    sums = (covariances[:, None] + other_covariances).reshape(-1, dimension, dimension)
    z = _bumps(kernel, centres, sums)(points)[0].reshape(shape[:2])
    return weights @ z @ other_weights
