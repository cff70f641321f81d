"""The probability that the log joint can be evaluated at a point, from earlier failures.

A design for a process prefers candidates of large variance, and the variance is large where evaluations
failed. The probability that an evaluation succeeds is therefore estimated too, by logistic regression on

    1, u_1, .., u_D, |u|^2,

whose level sets include half-spaces, balls and their complements, with a normal prior of variance 4
on each coefficient, at its mode by Newton steps. For regions of other shapes
the nearest evaluation decides: where it failed, and the nearest successful one is 1.5 times as far, the
probability is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import expit

from bqvi.gradients.settings import FEASIBILITY
from gp.triangular import cholesky_inverse

if TYPE_CHECKING:
    from bqvi.gradients.memory import Memory
    from bqvi.gradients.whitened import WhitenedFrame


@dataclass(frozen=True, eq=False)
class LogisticFeasibility:
    """The probability that an evaluation succeeds.

    Parameters
    ----------
    good, failed : points of evaluations that succeeded, (m, D), in the units of q, and did not, (k, D)
    """

    good: np.ndarray
    failed: np.ndarray

    @classmethod
    def near(cls, frame: WhitenedFrame, memory: Memory) -> LogisticFeasibility:
        """The model from the evaluations of a ``memory``, in the units of a ``frame``."""
        memory = memory.censored
        return cls(frame.whiten(memory.points), frame.whiten(memory.failed))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return the probabilities (C,) at points (C, D); 1 where nothing has failed."""
        if not len(self.failed):
            return np.ones(len(points))
        probability = expit(_features(points) @ self._coefficients)
        if not len(self.good):
            return probability
        to_failed, to_good = (
            cdist(points, known, "sqeuclidean").min(1) for known in (self.failed, self.good)
        )
        return np.where(FEASIBILITY.nearest**2 * to_failed < to_good, 0.0, probability)

    @cached_property
    def _coefficients(self) -> np.ndarray:
        features = _features(np.concatenate([self.good, self.failed]))
        succeeded = np.arange(len(features)) < len(self.good)
        found = np.zeros(features.shape[1])
        for _ in range(8):
            probability = expit(features @ found)
            slope = features.T @ (succeeded - probability) - found / 4.0
            curvature = (features.T * (probability * (1.0 - probability))) @ features
            np.einsum("ii->i", curvature)[:] += 1.0 / 4.0
            found = found + cholesky_inverse(curvature)[1] @ slope
        return found


def _features(points: np.ndarray) -> np.ndarray:
    points = np.clip(points, -100.0, 100.0)  # of a q that has collapsed they lie at any distance
    squares = np.square(points).sum(1, keepdims=True)
    return np.concatenate([np.ones_like(squares), points, squares / points.shape[1]], 1)
