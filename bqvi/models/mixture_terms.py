"""The statistics of a mixture datum by datum, for mini-batch strategies that use them.

A row's statistics are (r_n1, .., r_nK, r_n1 T(x_n - c), .., r_nK T(x_n - c)). Their sum over the data is the
result of the local step; an *estimate* of that sum (with negative weights, or a control variate) may be
impossible for any data. It is projected onto the possible sums, term by term:

    N_k >= 0,  sum_k N_k = N,      N_k min_n T(x_n - c) <= sum_n r_nk T(x_n - c) <= N_k max_n T(x_n - c).

Estimates of equal positive weights fulfil this and pass unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.models.conjugate import LocalTerms
from bqvi.models.data import Data, is_sparse, n_rows
from bqvi.models.mixture import AffineLogJoint, Lift, blocks, lifted
from gp.arrays import to_numpy


@dataclass(frozen=True)
class MixtureLimits:
    """The range of possible sums over the data."""

    n: int
    lower: np.ndarray
    """min_n T(x_n - c), (P,)."""
    upper: np.ndarray

    @classmethod
    def of(cls, data: Data, centre: np.ndarray, lift: Lift | None = None) -> MixtureLimits:
        """Of all the data."""
        if lift is not None:
            return cls._of_lifted(data, centre, lift)
        if is_sparse(data):
            lower, upper = data.min(axis=0).toarray().ravel(), data.max(axis=0).toarray().ravel()
        else:
            lower, upper = (to_numpy(edge) for edge in _edges(data))
        return cls(n_rows(data), lower - centre, upper - centre)

    @classmethod
    def _of_lifted(cls, data: Data, centre: np.ndarray, lift: Lift) -> MixtureLimits:
        lower, upper = np.full(lift.size, np.inf), np.full(lift.size, -np.inf)
        for rows in blocks(n_rows(data), lift.size):
            part = lifted(to_numpy(data[rows]) - centre, lift)
            lower, upper = np.minimum(lower, part.min(axis=0)), np.maximum(upper, part.max(axis=0))
        return cls(n_rows(data), lower, upper)

    def feasible(self, total: np.ndarray, n_components: int) -> tuple[np.ndarray, np.ndarray]:
        """The possible counts (K,) and sums (K, P) nearest to those of ``total``."""
        counts = np.maximum(total[:n_components], 0.0)
        # where all weights are negative, the counts say nothing of the shares
        counts = (
            counts * (self.n / counts.sum()) if counts.any() else np.full(n_components, self.n / n_components)
        )
        sums = total[n_components:].reshape(n_components, -1)
        return counts, np.clip(sums, counts[:, None] * self.lower, counts[:, None] * self.upper)


def _edges(data: Data) -> tuple[Data, Data]:
    if isinstance(data, np.ndarray):
        return data.min(axis=0), data.max(axis=0)
    return data.amin(0), data.amax(0)


def mixture_terms(x: np.ndarray, affine: AffineLogJoint, centre: np.ndarray) -> LocalTerms:
    """Terms of the rows of ``x`` (S, D): statistics (S, K + K P), bounds logsumexp_k rho_nk.

    Parameters
    ----------
    x : the rows (S, D). affine : the log joint ln p(x_n, z_n = k), affine in lifted rows of P entries.
    centre : (D,), subtracted from the rows before they are lifted.
    """
    rho = affine.rho(x)
    top = rho.max(axis=1)
    r = np.exp(rho - top[:, None])
    sums = r.sum(axis=1)
    r /= sums[:, None]
    moments = r[:, :, None] * lifted(x - centre, affine.lift)[:, None, :]
    return LocalTerms(np.concatenate([r, moments.reshape(len(x), -1)], axis=1), top + np.log(sums))
