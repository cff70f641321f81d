"""The pass over data with missing values (NaN): they are integrated out, rows with the same columns together.

For rows whose columns o are there the expected log joint is affine in T(x_o), as it is for whole rows in
T(x), so each pattern of columns takes a pass of `mixture`; what is missing is put into the statistics
afterwards (`covariances`). The bound stays exact. Cost: a pass, and K inverses of the missing columns'
precision, for each pattern.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.arrays import Values, add
from bqvi.models.covariances import GaussianExpectations
from bqvi.models.data import patterns
from bqvi.models.gaussian_components import GaussianComponents
from bqvi.models.mixture import AffineLogJoint, mixture_pass
from gp.arrays import Array, to_numpy


@dataclass(frozen=True)
class IncompletePass:
    """Gaussian components whose data have missing values."""

    components: GaussianComponents
    expected: GaussianExpectations
    """Of the K components, and of a tied tail behind them."""
    log_weights: np.ndarray
    """E ln pi, as many."""

    def summed(
        self, rows: np.ndarray, weights: Array | None, n_components: int
    ) -> tuple[np.ndarray, Values, float]:
        """N_k, what the rows add to the components' natural parameters (K of them), and the bound."""
        shape, d, k = self.components.covariance, rows.shape[1], n_components
        part = np.ones(len(rows)) if weights is None else to_numpy(weights)
        own = GaussianExpectations(*(x[:k] for x in self.expected))
        counts, bound = np.zeros(len(self.log_weights)), 0.0
        total: Values | None = None
        for index, block, shown in patterns(rows):
            sums = mixture_pass(np.ascontiguousarray(block[:, shown]), self._affine(shown), part[index])
            taken = sums.counts[:k], sums.sums[:k]
            found = shape.statistics(*taken, d) if shown.all() else shape.completed(own, shown, *taken)
            total = found if total is None else add(total, found)
            counts += sums.counts
            bound += sums.log_normaliser
        if total is None:
            raise ValueError("rows is empty; a local step needs at least one row")
        return counts, total, bound

    def rho(self, rows: np.ndarray) -> np.ndarray:
        """Expected log joint of each row and component, less ln h, (N, K)."""
        out = np.empty((len(rows), len(self.log_weights)))
        for index, block, shown in patterns(rows):
            out[index] = self._affine(shown).rho(block[:, shown])
        return out

    def _affine(self, shown: np.ndarray) -> AffineLogJoint:
        return self.components.affine_of(self.expected, self.log_weights, shown)
