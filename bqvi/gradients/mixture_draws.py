"""The part of a mixture's ELBO without a closed form, and its gradient, by antithetic pairs in components.

Both the entropy of q and its divergence from another mixture p are means of a rho_k that is nearly constant,

    H[q]      = sum_k w_k (H[N_k] - E_k[rho_k]),      rho_k = ln q - ln N_k
    -KL(q|p)  = -sum_k w_k E_k[rho],                  rho   = ln q - ln p:

where components hardly overlap, and where q is near p. By the theorems of Bonnet and Price their gradients
are expectations of functions of the draws theta = m_k + L_k xi; the score of ln q itself has mean zero under
q and is left out:

    d/dw_k = -E_k[rho_k],        d/dm_k = -w_k E_k[grad rho_k],
    d/dC_k = -w_k sym(E_k[grad rho_k xi^T] L_k^-1) / 2,            sym(A) = (A + A^T) / 2,

and for the entropy also H[N_k] in w_k and w_k C_k^-1 / 2 in C_k. Pulled back to the coordinates u, the
gradient of the entropy is that of `stratified`, with less variance and without torch; it takes most of the
time of a step of `mixture_quadrature` between its rounds. The log joint is not evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.arrays import Values, diagonal_matrix
from bqvi.families import DiagonalGaussian, GaussianMixture
from gp.arrays import LOG_2PI
from gp.measures.mixture_density import MixtureDensity

__all__ = ["Closed", "MixtureDraws", "drawn_divergence", "drawn_entropy", "log_density"]


@dataclass(frozen=True, eq=False)
class MixtureDraws:
    """n independent estimates, one of each pair in every component."""

    q: GaussianMixture
    within: np.ndarray
    """-rho_k, means of pairs, (K, n)."""
    rises: np.ndarray
    """-grad rho_k, (K, 2, n, D)."""
    noise: np.ndarray
    """xi of the first of each pair, (K, n, D)."""
    closed: Closed

    @property
    def values(self) -> np.ndarray:
        """(n,), nats."""
        return np.asarray(self.q.weights) @ (self.within + self.closed.values[:, None])

    @property
    def gradient(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mean gradient in weights (K,), which are free, means (K, D) and covariances (K, D, D)."""
        weights = np.asarray(self.q.weights)[:, None]
        crossed = self._odd.mT @ self.noise / self.noise.shape[1]
        hessians = crossed @ _scales(self.q)[1]
        return (
            self.within.mean(1) + self.closed.values,
            weights * self.rises.mean((1, 2)),
            weights[:, :, None] * (0.25 * (hessians + hessians.mT) + self.closed.covariances),
        )

    def each(self) -> Values:
        """The gradients in u, arrays (n, ...)."""
        weights = np.asarray(self.q.weights)[:, None, None]
        hessians = self._odd[:, :, :, None] * (self.noise @ _scales(self.q)[1])[:, :, None, :]
        curved = 0.25 * (hessians + hessians.mT) + self.closed.covariances[:, None]
        return self.q.pulled_back(
            (self.within + self.closed.values[:, None]).T,
            (weights * self.rises.mean(1)).swapaxes(0, 1),
            (weights[..., None] * curved).swapaxes(0, 1),
        )

    @property
    def _odd(self) -> np.ndarray:
        """The part of the gradients that is odd in xi, (K, n, D)."""
        return 0.5 * (self.rises[:, 0] - self.rises[:, 1])


@dataclass(frozen=True, eq=False)
class Closed:
    """Terms that are added in closed form."""

    values: np.ndarray
    """Terms of each component's value, (K,)."""
    covariances: np.ndarray
    """Terms of the gradients in covariances over w_k, (K, D, D)."""


def drawn_entropy(q: GaussianMixture, rng: np.random.Generator, pairs: int) -> MixtureDraws:
    """H[q], for q in NumPy; O(pairs K^2 D^2).

    ln N_k at the draws of component k is that of their noise. `MixtureDensity.log_parts` has it for all pairs
    of draws and components, in 12 to 80 times the time (K = 3 and 10).
    """
    noise, (scales, inverse) = _noise(q, rng, pairs), _scales(q)
    d = q.dimension
    volumes = np.log(np.einsum("kii->ki", scales)).sum(1) + 0.5 * d * LOG_2PI
    alone = -0.5 * np.einsum("ksnd,ksnd->ksn", noise, noise) - volumes[:, None, None]
    closed = Closed(volumes + 0.5 * d, 0.5 * inverse.mT @ inverse)
    return _drawn(q, noise, _points(q, noise), alone, -_within(noise, inverse), closed)


def drawn_divergence(
    q: GaussianMixture, other: GaussianMixture, rng: np.random.Generator, pairs: int
) -> MixtureDraws:
    """-KL(q || other), for mixtures in NumPy; all zero where the two are equal."""
    noise, (k, d) = _noise(q, rng, pairs), q.means.shape
    theta = _points(q, noise)
    logs, slopes = log_density(other, theta)
    nothing = Closed(np.zeros(k), np.zeros((k, d, d)))
    return _drawn(q, noise, theta, logs.reshape(noise.shape[:3]), slopes.reshape(noise.shape), nothing)


def log_density(q: GaussianMixture, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ln q (N,) and its gradient (N, D), at (N, D) points."""
    return MixtureDensity.of(np.asarray(q.weights), np.asarray(q.means), _scales(q)[0]).with_gradient(theta)


def _drawn(
    q: GaussianMixture,
    noise: np.ndarray,
    theta: np.ndarray,
    logs: np.ndarray,
    slopes: np.ndarray,
    closed: Closed,
) -> MixtureDraws:
    """The draws with rho = ln q - logs, given logs (K, 2, n) and their gradients (K, 2, n, D)."""
    own, own_slopes = log_density(q, theta)
    within = 0.5 * (logs - own.reshape(logs.shape)).sum(1)
    return MixtureDraws(q, within, slopes - own_slopes.reshape(slopes.shape), noise[:, 0], closed)


def _noise(q: GaussianMixture, rng: np.random.Generator, pairs: int) -> np.ndarray:
    """Standard normal points and their opposites, (K, 2, n, D)."""
    half = rng.standard_normal((pairs, *q.means.shape)).swapaxes(0, 1)
    return np.stack([half, -half], 1)


def _points(q: GaussianMixture, noise: np.ndarray) -> np.ndarray:
    """Noise (K, 2, n, D) mapped to points of its components, (2 K n, D)."""
    return np.asarray((q.means[:, None, None] + _within(noise, _scales(q)[0].mT)).reshape(-1, q.dimension))


def _within(noise: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Rows (K, 2, n, D) times the matrix (K, D, D) of their component."""
    k, d = matrices.shape[:2]
    return np.asarray((noise.reshape(k, -1, d) @ matrices).reshape(noise.shape))


def _scales(q: GaussianMixture) -> tuple[np.ndarray, np.ndarray]:
    """L_k and L_k^-1, (K, D, D) each."""
    own = q.components
    if isinstance(own, DiagonalGaussian):
        deviations = np.sqrt(own.variance)
        return diagonal_matrix(deviations), diagonal_matrix(1.0 / deviations)
    return np.asarray(own.scale_tril), np.asarray(own.scale_inverse)
