"""Gaussian components with one known covariance (thesis Section 3, Eqs 3.1 to 3.7, 3.25 and 3.26).

    mu_k ~ N(m_0, C_0),   x_n | z_n = k ~ N(mu_k, Sigma),   q(mu_k) = N(m_k, C_k)

    rho_nk = E[ln pi_k] + (x_n - c)^T W_k - (m_k - c)^T W_k / 2 - Tr(Sigma^-1 C_k) / 2,
    W_k = Sigma^-1 (m_k - c),

which is Eq. 3.12 less -(x_n - c)^T Sigma^-1 (x_n - c) / 2, a part of the base measure. c is the mean of the
data (or m_0, before there are any), which avoids cancellation where the data are far from m_0.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.linalg

from bqvi.arrays import Values, outer
from bqvi.families import Gaussian
from bqvi.models.components import Components, Start, sample, starting_centres
from bqvi.models.data import Data, as_table, filled, has_missing, n_rows
from bqvi.models.mixture import AffineLogJoint, beside, blocks, groups, short_mantissa
from bqvi.models.normal_components import column_moments, require_table
from gp.arrays import LOG_2PI, Array, to_numpy
from gp.checks import require_covariance, require_finite, require_shape


class KnownCovariance(Components):
    """N(mu_k, Sigma) with a Gaussian prior on mu_k; data (N, D).

    Parameters
    ----------
    covariance : (D, D), Sigma
    prior_mean : (D,), m_0; default 0
    prior_covariance : (D, D), C_0; default 100 times ``covariance``
    """

    name = "means"
    by_pattern = True

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
        self._centre: np.ndarray | None = None

    def for_data(self, data: Data, weights: np.ndarray | None = None) -> Self:
        """The components about the mean of ``data``, with ``weights`` (N,)."""
        if self._centre is not None:
            return self
        other = copy.copy(self)
        other._centre = short_mantissa(column_moments(data, weights)[0])
        return other

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
        return self.prior_mean if self._centre is None else self._centre

    def expectations(self, q: Any) -> tuple[Array, Array]:
        """The mean (K, D) and the covariance (K, D, D) of each component's mean under q."""
        return q.mean, q.covariance

    def expectations_at(self, theta: Array, n_components: int) -> tuple[Array, Array]:
        return theta, 0.0 * outer(theta, theta)

    def affine(
        self, expected: tuple[Array, Array], log_weights: np.ndarray, shown: np.ndarray | None = None
    ) -> AffineLogJoint:
        (means, covariances), columns = expected, slice(None) if shown is None else shown
        precision, centre = beside(self._precision(shown), means), self.centre[columns]
        gap = means[..., columns] - beside(centre, means)
        slope = gap @ precision
        spread = (precision * covariances[..., columns, :][..., columns]).sum((-2, -1))
        return AffineLogJoint(slope, log_weights - 0.5 * ((gap * slope).sum(-1) + spread), centre)

    def _precision(self, shown: np.ndarray | None) -> np.ndarray:
        """That of the columns ``shown``: of the same Gaussians without the others."""
        return self.precision if shown is None else np.linalg.inv(self.covariance[np.ix_(shown, shown)])

    def statistics(
        self, counts: np.ndarray, sums: np.ndarray, expected: Any = None, shown: np.ndarray | None = None
    ) -> Values:
        """Nothing for columns that the rows do not have."""
        columns = np.arange(len(self.centre)) if shown is None else np.flatnonzero(shown)
        linear = np.zeros((len(counts), len(self.centre)))
        precision = np.zeros_like(self.precision)
        precision[np.ix_(columns, columns)] = own = self._precision(shown)
        linear[:, columns] = (sums + counts[:, None] * self.centre[columns]) @ own
        return linear, -0.5 * counts[:, None, None] * precision

    def log_base_measure(self, data: Data) -> np.ndarray:
        """ln N(x_n | c, Sigma), (N,), of the columns that a row has."""
        found = np.empty(n_rows(data))
        for index, block, shown in groups(data, has_missing(data)):
            precision = self._precision(shown)
            centre = self.centre if shown is None else self.centre[shown]
            factor, squares = np.linalg.cholesky(precision), np.empty(n_rows(block))
            for rows in blocks(n_rows(block), len(factor)):
                whitened = (to_numpy(block[rows]) - centre) @ factor
                squares[rows] = np.einsum("nd,nd->n", whitened, whitened)
            found[index] = 0.5 * (np.linalg.slogdet(precision)[1] - squares - len(factor) * LOG_2PI)
        return found

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
