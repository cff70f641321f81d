"""Importance sampling: a mixture of Gaussians as the proposal, drawn from a Sobol set.

A proposal that was fitted by the ELBO, as q is, has thinner tails than the density that it approximates:
`Proposal.widened` therefore adds a share of the same components with larger scales. `Proposal.adapted` is one
step of population Monte Carlo (Cappe et al. 2008): expectation maximisation towards weighted draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from gp.low_discrepancy import scrambled_sobol
from gp.measures.mixture_density import MixtureDensity
from gp.triangular import cholesky

WIDE, WIDENING = 0.25, 1.7
"""The share of a proposal that is widened, and the factor of its scales."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """A mixture of K Gaussians.

    Attributes
    ----------
    weights : (K,), of any common size. means : (K, D). factors : (K, D, D), lower Cholesky factors.
    """

    weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray

    @cached_property
    def density(self) -> MixtureDensity:
        """The density of the mixture, with those of its parts."""
        return MixtureDensity.of(self.weights, self.means, self.factors)

    def widened(self, share: float = WIDE, factor: float = WIDENING) -> Proposal:
        """The mixture with a ``share`` of itself with scales ``factor`` times as large."""
        return self.joined(Proposal(self.weights, self.means, factor * self.factors), share)

    def joined(self, other: Proposal, share: float) -> Proposal:
        """The mixture (1 - share) self + share other."""
        return Proposal(
            np.concatenate([(1.0 - share) * self.weights, share * other.weights]),
            np.concatenate([self.means, other.means]),
            np.concatenate([self.factors, other.factors]),
        )

    def draws(self, count: int, seed: int) -> np.ndarray:
        """Points (count, D) of a scrambled Sobol set whose first coordinate chooses the component."""
        cube = scrambled_sobol(self.means.shape[1] + 1, count, seed)
        edges = np.cumsum(self.weights) / self.weights.sum()
        index = np.minimum(np.searchsorted(edges, cube[:, 0], side="right"), len(edges) - 1)
        normal = ndtri(np.clip(cube[:, 1:], 1e-12, 1.0 - 1e-12))
        return self.means[index] + np.einsum("mij,mj->mi", self.factors[index], normal)

    def adapted(self, u: np.ndarray, weights: np.ndarray, logs: np.ndarray) -> Proposal:
        """One step of expectation maximisation towards weighted draws.

        Parameters
        ----------
        u : draws (M, D) of the proposal. weights : (M,), of sum one. logs : (K, M), its ``log_parts`` there.
        """
        parts = np.exp(logs - logs.max(0))
        shares = parts / parts.sum(0) * weights
        kept = shares.sum(1) > 2e-3
        shares, old = shares[kept], self.factors[kept]
        mass = shares.sum(1)
        means, factors = shares @ u / mass[:, None], np.empty_like(old)
        for k in range(len(mass)):
            centred = u - means[k]
            covariance = (centred.T * (shares[k] / mass[k])) @ centred
            keep = min(1.0, u.shape[1] / float(mass[k] ** 2 / (shares[k] @ shares[k])))
            covariance = (1.0 - keep) * covariance + keep * old[k] @ old[k].T
            factors[k] = cholesky(covariance + 1e-8 * np.eye(u.shape[1]))
        return Proposal(mass / mass.sum(), means, factors)


def normalised(log_weights: np.ndarray) -> np.ndarray:
    """Weights (..., M) of sum one; all zero where every log weight is -inf."""
    top = log_weights.max(axis=-1, keepdims=True)
    weights = np.exp(log_weights - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)


def effective_size(weights: np.ndarray) -> np.ndarray:
    """Effective sample size, 1 / sum of squares, (...), of weights (..., M) of sum one.

    It is between 1 and M, and 0 where all weights are zero.
    """
    squares = np.square(weights).sum(axis=-1)
    return np.divide(1.0, squares, out=np.zeros_like(squares), where=squares > 0.0)


def resampled(weights: np.ndarray, count: int, seed: int | np.random.Generator) -> np.ndarray:
    """Indices (count,) of draws with weights (M,), by systematic resampling, by the seed."""
    return systematic(weights, count, np.random.default_rng(seed).random())


def systematic(weights: np.ndarray, count: int, offset: float) -> np.ndarray:
    """Indices (count,) of draws with weights (M,), of any sum, by systematic resampling.

    They are those of ``count`` positions at equal distances in the cumulative weights; ``offset`` in [0, 1]
    is the first position over the distance.
    """
    edges = np.cumsum(weights)
    positions = (offset + np.arange(count)) * (edges[-1] / count)
    found: np.ndarray = np.searchsorted(edges, positions, side="right")
    return np.minimum(found, len(weights) - 1)
