"""Gaussian components with one known covariance (thesis Section 3, Eqs 3.1 to 3.7, 3.25 and 3.26).

    mu_k ~ N(m_0, C_0),   x_n | z_n = k ~ N(mu_k, Sigma),   q(mu_k) = N(m_k, C_k)

    rho_nk = E[ln pi_k] + (x_n - m_0)^T W_k - (m_k - m_0)^T W_k / 2 - Tr(Sigma^-1 C_k) / 2,
    W_k = Sigma^-1 (m_k - m_0),

which is Eq. 3.12 less -(x_n - m_0)^T Sigma^-1 (x_n - m_0) / 2, a part of the base measure. The pass over the
data is relative to the centre of the means, which avoids cancellation where the data are far from m_0; the
difference is the same for all components and is corrected in the sums.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg

from bqvi.arrays import Values, transpose
from bqvi.families import Gaussian
from bqvi.families.family import ExponentialFamily, FamilyOrPoint
from bqvi.models.components import Components, Start, sample, starting_centres
from bqvi.models.data import Data, as_table, filled, has_missing, n_rows, patterns, require_observed_columns
from bqvi.models.mixture import AffineLogJoint, blocks, short_mantissa
from bqvi.models.normal_components import require_table
from gp.arrays import LOG_2PI, Array, is_torch, to_numpy
from gp.checks import require_covariance, require_finite, require_shape


class MeansAndCovariances(NamedTuple):
    """Of each component's mean under q."""

    mean: Array
    """(K, D)."""
    covariance: Array
    """(K, D, D)."""


class KnownCovariance(Components):
    """N(mu_k, Sigma) with a Gaussian prior on mu_k; data (N, D).

    Parameters
    ----------
    covariance : (D, D), Sigma
    prior_mean : (D,), m_0; default 0
    prior_covariance : (D, D), C_0; default 100 times ``covariance``
    """

    name = "means"

    def __init__(
        self,
        covariance: np.ndarray,
        prior_mean: np.ndarray | None = None,
        prior_covariance: np.ndarray | None = None,
    ) -> None:
        self.covariance = np.asarray(covariance, float)
        require_covariance("covariance", self.covariance)
        d = len(self.covariance)
        self.prior_mean = np.zeros(d) if prior_mean is None else np.asarray(prior_mean, float)
        require_shape("prior_mean", self.prior_mean, (d,))
        require_finite("prior_mean", self.prior_mean)
        self.prior_covariance = (
            100.0 * self.covariance if prior_covariance is None else np.asarray(prior_covariance, float)
        )
        require_shape("prior_covariance", self.prior_covariance, (d, d))
        require_covariance("prior_covariance", self.prior_covariance)
        self.precision = np.linalg.inv(self.covariance)

    def for_data(self, data: Data, weights: np.ndarray | None = None) -> Self:
        require_observed_columns(data)
        return self

    def check(self, data: Data) -> Data:
        """(N, D), finite, or NaN in a NumPy array where missing; lists and data frames become arrays.

        Memory maps and tensors stay what they are.
        """
        return require_table(data, len(self.covariance), missing=True)

    def prior(self, n_components: int) -> Gaussian:
        shape = (n_components, len(self.covariance))
        covariances = np.broadcast_to(self.prior_covariance, (*shape, shape[1]))
        return Gaussian(np.broadcast_to(self.prior_mean, shape), covariances)

    @property
    def centre(self) -> np.ndarray:
        return self.prior_mean

    def affine(self, q: FamilyOrPoint, log_weights: np.ndarray) -> AffineLogJoint:
        return self.affine_of(self.expectations(q), log_weights)

    def expectations(self, q: Any) -> MeansAndCovariances:
        return MeansAndCovariances(q.mean, q.covariance)

    def expectations_at(self, theta: Array, n_components: int) -> MeansAndCovariances:
        return MeansAndCovariances(theta, np.zeros((n_components, *self.covariance.shape)))

    def affine_of(
        self, expected: MeansAndCovariances, log_weights: np.ndarray, shown: np.ndarray | None = None
    ) -> AffineLogJoint:
        """With ``expected``; of rows whose columns ``shown`` (D,) are there, default all."""
        means, covariances = expected
        if shown is not None and not shown.all():
            rest = MeansAndCovariances(means[:, shown], covariances[:, shown][:, :, shown])
            return self._of_columns(shown).affine_of(rest, log_weights)
        spread = (self.precision * covariances).sum((-2, -1))
        return self.affine_at(means, log_weights - 0.5 * spread)

    def completed(
        self,
        expected: MeansAndCovariances,
        shown: np.ndarray,
        counts: np.ndarray,
        sums: np.ndarray,
        shift: np.ndarray | None,
    ) -> Values:
        """``statistics`` of rows with the columns ``shown`` (D,): nothing for the others."""
        linear, precision = self._of_columns(shown).statistics(counts, sums, shift)
        found = np.zeros((len(counts), len(shown))), np.zeros((len(counts), len(shown), len(shown)))
        found[0][:, shown] = linear
        found[1][np.ix_(np.ones(len(counts), bool), shown, shown)] = precision
        return found

    def _of_columns(self, shown: np.ndarray) -> KnownCovariance:
        """The marginal of the columns ``shown``: the same Gaussians without the others."""
        block = np.ix_(shown, shown)
        return KnownCovariance(self.covariance[block], self.prior_mean[shown], self.prior_covariance[block])

    def affine_at(self, theta: Array, log_weights: np.ndarray) -> AffineLogJoint:
        """rho relative to the centre of the means, where float32 data keep most digits."""
        shares = np.exp(log_weights - log_weights.max())
        centre = short_mantissa(shares @ theta / shares.sum())
        slope, squares = self._slope(theta, centre)
        tilt = self.precision @ (centre - self.prior_mean)
        level = 0.5 * float(tilt @ (centre - self.prior_mean))
        return AffineLogJoint(slope, log_weights - 0.5 * squares, centre, tilt, level)

    def _slope(self, means: Array, centre: np.ndarray) -> tuple[Array, Array]:
        gap = means - _like(centre, means)
        slope = gap @ _like(self.precision, means)
        return slope, (gap * slope).sum(-1)

    def statistics(self, counts: np.ndarray, sums: np.ndarray, shift: np.ndarray | None) -> Values:
        absolute = sums if shift is None else sums + counts[:, None] * shift
        return absolute @ self.precision, -0.5 * counts[:, None, None] * self.precision

    def log_base_measure(self, data: Data) -> np.ndarray:
        """ln N(x_n | m_0, Sigma), (N,), of the columns that a row has."""
        if has_missing(data):
            found = np.empty(len(data))
            for index, block, shown in patterns(data):
                found[index] = self._of_columns(shown).log_base_measure(block[:, shown])
            return found
        factor = self._whitener
        squares = np.empty(n_rows(data))
        for rows in blocks(n_rows(data), len(factor)):
            whitened = (to_numpy(data[rows]) - self.prior_mean) @ factor
            squares[rows] = np.einsum("nd,nd->n", whitened, whitened)
        log_determinant = np.linalg.slogdet(self.covariance)[1]
        return np.asarray(-0.5 * (squares + len(factor) * LOG_2PI + log_determinant))

    def log_joint(self, prior: ExponentialFamily, theta: Array, rows: Array) -> Array:
        slope, squares = self._slope(theta, self.prior_mean)
        shifted = rows - _like(self.prior_mean, rows)
        return shifted @ transpose(slope) - 0.5 * squares[:, None, :]

    def representation(self, data: Data) -> np.ndarray:
        """Rows in units of the components' covariance; what is missing is at its column's mean."""
        return np.asarray((filled(as_table(data)) - self.prior_mean) @ self._whitener)

    @cached_property
    def _whitener(self) -> np.ndarray:
        """The factor A with which x A has unit covariance."""
        return np.linalg.cholesky(self.precision)

    def start(self, data: Data, n_components: int, begin: Start) -> Gaussian:
        """A start centred on K rows, with the covariance for N / K data in each component."""
        sampled, part, total = sample(data, begin)
        points = filled(as_table(sampled))
        centres = starting_centres(points @ self._whitener, n_components, begin.how, begin.rng, part)
        precision = np.linalg.inv(self.prior_covariance) + total / n_components * self.precision
        covariances = np.broadcast_to(np.linalg.inv(precision), (n_components, *self.covariance.shape))
        means = scipy.linalg.solve_triangular(self._whitener.T, centres.T).T
        return Gaussian(means, covariances.copy())


def _like(parameter: np.ndarray, x: Array) -> Array:
    return x.new_tensor(parameter) if is_torch(x) else parameter
