"""Gaussian integrals of squared exponentials, and the prior covariances of phi with its Gaussian moments.

Of exp(-(u - u_n)^T Lambda^-1 (u - u_n) / 2) with Lambda = diag(l^2), against N(m, Sigma), with A = Lambda +
Sigma, P = A^-1 and a_n = P (u_n - m),

    z_n = |Lambda|^(1/2) |A|^(-1/2) exp(-(u_n - m)^T a_n / 2)
    dz_n/dm = z_n a_n,      dz_n/dSigma = z_n (a_n a_n^T - P) / 2.

z_n, dz_n/dm and 2 dz_n/dSigma are also the covariances of phi(u_n), phi ~ GP(0, k), with E[phi], E[grad phi]
and E[Hessian of phi] (Bonnet and Price: E[grad phi] = dE[phi]/dm, E[Hessian of phi] = 2 dE[phi]/dSigma).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gp.triangular import cholesky_inverse


@dataclass(frozen=True, eq=False)
class KernelMeans:
    """Integrals of n squared exponentials of height 1 against N(m, Sigma), and the arrays of their gradients.

    Attributes
    ----------
    z : (n,). a : P (u_n - m), (n, D). precision : P, (D, D).
    """

    z: np.ndarray
    a: np.ndarray
    precision: np.ndarray

    @classmethod
    def of(
        cls, points: np.ndarray, lengthscale: float | np.ndarray, mean: np.ndarray, covariance: np.ndarray
    ) -> KernelMeans:
        """The integrals at (n, D) points, for one lengthscale or (D,), against N(``mean``, ``covariance``).

        Raises LinAlgError if ``covariance`` is not positive definite.
        """
        gap = points - mean
        spread = covariance.copy()
        spread.flat[:: len(mean) + 1] += lengthscale**2
        factor, precision = cholesky_inverse(spread)
        a = gap @ precision
        log_ratio = np.log(lengthscale / factor.diagonal()).sum()
        return cls(np.exp(log_ratio - 0.5 * np.einsum("nd,nd->n", gap, a)), a, precision)

    @classmethod
    def of_several(
        cls, points: np.ndarray, lengthscale: float | np.ndarray, means: np.ndarray, covariances: np.ndarray
    ) -> KernelMeans:
        """Integrals against K Gaussians of ``means`` (K, D), ``covariances`` (K, D, D), with a leading K.

        ``points`` (n, D) and ``lengthscale`` are as of `of`.
        """
        spread = covariances.copy()
        np.einsum("kii->ki", spread)[:] += np.square(lengthscale)
        factor = np.linalg.cholesky(spread)
        whitening = np.linalg.inv(factor)
        precision = whitening.mT @ whitening
        gap = points - means[:, None, :]
        a = gap @ precision
        log_ratio = np.log(lengthscale / np.einsum("kii->ki", factor)).sum(1)
        return cls(np.exp(log_ratio[:, None] - 0.5 * np.einsum("knd,knd->kn", gap, a)), a, precision)


def standard_variance(dimension: int, lengthscale: float) -> float:
    """The prior variance of E[phi] under N(0, I), for a height of 1.

    ``dimension`` is D, ``lengthscale`` the kernel's.
    """
    l2 = lengthscale**2
    return float((l2 / (l2 + 2.0)) ** (dimension / 2))


def standard_means(points: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray, float]:
    """z (n,), a (n, D) and P of N(0, I); P is a multiple of the identity and returned as a number.

    ``points`` are (n, D), ``lengthscale`` is the kernel's. z are the prior covariances of phi(u_n) with
    E[phi], for a height of 1.
    """
    l2 = lengthscale**2
    p = 1.0 / (l2 + 1.0)
    squares = np.einsum("nd,nd->n", points, points)
    return (l2 * p) ** (points.shape[1] / 2) * np.exp(-0.5 * p * squares), p * points, p
