"""E_q[f] for q a mixture of Gaussians, its gradients and their posterior, from a process on the log joint f.

The process is on phi(u) = f(theta) + |u|^2 / 2, in units whitened by one Gaussian, theta = mu + L u. Hence

    E_q[f] = E_q[phi] - E_q[|u|^2] / 2

with q in those units, both in closed form (`gp.expectation`); gradients in the means and
covariances follow by the chain rule, dE/dm_k = L^-T dE/dm'_k and dE/dS_k = L^-T dE/dS'_k L^-1. A process
given derivatives alone determines phi up to a constant: E_q[f] then lacks the constant, and so does dE/dw_k,
by the same amount for all k, which changes no step of weights that sum to one. The entropy of a mixture has
no closed form and is computed by the caller. The Gaussian of the units is the one with the mixture's moments
(`moment_matched`), or any other.

The gradient in q's coordinates is linear in the functionals of `gp.conditioning.functionals`. With
g_k = E_k[grad phi], H_k = E_k[Hessian of phi] in the frame's units,

    dE/dw_k = E_k,     dE/dm_k = w_k L^-T g_k,     dE/dC_k = w_k L^-T H_k L^-1 / 2,

and `GaussianMixture.pulled_back` maps these to gradients in its coordinates. Its posterior covariance is that
of the functionals, with the fitted constant's, pulled back on both sides, plus that of the jackknife over
nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from acquisition.functionals import Candidates
from bqvi.arrays import Values
from bqvi.families import Gaussian, GaussianMixture
from bqvi.gradients.function_process import FunctionSurrogate
from bqvi.gradients.standard_errors import mean_square, standard_errors
from bqvi.gradients.whitened import WhitenedFrame
from gp.conditioning.functionals import Functionals
from gp.measures import MixtureParameters

__all__ = ["MixtureExpectation", "MixtureGradient", "moment_matched"]


@dataclass(frozen=True, eq=False)
class MixtureExpectation:
    """E_q[f], and its gradients in q."""

    value: float
    gradient: MixtureParameters
    """Gradients in weights (K,), means (K, D), covariances (K, D, D); weights are free."""


def moment_matched(q: GaussianMixture) -> Gaussian:
    """The Gaussian with q's mean and covariance."""
    weights, means = np.asarray(q.weights), np.asarray(q.means)
    mean = weights @ means
    offsets = means - mean
    within = (weights[:, None, None] * np.asarray(q.covariances)).sum(0)
    return Gaussian(mean, within + (weights[:, None] * offsets).T @ offsets)


@dataclass(frozen=True, eq=False)
class MixtureGradient:
    """The gradient of E_q[f] in u, for a process in the units of a frame."""

    process: FunctionSurrogate
    frame: WhitenedFrame
    q: GaussianMixture
    relative: bool = False
    """Whether the process is on f less the log density of another mixture, and the expectation is of that."""

    @cached_property
    def expectation(self) -> MixtureExpectation:
        """E_q[f] and its gradients in weights, means and covariances, of the posterior mean."""
        inverse, q = self.frame.inverse, self.q
        within = inverse @ np.asarray(q.covariances) @ inverse.T
        shifted = (np.asarray(q.means) - self.frame.mean) @ inverse.T
        in_frame = MixtureParameters(np.asarray(q.weights), shifted, 0.5 * (within + within.mT))
        value, gradient = self.process.posterior_mean.integrate_mixture(in_frame)
        by_weight, by_mean = gradient.weights, gradient.means @ inverse
        by_covariance = inverse.T @ gradient.covariances @ inverse
        if not self.relative:  # less E_q[|u|^2] / 2
            weights, means, covariances = in_frame
            squares = 0.5 * (np.square(means).sum(1) + np.einsum("kii->k", covariances))
            value, by_weight = value - float(weights @ squares), by_weight - squares
            by_mean = by_mean - weights[:, None] * means @ inverse
            by_covariance = by_covariance - 0.5 * weights[:, None, None] * (inverse.T @ inverse)
        return MixtureExpectation(value, MixtureParameters(by_weight, by_mean, by_covariance))

    @property
    def values(self) -> Values:
        """dE/du, of the posterior mean."""
        gradient = self.expectation.gradient
        return self.q.pulled_back(*(np.asarray(part) for part in gradient))

    @property
    def value_deviation(self) -> float:
        """The standard deviation of E_q[f], with the constant unknown and the jackknife included."""
        of, given = self._functionals, self.process.given
        shares = of.level * np.repeat(np.asarray(self.q.weights), len(of.level) // len(of.means))
        whitened, level = (self._whitened @ shares)[:, None], np.ones(1)
        prior = shares @ of.prior(self.process.kernel) @ shares
        variance = float(given.covariance(np.array([[prior]]), whitened, level)[0, 0])
        return float(np.sqrt(max(variance, 0.0) + mean_square(given.changes(whitened, level))[0, 0]))

    @property
    def model_covariance(self) -> np.ndarray:
        """Posterior covariance of dE/du, (P, P), all of u in one vector, if the model were true."""
        of, given = self._functionals, self.process.given
        covariance = given.covariance(of.prior(self.process.kernel), self._whitened, of.level)
        return self._pulled(self._pulled(covariance).T)

    @property
    def covariance(self) -> np.ndarray:
        """`model_covariance` and the jackknife's, (P, P)."""
        return self.model_covariance + mean_square(self._pulled(self._changes))

    def standard_errors(self) -> Values:
        """Roots of the diagonal of `covariance`, in the shape of u."""
        return standard_errors(self.covariance, tuple(np.asarray(u) for u in self.q.unconstrained))

    def candidates(self, pool: np.ndarray) -> Candidates:
        """Posterior moments / s^2 of the numbers observed at (C, D) points.

        The functionals are in units of their component, times its weight: nats for a step of
        one standard deviation.
        """
        given, kernel = self.process.given, self.process.kernel
        places = kernel.at(pool)
        cross = given.whitened_covariance(places)
        shared = self._functionals.observed(pool, kernel) - cross.T @ self._whitened
        residual = kernel.covariance(places, places) - cross.T @ cross
        return Candidates.of(self._by_component(shared), residual, given.numbers)

    @cached_property
    def _functionals(self) -> Functionals:
        covariances = self.frame.inverse @ np.asarray(self.q.covariances) @ self.frame.inverse.T
        return Functionals(self.frame.whiten(np.asarray(self.q.means)), 0.5 * (covariances + covariances.mT))

    @cached_property
    def _whitened(self) -> np.ndarray:
        """Whitened covariances W k of the functionals, (m B, K F)."""
        given = self.process.given
        observed = self._functionals.observed(given.points, self.process.kernel)
        return np.asarray(given.whitening @ observed)

    @property
    def _changes(self) -> np.ndarray:
        """Changes of the functionals when each of m nodes is left out, (m, K F)."""
        return self.process.given.changes(self._whitened, self._functionals.level)

    def _parts(self, functionals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(..., K F) as values (..., K), slopes (..., K, D) and Hessians (..., K, D, D)."""
        k, d = self._functionals.means.shape
        each = functionals.reshape(*functionals.shape[:-1], k, -1)
        rows, columns = np.tril_indices(d)
        hessians = np.empty((*each.shape[:-1], d, d))
        hessians[..., rows, columns] = hessians[..., columns, rows] = each[..., 1 + d :]
        return each[..., 0], each[..., 1 : 1 + d], hessians

    def _pulled(self, functionals: np.ndarray) -> np.ndarray:
        """(n, K F) as n gradients in u, (n, P)."""
        values, slopes, hessians = self._parts(functionals)
        weights = np.asarray(self.q.weights)[:, None]
        slopes = weights * slopes @ self.frame.inverse
        hessians = 0.5 * weights[:, :, None] * (self.frame.inverse.T @ hessians @ self.frame.inverse)
        gradients = self.q.pulled_back(values, slopes, hessians)
        return np.concatenate([g.reshape(len(functionals), -1) for g in gradients], 1)

    def _by_component(self, functionals: np.ndarray) -> np.ndarray:
        """(n, K F) with values less their mean, and slopes and Hessians in units of their component."""
        values, slopes, hessians = self._parts(functionals)
        weights, roots = np.asarray(self.q.weights), self._functionals.roots
        values = weights * (values - (values @ weights)[:, None])
        slopes = weights[:, None] * np.einsum("nki,kij->nkj", slopes, roots)
        hessians = 0.5 * weights[:, None, None] * (roots.mT @ hessians @ roots)
        rows, columns = np.tril_indices(slopes.shape[-1])
        parts = (values, slopes, hessians[..., rows, columns])
        return np.concatenate([part.reshape(len(functionals), -1) for part in parts], 1)
