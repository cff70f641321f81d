"""Prior covariances of E_k[phi], E_k[grad phi] and E_k[Hessian of phi] under Gaussians N(m_k, Sigma_k).

Gradients of E_q[phi], with q a Gaussian or a mixture, are linear in these functionals. With the kernel of
`function_kernel`,

    k(u, u') = s^2 (h exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2),

the expectation of the bump under both components is a Gaussian in delta = m_k - m_j,

    G(delta) = h l^D |A|^(-1/2) exp(-delta^T P delta / 2),       A = l^2 I + Sigma_k + Sigma_j,  P = A^-1,

and E_k[d^a phi] = d^a/dm_k E_k[phi] (Bonnet, Price), so that every covariance is a derivative of it,

    Cov(E_k[d^a phi], E_j[d^b phi]) = (-1)^|b| d^(a + b) G,

with Hermite's tensors up to the fourth order, a = P delta:

    G_i / G    = -a_i
    G_ij / G   = a_i a_j - P_ij
    G_ijk / G  = -(a_i a_j a_k - P_ij a_k - P_ik a_j - P_jk a_i)
    G_ijkl / G = a_i a_j a_k a_l - (P_ij a_k a_l + five more) + P_ij P_kl + P_ik P_jl + P_il P_jk.

An observation of phi or of grad phi at u is the same with Sigma_j = 0. Within a component delta = 0, and
slopes have the covariance G P. What remains of the kernel is a product of features, u_i and u_i u_j, whose
expectations are those of the moments.

Under one Gaussian N(0, I) slopes and Hessians are uncorrelated (one is odd, one even), and

    Cov(E[d_i phi], E[d_j phi])          = (h c_1 + b1) delta_ij
    Cov(E[d_i d_j phi], E[d_k d_l phi])  = h c_2 delta_ij delta_kl
                                           + (h c_2 + b2) (delta_ik delta_jl + delta_il delta_jk)

with c_1, c_2 of `gp.expectation.jacobian_variance`; these need no tensors (`standard_prior`,
`standard_observed`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from gp.conditioning.function_kernel import FunctionKernel
from gp.expectation import KernelMeans, jacobian_variance, slope_jacobian, value_jacobian

__all__ = ["Functionals", "standard_observed", "standard_prior"]


@dataclass(frozen=True, eq=False)
class Functionals:
    """F = 1 + D + D (D + 1) / 2 functionals of each of K Gaussians: E, slopes, lower triangle of the Hessian.

    Arrays of them are (..., K F), a component's together.

    Parameters
    ----------
    means : (K, D)
    covariances : (K, D, D); zero for observations
    """

    means: np.ndarray
    covariances: np.ndarray

    @classmethod
    def at(cls, points: np.ndarray) -> Functionals:
        """Return the functionals of phi at (n, D) points."""
        n, d = points.shape
        return cls(points, np.zeros((n, d, d)))

    @cached_property
    def roots(self) -> np.ndarray:
        """Cholesky factors of the covariances, (K, D, D)."""
        return np.linalg.cholesky(self.covariances)

    def prior(self, kernel: FunctionKernel) -> np.ndarray:
        """Covariance / s^2 under a ``kernel``, (K F, K F)."""
        return self._with(self, kernel, 2)

    def observed(self, points: np.ndarray, kernel: FunctionKernel) -> np.ndarray:
        """Covariance / s^2 under a ``kernel`` with the numbers observed at (m, D) points, (m B, K F)."""
        whole = self._with(Functionals.at(points), kernel, 1)
        chosen = whole.reshape(len(whole), len(points), -1)[:, :, kernel.shown.numbers]
        return np.ascontiguousarray(chosen.reshape(len(whole), -1).T)

    @property
    def level(self) -> np.ndarray:
        """The functionals of a constant of 1, (K F,)."""
        k, d = self.means.shape
        level = np.zeros((k, 1 + d + d * (d + 1) // 2))
        level[:, 0] = 1.0
        return level.reshape(-1)

    def _with(self, other: Functionals, kernel: FunctionKernel, order: int) -> np.ndarray:
        """(K F, K' F'), of derivatives up to ``order`` of the other's."""
        k, d = self.means.shape
        rows, columns = np.tril_indices(d)
        left = np.concatenate([np.arange(1 + d), 1 + d + rows * d + columns])
        right = left if order == 2 else np.arange(1 + d)
        bumps = kernel.height * _bump(self, other, kernel.lengthscale, order)[..., left[:, None], right]
        scales = np.concatenate([np.full(d, kernel.linear), np.full(d * d, 0.5 * kernel.quadratic)])
        mine, theirs = self._features()[:, left], other._features()[:, right]
        bumps += np.einsum("kaf,f,jbf->kjab", mine, scales, theirs, optimize=True)
        n = len(other.means)
        return bumps.transpose(0, 2, 1, 3).reshape(k * len(left), n * len(right))

    def _features(self) -> np.ndarray:
        """E, gradient and Hessian of u_i and u_i u_j, (K, 1 + D + D D, D + D D)."""
        m, (k, d) = self.means, self.means.shape
        eye = np.eye(d)
        found = np.zeros((k, 1 + d + d * d, d + d * d))
        found[:, 0, :d] = m
        found[:, 0, d:] = (self.covariances + m[:, :, None] * m[:, None, :]).reshape(k, -1)
        found[:, 1 : 1 + d, :d] = eye
        along = eye[:, :, None] * m[:, None, None, :]  # [k, l, i, j]: delta_li m_j
        found[:, 1 : 1 + d, d:] = (along + along.swapaxes(2, 3)).reshape(k, d, -1)
        both = np.einsum("ia,jb->abij", eye, eye)
        found[:, 1 + d :, d:] = (both + both.swapaxes(2, 3)).reshape(d * d, -1)
        return found


def _bump(left: Functionals, right: Functionals, lengthscale: float, order: int) -> np.ndarray:
    """Derivatives of G, (K, K', 1 + D + D D, 1 + D + ...): in m_k up to 2, in m_j up to ``order``."""
    (k, d), j = left.means.shape, len(right.means)
    delta = (left.means[:, None] - right.means).reshape(-1, d)
    spread = (left.covariances[:, None] + right.covariances).reshape(-1, d, d)
    bumps = KernelMeans.of_several(np.zeros((1, d)), lengthscale, delta, spread)
    g, a, p = bumps.z.reshape(k, j), -bumps.a.reshape(k, j, d), bumps.precision.reshape(k, j, d, d)
    tensors = _hermite(a, p, 2 + order)
    blocks = [
        [(-1.0) ** b * tensors[i + b].reshape(*g.shape, d**i, d**b) for b in range(1 + order)]
        for i in range(3)
    ]
    return g[..., None, None] * np.block(blocks)


def _hermite(a: np.ndarray, p: np.ndarray, order: int) -> list[np.ndarray]:
    """Derivatives of a Gaussian over its value, [(...), (..., D), ...], from a = P delta (..., D) and P."""
    aa = np.einsum("...i,...j->...ij", a, a)
    crossed = ("...ij,...k->...ijk", "...ik,...j->...ijk", "...jk,...i->...ijk")
    third = sum(np.einsum(path, p, a) for path in crossed) - np.einsum("...ij,...k->...ijk", aa, a)
    found = [np.ones(a.shape[:-1]), -a, aa - p, third]
    if order == 4:
        pairs = ("ij", "kl"), ("ik", "jl"), ("il", "jk")
        both = [(first, second) for pair in pairs for first, second in (pair, pair[::-1])]
        fourth = np.einsum("...ij,...kl->...ijkl", aa, aa)
        fourth -= sum(np.einsum(f"...{i},...{j}->...ijkl", p, aa) for i, j in both)
        fourth += sum(np.einsum(f"...{i},...{j}->...ijkl", p, p) for i, j in pairs)
        found.append(fourth)
    return found


def standard_observed(points: np.ndarray, kernel: FunctionKernel) -> np.ndarray:
    """Covariance / s^2 of observations at (m, D) points with slopes, Hessian under N(0, I), (m B, F - 1)."""
    m, d = points.shape
    rows, columns = np.tril_indices(d)
    h, b1, b2, parts = kernel.height, kernel.linear, kernel.quadratic, list[np.ndarray]()
    if kernel.shown.values:
        slopes, hessians = value_jacobian(points, kernel.lengthscale)
        products = points[:, rows] * points[:, columns]
        parts.append(np.concatenate([h * slopes + b1 * points, h * hessians + b2 * products], 1)[:, None])
    if kernel.shown.gradients:
        slopes, hessians = slope_jacobian(points, kernel.lengthscale)
        eye = np.eye(d)
        along = eye[:, rows] * points[:, None, columns] + eye[:, columns] * points[:, None, rows]
        parts.append(np.concatenate([h * slopes + b1 * eye, h * hessians + b2 * along], 2))
    return np.concatenate(parts, 1).reshape(m * kernel.shown.width(d), -1)


def standard_prior(dimension: int, kernel: FunctionKernel) -> np.ndarray:
    """Covariance / s^2 of the slopes and Hessian under N(0, I), (F - 1, F - 1)."""
    rows, columns = np.tril_indices(dimension)
    one, two = (kernel.height * c for c in jacobian_variance(dimension, kernel.lengthscale))
    same = (rows == columns).astype(float)
    # pairs k <= i are those of the lower triangle, where delta_il delta_jk is one only if all four are the
    # same
    hessians = (two + kernel.quadratic) * np.diag(1.0 + same) + two * np.outer(same, same)
    return scipy.linalg.block_diag((one + kernel.linear) * np.eye(dimension), hessians)
