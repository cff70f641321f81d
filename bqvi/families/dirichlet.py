"""Dirichlet over the K-simplex (thesis Table 1), and a point estimate of its concentration as a factor of q.

    eta = alpha,   t(pi) = ln pi,   mu_k = psi(alpha_k) - psi(sum alpha),   h = 1 / prod pi_k,
    A = sum ln Gamma(alpha_k) - ln Gamma(sum alpha),   u = ln alpha.

The Fisher matrix is diagonal plus rank one, F = diag(psi'(alpha)) - psi'(sum alpha) 1 1^T; its inverse
is Sherman and Morrison's. (The thesis' Eq. 3.41 drops the off-diagonal part.)

An entry alpha_k = 0 is the limit alpha_k -> 0: pi_k is 0, and the density is that of the others on their face
of the simplex. Points are given and returned as **ln pi**: with the thesis' alpha_0 = 1e-3 a weight
underflows where its logarithm does not.

As a function of alpha the log density of draws pi_d, <alpha, ln pi> - A(alpha) up to -sum_k ln pi_k, is that
of an exponential family with the natural parameters

    chi = sum_d E[ln pi_d],   nu = the number of draws,   statistics (alpha, -A(alpha)),

and its mode is the alpha with E[ln pi | alpha] = chi / nu, the maximum likelihood estimate. With the point
mass at the mode as a factor of q, under a flat prior (chi = nu = 0), coordinate ascent and natural gradients
estimate the concentration together with the other parameters.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np

from bqvi.arrays import Values, digamma, gammaln, logsumexp, namespace, trigamma
from bqvi.families.family import AllAtOnePoint, ExponentialFamily
from bqvi.families.gamma import rsample_log_gamma, times
from gp.arrays import Array
from gp.checks import Seed, require_nonnegative


class Dirichlet(ExponentialFamily):
    """A batch of Dirichlet distributions.

    Parameters
    ----------
    concentration : (..., K), nonnegative, with a positive entry in each row; where it is 0, pi_k is 0
    """

    leaf_names = ("",)
    logarithmic_points = True
    """Points are ln pi, the mean is pi."""

    def __init__(self, concentration: Array) -> None:
        require_nonnegative("concentration", concentration)
        self.concentration = concentration

    @classmethod
    def _of(cls, concentration: Array, **known: Values) -> Self:
        self = object.__new__(cls)
        self.__dict__.update(concentration=concentration, **known)
        return self

    @classmethod
    def from_natural(cls, natural: Values) -> Self:
        """Return the family at eta = (alpha,); not checked, for use inside loops."""
        return cls._of(natural[0])

    @classmethod
    def from_unconstrained(cls, unconstrained: Values) -> Self:
        """Return the family at u = (ln alpha,)."""
        (log_concentration,) = unconstrained
        return cls._of(namespace(log_concentration).exp(log_concentration), unconstrained=unconstrained)

    @classmethod
    def from_expected_statistics(cls, expected: Values) -> Self:
        """From the expected statistics mu = (E[ln pi],), by Newton's method (Minka 2000); NumPy arrays.

        Raises
        ------
        ValueError
            No Dirichlet has them: each must be negative, and their exponentials must sum to less than 1.
        """
        (target,) = expected
        if not (np.exp(target).sum(-1) < 1.0).all():
            raise ValueError(
                f"expected statistics E[ln pi] have sum of exponentials "
                f"{np.exp(target).sum(-1).max():.6g}; by Jensen's inequality it must be below 1"
            )
        return cls(_invert_mean(target))

    @property
    def natural(self) -> Values:
        return (self.concentration,)

    @cached_property
    def unconstrained(self) -> Values:
        """u = (ln alpha,)."""
        with np.errstate(divide="ignore"):
            return (namespace(self.concentration).log(self.concentration),)

    @cached_property
    def total(self) -> Array:
        """sum_k alpha_k with the axis kept, (..., 1)."""
        return self.concentration.sum(-1)[..., None]

    @cached_property
    def expected_statistics(self) -> Values:
        """mu = (psi(alpha_k) - psi(sum alpha),) (thesis Eq. 3.36)."""
        return (digamma(self.concentration) - digamma(self.total),)

    @cached_property
    def log_normaliser(self) -> Array:
        """A = sum ln Gamma(alpha_k) - ln Gamma(sum alpha)."""
        return self._on_face(gammaln(self.concentration)).sum(-1) - gammaln(self.total)[..., 0]

    def _on_face(self, terms: Array) -> Array:
        """The ``terms`` (..., K) of sums over k, 0 where alpha_k is 0."""
        return namespace(terms).where(self.concentration > 0.0, terms, 0.0 * self.concentration)

    @property
    def entropy(self) -> Array:
        """A - sum (alpha_k - 1) E[ln pi_k]."""
        excess = self.concentration - 1.0
        return self.log_normaliser - self._on_face(excess * self.expected_statistics[0]).sum(-1)

    @property
    def mean(self) -> Array:
        """E[pi], (..., K)."""
        return self.concentration / self.total

    @property
    def mode(self) -> Array:
        """ln of the mode, (alpha_k - 1) / sum_j (alpha_j - 1), alpha_k >= 1; the centre if all are 1."""
        xp = namespace(self.concentration)
        excess = self._on_face(self.concentration - 1.0)
        floor = 0.0 * excess
        excess = xp.where(excess.sum(-1)[..., None] > 0.0, excess, self._on_face(floor + 1.0))
        with np.errstate(divide="ignore"):
            log_excess = xp.log(xp.where(excess > 0.0, excess, floor))
        return log_excess - logsumexp(log_excess)[..., None]

    def kl(self, other: Dirichlet) -> Array:
        gap = self.concentration - other.concentration
        apart = times(gap, self.expected_statistics[0]).sum(-1)
        return apart - self.log_normaliser + other.log_normaliser

    def statistics(self, theta: Array) -> Values:
        """(ln pi,) of points given as ln pi (L, ..., K)."""
        return (theta,)

    def log_base_measure(self, theta: Array) -> Array:
        """-sum_k ln pi_k."""
        return -theta.sum(-1)

    def log_prob(self, theta: Array) -> Array:
        """Log density (in pi) at points given as ln pi (L, ..., K)."""
        return times(self._on_face(self.concentration - 1.0), theta).sum(-1) - self.log_normaliser

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` draws, as ln pi, with implicit reparameterisation gradients (thesis Eq. 5.22)."""
        log_y = rsample_log_gamma(self.concentration, n, seed)
        return log_y - logsumexp(log_y)[..., None]

    def fisher_product(self, tangent: Values) -> Values:
        common = trigamma(self.total) * tangent[0].sum(-1)[..., None]
        return (self._on_face(trigamma(self.concentration)) * tangent[0] - common,)

    def fisher_solve(self, cotangent: Values) -> Values:
        """F^-1 d mu, by Sherman and Morrison."""
        inverse = 1.0 / trigamma(self.concentration)
        scaled = inverse * cotangent[0]
        total = trigamma(self.total)
        common = total * scaled.sum(-1)[..., None] / (1.0 - total * inverse.sum(-1)[..., None])
        return (scaled + inverse * common,)

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        """dL/d ln alpha_k = alpha_k (g_k psi'(alpha_k) - psi'(sum alpha) sum_j g_j)."""
        alpha, common = self.concentration, trigamma(self.total) * gradient[0].sum(-1)[..., None]
        positive = alpha + (alpha == 0.0)
        # alpha psi'(alpha) = alpha psi'(1 + alpha) + 1 / alpha, as psi' alone may overflow
        own = self._on_face(alpha * trigamma(1.0 + alpha) + 1.0 / positive)
        return (own * gradient[0] - alpha * common,)

    def gradient_to_natural(self, gradient: Values) -> Values:
        return self.fisher_solve((gradient[0] / self.concentration,))

    def retract(self, tangent: Values) -> Self:
        """alpha + d + d^2 / (2 alpha), positive for every d."""
        step = tangent[0]
        positive = self.concentration + (self.concentration == 0.0)
        return self.from_natural((self.concentration + step + 0.5 * step**2 / positive,))


def _inverse_digamma(y: np.ndarray) -> np.ndarray:
    """x with psi(x) = y, by Newton's method from Minka's starting point."""
    x: np.ndarray = np.where(
        y >= -2.22, np.exp(np.minimum(y, 700.0)) + 0.5, -1.0 / (y - digamma(np.array(1.0)))
    )
    for _ in range(6):  # quadratic convergence: five steps reach 1e-14 from this start
        x = x - (digamma(x) - y) / trigamma(x)
    return x


def _invert_mean(target: np.ndarray) -> np.ndarray:
    """alpha with psi(alpha_k) - psi(sum alpha) = target: fixed point, then damped Newton."""
    alpha = np.ones_like(target)
    for _ in range(20):
        alpha = _inverse_digamma(digamma(alpha.sum(-1, keepdims=True)) + target)
    for _ in range(100):
        q = Dirichlet(alpha)
        (step,) = q.fisher_solve((target - q.expected_statistics[0],))
        # a step longer than half of alpha is shortened, so alpha stays positive
        damping = np.minimum(1.0, 0.5 / np.maximum(np.abs(step / alpha).max(-1, keepdims=True), 1e-300))
        alpha = alpha + damping * step
        if np.abs(step / alpha).max() < 1e-13:
            break
    return alpha


_MARGIN = 1e-9
"""The smallest 1 - sum_k exp(chi_k / nu), which is 0 where all draws are equal and alpha is infinite."""


class Concentration(AllAtOnePoint):
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
    def expected_statistics(self) -> Values:
        return (self.mode, -np.asarray(Dirichlet(self.mode).log_normaliser))

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
