"""Normal-inverse-gamma over a mean in R^D and the variance that its coordinates share.

    v ~ InverseGamma(nu / 2, s / 2),   mu | v ~ N(m, (v / kappa) I),   lambda = 1 / v

    t = (lambda mu, -lambda |mu|^2 / 2, -lambda / 2, ln(lambda) / 2),   h = (2 pi)^(-D / 2),
    eta = (kappa m, kappa, s + kappa |m|^2, nu + 2 + D),
    A = (nu ln 2 - nu ln s - D ln kappa) / 2 + ln Gamma(nu / 2),
    mu = (nu m / s, -(D / kappa + nu |m|^2 / s) / 2, -nu / (2 s), (psi(nu / 2) + ln 2 - ln s) / 2),

with psi the digamma function, and u = (m, ln kappa, ln s, ln nu). A batch (..., K, D) of
D = 1 is the normal-gamma prior of a diagonal covariance; for D = 1 it is the normal-inverse-Wishart.
Densities are over (mu, v), so eta = 0 is the flat density, and a spherical Gaussian datum adds (x, 1, |x|^2,
D). Everything is in coordinates about ``origin``, a constant: with it near the mean, squares keep their
digits.

Points theta are arrays (..., D + 1): the mean, then ln v.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np

from bqvi.arrays import Seed, Values, digamma, gammaln, generator, like, namespace, trigamma
from bqvi.checks import require_finite, require_positive, require_shape
from bqvi.families.gaussian import LOG_2PI
from bqvi.families.log_gamma import rsample_log_gamma
from gp.arrays import Array

_LOG_2 = math.log(2.0)


class NormalInverseGamma:
    """A batch of distributions of a mean and a variance.

    Parameters
    ----------
    mean : (..., D), m
    strength : (...), kappa > 0: what the prior mean counts, in data
    scale : (...), s > 0
    dof : (...), nu > 0
    origin : (..., D), what coordinates are taken about, any shape that broadcasts; default 0

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
        for name, value in (("strength", strength), ("scale", scale), ("dof", dof)):
            require_shape(name, value, mean.shape[:-1])
            require_positive(name, value)
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
        scale = natural[2] - (mean * natural[0]).sum(-1)
        return self._of(mean, strength, scale, natural[3] - (mean.shape[-1] + 2), natural=natural)

    def from_unconstrained(self, unconstrained: Values) -> Self:
        """Return the family at u = (m, ln kappa, ln s, ln nu)."""
        mean, *logs = unconstrained
        return self._of(mean, *(namespace(mean).exp(log) for log in logs))

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.centred_mean.shape[-1])

    @property
    def means(self) -> Array:
        """E[mu] = m, (..., D)."""
        return self.centred_mean + like(self.origin, self.centred_mean)

    @property
    def mean(self) -> Array:
        """E[mu] and the logarithm of the harmonic mean of v, as a point (..., D + 1)."""
        return _packed(self.means, self.log_scale - namespace(self.dof).log(self.dof))

    @property
    def mode(self) -> Array:
        """The densest (mu, v): m and s / (nu + 2 + D), as a point (..., D + 1)."""
        return _packed(self.means, self.log_scale - namespace(self.dof).log(self.natural[3]))

    @cached_property
    def log_scale(self) -> Array:
        """ln s."""
        return namespace(self.scale).log(self.scale)

    @cached_property
    def natural(self) -> Values:
        """eta."""
        weighted = self.strength[..., None] * self.centred_mean
        second = self.scale + (self.centred_mean * weighted).sum(-1)
        return weighted, self.strength, second, self.dof + (self.dimension + 2)

    @property
    def unconstrained(self) -> Values:
        """u."""
        xp = namespace(self.strength)
        return self.centred_mean, xp.log(self.strength), self.log_scale, xp.log(self.dof)

    @cached_property
    def expected_precision(self) -> Array:
        """E[lambda] = nu / s, batch-shaped."""
        return self.dof / self.scale

    @cached_property
    def expected_log_precision(self) -> Array:
        """E[ln lambda], batch-shaped."""
        return digamma(0.5 * self.dof) + _LOG_2 - self.log_scale

    @cached_property
    def expected_statistics(self) -> Values:
        """mu."""
        linear = self.expected_precision[..., None] * self.centred_mean
        squares = self.dimension / self.strength + (linear * self.centred_mean).sum(-1)
        return linear, -0.5 * squares, -0.5 * self.expected_precision, 0.5 * self.expected_log_precision

    @cached_property
    def log_normaliser(self) -> Array:
        """A."""
        logs = self.dimension * namespace(self.strength).log(self.strength)
        return 0.5 * (self.dof * (_LOG_2 - self.log_scale) - logs) + gammaln(0.5 * self.dof)

    @property
    def entropy(self) -> Array:
        """Entropy of (mu, v), nats."""
        quadratic = 0.5 * (self.dimension + self.dof)
        determinant = 0.5 * self.natural[3] * self.expected_log_precision
        return quadratic + self.log_normaliser + 0.5 * self.dimension * LOG_2PI - determinant

    def kl(self, other: NormalInverseGamma) -> Array:
        """KL(self || other), batch-shaped; both about the same origin."""
        xp = namespace(self.strength)
        gap = self.centred_mean - other.centred_mean
        squares = self.expected_precision * (gap * gap).sum(-1)
        ratio = other.strength / self.strength
        means = 0.5 * (self.dimension * (ratio - 1.0 - xp.log(ratio)) + other.strength * squares)
        spread = 0.5 * (
            self.dof * (other.scale / self.scale - 1.0) + other.dof * (self.log_scale - other.log_scale)
        )
        shape = 0.5 * (self.dof - other.dof) * digamma(0.5 * self.dof)
        return means + spread + shape + gammaln(0.5 * other.dof) - gammaln(0.5 * self.dof)

    def statistics(self, theta: Array) -> Values:
        """t of points (L, ..., D + 1)."""
        gap = theta[..., :-1] - like(self.origin, theta)
        precision = namespace(theta).exp(-theta[..., -1])
        linear = precision[..., None] * gap
        return linear, -0.5 * (linear * gap).sum(-1), -0.5 * precision, -0.5 * theta[..., -1]

    def log_base_measure(self, theta: Array) -> Array:
        """-(D / 2) ln(2 pi), whatever theta."""
        return namespace(theta).full_like(theta[..., 0], -0.5 * self.dimension * LOG_2PI)

    def log_prob(self, theta: Array) -> Array:
        """Log density, in (mu, v), at points (L, ..., D + 1)."""
        gap = theta[..., :-1] - like(self.origin, theta) - self.centred_mean
        log_variance = theta[..., -1]
        precision = namespace(theta).exp(-log_variance)
        quadratic = precision * (self.strength * (gap * gap).sum(-1) + self.scale)
        exponent = -0.5 * (quadratic + self.natural[3] * log_variance)
        return exponent - self.log_normaliser + self.log_base_measure(theta)

    def sample(self, n: int, seed: Seed) -> Array:
        """``n`` draws (n, ..., D + 1)."""
        return self.rsample(n, seed)

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` draws, differentiable in torch parameters."""
        rng = generator(seed)
        xp = namespace(self.scale)
        log_variance = self.log_scale - _LOG_2 - rsample_log_gamma(0.5 * self.dof, n, rng)
        noise = like(rng.standard_normal((n, *self.centred_mean.shape)), self.scale)
        spread = xp.exp(0.5 * log_variance) / xp.sqrt(self.strength)
        return _packed(self.means + spread[..., None] * noise, log_variance)

    def _pulled(self, g: Values) -> Values:
        """d<g, mu> / d(m, kappa, s, nu)."""
        m, precision = self.centred_mean, self.expected_precision
        level = (g[0] * m).sum(-1) - 0.5 * g[1] * (m * m).sum(-1) - 0.5 * g[2]
        scales = -(precision * level + 0.5 * g[3]) / self.scale
        dofs = level / self.scale + 0.25 * g[3] * trigamma(0.5 * self.dof)
        slopes = precision[..., None] * (g[0] - g[1][..., None] * m)
        return slopes, 0.5 * self.dimension * g[1] / self.strength**2, scales, dofs

    def _pushed_back(self, slopes: Values) -> Values:
        """The g whose d<g, mu> / d(m, kappa, s, nu) is ``slopes``."""
        d_mean, d_strength, d_scale, d_dof = slopes
        m, nu = self.centred_mean, self.dof
        second = 2.0 * self.strength**2 * d_strength / self.dimension
        curvature = 0.25 * trigamma(0.5 * nu) - 0.5 / nu
        fourth = (d_dof + d_scale * self.scale / nu) / curvature
        level = -(d_scale * self.scale + 0.5 * fourth) / self.expected_precision
        first = d_mean / self.expected_precision[..., None] + second[..., None] * m
        third = 2.0 * ((first * m).sum(-1) - 0.5 * second * (m * m).sum(-1) - level)
        return first, second, third, fourth

    def _moved(self, tangent: Values) -> Values:
        """d(m, kappa, s, nu) of d eta."""
        m = self.centred_mean
        mean = (tangent[0] - tangent[1][..., None] * m) / self.strength[..., None]
        scale = tangent[2] - 2.0 * (m * tangent[0]).sum(-1) + tangent[1] * (m * m).sum(-1)
        return mean, tangent[1], scale, tangent[3]

    def fisher_product(self, tangent: Values) -> Values:
        """d mu of d eta; F is symmetric, so it is the transpose of d<tangent, mu> / d eta."""
        d_mean, d_strength, d_scale, d_dof = self._pulled(tangent)
        m = self.centred_mean
        first = d_mean / self.strength[..., None] - 2.0 * d_scale[..., None] * m
        along = (d_mean * m).sum(-1) / self.strength
        return first, d_strength - along + d_scale * (m * m).sum(-1), d_scale, d_dof

    def fisher_solve(self, cotangent: Values) -> Values:
        """d eta of d mu."""
        first, second, third, fourth = cotangent
        m = self.centred_mean
        d_mean = self.strength[..., None] * (first + 2.0 * third[..., None] * m)
        d_strength = second + (d_mean * m).sum(-1) / self.strength - third * (m * m).sum(-1)
        return self._pushed_back((d_mean, d_strength, third, fourth))

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        """dL/du from the natural gradient."""
        mean, strength, scale, dof = self._pulled(gradient)
        return mean, self.strength * strength, self.scale * scale, self.dof * dof

    def gradient_to_natural(self, gradient: Values) -> Values:
        """The natural gradient from dL/du."""
        mean, strength, scale, dof = gradient
        return self._pushed_back((mean, strength / self.strength, scale / self.scale, dof / self.dof))

    def retract(self, tangent: Values) -> Self:
        """Along d eta without leaving the domain, in the coordinates (m, kappa, s, nu)."""
        mean, *steps = self._moved(tangent)
        values = (self.strength, self.scale, self.dof)
        moved = (v + step + 0.5 * step * step / v for v, step in zip(values, steps, strict=True))
        return self._of(self.centred_mean + mean, *moved)


def _packed(mean: Array, log_variance: Array) -> Array:
    """(..., D + 1)."""
    packed: Array = namespace(mean).concat([mean, log_variance[..., None]], axis=-1)
    return packed
