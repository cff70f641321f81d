"""Any kernel of `gp.kernels` between observations of values, or of values and all derivatives.

`function_kernel` is a faster form of one kernel, for the innermost loops of gradients; here covariances are
those of the kernel's own functions. At fixed points the matrix comes from `gp.fixed_points`, whose rows are
values first and then derivatives; in the matrices that are returned the numbers of a point are adjacent, as
in `conditioned`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gp.conditioning.conditioned import Places
from gp.fixed_points import gram_of
from gp.kernels import Kernel
from gp.kernels.crossed import crossed
from gp.observations import Functional, Gradients, Observations, Values, covariance

__all__ = ["ObservedKernel"]


@dataclass(frozen=True, eq=False)
class ObservedKernel:
    """A kernel between the numbers observed at points; no constant is fitted.

    Parameters
    ----------
    kernel : k
    gradients : whether all derivatives are observed beside each value
    """

    kernel: Kernel
    gradients: bool = False

    def at(self, points: np.ndarray) -> Places:
        """The record of (m, D) points from which covariances are computed."""
        return Places.of(points, points)

    def constant(self, points: np.ndarray) -> None:
        """None, as no constant is fitted: a kernel may contain one."""

    def covariance(self, left: Places, right: Places) -> np.ndarray:
        """Covariances between the numbers of ``left`` (m points) and ``right`` (n), (m B, n B)."""
        first, second = self._observed(left.points), self._observed(right.points)
        if left is right:
            matrix, _ = gram_of(self.kernel, first)(self.kernel)
        else:
            matrix = covariance(self.kernel, first, second)
        if not self.gradients:
            return np.array(matrix)
        rows, columns = _interleaved(left.points), _interleaved(right.points)
        return matrix[rows[:, None], columns]

    def with_values(self, observed: Places, points: np.ndarray) -> np.ndarray:
        """Covariances of the observations at n places with f at (m, D) points, (n B, m), column-major."""
        return crossed(self.kernel, points, observed.points, self.gradients).T

    def _observed(self, points: np.ndarray) -> Functional:
        return Observations((Values(points), Gradients(points))) if self.gradients else Values(points)


def _interleaved(points: np.ndarray) -> np.ndarray:
    """Indices that reorder n values, then n D derivatives, so that the numbers of a point are adjacent."""
    n, dimension = points.shape
    derivatives = n + np.arange(n * dimension).reshape(n, dimension)
    return np.column_stack([np.arange(n), derivatives]).reshape(-1)
