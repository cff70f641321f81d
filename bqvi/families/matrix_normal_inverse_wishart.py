"""Matrix-normal-inverse-Wishart: coefficients of J linear regressions and their common noise covariance.

    Sigma ~ IW(Psi, nu),   W_j | Sigma ~ MN(M_j, Sigma, V^-1),  j = 1..J,   Lambda = Sigma^-1,   W_j (D, P)

    t = (Lambda W_j, -sum_j W_j^T Lambda W_j / 2, -Lambda / 2, ln|Lambda| / 2),   h = (2 pi)^(-J D P / 2),
    eta = (M_j V, V, Psi + sum_j M_j V M_j^T, nu + D + 1 + J P),
    A = (nu D ln 2 - nu ln|Psi| - J D ln|V|) / 2 + ln Gamma_D(nu / 2),
    mu = (nu Q M_j, -(J D V^-1 + nu sum_j M_j^T Q M_j) / 2, -nu Q / 2, E ln|Lambda| / 2),   Q = Psi^-1,
    E ln|Lambda| = sum_i psi((nu + 1 - i) / 2) + D ln 2 - ln|Psi|,

psi the digamma function. Observations y_j = W_j x + noise of covariance Sigma add (y_j x^T, x x^T, sum_j y_j
y_j^T, J) to eta, and a Gaussian datum is the case P = 1, x = 1. The family is the conjugate prior of

    J = P = 1           a mean and a covariance matrix: the normal-inverse-Wishart
    J = 1               regressions with D outputs; P means with one covariance (V diagonal)
    D = 1               regressions with J outputs and one variance: the normal-inverse-gamma, P = 1 for means

Densities are over (W, Sigma), so that eta = 0 is the flat density. Coefficients are relative to ``origin``, a
constant; where it is near the means, second moments are computed without cancellation. The unconstrained
coordinates are u = (M, R_V, R_Psi, ln(nu + 1 - D)), with R as in `log_cholesky`.

The maps between coordinates go through p = (M, V, Psi, nu): with H = nu sum_j (sym(g_1 M_j^T) - M_j G_2 M_j^T
/ 2) - nu G_3 / 2, the gradient of <g, mu> is

    d/dM_j = nu Q (g_1j - M_j G_2),   d/dV = (J D / 2) V^-1 G_2 V^-1,   d/dPsi = -Q H Q - g_4 Q / 2,
    d/dnu = tr(H Q) / nu + g_4 sum_i psi'((nu + 1 - i) / 2) / 4.

Points theta are arrays (..., J P + D, D): the columns of W_1, .., W_J as rows, and below them the covariance.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np

from bqvi.arrays import (
    Values,
    diagonal,
    diagonal_matrix,
    digamma,
    gammaln,
    like,
    namespace,
    transpose,
    trigamma,
)
from bqvi.families import log_cholesky
from bqvi.families.family import ExponentialFamily
from bqvi.families.gamma import rsample_log_gamma
from gp.arrays import LOG_2PI, Array, to_numpy
from gp.checks import Seed, generator, require_covariance, require_finite, require_shape

_LOG_2 = math.log(2.0)


class MatrixNormalInverseWishart(ExponentialFamily):
    """A batch of distributions of J coefficient matrices and their noise covariance.

    Parameters
    ----------
    mean : (..., J, D, P), M
    precision : (..., P, P), V, symmetric positive definite; for means the number of data that M counts
    scale : (..., D, D), Psi, symmetric positive definite
    dof : (...), nu > D - 1
    origin : the constant that is subtracted from coefficients, of a shape that broadcasts to that of M;
        default 0
    """

    leaf_names = ("", "", "", "")

    def __init__(
        self, mean: Array, precision: Array, scale: Array, dof: Array, origin: np.ndarray | None = None
    ) -> None:
        require_finite("mean", mean)
        *batch, _, d, p = mean.shape
        for name, value, size in (("precision", precision, p), ("scale", scale, d)):
            require_shape(name, value, (*batch, size, size))
            require_covariance(name, value)
        require_shape("dof", dof, tuple(batch))
        lowest = float(to_numpy(dof).min())
        if not lowest > d - 1.0:
            raise ValueError(f"dof is {lowest:.6g}; in D = {d} it must be above D - 1")
        self.origin = np.zeros(1) if origin is None else origin
        self.centred_mean = mean - like(self.origin, mean)
        self.precision, self.scale, self.dof = precision, scale, dof

    def _of(self, mean: Array, precision: Array, scale: Array, dof: Array, **known: Any) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(
            origin=self.origin, centred_mean=mean, precision=precision, scale=scale, dof=dof, **known
        )
        return other

    def from_natural(self, natural: Values) -> Self:
        """From eta, about the same origin; not checked, for use inside loops."""
        linear, precision, second, total = natural
        mean = _divided(linear, precision)
        scale = second - _gram(mean, linear)
        j, d, p = linear.shape[-3:]
        dof = total - (d + 1 + j * p)
        return self._of(mean, precision, 0.5 * (scale + transpose(scale)), dof, natural=natural)

    def from_unconstrained(self, unconstrained: Values) -> Self:
        """Return the family at u = (M, R_V, R_Psi, ln(nu + 1 - D))."""
        mean, *raw, log_excess = unconstrained
        precision_tril, scale_tril = (log_cholesky.factor_at(part) for part in raw)
        dof = namespace(mean).exp(log_excess) + (mean.shape[-2] - 1)
        precision, scale = (factor @ transpose(factor) for factor in (precision_tril, scale_tril))
        return self._of(mean, precision, scale, dof, precision_tril=precision_tril, scale_tril=scale_tril)

    @property
    def n_copies(self) -> int:
        """J."""
        return int(self.centred_mean.shape[-3])

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.centred_mean.shape[-2])

    @property
    def n_inputs(self) -> int:
        """P."""
        return int(self.centred_mean.shape[-1])

    @property
    def _size(self) -> int:
        """J D P."""
        return math.prod(self.centred_mean.shape[-3:])

    @property
    def coefficients(self) -> Array:
        """E[W] = M, (..., J, D, P)."""
        return self.centred_mean + like(self.origin, self.centred_mean)

    @property
    def mean(self) -> Array:
        """E[W] and the harmonic mean E[Lambda]^-1 of the covariance, as a point (..., J P + D, D)."""
        return _packed(self.coefficients, self.scale / self.dof[..., None, None])

    @property
    def mode(self) -> Array:
        """The densest (W, Sigma): M and Psi / (nu + D + 1 + J P), as a point (..., J P + D, D)."""
        return _packed(self.coefficients, self.scale / self.natural[3][..., None, None])

    @cached_property
    def scale_tril(self) -> Array:
        """Lower Cholesky factor of Psi."""
        return _root(self.scale)

    @cached_property
    def precision_tril(self) -> Array:
        """Lower Cholesky factor of V."""
        return _root(self.precision)

    @cached_property
    def scale_inverse(self) -> Array:
        """Q = Psi^-1, (..., D, D)."""
        return _inverse(self.scale_tril)

    @cached_property
    def covariance(self) -> Array:
        """V^-1, of the rows of W in units of Sigma, (..., P, P)."""
        return _inverse(self.precision_tril)

    @cached_property
    def log_determinant(self) -> Array:
        """ln|Psi|, batch-shaped."""
        return _log_determinant(self.scale_tril)

    @cached_property
    def natural(self) -> Values:
        linear = self.centred_mean @ self.precision[..., None, :, :]
        second = self.scale + _gram(self.centred_mean, linear)
        return linear, self.precision, second, self.dof + (self.dimension + 1 + self.n_copies * self.n_inputs)

    @property
    def unconstrained(self) -> Values:
        """u = (M, R_V, R_Psi, ln(nu + 1 - D))."""
        factors = (log_cholesky.coordinates(factor) for factor in (self.precision_tril, self.scale_tril))
        return self.centred_mean, *factors, namespace(self.dof).log(self._excess)

    @property
    def _excess(self) -> Array:
        """nu + 1 - D > 0."""
        return self.dof - (self.dimension - 1)

    @cached_property
    def _halves(self) -> Array:
        """(nu + 1 - i) / 2, (..., D)."""
        return 0.5 * (self.dof[..., None] - like(np.arange(self.dimension), self.dof))

    @cached_property
    def _digammas(self) -> Array:
        """sum_i psi((nu + 1 - i) / 2), batch-shaped."""
        return digamma(self._halves).sum(-1)

    @cached_property
    def expected_precision(self) -> Array:
        """E[Lambda] = nu Q, (..., D, D)."""
        return self.dof[..., None, None] * self.scale_inverse

    @cached_property
    def expected_log_determinant(self) -> Array:
        """E ln|Lambda|, batch-shaped."""
        return self._digammas + self.dimension * _LOG_2 - self.log_determinant

    @cached_property
    def expected_statistics(self) -> Values:
        linear = self.expected_precision[..., None, :, :] @ self.centred_mean
        squares = self.n_copies * self.dimension * self.covariance + _inner(self.centred_mean, linear)
        return linear, -0.5 * squares, -0.5 * self.expected_precision, 0.5 * self.expected_log_determinant

    @cached_property
    def log_normaliser(self) -> Array:
        logs = self.n_copies * self.dimension * _log_determinant(self.precision_tril)
        halves = 0.5 * (self.dof * (self.dimension * _LOG_2 - self.log_determinant) - logs)
        return halves + self._log_gamma

    @property
    def _log_gamma(self) -> Array:
        """ln Gamma_D(nu / 2)."""
        constant = 0.25 * self.dimension * (self.dimension - 1) * math.log(math.pi)
        return gammaln(self._halves).sum(-1) + constant

    @property
    def entropy(self) -> Array:
        # the expectation of minus the quadratic forms is (J D P + nu D) / 2 for all parameters
        quadratic = 0.5 * (self._size * (1.0 + LOG_2PI) + self.dimension * self.dof)
        return quadratic + self.log_normaliser - 0.5 * self.natural[3] * self.expected_log_determinant

    def kl(self, other: MatrixNormalInverseWishart) -> Array:
        """KL(self || other), batch-shaped; both about the same origin."""
        gap = self.centred_mean - other.centred_mean
        squares = _inner(gap, self.expected_precision[..., None, :, :] @ gap)
        ratio = (other.precision * self.covariance).sum((-2, -1)) - self.n_inputs
        logs = _log_determinant(self.precision_tril) - _log_determinant(other.precision_tril)
        means = self.n_copies * self.dimension * (ratio + logs) + (other.precision * squares).sum((-2, -1))
        trace = (other.scale * self.scale_inverse).sum((-2, -1)) - self.dimension
        spread = self.dof * trace + other.dof * (self.log_determinant - other.log_determinant)
        shape = (self.dof - other.dof) * self._digammas
        return 0.5 * (means + spread + shape) + other._log_gamma - self._log_gamma

    def unpacked(self, theta: Array) -> tuple[Array, Array]:
        """W about the origin (L, ..., J, D, P) and covariances (L, ..., D, D) of points ``theta``."""
        rows = self.n_copies * self.n_inputs
        shape = (*theta.shape[:-2], self.n_copies, self.n_inputs, self.dimension)
        w = transpose(theta[..., :rows, :].reshape(shape))
        return w - like(self.origin, theta), theta[..., rows:, :]

    def statistics(self, theta: Array) -> Values:
        w, covariance = self.unpacked(theta)
        factor = _root(covariance)
        precision = _inverse(factor)
        linear = precision[..., None, :, :] @ w
        return linear, -0.5 * _inner(w, linear), -0.5 * precision, -0.5 * _log_determinant(factor)

    def log_base_measure(self, theta: Array) -> Array:
        """-(J D P / 2) ln(2 pi) for each of the points theta (L, ..., J P + D, D)."""
        return namespace(theta).full_like(theta[..., 0, 0], -0.5 * self._size * LOG_2PI)

    def log_prob(self, theta: Array) -> Array:
        w, covariance = self.unpacked(theta)
        factor = _root(covariance)
        inverse = namespace(theta).linalg.inv(factor)
        whitened = inverse[..., None, :, :] @ (w - self.centred_mean)
        squares = (self.precision * _inner(whitened, whitened)).sum((-2, -1))
        rooted = inverse @ self.scale_tril
        trace = (rooted * rooted).sum((-2, -1))
        exponent = -0.5 * (squares + trace + self.natural[3] * _log_determinant(factor))
        return exponent - self.log_normaliser + self.log_base_measure(theta)

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` draws by Bartlett's decomposition, differentiable in torch parameters."""
        rng = generator(seed)
        xp = namespace(self.scale)
        diagonals = xp.exp(0.5 * (rsample_log_gamma(self._halves, n, rng) + _LOG_2))
        below = like(np.tril(rng.standard_normal((n, *self.scale.shape)), -1), self.scale)
        # Lambda = L^-T B B^T L^-1 with Psi = L L^T, so that L B^-T is a root of Sigma
        root = self.scale_tril @ transpose(xp.linalg.inv(below + diagonal_matrix(diagonals)))
        noise = like(rng.standard_normal((n, *self.centred_mean.shape)), self.scale)
        spread = root[..., None, :, :] @ noise @ xp.linalg.inv(self.precision_tril)[..., None, :, :]
        return _packed(self.coefficients + spread, root @ transpose(root))

    def _pulled(self, g: Values) -> Values:
        """d<g, mu> / dp."""
        inverse, second = self.scale_inverse, _symmetric(g[1])
        rest = g[0] - self.centred_mean @ second[..., None, :, :]
        slopes = self.dof[..., None, None, None] * (inverse[..., None, :, :] @ rest)
        cross = _gram(rest + g[0], self.centred_mean)  # twice (g_1 - M G_2 / 2) M^T
        matrix = 0.5 * self.dof[..., None, None] * _symmetric(cross - g[2])
        size = 0.5 * self.n_copies * self.dimension
        precisions = size * self.covariance @ second @ self.covariance
        half = 0.5 * g[3][..., None, None] * inverse
        trace = (matrix * inverse).sum((-2, -1)) / self.dof
        dofs = trace + 0.25 * g[3] * trigamma(self._halves).sum(-1)
        return slopes, precisions, -inverse @ matrix @ inverse - half, dofs

    def _pushed_back(self, slopes: Values) -> Values:
        """The g whose d<g, mu> / dp is ``slopes``."""
        d_mean, d_precision, d_scale, d_dof = slopes
        nu = self.dof
        second = 2.0 / (self.n_copies * self.dimension) * self.precision @ d_precision @ self.precision
        trace = (d_scale * self.scale).sum((-2, -1)) / nu
        curvature = 0.25 * trigamma(self._halves).sum(-1) - 0.5 * self.dimension / nu
        fourth = (d_dof + trace) / curvature
        matrix = -self.scale @ d_scale @ self.scale - 0.5 * fourth[..., None, None] * self.scale
        rest = self.scale[..., None, :, :] @ d_mean / nu[..., None, None, None]
        first = rest + self.centred_mean @ second[..., None, :, :]
        cross = _symmetric(_gram(rest + first, self.centred_mean))
        return first, second, cross - 2.0 * matrix / nu[..., None, None], fourth

    def _moved(self, tangent: Values) -> Values:
        """dp of d eta."""
        m, second = self.centred_mean, _symmetric(tangent[1])
        rest = tangent[0] - m @ second[..., None, :, :]
        scale = _symmetric(tangent[2] - _gram(rest + tangent[0], m))
        return rest @ self.covariance[..., None, :, :], second, scale, tangent[3]

    def _moved_transpose(self, slopes: Values) -> Values:
        """d/d eta of d/dp: the transpose of ``_moved``."""
        d_mean, d_precision, d_scale, d_dof = slopes
        m = self.centred_mean
        # along steps of V W, Psi moves by -(dW V M^T + its transpose)
        half = d_scale[..., None, :, :] @ m
        along = d_mean @ self.covariance[..., None, :, :] - 2.0 * half
        return along, d_precision - _symmetric(_inner(m, along + half)), d_scale, d_dof

    def fisher_product(self, tangent: Values) -> Values:
        """d mu of d eta; F is symmetric, so it is the transpose of d<tangent, mu> / d eta."""
        return self._moved_transpose(self._pulled(tangent))

    def fisher_solve(self, cotangent: Values) -> Values:
        # the inverse of _moved_transpose, then of _pulled
        along, second, third, fourth = cotangent
        m, third = self.centred_mean, _symmetric(third)
        half = third[..., None, :, :] @ m
        d_mean = (along + 2.0 * half) @ self.precision[..., None, :, :]
        d_precision = _symmetric(second + _inner(m, along + half))
        return self._pushed_back((d_mean, d_precision, third, fourth))

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        mean, precision, scale, dof = self._pulled(gradient)
        precisions = log_cholesky.pulled_back(precision, self.precision_tril)
        return mean, precisions, log_cholesky.pulled_back(scale, self.scale_tril), self._excess * dof

    def gradient_to_natural(self, gradient: Values) -> Values:
        mean, precision, scale, dof = gradient
        precisions, scales = (
            log_cholesky.pushed_forward(raw, factor, namespace(factor).linalg.inv(factor))
            for raw, factor in ((precision, self.precision_tril), (scale, self.scale_tril))
        )
        return self._pushed_back((mean, precisions, scales, dof / self._excess))

    def retract(self, tangent: Values) -> Self:
        mean, precision, scale, dof = self._moved(tangent)
        excess = self._excess + dof + 0.5 * dof * dof / self._excess
        return self._of(
            self.centred_mean + mean,
            _positive(self.precision, precision, self.covariance),
            _positive(self.scale, scale, self.scale_inverse),
            excess + (self.dimension - 1),
        )


def _positive(value: Array, step: Array, inverse: Array) -> Array:
    """``value + step`` to first order, positive definite for every step."""
    return _symmetric(value + step + 0.5 * step @ inverse @ step)


def _symmetric(a: Array) -> Array:
    return 0.5 * (a + transpose(a))


def _gram(a: Array, b: Array) -> Array:
    """sum_j a_j b_j^T of (..., J, D, P)."""
    return (a @ transpose(b)).sum(-3)


def _inner(a: Array, b: Array) -> Array:
    """sum_j a_j^T b_j of (..., J, D, P)."""
    return (transpose(a) @ b).sum(-3)


# for a 1 x 1 matrix, square root and reciprocal take a tenth of the time of LAPACK's routines


def _root(a: Array) -> Array:
    """The lower Cholesky factor; LinAlgError if there is none."""
    xp = namespace(a)
    if a.shape[-1] > 1:
        return xp.linalg.cholesky(a)
    if not (a > 0.0).all():
        raise np.linalg.LinAlgError("a variance is not positive")
    return xp.sqrt(a)


def _inverse(factor: Array) -> Array:
    """The inverse of L L^T, given L."""
    if factor.shape[-1] == 1:
        return 1.0 / (factor * factor)
    root = namespace(factor).linalg.inv(factor)
    return transpose(root) @ root


def _log_determinant(factor: Array) -> Array:
    """ln|L L^T|, given L."""
    return 2.0 * namespace(factor).log(diagonal(factor)).sum(-1)


def _divided(linear: Array, precision: Array) -> Array:
    """M_j from M_j V (..., J, D, P); for one input by division, which is exact, and NaN for 0 / 0."""
    if precision.shape[-1] == 1:
        return linear / precision[..., None, :, :]
    return transpose(namespace(linear).linalg.solve(precision[..., None, :, :], transpose(linear)))


def _packed(coefficients: Array, covariance: Array) -> Array:
    """(..., J P + D, D)."""
    rows = transpose(coefficients)
    shape = (*rows.shape[:-3], rows.shape[-3] * rows.shape[-2], rows.shape[-1])
    return namespace(rows).concat([rows.reshape(shape), covariance], axis=-2)
