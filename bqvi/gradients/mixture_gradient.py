"""The posterior of the gradient of E_q[f] for q a mixture of Gaussians, from a process on the log joint.

The gradient in q's coordinates u is linear in the functionals of `mixture_functionals`. With
g_k = E_k[grad psi], H_k = E_k[Hessian of psi] in the frame's units, theta = mu + L u,

    dE/dw_k = E_k,     dE/dm_k = w_k L^-T g_k,     dE/dC_k = w_k L^-T H_k L^-1 / 2,

and `GaussianMixture.pulled_back` takes these to u. So its posterior covariance is that of the functionals,

    prior - c^T K^-1 c + (h - c^T K^-1 b)(h - c^T K^-1 b)^T / (b^T K^-1 b),

pulled back on both sides; the last term is the constant's, which is fitted (b is 1 for values, h for E_k, and
otherwise 0). It is half an error bar, as for one Gaussian; the jackknife over nodes is the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from acquisition.functionals import Candidates
from bqvi.arrays import Values
from bqvi.families import GaussianMixture
from bqvi.gradients.derivative_process import DerivativeProcess
from bqvi.gradients.function_kernel import observed_kernel
from bqvi.gradients.jackknife import block_residuals, inverse_of, mean_square
from bqvi.gradients.joint_process import JointProcess, constant_basis
from bqvi.gradients.mixture_expectation import MixtureExpectation, less_square, of_psi
from bqvi.gradients.mixture_functionals import Functionals
from bqvi.gradients.value_process import ValueProcess, value_kernel
from bqvi.gradients.whitened import Frame
from gp.triangular import solve_lower

Surface = ValueProcess | DerivativeProcess | JointProcess
"""A process that is a model of the log joint itself."""


@dataclass(frozen=True, eq=False)
class MixtureGradient:
    """Of E_q[f] in u, for a process in the units of a frame."""

    process: Surface
    frame: Frame
    q: GaussianMixture
    relative: bool = False
    """Whether the process is on f less the logarithm of another mixture, and E_q[f] is what that leaves."""

    @cached_property
    def expectation(self) -> MixtureExpectation:
        """E_q[f] and its gradients in weights, means and covariances, of the posterior mean."""
        found = of_psi(self.process, self.frame, self.q)
        return found if self.relative else less_square(found, self.frame, self.q)

    @property
    def values(self) -> Values:
        """DE/du, of the posterior mean."""
        gradient = self.expectation.gradient
        return self.q.pulled_back(*(np.asarray(part) for part in gradient))

    @property
    def model_covariance(self) -> np.ndarray:
        """Posterior covariance of dE/du, (P, P), all of u in one vector, if the model were true."""
        prior = self._pulled(self._pulled(self._functionals.prior(self.process.shape, self._height)).T)
        half = self._pulled(self._told)
        covariance: np.ndarray = prior - half.T @ half
        if self._basis.any():
            fitted = solve_lower(self.process.factor, self._basis)
            missed = self._pulled((self._level - fitted @ self._told)[None])[0]
            covariance += np.outer(missed, missed) / (fitted @ fitted)
        scaled: np.ndarray = self.process.scale * covariance
        return scaled

    @property
    def covariance(self) -> np.ndarray:
        """`model_covariance` and the jackknife's, (P, P)."""
        moved = self._pulled(self._moved)
        covariance: np.ndarray = self.model_covariance + mean_square(moved)
        return covariance

    def standard_errors(self) -> Values:
        """Roots of the diagonal of `covariance`, in the shape of u."""
        variances = np.maximum(np.diagonal(self.covariance), 0.0)
        ends = np.cumsum([np.size(u) for u in self.q.unconstrained])[:-1]
        parts = np.split(np.sqrt(variances), ends)
        return tuple(p.reshape(np.shape(u)) for p, u in zip(parts, self.q.unconstrained, strict=True))

    def candidates(self, pool: np.ndarray) -> Candidates:
        """What is known / s^2 of what (C, D) points show.

        The functionals are in units of their component, times its weight: nats for a step of
        one standard deviation.
        """
        process = self.process
        half = solve_lower(process.factor, _gram(process, process.points, pool))
        shared = self._observed(pool) - half.T @ self._told
        residual = _gram(process, pool, pool) - half.T @ half
        return Candidates.of(self._by_component(shared), residual, len(residual) // len(pool))

    @cached_property
    def _roots(self) -> np.ndarray:
        """Cholesky factors of the components in the frame's units, (K, D, D)."""
        return np.linalg.cholesky(self._functionals.covariances)

    @cached_property
    def _inverse(self) -> np.ndarray:
        return np.linalg.inv(self.frame.scale)

    @cached_property
    def _functionals(self) -> Functionals:
        covariances = self._inverse @ np.asarray(self.q.covariances) @ self._inverse.T
        return Functionals(self.frame.whiten(np.asarray(self.q.means)), 0.5 * (covariances + covariances.mT))

    @property
    def _height(self) -> float:
        return 1.0 if isinstance(self.process, ValueProcess) else self.process.shape.lengthscale**2

    def _observed(self, points: np.ndarray) -> np.ndarray:
        first = isinstance(self.process, DerivativeProcess)
        numbers = slice(int(first), 1 if isinstance(self.process, ValueProcess) else None)
        return self._functionals.observed(points, self.process.shape, self._height, numbers)

    @cached_property
    def _across(self) -> np.ndarray:
        """C, (m B, K F)."""
        return self._observed(self.process.points)

    @cached_property
    def _told(self) -> np.ndarray:
        """Factor^-1 c, (m B, K F)."""
        told: np.ndarray = solve_lower(self.process.factor, self._across)
        return told

    @cached_property
    def _basis(self) -> np.ndarray:
        """B, (m B,)."""
        process = self.process
        if isinstance(process, JointProcess):
            return constant_basis(process.points)
        return np.full(len(process.factor), float(isinstance(process, ValueProcess)))

    @cached_property
    def _level(self) -> np.ndarray:
        """H, (K F,)."""
        k, d = self._functionals.means.shape
        level = np.zeros((k, 1 + d + d * (d + 1) // 2))
        level[:, 0] = 1.0
        return level.reshape(-1)

    @property
    def _moved(self) -> np.ndarray:
        """How each of m nodes moves the functionals by being there, (m, K F)."""
        inverse, basis = inverse_of(self.process.factor), self._basis
        told = inverse @ self._across
        if basis.any():  # the constant is fitted too
            pulled = inverse @ basis
            total = basis @ pulled
            inverse = inverse - np.outer(pulled, pulled) / total
            told = inverse @ self._across + pulled[:, None] * self._level / total
        left = block_residuals(inverse, self.process.weights.reshape(len(self.process.points), -1))
        return np.asarray(np.einsum("ndf,nd->nf", told.reshape(*left.shape, -1), left))

    def _parts(self, functionals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(..., K F) as values (..., K), slopes (..., K, D) and Hessians (..., K, D, D)."""
        k, d = self._functionals.means.shape
        each = functionals.reshape(*functionals.shape[:-1], k, -1)
        rows, columns = np.tril_indices(d)
        bends = np.empty((*each.shape[:-1], d, d))
        bends[..., rows, columns] = bends[..., columns, rows] = each[..., 1 + d :]
        return each[..., 0], each[..., 1 : 1 + d], bends

    def _pulled(self, functionals: np.ndarray) -> np.ndarray:
        """(n, K F) as n gradients in u, (n, P)."""
        values, slopes, bends = self._parts(functionals)
        weights = np.asarray(self.q.weights)[:, None]
        slopes = weights * slopes @ self._inverse
        bends = 0.5 * weights[:, :, None] * (self._inverse.T @ bends @ self._inverse)
        gradients = self.q.pulled_back(values, slopes, bends)
        return np.concatenate([g.reshape(len(functionals), -1) for g in gradients], 1)

    def _by_component(self, functionals: np.ndarray) -> np.ndarray:
        """(n, K F) with values less their mean, and slopes and Hessians in units of their component."""
        values, slopes, bends = self._parts(functionals)
        weights, roots = np.asarray(self.q.weights), self._roots
        values = weights * (values - (values @ weights)[:, None])
        slopes = weights[:, None] * np.einsum("nki,kij->nkj", slopes, roots)
        bends = 0.5 * weights[:, None, None] * (roots.mT @ bends @ roots)
        rows, columns = np.tril_indices(slopes.shape[-1])
        parts = (values, slopes, bends[..., rows, columns])
        return np.concatenate([part.reshape(len(functionals), -1) for part in parts], 1)


def _gram(process: Surface, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """K / s^2 of the process's kernel between what (m, D) and (n, D) points show, point by point."""
    if isinstance(process, ValueProcess):
        return value_kernel(left, right, process.shape)
    return observed_kernel(left, right, process.shape, int(isinstance(process, DerivativeProcess)))
