"""Categorical over K outcomes as one-hot vectors (thesis Table 1).

    eta = logits (unnormalised),   t(z) = z,   mu = softmax(eta),   h = 1,
    A = logsumexp(eta)   (Table 1 has 0, which is right for normalised eta only),   u = eta.

The natural parameter is determined up to a constant, so the Fisher matrix diag(p) - p p^T is
singular along 1; ``fisher_solve`` returns one of its solutions for cotangents that sum to zero.

Reparameterised draws are Gumbel-softmax relaxations at a temperature (thesis Eq. 5.28, Jang et al.
2017): biased for temperature > 0, one-hot in the limit.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np

from bqvi.arrays import Seed, Values, generator, like, logsumexp, namespace
from bqvi.checks import require_above, require_finite
from gp.arrays import Array, to_numpy


class Categorical:
    """A batch of categorical distributions.

    Parameters
    ----------
    logits : (..., K), finite; need not be normalised
    temperature : of the reparameterised draws, > 0
    """

    leaf_names = ("",)

    def __init__(self, logits: Array, temperature: float = 0.5) -> None:
        require_finite("logits", logits)
        require_above("temperature", temperature, 0.0)
        self.logits = logits
        self.temperature = temperature

    def from_natural(self, natural: Values) -> Self:
        """Return the family at eta = (logits,), with the same temperature."""
        other = object.__new__(type(self))
        other.logits, other.temperature = natural[0], self.temperature
        return other

    def from_unconstrained(self, unconstrained: Values) -> Self:
        """Return the family at u = eta."""
        return self.from_natural(unconstrained)

    @classmethod
    def from_expected_statistics(cls, expected: Values) -> Self:
        """From the expected statistics mu = (probabilities,), all positive."""
        return cls(namespace(expected[0]).log(expected[0]))

    @property
    def natural(self) -> Values:
        """eta = (logits,)."""
        return (self.logits,)

    @property
    def unconstrained(self) -> Values:
        """u = eta."""
        return (self.logits,)

    @cached_property
    def log_probabilities(self) -> Array:
        """ln p, (..., K)."""
        return self.logits - logsumexp(self.logits)[..., None]

    @cached_property
    def probabilities(self) -> Array:
        """p, (..., K)."""
        return namespace(self.logits).exp(self.log_probabilities)

    @property
    def expected_statistics(self) -> Values:
        """mu = (p,)."""
        return (self.probabilities,)

    @property
    def log_normaliser(self) -> Array:
        """A = logsumexp(eta)."""
        return logsumexp(self.logits)

    @property
    def entropy(self) -> Array:
        """-sum p ln p."""
        return -(self.probabilities * self.log_probabilities).sum(-1)

    @property
    def mode(self) -> Array:
        """The outcome of largest probability, one-hot (..., K)."""
        return np.eye(self.logits.shape[-1])[to_numpy(self.logits).argmax(-1)]

    def kl(self, other: Categorical) -> Array:
        """KL(self || other), batch-shaped."""
        return (self.probabilities * (self.log_probabilities - other.log_probabilities)).sum(-1)

    def statistics(self, theta: Array) -> Values:
        """(z,)."""
        return (theta,)

    def log_base_measure(self, theta: Array) -> Array:
        """0."""
        return namespace(theta).zeros_like(theta[..., 0])

    def log_prob(self, theta: Array) -> Array:
        """Log probability of one-hot (or relaxed: linear in them) draws (L, ..., K)."""
        return (theta * self.log_probabilities).sum(-1)

    def sample(self, n: int, seed: Seed) -> Array:
        """``n`` one-hot draws (n, ..., K), by the Gumbel-max trick."""
        logits = to_numpy(self.logits)
        noise = generator(seed).gumbel(size=(n, *logits.shape))
        return like(np.eye(logits.shape[-1])[(logits + noise).argmax(-1)], self.logits)

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` Gumbel-softmax relaxations (n, ..., K) at the temperature."""
        noise = generator(seed).gumbel(size=(n, *self.logits.shape))
        relaxed = (self.log_probabilities + like(noise, self.logits)) / self.temperature
        return namespace(relaxed).exp(relaxed - logsumexp(relaxed)[..., None])

    def fisher_product(self, tangent: Values) -> Values:
        """(diag(p) - p p^T) d eta."""
        centred = tangent[0] - (self.probabilities * tangent[0]).sum(-1)[..., None]
        return (self.probabilities * centred,)

    def fisher_solve(self, cotangent: Values) -> Values:
        """One solution d eta of F d eta = d mu, for d mu that sums to zero."""
        return (cotangent[0] / self.probabilities,)

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        """F times the natural gradient."""
        return self.fisher_product(gradient)

    def gradient_to_natural(self, gradient: Values) -> Values:
        """The natural gradient from dL/d eta."""
        return self.fisher_solve(gradient)

    def retract(self, tangent: Values) -> Self:
        """The distribution at eta + d eta: the domain is all of R^K."""
        return self.from_natural((self.logits + tangent[0],))
