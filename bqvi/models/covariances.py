"""The four shapes of a Gaussian component's unknown covariance.

All have the prior `families.MatrixNormalInverseWishart`, of means and covariances laid out as

    full        one matrix for each component           batch (K,),   J = P = 1
    tied        one matrix for all                      no batch, J = 1, P = K
    diagonal    a variance for each coordinate          batch (K, D), J = P = 1, of one dimension each
    spherical   one variance for each component         batch (K,), J = D, P = 1, of one dimension

With y = x - origin the expected log density is <E[t], s(y)>, s the sufficient statistics of a datum:

    E ln N(x | mu_k, Sigma_k) + (D / 2) ln(2 pi) = c_k + b_k^T y - y^T L_k y / 2,

b_k = E[Lambda mu], L_k = E[Lambda], c_k = E[ln|Lambda| - mu^T Lambda mu] / 2. It is affine in T(y): y and
those products of its columns that the shape needs. For a point estimate E[t] is t at the point. In a row with
missing columns m and observed columns o, the missing ones are integrated out. With a diagonal shape they are
left out of both the likelihood and the statistics, which is exact. With other shapes they are latent
variables with a factor of q of their own, whose optimum is N(L_mm^-1 (b_m - L_mo y_o), L_mm^-1) given z = k,
so that

    b = b_o - L_om L_mm^-1 b_m,   L = L_oo - L_om L_mm^-1 L_mo,
    c = c_k + (b_m^T L_mm^-1 b_m - ln|L_mm|) / 2,

and the statistics are E[T] (Ghahramani and Jordan 1994, whose EM this is at a point: there c is exact).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bqvi.arrays import Values, diagonal, namespace, transpose
from bqvi.families import MatrixNormalInverseWishart
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
    """The origin (D,) of the families' coordinates."""


class GaussianExpectations(NamedTuple):
    """The terms of the expected log density; the leading axes are (K,), or (L, K) for L points."""

    linear: Array
    """b, (..., K, D)."""
    precision: Array
    """L, (..., K, D, D), (..., K, D) or (..., K), by the shape."""
    offset: Array
    """c, (..., K); of a diagonal each column's part of it, (..., K, D)."""


def _products(columns: Any, out: Any) -> None:
    """y, and y_i y_j for i <= j, row by row of the upper triangle."""
    start = d = len(columns)
    out[:d] = columns
    for i in range(d):
        stop = start + d - i
        part = out[start:stop]
        part[...] = columns[i:]
        part *= columns[i]
        start = stop


def _squares(columns: Any, out: Any) -> None:
    """y, and y_i^2."""
    out[: len(columns)] = columns
    out[len(columns) :] = columns * columns


def _length(columns: Any, out: Any) -> None:
    """y, and |y|^2."""
    out[: len(columns)] = columns
    out[len(columns)] = (columns * columns).sum(0)


@cache
def _triangle(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows and columns of an upper triangle, cached for the iterations."""
    return np.triu_indices(dimension)


def _upper(precision: Array) -> Array:
    """The slope of y_i y_j, i <= j, in -y^T L y / 2: (..., K, D (D + 1) / 2)."""
    rows, columns = _triangle(precision.shape[-1])
    halved = np.where(rows == columns, -0.5, -1.0)
    scale = precision.new_tensor(halved) if hasattr(precision, "new_tensor") else halved
    return precision[..., rows, columns] * scale


def matrices_of(upper: np.ndarray, dimension: int) -> np.ndarray:
    """(K, D, D), D = ``dimension``, of ``upper`` triangles (K, D (D + 1) / 2)."""
    rows, columns = _triangle(dimension)
    full = np.empty((len(upper), dimension, dimension))
    full[:, rows, columns] = upper
    full[:, columns, rows] = upper
    return full


def _parted(
    expected: GaussianExpectations, shown: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """L_mm^-1, L_mm^-1 L_mo, L_mm^-1 b_m and ln|L_mm| for the columns that are not ``shown``, given those."""
    rest = expected.precision[:, ~shown]
    own = rest[:, :, ~shown]
    covariance = np.linalg.inv(own)
    centre = (covariance @ expected.linear[:, ~shown, None])[..., 0]
    return covariance, covariance @ rest[:, :, shown], centre, np.linalg.slogdet(own)[1]


def _matrix_sums(
    expected: GaussianExpectations, shown: np.ndarray, counts: np.ndarray, sums: np.ndarray
) -> np.ndarray:
    """The sums (K, P) of E[T] of all columns, from those of the columns ``shown``.

    The other columns are y_m = c - B y_o + noise, with B = L_mm^-1 L_mo, c = L_mm^-1 b_m, and noise of
    covariance L_mm^-1.
    """
    covariance, slopes, centre, _ = _parted(expected, shown)
    count = int(shown.sum())
    d = len(shown)
    own, seconds = sums[:, :count], matrices_of(sums[:, count:], count)
    moved = (slopes @ own[..., None])[..., 0]
    linear, full = np.empty((len(sums), d)), np.empty((len(sums), d, d))
    linear[:, shown], linear[:, ~shown] = own, counts[:, None] * centre - moved
    cross = centre[..., None] * own[:, None, :] - slopes @ seconds
    product = centre[..., None] * moved[:, None, :]
    rest = counts[:, None, None] * (covariance + centre[..., None] * centre[:, None, :])
    rest += slopes @ seconds @ transpose(slopes) - product - transpose(product)
    o, m = np.flatnonzero(shown), np.flatnonzero(~shown)
    full[:, o[:, None], o], full[:, m[:, None], m] = seconds, rest
    full[:, m[:, None], o], full[:, o[:, None], m] = cross, transpose(cross)
    rows, columns = _triangle(d)
    return np.column_stack([linear, full[:, rows, columns]])


def _family(
    prior: GaussianPrior, shape: tuple[int, ...], place: tuple[int, ...], scale: np.ndarray
) -> MatrixNormalInverseWishart:
    """The prior of means laid out in ``shape`` (..., J, D, P), where one of them has the axes ``place``."""
    *batch, _, d, p = shape
    mean = np.broadcast_to(prior.mean.reshape(place), shape).copy()
    precision = np.broadcast_to(prior.strength * np.eye(p), (*batch, p, p)).copy()
    scales = np.broadcast_to(scale, (*batch, d, d)).copy()
    dof = np.full(batch, float(prior.dof))
    return MatrixNormalInverseWishart(mean, precision, scales, dof, prior.origin.reshape(place))


@dataclass(frozen=True)
class Matrix:
    """One matrix for each component; ``tied``: one for all.

    Methods take the dimension D, the ``variances`` (D,) of columns, the statistics ``t`` of the family (their
    expectations, or those at a point), the ``expected`` terms for all D columns, those ``shown`` (D,), the
    responsibilities of rows summed, ``counts`` (K,), the ``sums`` of T weighted by them (K, P), and the
    ``coefficients`` and ``covariance`` of a point, as `MatrixNormalInverseWishart.unpacked` returns them.
    """

    tied: bool = False

    def lift(self, dimension: int) -> Lift:
        """T, from y to y and the products of its entries that the shape needs, (P,)."""
        return Lift(dimension + dimension * (dimension + 1) // 2, _products)

    def dof(self, dimension: int) -> float:
        """The smallest whole number of degrees of freedom with E[Sigma] = scale."""
        return dimension + 2.0

    def scale(self, variances: np.ndarray) -> np.ndarray:
        """The scale of a prior for columns with such variances: (D, D), (D,) or (), by the shape."""
        return np.diag(variances)

    def prior(self, prior: GaussianPrior, n_components: int) -> MatrixNormalInverseWishart:
        """K = ``n_components`` means and covariances with that ``prior`` each; if tied, P = K."""
        d = len(prior.mean)
        shape = (1, d, n_components) if self.tied else (n_components, 1, d, 1)
        return _family(prior, shape, (d, 1), prior.scale)

    def expectations(self, t: Values) -> GaussianExpectations:
        """The terms b, L and c; b is E[Lambda mu_k], if tied a column of E[Lambda (mu_1, ..., mu_K)]."""
        linear, squares, halved, half_log = t
        if not self.tied:
            return GaussianExpectations(linear[..., 0, :, 0], -2.0 * halved, squares[..., 0, 0] + half_log)
        linear = transpose(linear[..., 0, :, :])
        xp = namespace(linear)
        precision = xp.broadcast_to(-2.0 * halved[..., None, :, :], (*linear.shape, linear.shape[-1]))
        return GaussianExpectations(linear, precision, diagonal(squares) + half_log[..., None])

    def slope(self, expected: GaussianExpectations) -> tuple[Array, Array]:
        """The expected log density as affine in T: its slopes (..., K, P) and offsets (..., K)."""
        parts = [expected.linear, _upper(expected.precision)]
        return namespace(expected.linear).concat(parts, axis=-1), expected.offset

    def marginal(self, expected: GaussianExpectations, shown: np.ndarray) -> GaussianExpectations:
        """The terms for the columns shown; the precision is the Schur complement of that of the others."""
        _, slopes, centre, level = _parted(expected, shown)
        cross = expected.precision[:, shown][:, :, ~shown]
        return GaussianExpectations(
            expected.linear[:, shown] - (cross @ centre[..., None])[..., 0],
            expected.precision[:, shown][:, :, shown] - cross @ slopes,
            expected.offset + 0.5 * ((expected.linear[:, ~shown] * centre).sum(-1) - level),
        )

    def completed(
        self, expected: GaussianExpectations, shown: np.ndarray, counts: np.ndarray, sums: np.ndarray
    ) -> Values:
        """The statistics of rows with the columns shown; the others have their expectations given those."""
        return self.statistics(counts, _matrix_sums(expected, shown, counts, sums), len(shown))

    def statistics(self, counts: np.ndarray, sums: np.ndarray, dimension: int) -> Values:
        """(sum r y, N_k, sum r y y^T, N_k); if tied, the last two are sums over all components."""
        if not self.tied:
            linear, count = sums[:, None, :dimension, None], counts[:, None, None]
            return linear, count, matrices_of(sums[:, dimension:], dimension), counts
        second = matrices_of(sums[:, dimension:].sum(0)[None], dimension)[0]
        return sums[:, :dimension].T[None], np.diag(counts), second, counts.sum()

    def each(self, coefficients: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean of each component, (K, D), and its covariance matrix, (K, D, D)."""
        if not self.tied:
            return coefficients[:, 0, :, 0], covariance
        return coefficients[0].T, np.tile(covariance, (coefficients.shape[-1], 1, 1))


@dataclass(frozen=True)
class Variances:
    """A variance for each coordinate of each component; ``shared``: one for all its coordinates.

    Methods are those of `Matrix`: of a dimension, variances, a prior of n_components, t, expected terms,
    columns shown, counts, sums, coefficients and a covariance.
    """

    shared: bool = False

    def lift(self, dimension: int) -> Lift:
        return Lift(dimension + 1, _length) if self.shared else Lift(2 * dimension, _squares)

    def dof(self, dimension: int) -> float:
        """3, whatever the dimension."""
        return 3.0

    def scale(self, variances: np.ndarray) -> np.ndarray:
        """The variances, or their mean."""
        return np.asarray(variances.mean()) if self.shared else variances

    def prior(self, prior: GaussianPrior, n_components: int) -> MatrixNormalInverseWishart:
        """A family with batch (K, D); if shared, with batch (K,) and J = D."""
        d = len(prior.mean)
        if self.shared:
            return _family(prior, (n_components, d, 1, 1), (d, 1, 1), prior.scale)
        return _family(prior, (n_components, d, 1, 1, 1), (d, 1, 1, 1), prior.scale[:, None, None])

    def expectations(self, t: Values) -> GaussianExpectations:
        """The terms of each column by itself, as columns are independent, unless they share a variance."""
        linear, squares, halved, half_log = t
        linear = linear[..., 0, 0] if self.shared else linear[..., 0, 0, 0]
        logs = linear.shape[-1] * half_log if self.shared else half_log
        return GaussianExpectations(linear, -2.0 * halved[..., 0, 0], squares[..., 0, 0] + logs)

    def slope(self, expected: GaussianExpectations) -> tuple[Array, Array]:
        """The slopes of y and of its squares, or of |y|^2."""
        halved = -0.5 * expected.precision
        parts = [expected.linear, halved[..., None] if self.shared else halved]
        offset = expected.offset if self.shared else expected.offset.sum(-1)
        return namespace(expected.linear).concat(parts, axis=-1), offset

    def marginal(self, expected: GaussianExpectations, shown: np.ndarray) -> GaussianExpectations:
        """The terms of the columns shown; others contribute to a shared variance alone."""
        if not self.shared:
            return GaussianExpectations(*(part[:, shown] for part in expected))
        linear, precision, offset = expected
        squares = (linear[:, ~shown] ** 2).sum(-1) / precision - (~shown).sum() * np.log(precision)
        return GaussianExpectations(linear[:, shown], precision, offset + 0.5 * squares)

    def completed(
        self, expected: GaussianExpectations, shown: np.ndarray, counts: np.ndarray, sums: np.ndarray
    ) -> Values:
        """The missing columns add nothing, which is exact as columns are independent.

        Beside a shared variance they are at their means, and have their variance.
        """
        if not self.shared:
            found = self.statistics(counts, sums, int(shown.sum()))
            filled = tuple(np.zeros((len(counts), len(shown), *part.shape[2:])) for part in found)
            for all_columns, part in zip(filled, found, strict=True):
                all_columns[:, shown] = part
            return filled
        rest = expected.linear[:, ~shown] / expected.precision[:, None]
        linear = np.empty((len(counts), len(shown)))
        linear[:, shown], linear[:, ~shown] = sums[:, :-1], counts[:, None] * rest
        squares = (rest * rest).sum(-1) + rest.shape[1] / expected.precision
        return self.statistics(counts, np.column_stack([linear, sums[:, -1] + counts * squares]), len(shown))

    def statistics(self, counts: np.ndarray, sums: np.ndarray, dimension: int) -> Values:
        """(sum r y, N_k, sum r y^2, N_k) for each column; if shared, sum r |y|^2 and N_k D for all."""
        linear = sums[:, :dimension, None, None]
        if self.shared:
            return linear, counts[:, None, None], sums[:, dimension, None, None], counts * dimension
        every = np.tile(counts[:, None], (1, dimension))
        return linear[..., None], every[..., None, None], sums[:, dimension:, None, None], every

    def each(self, coefficients: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (K, D), and covariance matrices (K, D, D)."""
        if self.shared:
            return coefficients[..., 0, 0], covariance * np.eye(coefficients.shape[1])
        return coefficients[..., 0, 0, 0], covariance[..., 0, 0, None] * np.eye(covariance.shape[1])


Covariance: TypeAlias = Matrix | Variances
"""A shape of covariances; the formulas are those of the module, with y = x - origin."""
COVARIANCES: dict[str, Covariance] = {
    "full": Matrix(),
    "diagonal": Variances(),
    "spherical": Variances(shared=True),
    "tied": Matrix(tied=True),
}
