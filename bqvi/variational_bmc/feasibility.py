"""Where the log joint can be evaluated at all, learnt from where it failed.

A log joint that is -inf beyond an edge has no surrogate there: a Gaussian process that knows nothing of the
edge would put mass behind it. So the probability that a point is feasible is estimated beside it, from the
distances to the nearest good and the nearest failed evaluation,

    phi = 1 / (1 + (d_good / d_failed)^p),

which is 1/2 halfway between them and sharpens as evaluations close in on the edge. It multiplies the
surrogate's density; the mass that hangs on it, E_P[1 - phi], is part of the evidence's standard deviation and
where the next evaluation goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

Vector = np.ndarray

_SHARPNESS = 6.0
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Feasibility:
    """Phi, from good (n, D) and failed (m, D) points of the frame; 1 where nothing has failed."""

    good: cKDTree | None
    failed: cKDTree | None

    @classmethod
    def of(cls, points: Vector, failed: Vector) -> Feasibility:
        """From points (n, D) and which of them failed (n,)."""
        if not failed.any():
            return cls(None, None)
        return cls(cKDTree(points[~failed]), cKDTree(points[failed]))

    @property
    def certain(self) -> bool:
        """Whether nothing has failed."""
        return self.failed is None

    def __call__(self, u: Vector) -> Vector:
        """Phi at u (m, D), (m,)."""
        if self.good is None or self.failed is None:
            return np.ones(len(u))
        near, far = self.good.query(u)[0], self.failed.query(u)[0]
        ratio = np.minimum(near / np.maximum(far, _LEAST), 1e6)
        found: Vector = 1.0 / (1.0 + ratio**_SHARPNESS)
        result: Vector = np.maximum(found, 1e-30)
        return result
