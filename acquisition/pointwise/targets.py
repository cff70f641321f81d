"""Targets, which are linear functionals of f: their covariances with f(x), and the gradients of these.

    cov(f(x), T_j)          prior, (m, J): for an integral the kernel mean z_j(x)
    d cov(f(x), T_j)/dx     (m, D, J)

Every functional of `gp.observations` may be a target. For integrals against measures, the most frequent
targets, embeddings are made once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gp.arrays import Array, namespace
from gp.embeddings import Formulas, formulas
from gp.embeddings.autodiff import gradient_in_points
from gp.embeddings.registry import in_kind_of
from gp.integrals import Integrals
from gp.observations import Functional, Gradients, Values, covariance
from gp.posterior import Posterior


@dataclass(frozen=True, eq=False)
class PosteriorTargets:
    """Functionals of a Gaussian process given observations.

    Attributes
    ----------
    posterior : the Gaussian process.
    functional : J of its functionals.
    pairs : the formulas of their embeddings, J of them, where the functionals are integrals.
    """

    posterior: Posterior
    functional: Functional
    pairs: tuple[Formulas, ...] | None = None

    def __len__(self) -> int:
        return len(self.functional)

    @property
    def like(self) -> Array:
        """An array of the kind, dtype and device in which computations are made."""
        return self.posterior.x

    @cached_property
    def covariance(self) -> Array:
        """Their posterior covariance, (J, J)."""
        if isinstance(self.functional, Integrals):
            return self.posterior.integral(self.functional.measures).covariance
        return self.posterior.covariance(self.functional)

    @cached_property
    def observed(self) -> Array:
        """Prior covariances of the n observations with the targets, (n, J)."""
        observations = self.posterior.observations
        if len(observations.blocks) == 1 and isinstance(observations.blocks[0], Values):
            return self.cross(observations.x)
        return covariance(self.posterior.kernel, observations, self.functional)

    def cross(self, x: Array) -> Array:
        """Return the prior covariances of f(x) with the targets, (m, J)."""
        if self.pairs is None:
            return covariance(self.posterior.kernel, Values(x), self.functional)
        return namespace(x).stack([pair.mean(x) for pair in self.pairs], axis=1)

    def contracted_gradient(self, x: Array, weights: Array) -> Array:
        """Return sum_j weights_ij d cov(f(x_i), T_j)/dx_i, (m, D), for weights (m, J)."""
        if self.pairs is None:
            m, dimension = x.shape
            slopes = covariance(self.posterior.kernel, Gradients(x), self.functional)
            slopes = slopes.reshape((m, dimension, len(self)))
            return namespace(x).sum(slopes * weights[:, None, :], axis=2)
        return sum(weights[:, j, None] * _slope(pair, x) for j, pair in enumerate(self.pairs))


def posterior_targets(posterior: Posterior, functional: Functional) -> PosteriorTargets:
    """Return functionals as targets; integrals with their embeddings."""
    pairs = None
    if isinstance(functional, Integrals):
        measures = (in_kind_of(measure, posterior.x) for measure in functional.measures)
        pairs = tuple(formulas(posterior.kernel, measure) for measure in measures)
    return PosteriorTargets(posterior, functional, pairs)


def _slope(pair: Formulas, x: Array) -> Array:
    """dz/dx, (m, D)."""
    return pair.mean_gradient(x) if pair.mean_gradient else gradient_in_points(pair.mean, x)
