"""A mixture of K Gaussians over R^D as q: weights, and Gaussians with full or diagonal covariances.

    q(x) = sum_k w_k N(x; m_k, C_k),   u = (logits, coordinates of the Gaussians),   w = softmax(logits)

It is not an exponential family. Expectations are sums over components, E_q = sum_k w_k E_k. The entropy
-E[ln q] is not linear in q and is estimated from draws of every component (`strata`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np

from bqvi.arrays import Values, diagonal, like, logsumexp, matvec, namespace, outer
from bqvi.families.gaussian import DiagonalGaussian, Gaussian
from gp import measures
from gp.arrays import Array, shown, to_numpy
from gp.checks import Seed, generator, require_finite, require_positive, require_shape
from gp.measures.mixture import MixtureDensity


class GaussianMixture:
    """A mixture of K Gaussians over R^D.

    Parameters
    ----------
    weights : (K,), positive, with sum one
    means : (K, D)
    covariances : (K, D, D), symmetric positive definite; or (K, D), variances of independent coordinates
    """

    leaf_names = ("weights", "components", "components")

    def __init__(self, weights: Array, means: Array, covariances: Array) -> None:
        given = {"weights": weights, "means": means, "covariances": covariances}
        for name, array in given.items():
            if not hasattr(array, "ndim"):
                raise TypeError(f"{name} is {shown(array)}; it must be an array of NumPy or torch")
        require_finite("means", means)
        if means.ndim != 2:
            raise ValueError(f"means has shape {tuple(means.shape)}; it must be (K, D)")
        require_shape("weights", weights, (means.shape[0],))
        require_positive("weights", weights)
        total = float(weights.sum())
        if abs(total - 1.0) > 1e-6:
            raise ValueError(f"weights sum to {total}; they must sum to one")
        wide = covariances.ndim == 3
        d = means.shape[1]
        require_shape("covariances", covariances, (*means.shape, d) if wide else tuple(means.shape))
        self.components: Gaussian | DiagonalGaussian
        self.components = Gaussian(means, covariances) if wide else DiagonalGaussian(means, covariances)
        self.logits = namespace(weights).log(weights / total)

    @classmethod
    def of(cls, logits: Array, components: Gaussian | DiagonalGaussian) -> Self:
        """From logits (K,) and a batch of K Gaussians, the components; not checked."""
        self = object.__new__(cls)
        self.logits, self.components = logits, components
        return self

    def from_unconstrained(self, unconstrained: Values) -> Self:
        """The mixture of the same structure at u, see the module's docstring."""
        return self.of(unconstrained[0], self.components.from_unconstrained(tuple(unconstrained[1:])))

    @property
    def unconstrained(self) -> Values:
        """u = (logits, coordinates of the components)."""
        return (self.logits, *self.components.unconstrained)

    @cached_property
    def log_weights(self) -> Array:
        """ln w, (K,)."""
        return self.logits - logsumexp(self.logits)

    @property
    def weights(self) -> Array:
        """w, (K,)."""
        return namespace(self.logits).exp(self.log_weights)

    @property
    def means(self) -> Array:
        """(K, D)."""
        return self.components.mean

    @property
    def covariances(self) -> Array:
        """(K, D, D)."""
        return self.components.covariance

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.means.shape[-1])

    @property
    def n_components(self) -> int:
        """K."""
        return int(self.logits.shape[0])

    @property
    def mean(self) -> Array:
        """E[x], (D,)."""
        return self.weights @ self.means

    @property
    def covariance(self) -> Array:
        """The covariance within and between components, (D, D)."""
        apart = self.means - self.mean
        return (self.weights[:, None, None] * (self.covariances + outer(apart, apart))).sum(0)

    @property
    def measure(self) -> measures.GaussianMixture:
        """The same mixture as a measure of `gp.measures`, in NumPy arrays."""
        weights, means, covariances = (to_numpy(x) for x in (self.weights, self.means, self.covariances))
        return measures.GaussianMixture(weights, means, covariances)

    def log_prob(self, theta: Array) -> Array:
        """Log density at (L, D), (L,).

        Independent coordinates have a form without matrices: for K = 20, D = 10, L = 1024 in torch, with its
        gradient, it takes 3 ms where `gp.measures` takes 6.
        """
        own = self.components
        if isinstance(own, Gaussian):
            return MixtureDensity.of(self.weights, self.means, own.scale_tril).log_density(theta)
        return logsumexp(self.log_weights + own.log_prob(theta[..., None, :]))

    def sample(self, n: int, seed: Seed) -> Array:
        rng = generator(seed)
        host = to_numpy(self.weights).astype(float)
        index = rng.choice(len(host), size=n, p=host / host.sum())
        noise, own = like(rng.standard_normal((n, self.dimension)), self.means), self.components
        if isinstance(own, DiagonalGaussian):
            return own.mean[index] + own.scale[index] * noise
        return own.mean[index] + matvec(own.scale_tril[index], noise)

    def rsample(self, n: int, seed: Seed) -> Array:
        """Not defined: the component from which a draw comes has no derivative in the weights.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError(
            "a GaussianMixture has no reparameterised draws: which component a draw is of does not move with "
            "the weights. Use Pathwise, which draws within every component, or Score"
        )

    def strata(self, noise: np.ndarray) -> Array:
        """Draws of each component (L, K, D) by standard normal ``noise`` (L, K, D); differentiable in torch.

        E_q[g] is estimated by sum_k w_k times the mean of g over the draws [:, k] of component k, which is
        differentiable in the weights too.
        """
        return self.components.from_noise(noise)

    def mean_field(self) -> GaussianMixture:
        """The mixture with the diagonals of the covariances only."""
        if isinstance(self.components, DiagonalGaussian):
            return self
        return self.of(self.logits, DiagonalGaussian(self.means, diagonal(self.covariances) + 0.0))
