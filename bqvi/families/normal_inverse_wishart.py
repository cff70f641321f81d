"""Normal-inverse-Wishart over J means and the covariance that they share; J = 1 is the usual one.

    Sigma ~ IW(Psi, nu),   mu_j | Sigma ~ N(m_j, Sigma / kappa_j),   Lambda = Sigma^-1

    t = (Lambda mu_j, -mu_j^T Lambda mu_j / 2, -Lambda / 2, ln|Lambda| / 2),   h = (2 pi)^(-J D / 2),
    eta = (kappa_j m_j, kappa_j, Psi + sum_j kappa_j m_j m_j^T, nu + D + 1 + J),
    A = (nu D ln 2 - nu ln|Psi| - D sum_j ln kappa_j) / 2 + ln Gamma_D(nu / 2),
    mu = (nu P m_j, -(D / kappa_j + nu m_j^T P m_j) / 2, -nu P / 2, E ln|Lambda| / 2),   P = Psi^-1,
    E ln|Lambda| = sum_i psi((nu + 1 - i) / 2) + D ln 2 - ln|Psi|,   u = (m, ln kappa, R, ln(nu + 1 - D)).

Densities are over (mu, Sigma), so eta = 0 is the flat density, and a Gaussian datum of mean mu_j adds
(x, 1, x x^T, 1). R is the Cholesky factor of Psi with the logarithm of its diagonal. Everything is in
coordinates about ``origin``, a constant: with it near the means, second moments keep their digits.

The maps between coordinates go through p = (m, kappa, Psi, nu): with M = nu (sym(g_1 m^T) - g_2 m m^T / 2
- G_3 / 2) summed over j, the gradient of <g, mu> is

    d/dm = nu P (g_1 - g_2 m),  d/dkappa = g_2 D / (2 kappa^2),  d/dPsi = -P M P - g_4 P / 2,
    d/dnu = tr(M P) / nu + g_4 sum_i psi'((nu + 1 - i) / 2) / 4.

Points theta are arrays (..., J + D, D): the J means, and below them the covariance.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np

from bqvi.arrays import (
    Seed,
    Values,
    diagonal,
    diagonal_matrix,
    digamma,
    gammaln,
    generator,
    like,
    namespace,
    symmetric_from_lower,
    transpose,
    trigamma,
)
from bqvi.checks import require_covariance, require_finite, require_positive, require_shape
from bqvi.families.gaussian import LOG_2PI
from bqvi.families.log_gamma import rsample_log_gamma
from gp.arrays import Array, to_numpy


class NormalInverseWishart:
    """A batch of distributions of J means and their covariance.

    Parameters
    ----------
    mean : (..., J, D), m
    strength : (..., J), kappa > 0: what the prior mean counts, in data
    scale : (..., D, D), Psi, symmetric positive definite
    dof : (...), nu > D - 1
    origin : (D,), what coordinates are taken about; default 0

    Raises
    ------
    ValueError
        Shapes that do not fit, entries that are not finite or out of their range.
    """

    leaf_names = ("", "", "", "")

    def __init__(
        self, mean: Array, strength: Array, scale: Array, dof: Array, origin: np.ndarray | None = None
    ) -> None:
        require_finite("mean", mean)
        require_shape("strength", strength, mean.shape[:-1])
        require_positive("strength", strength)
        require_shape("scale", scale, (*mean.shape[:-2], mean.shape[-1], mean.shape[-1]))
        require_covariance("scale", scale)
        require_shape("dof", dof, mean.shape[:-2])
        lowest = float(to_numpy(dof).min())
        if not lowest > mean.shape[-1] - 1.0:
            raise ValueError(f"dof is {lowest:.6g}; in D = {mean.shape[-1]} it must be above D - 1")
        self.origin = np.zeros(mean.shape[-1]) if origin is None else origin
        self.centred_mean = mean - like(self.origin, mean)
        self.strength, self.scale, self.dof = strength, scale, dof

    def _of(self, mean: Array, strength: Array, scale: Array, dof: Array, **known: Any) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(
            origin=self.origin, centred_mean=mean, strength=strength, scale=scale, dof=dof, **known
        )
        return other

    def from_natural(self, natural: Values) -> Self:
        """From eta, about the same origin; not checked, for use inside loops."""
        strength = natural[1]
        mean = natural[0] / strength[..., None]
        scale = natural[2] - transpose(mean) @ natural[0]
        scale = 0.5 * (scale + transpose(scale))
        dof = natural[3] - (mean.shape[-1] + 1 + mean.shape[-2])
        return self._of(mean, strength, scale, dof, natural=natural)

    def from_unconstrained(self, unconstrained: Values) -> Self:
        """Return the family at u = (m, ln kappa, R, ln(nu + 1 - D))."""
        mean, log_strength, raw, log_excess = unconstrained
        xp = namespace(raw)
        factor = xp.tril(raw, k=-1) + diagonal_matrix(xp.exp(diagonal(raw)))
        dof = xp.exp(log_excess) + (mean.shape[-1] - 1)
        strength = xp.exp(log_strength)
        return self._of(mean, strength, factor @ transpose(factor), dof, scale_tril=factor)

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.centred_mean.shape[-1])

    @property
    def n_means(self) -> int:
        """J."""
        return int(self.centred_mean.shape[-2])

    @property
    def means(self) -> Array:
        """E[mu] = m, (..., J, D)."""
        return self.centred_mean + like(self.origin, self.centred_mean)

    @property
    def mean(self) -> Array:
        """E[mu] and the harmonic mean E[Lambda]^-1 of the covariance, as a point (..., J + D, D)."""
        return _packed(self.means, self.scale / self.dof[..., None, None])

    @property
    def mode(self) -> Array:
        """The densest (mu, Sigma): m and Psi / (nu + D + 1 + J), as a point (..., J + D, D)."""
        return _packed(self.means, self.scale / self.natural[3][..., None, None])

    @cached_property
    def scale_tril(self) -> Array:
        """Lower Cholesky factor of Psi."""
        return namespace(self.scale).linalg.cholesky(self.scale)

    @cached_property
    def scale_inverse(self) -> Array:
        """P = Psi^-1, (..., D, D)."""
        half = namespace(self.scale_tril).linalg.inv(self.scale_tril)
        return transpose(half) @ half

    @cached_property
    def log_determinant(self) -> Array:
        """ln|Psi|, batch-shaped."""
        return 2.0 * namespace(self.scale_tril).log(diagonal(self.scale_tril)).sum(-1)

    @cached_property
    def natural(self) -> Values:
        """eta."""
        weighted = self.strength[..., None] * self.centred_mean
        second = self.scale + transpose(self.centred_mean) @ weighted
        return weighted, self.strength, second, self.dof + (self.dimension + 1 + self.n_means)

    @cached_property
    def unconstrained(self) -> Values:
        """u = (m, ln kappa, R, ln(nu + 1 - D))."""
        xp = namespace(self.scale_tril)
        raw = xp.tril(self.scale_tril, k=-1) + diagonal_matrix(xp.log(diagonal(self.scale_tril)))
        return self.centred_mean, xp.log(self.strength), raw, xp.log(self.dof - (self.dimension - 1))

    @property
    def _halves(self) -> Array:
        """(nu + 1 - i) / 2, (..., D)."""
        return 0.5 * (self.dof[..., None] - like(np.arange(self.dimension), self.dof))

    @cached_property
    def expected_precision(self) -> Array:
        """E[Lambda] = nu P, (..., D, D)."""
        return self.dof[..., None, None] * self.scale_inverse

    @cached_property
    def expected_log_determinant(self) -> Array:
        """E ln|Lambda|, batch-shaped."""
        return digamma(self._halves).sum(-1) + self.dimension * math.log(2.0) - self.log_determinant

    @cached_property
    def expected_statistics(self) -> Values:
        """mu."""
        linear = self.centred_mean @ self.expected_precision
        squares = self.dimension / self.strength + (linear * self.centred_mean).sum(-1)
        return linear, -0.5 * squares, -0.5 * self.expected_precision, 0.5 * self.expected_log_determinant

    @cached_property
    def log_normaliser(self) -> Array:
        """A."""
        logs = self.dimension * namespace(self.strength).log(self.strength).sum(-1)
        halves = 0.5 * (self.dof * (self.dimension * math.log(2.0) - self.log_determinant) - logs)
        return halves + self._log_gamma

    @property
    def _log_gamma(self) -> Array:
        """ln Gamma_D(nu / 2)."""
        constant = 0.25 * self.dimension * (self.dimension - 1) * math.log(math.pi)
        return gammaln(self._halves).sum(-1) + constant

    @property
    def entropy(self) -> Array:
        """Entropy of (mu, Sigma), nats."""
        logs = namespace(self.strength).log(self.strength).sum(-1)
        d, j = self.dimension, self.n_means
        # E of minus the quadratic forms is (J D + nu D) / 2, whatever the parameters
        quadratic = 0.5 * d * (j + self.dof)
        determinant = 0.5 * self.natural[3] * self.expected_log_determinant
        level = 0.5 * (self.dof * (d * math.log(2.0) - self.log_determinant) - d * logs + j * d * LOG_2PI)
        return quadratic + level + self._log_gamma - determinant

    def kl(self, other: NormalInverseWishart) -> Array:
        """KL(self || other), batch-shaped; both about the same origin."""
        xp = namespace(self.strength)
        gap = self.centred_mean - other.centred_mean
        squares = ((gap @ self.expected_precision) * gap).sum(-1)
        ratio = other.strength / self.strength
        means = 0.5 * (self.dimension * (ratio - 1.0 - xp.log(ratio)) + other.strength * squares).sum(-1)
        trace = (other.scale * self.scale_inverse).sum((-2, -1)) - self.dimension
        spread = 0.5 * (self.dof * trace + other.dof * (self.log_determinant - other.log_determinant))
        shape = 0.5 * (self.dof - other.dof) * digamma(self._halves).sum(-1)
        return means + spread + shape + other._log_gamma - self._log_gamma

    def unpacked(self, theta: Array) -> tuple[Array, Array]:
        """Means about the origin (L, ..., J, D) and covariances (L, ..., D, D) of points."""
        means = theta[..., : self.n_means, :]
        return means - like(self.origin, theta), theta[..., self.n_means :, :]

    def statistics(self, theta: Array) -> Values:
        """t of points (L, ..., J + D, D)."""
        means, covariance = self.unpacked(theta)
        factor = namespace(theta).linalg.cholesky(covariance)
        half = namespace(theta).linalg.inv(factor)
        whitened = means @ transpose(half)
        log_determinant = namespace(theta).log(diagonal(factor)).sum(-1)
        precision = transpose(half) @ half
        return whitened @ half, -0.5 * (whitened * whitened).sum(-1), -0.5 * precision, -log_determinant

    def log_base_measure(self, theta: Array) -> Array:
        """-(J D / 2) ln(2 pi), whatever theta."""
        return namespace(theta).full_like(theta[..., 0, 0], -0.5 * self.n_means * self.dimension * LOG_2PI)

    def log_prob(self, theta: Array) -> Array:
        """Log density, in (mu, Sigma), at points (L, ..., J + D, D)."""
        means, covariance = self.unpacked(theta)
        xp = namespace(theta)
        factor = xp.linalg.cholesky(covariance)
        half = xp.linalg.inv(factor)
        whitened = (means - self.centred_mean) @ transpose(half)
        squares = (self.strength * (whitened * whitened).sum(-1)).sum(-1)
        rooted = half @ self.scale_tril
        trace = (rooted * rooted).sum((-2, -1))
        log_determinant = 2.0 * xp.log(diagonal(factor)).sum(-1)
        exponent = -0.5 * (squares + trace + self.natural[3] * log_determinant)
        return exponent - self.log_normaliser + self.log_base_measure(theta)

    def sample(self, n: int, seed: Seed) -> Array:
        """``n`` draws (n, ..., J + D, D)."""
        return self.rsample(n, seed)

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` draws by Bartlett's decomposition, differentiable in torch parameters."""
        rng = generator(seed)
        xp = namespace(self.scale)
        diagonals = xp.exp(0.5 * (rsample_log_gamma(self._halves, n, rng) + math.log(2.0)))
        shape = (n, *self.scale.shape)
        below = like(np.tril(rng.standard_normal(shape), -1), self.scale)
        # Lambda = L^-T B B^T L^-1 with Psi = L L^T, so that L B^-T is a root of Sigma
        root = self.scale_tril @ transpose(xp.linalg.inv(below + diagonal_matrix(diagonals)))
        noise = like(rng.standard_normal((n, *self.centred_mean.shape)), self.scale)
        rooted = noise / xp.sqrt(self.strength)[..., None] @ transpose(root)
        return _packed(self.means + rooted, root @ transpose(root))

    def _pulled(self, g: Values) -> Values:
        """d<g, mu> / dp."""
        matrix = self._matrix(g)
        inverse = self.scale_inverse
        slopes = self.dof[..., None, None] * ((g[0] - g[1][..., None] * self.centred_mean) @ inverse)
        strengths = 0.5 * self.dimension * g[1] / self.strength**2
        half = 0.5 * g[3][..., None, None] * inverse
        trace = (matrix * inverse).sum((-2, -1)) / self.dof
        dofs = trace + 0.25 * g[3] * trigamma(self._halves).sum(-1)
        return slopes, strengths, -inverse @ matrix @ inverse - half, dofs

    def _matrix(self, g: Values) -> Array:
        """M of the module's docstring."""
        m = self.centred_mean
        cross = transpose(m) @ (g[0] - 0.5 * g[1][..., None] * m)
        third = 0.5 * (g[2] + transpose(g[2]))
        return self.dof[..., None, None] * 0.5 * (cross + transpose(cross) - third)

    def _pushed_back(self, slopes: Values) -> Values:
        """The g whose d<g, mu> / dp is ``slopes``."""
        d_mean, d_strength, d_scale, d_dof = slopes
        m, nu = self.centred_mean, self.dof
        second = 2.0 * self.strength**2 * d_strength / self.dimension
        trace = (d_scale * self.scale).sum((-2, -1)) / nu
        curvature = 0.25 * trigamma(self._halves).sum(-1) - 0.5 * self.dimension / nu
        fourth = (d_dof + trace) / curvature
        matrix = -self.scale @ d_scale @ self.scale - 0.5 * fourth[..., None, None] * self.scale
        first = d_mean @ self.scale / nu[..., None, None] + second[..., None] * m
        cross = transpose(m) @ (first - 0.5 * second[..., None] * m)
        return first, second, cross + transpose(cross) - 2.0 * matrix / nu[..., None, None], fourth

    def _moved(self, tangent: Values) -> Values:
        """dp of d eta."""
        m = self.centred_mean
        mean = (tangent[0] - tangent[1][..., None] * m) / self.strength[..., None]
        cross = transpose(m) @ (self.strength[..., None] * mean)
        shared = transpose(m) @ (tangent[1][..., None] * m)
        third = 0.5 * (tangent[2] + transpose(tangent[2]))
        return mean, tangent[1], third - cross - transpose(cross) - shared, tangent[3]

    def _moved_transpose(self, slopes: Values) -> Values:
        """d/d eta of d/dp: the transpose of ``_moved``."""
        d_mean, d_strength, d_scale, d_dof = slopes
        m = self.centred_mean
        # along mean steps of d eta, Psi moves by -(m^T kappa dm + its transpose)
        along = d_mean / self.strength[..., None] - 2.0 * m @ d_scale
        second = d_strength - (along * m).sum(-1) - ((m @ d_scale) * m).sum(-1)
        return along, second, d_scale, d_dof

    def fisher_product(self, tangent: Values) -> Values:
        """d mu of d eta; F is symmetric, so it is the transpose of d<tangent, mu> / d eta."""
        return self._moved_transpose(self._pulled(tangent))

    def fisher_solve(self, cotangent: Values) -> Values:
        """d eta of d mu."""
        # the inverse of _moved_transpose, then of _pulled
        along, second, third, fourth = cotangent
        third = 0.5 * (third + transpose(third))
        m = self.centred_mean
        d_mean = self.strength[..., None] * (along + 2.0 * m @ third)
        d_strength = second + (along * m).sum(-1) + ((m @ third) * m).sum(-1)
        return self._pushed_back((d_mean, d_strength, third, fourth))

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        """dL/du from the natural gradient."""
        mean, strength, scale, dof = self._pulled(gradient)
        xp = namespace(self.scale_tril)
        lower = xp.tril(2.0 * scale @ self.scale_tril)
        raw = xp.tril(lower, k=-1) + diagonal_matrix(diagonal(lower) * diagonal(self.scale_tril))
        return mean, self.strength * strength, raw, (self.dof - (self.dimension - 1)) * dof

    def gradient_to_natural(self, gradient: Values) -> Values:
        """The natural gradient from dL/du."""
        mean, strength, raw, dof = gradient
        factor = self.scale_tril
        xp = namespace(factor)
        lower = xp.tril(raw, k=-1) + diagonal_matrix(diagonal(raw) / diagonal(factor))
        symmetric = symmetric_from_lower(transpose(factor) @ lower)
        half = xp.linalg.inv(factor)
        scale = 0.5 * transpose(half) @ symmetric @ half
        slopes = mean, strength / self.strength, scale, dof / (self.dof - (self.dimension - 1))
        return self._pushed_back(slopes)

    def retract(self, tangent: Values) -> Self:
        """Along d eta without leaving the domain, in the coordinates p."""
        mean, strength, scale, dof = self._moved(tangent)
        excess = self.dof - (self.dimension - 1)
        bent = 0.5 * scale @ self.scale_inverse @ scale
        total = self.scale + scale + bent
        return self._of(
            self.centred_mean + mean,
            _positive(self.strength, strength),
            0.5 * (total + transpose(total)),
            _positive(excess, dof) + (self.dimension - 1),
        )


def _positive(value: Array, step: Array) -> Array:
    """``value + step`` to first order, positive for every step."""
    return value + step + 0.5 * step * step / value


def _packed(means: Array, covariance: Array) -> Array:
    """(..., J + D, D)."""
    packed: Array = namespace(means).concat([means, covariance], axis=-2)
    return packed
