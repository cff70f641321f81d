"""The moments of a process on the log joint as one function: from its values, its gradients, or both.

The process is on phi(u) = f(theta) + |u|^2 / 2, theta = mu + L u in units whitened by q, so that the prior
mean of f is the log density of q up to a constant, which is profiled out where values are observed
(`gp.conditioning.function_kernel`). Its posterior mean is integrated in closed form: E[grad phi] = dE/dm and
E[Hessian of phi] = 2 dE/dS are the moments of y = grad phi that `whitened` defines (variational Bayesian
Monte Carlo integrates the same process, Acerbi 2018).

Its errors at a given number of nodes are smaller than those of the separable process of `gradient_process`,
and its cost is O((m B)^3), B = D + 1 where values and gradients are observed. It is for expensive
evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from acquisition.functionals import Candidates
from bqvi.gradients.standard_errors import mean_square
from bqvi.gradients.whitened import JITTER, WhitenedMoments, distance_noise, typical_noise
from gp.conditioning.conditioned import Conditioned
from gp.conditioning.function_kernel import FunctionKernel, FunctionProcess, standard_observed, standard_prior


@dataclass(frozen=True, eq=False)
class FunctionSurrogate(FunctionProcess):
    """A `whitened.WhitenedSurrogate` from m points."""

    noise: float = JITTER
    """Noise variance over s^2 of a number in a new observation near q."""

    @classmethod
    def of_targets(
        cls,
        kernel: FunctionKernel,
        points: np.ndarray,
        targets: np.ndarray,
        measured: np.ndarray | None = None,
    ) -> FunctionSurrogate:
        """The process given (m, D) points in q's units and the B numbers observed at each, (m, B).

        ``measured`` is the noise variance of these numbers over s^2, (m, B); None where they are exact.
        """
        given = Conditioned.of(kernel, points, targets, distance_noise, measured)
        return cls(kernel, given, typical_noise(measured))

    def moments(self, mean: np.ndarray, covariance: np.ndarray) -> WhitenedMoments:
        found = self.posterior_mean.integrate(mean, covariance)
        return WhitenedMoments(found.mean, 2.0 * found.covariance)

    @cached_property
    def at_q(self) -> WhitenedMoments:
        d = self.given.points.shape[1]
        return self.moments(np.zeros(d), np.eye(d))

    def by_rule(self, targets: np.ndarray) -> WhitenedMoments:
        """The moments under q of other targets (m, B) at these points, by the same weights."""
        return WhitenedMoments.of_flat(
            targets.reshape(-1) @ self.given.evidence.rules(self._whitened), self.given.points.shape[1]
        )

    def candidates(self, pool: np.ndarray) -> Candidates:
        """Posterior moments / s^2 of the numbers observed at (C, D) points, B each."""
        given, kernel = self.given, self.kernel
        places = kernel.at(pool)
        cross = given.whitened_covariance(places)
        shared = standard_observed(pool, kernel) - cross.T @ self._whitened
        return Candidates.of(shared, kernel.covariance(places, places) - cross.T @ cross, given.numbers)

    @cached_property
    def _whitened(self) -> np.ndarray:
        """W k of the moments, (m B, F)."""
        return np.asarray(self.given.whitening @ standard_observed(self.given.points, self.kernel))

    def covariance(self) -> np.ndarray:
        """Covariance of the flat moments `at_q` (`standard_errors`), (F, F), with the jackknife's."""
        return mean_square(self._model_covariance(), self.given.changes(self._whitened))

    def standard_deviations(self) -> WhitenedMoments:
        changes = self.given.changes(self._whitened)
        squares = np.square(changes).sum(0) + np.square(changes.sum(0))
        return _deviations(np.diagonal(self._model_covariance()) + squares, self.given.points.shape[1])

    def model_deviations(self) -> WhitenedMoments:
        """The model's posterior standard deviations of the moments `at_q`."""
        return _deviations(np.diagonal(self._model_covariance()), self.given.points.shape[1])

    def _model_covariance(self) -> np.ndarray:
        prior = standard_prior(self.given.points.shape[1], self.kernel)
        return self.given.covariance(prior, self._whitened)


def _deviations(variances: np.ndarray, dimension: int) -> WhitenedMoments:
    """Roots of the variances of flat moments, (F,)."""
    return WhitenedMoments.of_flat(np.sqrt(np.maximum(variances, 0.0)), dimension)
