"""The density of a mixture of Gaussians, its parts and its gradient, for any leading dimensions.

With Sigma_k = L_k L_k^T the covariances and A_k = L_k^-1,

    ln p(x)      = ln sum_k exp(h_k - |A_k (x - m_k)|^2 / 2),
    h_k          = ln w_k + ln det A_k - (D / 2) ln 2 pi,
    grad ln p(x) = -sum_k r_k(x) A_k^T A_k (x - m_k),     r_k(x) the share of component k in p(x).

The components are taken one after the other, so that memory grows with K n and not with K n D.
"""

from __future__ import annotations

from dataclasses import dataclass

from gp.arrays import LOG_2PI, Array, namespace
from gp.matrices import log_diagonal_sum, lower_inverse


@dataclass(frozen=True, eq=False)
class MixtureDensity:
    """ln sum_k w_k N(x; m_k, Sigma_k), for NumPy and torch.

    Attributes
    ----------
    heights : (..., K), the logarithms h_k of the weighted densities at the means.
    means : (..., K, D)
    whitening : (..., K, D, D), the matrices A_k.
    """

    heights: Array
    means: Array
    whitening: Array

    @classmethod
    def of(cls, weights: Array, means: Array, factors: Array) -> MixtureDensity:
        """Make the density from weights (..., K) >= 0, means (..., K, D), Cholesky factors (..., K, D, D)."""
        xp = namespace(weights)
        present = weights > 0
        logs = xp.log(xp.where(present, weights, xp.ones_like(weights)))
        logs = xp.where(present, logs, xp.full_like(logs, -xp.inf))
        constants = log_diagonal_sum(factors) + 0.5 * means.shape[-1] * LOG_2PI
        return cls(logs - constants, means, lower_inverse(factors))

    def log_parts(self, x: Array) -> Array:
        """Return ln w_k N(x; m_k, Sigma_k), (..., K, n), at points x (..., n, D)."""
        xp = namespace(x)
        squares = [xp.sum(self._whitened(x, k) ** 2, axis=-1) for k in range(self.means.shape[-2])]
        return self.heights[..., None] - 0.5 * xp.stack(squares, axis=-2)

    def log_density(self, x: Array) -> Array:
        return _log_sum(self.log_parts(x))

    def with_gradient(self, x: Array) -> tuple[Array, Array]:
        """Return ln p, (..., n), and its gradient, (..., n, D), at points x (..., n, D)."""
        xp = namespace(x)
        logs = self.log_parts(x)
        values = _log_sum(logs)
        shares = xp.exp(logs - values[..., None, :])
        gradient = xp.zeros_like(x)
        for k in range(self.means.shape[-2]):
            pulled = self._whitened(x, k) @ self.whitening[..., k, :, :]
            gradient = gradient - shares[..., k, :, None] * pulled
        return values, gradient

    def _whitened(self, x: Array, k: int) -> Array:
        """Return A_k (x - m_k), (..., n, D)."""
        whitening = self.whitening[..., k, :, :]
        return (x - self.means[..., k, None, :]) @ namespace(x).matrix_transpose(whitening)


def _log_sum(logs: Array) -> Array:
    """Return the logarithm of the sum over components of exp(logs), (..., n), for logs (..., K, n)."""
    xp = namespace(logs)
    top = xp.max(logs, axis=-2)
    return top + xp.log(xp.sum(xp.exp(logs - top[..., None, :]), axis=-2))
