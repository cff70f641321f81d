"""A point estimate of the concentration of a Dirichlet, as a factor of q that is updated like the others.

The log density of pi ~ Dir(alpha), up to -sum_k ln pi_k, is <alpha, ln pi> - A(alpha), with A the log
normaliser of the Dirichlet. As a function of alpha it is the log density of an exponential family whose
natural parameters are sums over draws,

    chi = sum_d E[ln pi_d],   nu = the number of draws,   statistics (alpha, -A(alpha)),

and its mode is the alpha with E[ln pi | alpha] = chi / nu, the maximum likelihood estimate. With the point
mass at the mode as a factor of q, under a flat prior (chi = nu = 0), coordinate ascent and natural gradients
of mini-batches estimate the concentration together with the other parameters. The entropy is left out, as in
`point_mass`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bqvi.arrays import Seed, Values, digamma, gammaln, logsumexp, trigamma
from bqvi.families.dirichlet import Dirichlet
from gp.arrays import Array

_MARGIN = 1e-9
"""The smallest 1 - sum_k exp(chi_k / nu), which is 0 where all draws are equal and alpha is infinite."""


class Concentration:
    """All mass at the mode of the conjugate family of a Dirichlet's concentration.

    Parameters
    ----------
    concentration : (K,), positive: the initial alpha
    count : nu >= 0, the number of draws; 0 makes a flat prior, which does not use ``concentration``
    symmetric : alpha_k equal for all k
    """

    leaf_names = ("", "")

    def __init__(self, concentration: np.ndarray, count: float = 1.0, symmetric: bool = False) -> None:
        mean = Dirichlet(np.asarray(concentration, float)).expected_statistics[0]
        self._natural: Values = (count * mean, np.asarray(float(count)))
        self.symmetric = symmetric

    @property
    def natural(self) -> Values:
        """(chi (K,), nu ())."""
        return self._natural

    def from_natural(self, natural: Values) -> Concentration:
        """The point at the mode for ``natural``; not checked, for use inside loops."""
        other = object.__new__(Concentration)
        other._natural, other.symmetric = natural, self.symmetric
        return other

    @cached_property
    def mode(self) -> np.ndarray:
        """alpha, (K,)."""
        chi, nu = self._natural
        mean_log = chi / nu
        if self.symmetric:
            level = min(float(mean_log.mean()), -np.log(len(mean_log)) - _MARGIN)
            return np.full(len(mean_log), _symmetric(level, len(mean_log)))
        mean_log = mean_log - max(0.0, float(logsumexp(mean_log)) + _MARGIN)
        return Dirichlet.from_expected_statistics((mean_log,)).concentration

    @property
    def unbounded(self) -> bool:
        """Whether all draws are equal, so that the likelihood has no maximum and a margin bounds alpha."""
        chi, nu = self._natural
        return len(chi) > 1 and float((chi / nu).mean()) > -np.log(len(chi)) - _MARGIN

    @property
    def mean(self) -> np.ndarray:
        """alpha, (K,)."""
        return self.mode

    @property
    def expected_statistics(self) -> Values:
        """(alpha, -A(alpha))."""
        return (self.mode, -np.asarray(Dirichlet(self.mode).log_normaliser))

    @property
    def entropy(self) -> Array:
        """0 by convention, as for every point mass (see `point_mass`)."""
        return np.zeros(())

    def kl(self, other: Concentration) -> Array:
        """-ln of the density of ``other`` at the mode, without its normaliser; 0 where ``other`` is flat."""
        chi, nu = other.natural
        alpha, negative = self.expected_statistics
        return np.asarray(-(chi @ alpha + nu * negative))

    def statistics(self, theta: Array) -> Values:
        """(alpha, -A(alpha)) of points (L, K)."""
        return (theta, gammaln(theta.sum(-1)) - gammaln(theta).sum(-1))

    def log_base_measure(self, theta: Array) -> Array:
        """0, (L,)."""
        return 0.0 * theta.sum(-1)

    def log_prob(self, theta: Array) -> Array:
        """0 at each of the points theta (L, K) by convention, as the entropy is 0; (L,)."""
        return 0.0 * theta.sum(-1)

    def sample(self, n: int, seed: Seed) -> Array:
        """``n`` copies of alpha."""
        return np.broadcast_to(self.mode, (n, *self.mode.shape)).copy()

    @property
    def unconstrained(self) -> Values:
        """u = (ln alpha, 0); the second coordinate stays 0."""
        return (np.log(self.mode), np.zeros(()))

    def from_unconstrained(self, unconstrained: Values) -> Concentration:
        """The point at alpha = exp(u)."""
        log_alpha = unconstrained[0].mean() if self.symmetric else unconstrained[0]
        alpha = np.broadcast_to(np.exp(log_alpha), unconstrained[0].shape)
        return Concentration(alpha, max(float(self._natural[1]), 1.0), self.symmetric)

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        """dL/d ln alpha = alpha (g_chi - g_nu E[ln pi | alpha])."""
        mean_log = Dirichlet(self.mode).expected_statistics[0]
        return (self.mode * (gradient[0] - gradient[1] * mean_log), np.zeros(()))


def _symmetric(level: float, size: int) -> float:
    """The a with psi(a) - psi(size a) = level, by Newton's method in 1 / a, in which it is nearly linear."""
    if size == 1:
        return 1.0  # a simplex with one vertex is a point, so the likelihood does not depend on alpha
    inverse = -(level + np.log(size)) / (1.0 - 1.0 / size)
    for _ in range(100):
        a = 1.0 / inverse
        gap = float(digamma(np.asarray(a)) - digamma(np.asarray(size * a))) - level
        slope = float(trigamma(np.asarray(a)) - size * trigamma(np.asarray(size * a))) * a * a
        moved = max(inverse + gap / slope, 0.1 * inverse)
        if abs(moved - inverse) <= 1e-14 * inverse:
            break
        inverse = moved
    return float(1.0 / inverse)
