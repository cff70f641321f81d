"""The four shapes of a Gaussian component's unknown covariance.

Each shape is what a Gaussian mixture needs to know of a covariance that is

    full        one matrix for each component           NormalInverseWishart, batch (K,), J = 1
    tied        one matrix for all                      NormalInverseWishart, no batch, J = K
    diagonal    a variance for each coordinate          NormalInverseGamma, batch (K, D), D = 1
    spherical   one variance for each component         NormalInverseGamma, batch (K,)

With y = x - origin, m_k the means about the origin, L_k the expected precisions, the expected log density is

    E ln N(x | mu_k, Sigma_k) + (D / 2) ln(2 pi) = (E ln|L_k| - s_k - (y - m_k)^T L_k (y - m_k)) / 2,

s_k = D / kappa_k, which is affine in T(y): y and the products of its columns that the shape has a use for.
A point estimate has s_k = 0 and its own precision.

Of a row with missing columns m, observed ones o, the missing ones are integrated out. Diagonal: they are left
out of both the likelihood and the statistics, which is exact. Otherwise they are latent variables with a
factor of q of their own, whose optimum is N(m_m - L_mm^-1 L_mo (y_o - m_o), L_mm^-1) given z = k, so that

    rho = (E ln|L| - ln|L_mm| - s - (y_o - m_o)^T S (y_o - m_o)) / 2,   S = L_oo - L_om L_mm^-1 L_mo,

and the statistics are E[T] (Ghahramani and Jordan 1994, whose EM this is at a point: there rho is exact).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from bqvi.arrays import Values, diagonal, namespace, transpose
from bqvi.families import NormalInverseGamma, NormalInverseWishart
from bqvi.models.mixture import Lift
from gp.arrays import Array


@dataclass(frozen=True)
class GaussianPrior:
    """The prior of each component's mean and covariance.

    mu_k | Sigma_k ~ N(mean, Sigma_k / strength);  E[Sigma_k] is ``scale`` where ``dof`` is the least that
    has an expectation plus one: D + 2 for a matrix, 3 for a variance.
    """

    mean: np.ndarray
    """(D,)."""
    strength: float
    scale: np.ndarray
    """(D, D) for a matrix, (D,) for a diagonal, () for one variance: Psi, or s."""
    dof: float
    origin: np.ndarray
    """(D,), what the families' coordinates are taken about."""


class GaussianExpectations(NamedTuple):
    """What the expected log density is made of; the leading axes are (K,), or (L, K) for L points."""

    means: Array
    """m, (..., K, D), about the origin."""
    precision: Array
    """(..., K, D, D), (..., K, D) or (..., K), by the shape."""
    log_determinant: Array
    """E ln|L|, (..., K); of a diagonal each column's part of it, (..., K, D)."""
    spread: Array
    """s, of the same shape."""


class Covariance(Protocol):
    """A shape; see the module's docstring."""

    def lift(self, dimension: int) -> Lift:
        """T."""

    def dof(self, dimension: int) -> float:
        """The smallest whole number of degrees of freedom with E[Sigma] = scale."""

    def scale(self, variances: np.ndarray) -> np.ndarray:
        """A scale from variances (D,) of the columns."""

    def prior(self, prior: GaussianPrior, n_components: int) -> Any:
        """The prior of all components."""

    def moments(self, q: Any) -> GaussianExpectations:
        """Under q, one of the shape's family."""

    def moments_at(self, q: Any, theta: Array) -> GaussianExpectations:
        """At points theta of q's kind."""

    def slope(self, moments: GaussianExpectations) -> tuple[Array, Array]:
        """Slopes (..., K, P), and offsets (E ln|L| - s - m^T L m) / 2, (..., K)."""

    def marginal(self, moments: GaussianExpectations, shown: np.ndarray) -> GaussianExpectations:
        """What is left for the columns ``shown`` (D,) once the others are integrated out."""

    def completed(
        self, moments: GaussianExpectations, shown: np.ndarray, counts: np.ndarray, sums: np.ndarray
    ) -> Values:
        """``statistics`` of rows with the columns ``shown``, of sums (K, P) of T of those columns."""

    def statistics(self, counts: np.ndarray, sums: np.ndarray, dimension: int) -> Values:
        """What data add to the family's natural parameters, of sums (K, P) of T."""

    def covariances(self, theta: Array, dimension: int) -> np.ndarray:
        """(K, D, D) of a point, and the means (K, D), as one point's `unpacked`."""


@dataclass(frozen=True)
class _Products:
    """T(y) = (y, y_i y_j for i <= j), row by row of the upper triangle."""

    dimension: int

    @property
    def size(self) -> int:
        """P."""
        return self.dimension + self.dimension * (self.dimension + 1) // 2

    def fill(self, columns: Any, out: Any) -> None:
        """Write T."""
        d = self.dimension
        out[:d] = columns
        start = d
        for i in range(d):
            stop = start + d - i
            part = out[start:stop]
            part[...] = columns[i:]
            part *= columns[i]
            start = stop


@dataclass(frozen=True)
class _Squares:
    """T(y) = (y, y_i^2)."""

    dimension: int

    @property
    def size(self) -> int:
        """P."""
        return 2 * self.dimension

    def fill(self, columns: Any, out: Any) -> None:
        """Write T."""
        out[: self.dimension] = columns
        out[self.dimension :] = columns * columns


@dataclass(frozen=True)
class _Length:
    """T(y) = (y, |y|^2)."""

    dimension: int

    @property
    def size(self) -> int:
        """P."""
        return self.dimension + 1

    def fill(self, columns: Any, out: Any) -> None:
        """Write T."""
        out[: self.dimension] = columns
        out[self.dimension] = (columns * columns).sum(0)


def _upper(precision: Array) -> Array:
    """The slope of y_i y_j, i <= j, in -y^T L y / 2: (..., K, D (D + 1) / 2)."""
    rows, columns = np.triu_indices(precision.shape[-1])
    halved = np.where(rows == columns, -0.5, -1.0)
    scale = precision.new_tensor(halved) if hasattr(precision, "new_tensor") else halved
    return precision[..., rows, columns] * scale


def _matrices(upper: np.ndarray, dimension: int) -> np.ndarray:
    """(K, D, D) of upper triangles (K, D (D + 1) / 2)."""
    rows, columns = np.triu_indices(dimension)
    full = np.empty((len(upper), dimension, dimension))
    full[:, rows, columns] = upper
    full[:, columns, rows] = upper
    return full


def _matrix_slope(moments: GaussianExpectations) -> tuple[Array, Array]:
    linear = (moments.precision @ moments.means[..., None])[..., 0]
    slope = namespace(linear).concat([linear, _upper(moments.precision)], axis=-1)
    squares = (linear * moments.means).sum(-1)
    return slope, 0.5 * (moments.log_determinant - moments.spread - squares)


def _parted(moments: GaussianExpectations, shown: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the other columns given those ``shown``: covariance L_mm^-1, slopes L_mm^-1 L_mo, and ln|L_mm|."""
    rest = moments.precision[:, ~shown]
    own = rest[:, :, ~shown]
    covariance = np.linalg.inv(own)
    return covariance, covariance @ rest[:, :, shown], np.linalg.slogdet(own)[1]


def _matrix_marginal(moments: GaussianExpectations, shown: np.ndarray) -> GaussianExpectations:
    """The Schur complement of the other columns' precision."""
    _, slopes, level = _parted(moments, shown)
    left = moments.precision[:, shown]
    return GaussianExpectations(
        moments.means[:, shown],
        left[:, :, shown] - left[:, :, ~shown] @ slopes,
        moments.log_determinant - level,
        moments.spread,
    )


def _matrix_sums(
    moments: GaussianExpectations, shown: np.ndarray, counts: np.ndarray, sums: np.ndarray
) -> np.ndarray:
    """Sums (K, P) of E[T] of all columns, of those of the columns ``shown``.

    The others are y_m = c - B y_o + noise, B = L_mm^-1 L_mo and c = m_m + B m_o, the noise's covariance
    L_mm^-1.
    """
    covariance, slopes, _ = _parted(moments, shown)
    count = int(shown.sum())
    d = len(shown)
    own, seconds = sums[:, :count], _matrices(sums[:, count:], count)
    centre = moments.means[:, ~shown] + (slopes @ moments.means[:, shown, None])[..., 0]
    moved = (slopes @ own[..., None])[..., 0]
    linear, full = np.empty((len(sums), d)), np.empty((len(sums), d, d))
    linear[:, shown], linear[:, ~shown] = own, counts[:, None] * centre - moved
    across = centre[..., None] * own[:, None, :] - slopes @ seconds
    product = centre[..., None] * moved[:, None, :]
    rest = counts[:, None, None] * (covariance + centre[..., None] * centre[:, None, :])
    rest += slopes @ seconds @ transpose(slopes) - product - transpose(product)
    o, m = np.flatnonzero(shown), np.flatnonzero(~shown)
    full[:, o[:, None], o], full[:, m[:, None], m] = seconds, rest
    full[:, m[:, None], o], full[:, o[:, None], m] = across, transpose(across)
    rows, columns = np.triu_indices(d)
    return np.column_stack([linear, full[:, rows, columns]])


def _matrix_moments_at(q: NormalInverseWishart, theta: Array) -> GaussianExpectations:
    means, covariance = q.unpacked(theta)
    xp = namespace(theta)
    factor = xp.linalg.cholesky(covariance)
    half = xp.linalg.inv(factor)
    log_determinant = -2.0 * xp.log(diagonal(factor)).sum(-1)
    return GaussianExpectations(means, transpose(half) @ half, log_determinant, 0.0 * log_determinant)


@dataclass(frozen=True)
class Full:
    """One matrix for each component."""

    def lift(self, dimension: int) -> Lift:
        """y and all products."""
        return _Products(dimension)

    def dof(self, dimension: int) -> float:
        """D + 2."""
        return dimension + 2.0

    def scale(self, variances: np.ndarray) -> np.ndarray:
        """A diagonal matrix."""
        return np.diag(variances)

    def prior(self, prior: GaussianPrior, n_components: int) -> NormalInverseWishart:
        """Batch (K,), J = 1."""
        d = len(prior.mean)
        return NormalInverseWishart(
            np.tile(prior.mean, (n_components, 1, 1)),
            np.full((n_components, 1), prior.strength),
            np.broadcast_to(prior.scale, (n_components, d, d)).copy(),
            np.full(n_components, prior.dof),
            prior.origin,
        )

    def moments(self, q: NormalInverseWishart) -> GaussianExpectations:
        """Under q."""
        spread = q.dimension / q.strength[:, 0]
        return GaussianExpectations(
            q.centred_mean[:, 0], q.expected_precision, q.expected_log_determinant, spread
        )

    def moments_at(self, q: NormalInverseWishart, theta: Array) -> GaussianExpectations:
        """At points (..., K, 1 + D, D)."""
        found = _matrix_moments_at(q, theta)
        return found._replace(means=found.means[..., 0, :])

    def slope(self, moments: GaussianExpectations) -> tuple[Array, Array]:
        """Of y and all products."""
        return _matrix_slope(moments)

    def marginal(self, moments: GaussianExpectations, shown: np.ndarray) -> GaussianExpectations:
        """By the Schur complement."""
        return _matrix_marginal(moments, shown)

    def completed(
        self, moments: GaussianExpectations, shown: np.ndarray, counts: np.ndarray, sums: np.ndarray
    ) -> Values:
        """With the expectations of the other columns given those shown."""
        return self.statistics(counts, _matrix_sums(moments, shown, counts, sums), len(shown))

    def statistics(self, counts: np.ndarray, sums: np.ndarray, dimension: int) -> Values:
        """(sum r y, N, sum r y y^T, N)."""
        return sums[:, None, :dimension], counts[:, None], _matrices(sums[:, dimension:], dimension), counts

    def covariances(self, theta: Array, dimension: int) -> np.ndarray:
        """(K, D, D)."""
        del dimension
        return np.asarray(theta[:, 1:])


@dataclass(frozen=True)
class Tied:
    """One matrix for all components."""

    def lift(self, dimension: int) -> Lift:
        """y and all products."""
        return _Products(dimension)

    def dof(self, dimension: int) -> float:
        """D + 2."""
        return dimension + 2.0

    def scale(self, variances: np.ndarray) -> np.ndarray:
        """A diagonal matrix."""
        return np.diag(variances)

    def prior(self, prior: GaussianPrior, n_components: int) -> NormalInverseWishart:
        """No batch, J = K."""
        return NormalInverseWishart(
            np.tile(prior.mean, (n_components, 1)),
            np.full(n_components, prior.strength),
            np.asarray(prior.scale, float),
            np.asarray(prior.dof, float),
            prior.origin,
        )

    def moments(self, q: NormalInverseWishart) -> GaussianExpectations:
        """Under q."""
        return _shared(q, q.centred_mean, q.expected_precision, q.expected_log_determinant)

    def moments_at(self, q: NormalInverseWishart, theta: Array) -> GaussianExpectations:
        """At points (..., K + D, D)."""
        found = _matrix_moments_at(q, theta)
        shared = found.precision[..., None, :, :] + 0.0 * found.means[..., None]
        level = found.log_determinant[..., None] + 0.0 * found.means[..., 0]
        return GaussianExpectations(found.means, shared, level, 0.0 * level)

    def slope(self, moments: GaussianExpectations) -> tuple[Array, Array]:
        """Of y and all products."""
        return _matrix_slope(moments)

    def marginal(self, moments: GaussianExpectations, shown: np.ndarray) -> GaussianExpectations:
        """By the Schur complement."""
        return _matrix_marginal(moments, shown)

    def completed(
        self, moments: GaussianExpectations, shown: np.ndarray, counts: np.ndarray, sums: np.ndarray
    ) -> Values:
        """With the expectations of the other columns given those shown."""
        return self.statistics(counts, _matrix_sums(moments, shown, counts, sums), len(shown))

    def statistics(self, counts: np.ndarray, sums: np.ndarray, dimension: int) -> Values:
        """(sum r y, N_k, sum y y^T, N)."""
        second = _matrices(sums[:, dimension:].sum(0)[None], dimension)[0]
        return sums[:, :dimension], counts, second, counts.sum()

    def covariances(self, theta: Array, dimension: int) -> np.ndarray:
        """(K, D, D), all alike."""
        k = len(theta) - dimension
        return np.tile(theta[k:], (k, 1, 1))


def _shared(
    q: NormalInverseWishart, means: Array, precision: Array, log_determinant: Array
) -> GaussianExpectations:
    k = q.n_means
    every = np.broadcast_to(precision, (k, *precision.shape))
    return GaussianExpectations(
        means, every, np.broadcast_to(log_determinant, (k,)), q.dimension / q.strength
    )


@dataclass(frozen=True)
class Diagonal:
    """A variance for each coordinate of each component."""

    def lift(self, dimension: int) -> Lift:
        """y and its squares."""
        return _Squares(dimension)

    def dof(self, dimension: int) -> float:
        """3."""
        del dimension
        return 3.0

    def scale(self, variances: np.ndarray) -> np.ndarray:
        """The variances themselves."""
        return variances

    def prior(self, prior: GaussianPrior, n_components: int) -> NormalInverseGamma:
        """Batch (K, D), each of dimension 1."""
        shape = (n_components, len(prior.mean))
        return NormalInverseGamma(
            np.broadcast_to(prior.mean[:, None], (*shape, 1)).copy(),
            np.full(shape, prior.strength),
            np.broadcast_to(prior.scale, shape).copy(),
            np.full(shape, prior.dof),
            prior.origin[:, None],
        )

    def moments(self, q: NormalInverseGamma) -> GaussianExpectations:
        """Under q."""
        logs = q.expected_log_precision
        return GaussianExpectations(q.centred_mean[..., 0], q.expected_precision, logs, 1.0 / q.strength)

    def moments_at(self, q: NormalInverseGamma, theta: Array) -> GaussianExpectations:
        """At points (..., K, D, 2)."""
        linear, _, halved, log_half = q.statistics(theta)
        precision = -2.0 * halved
        logs = 2.0 * log_half
        return GaussianExpectations(linear[..., 0] / precision, precision, logs, 0.0 * logs)

    def slope(self, moments: GaussianExpectations) -> tuple[Array, Array]:
        """Of y and its squares."""
        linear = moments.precision * moments.means
        slope = namespace(linear).concat([linear, -0.5 * moments.precision], axis=-1)
        squares = linear * moments.means
        return slope, 0.5 * (moments.log_determinant - moments.spread - squares).sum(-1)

    def marginal(self, moments: GaussianExpectations, shown: np.ndarray) -> GaussianExpectations:
        """The columns are independent: those shown."""
        return GaussianExpectations(*(part[:, shown] for part in moments))

    def completed(
        self, moments: GaussianExpectations, shown: np.ndarray, counts: np.ndarray, sums: np.ndarray
    ) -> Values:
        """Nothing for the other columns."""
        del moments
        found = self.statistics(counts, sums, int(shown.sum()))
        filled = tuple(np.zeros((len(counts), len(shown), *part.shape[2:])) for part in found)
        for all_columns, part in zip(filled, found, strict=True):
            all_columns[:, shown] = part
        return filled

    def statistics(self, counts: np.ndarray, sums: np.ndarray, dimension: int) -> Values:
        """(sum r y, N, sum r y^2, N), coordinate by coordinate."""
        every = np.tile(counts[:, None], (1, dimension))
        return sums[:, :dimension, None], every, sums[:, dimension:], every

    def covariances(self, theta: Array, dimension: int) -> np.ndarray:
        """(K, D, D), diagonal."""
        return np.asarray(np.exp(theta[..., 1])[..., None] * np.eye(dimension))


@dataclass(frozen=True)
class Spherical:
    """One variance for each component."""

    def lift(self, dimension: int) -> Lift:
        """y and its square length."""
        return _Length(dimension)

    def dof(self, dimension: int) -> float:
        """3."""
        del dimension
        return 3.0

    def scale(self, variances: np.ndarray) -> np.ndarray:
        """The mean variance."""
        return np.asarray(variances.mean())

    def prior(self, prior: GaussianPrior, n_components: int) -> NormalInverseGamma:
        """Batch (K,)."""
        return NormalInverseGamma(
            np.tile(prior.mean, (n_components, 1)),
            np.full(n_components, prior.strength),
            np.full(n_components, prior.scale),
            np.full(n_components, prior.dof),
            prior.origin,
        )

    def moments(self, q: NormalInverseGamma) -> GaussianExpectations:
        """Under q."""
        logs = q.dimension * q.expected_log_precision
        return GaussianExpectations(q.centred_mean, q.expected_precision, logs, q.dimension / q.strength)

    def moments_at(self, q: NormalInverseGamma, theta: Array) -> GaussianExpectations:
        """At points (..., K, D + 1)."""
        linear, _, halved, log_half = q.statistics(theta)
        precision = -2.0 * halved
        logs = 2.0 * q.dimension * log_half
        return GaussianExpectations(linear / precision[..., None], precision, logs, 0.0 * logs)

    def slope(self, moments: GaussianExpectations) -> tuple[Array, Array]:
        """Of y and its square length."""
        linear = moments.precision[..., None] * moments.means
        slope = namespace(linear).concat([linear, -0.5 * moments.precision[..., None]], axis=-1)
        squares = (linear * moments.means).sum(-1)
        return slope, 0.5 * (moments.log_determinant - moments.spread - squares)

    def marginal(self, moments: GaussianExpectations, shown: np.ndarray) -> GaussianExpectations:
        """The columns shown; the others keep the variance's share of what they are."""
        logs = moments.log_determinant - (~shown).sum() * np.log(moments.precision)
        return moments._replace(means=moments.means[:, shown], log_determinant=logs)

    def completed(
        self, moments: GaussianExpectations, shown: np.ndarray, counts: np.ndarray, sums: np.ndarray
    ) -> Values:
        """With the other columns at their means, and their variance."""
        rest = moments.means[:, ~shown]
        linear = np.empty((len(counts), len(shown)))
        linear[:, shown], linear[:, ~shown] = sums[:, :-1], counts[:, None] * rest
        squares = (rest * rest).sum(-1) + rest.shape[1] / moments.precision
        return self.statistics(counts, np.column_stack([linear, sums[:, -1] + counts * squares]), len(shown))

    def statistics(self, counts: np.ndarray, sums: np.ndarray, dimension: int) -> Values:
        """(sum r y, N, sum r |y|^2, N D)."""
        return sums[:, :dimension], counts, sums[:, dimension], counts * dimension

    def covariances(self, theta: Array, dimension: int) -> np.ndarray:
        """(K, D, D), multiples of the identity."""
        return np.asarray(np.exp(theta[:, -1])[:, None, None] * np.eye(dimension))


COVARIANCES: dict[str, Covariance] = {
    "full": Full(),
    "diagonal": Diagonal(),
    "spherical": Spherical(),
    "tied": Tied(),
}
