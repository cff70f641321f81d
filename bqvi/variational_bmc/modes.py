"""The modes of q, one Gaussian each, and the evaluations that they explain.

Components of q belong to one mode where the surrogate's mean has no dip between them. The moments of each
group give one Gaussian, and with the evidence an approximation of the log joint everywhere,

    g(x) = log sum_r exp(h_r - |x - m_r|_r^2 / 2),      |x|_r^2 = x^T S_r^-1 x,

with h_r the log joint at the mean m_r. A log joint of several modes falls as the squared distance from the
nearest of them. A point whose value exceeds g by more than a share of its depth below the top therefore lies
in the region of a mode that q lacks, or in a tail that is heavier than a Gaussian's. With a gradient the
direction says the same: the gradient of g points, in the units of S_r, to the nearest known mode.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.settings import MODES
from bqvi.variational_bmc.surrogate import Surrogate
from bqvi.variational_bmc.variational import DiagonalMixture
from gp.triangular import cholesky, solve_lower


@dataclass(frozen=True, eq=False)
class Modes:
    """The known modes.

    Attributes
    ----------
    heights : (R,), log joint at the means. means : (R, D).
    factors : (R, D, D), lower Cholesky factors of S_r.
    shares : (R,), of the posterior's mass.
    """

    heights: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, surrogate: Surrogate, q: DiagonalMixture, frame: Frame, log_evidence: float) -> Modes:
        """From the mixture q, in its frame, and the log evidence."""
        groups = connected(surrogate, q)
        parts = frame.measure(q)
        shares = np.array([q.weights[group].sum() for group in groups]) / q.weights.sum()
        each = np.arange(len(parts.weights) // q.count)  # several where scales change
        groups = [(len(each) * group[:, None] + each).ravel() for group in groups]
        moments = [_moments(parts.weights[g], parts.means[g], parts.covariances[g]) for g in groups]
        means = np.array([mean for mean, _ in moments])
        factors = np.array([cholesky(covariance) for _, covariance in moments])
        volumes = np.log(np.einsum("rii->ri", factors)).sum(1) + 0.5 * means.shape[1] * np.log(2.0 * np.pi)
        return cls(log_evidence + np.log(shares) - volumes, means, factors, shares)

    def __len__(self) -> int:
        return len(self.heights)

    def squares(self, points: np.ndarray) -> np.ndarray:
        """Return |x - m_r|_r^2 of points (n, D), (n, R)."""
        return np.stack([np.square(self._whitened(r, points)).sum(1) for r in range(len(self))], axis=1)

    def _whitened(self, r: int, points: np.ndarray) -> np.ndarray:
        """Points (n, D) in the units of mode r, in which it is N(0, I), (n, D)."""
        whitened: np.ndarray = solve_lower(self.factors[r], (points - self.means[r]).T).T
        return whitened

    def contain(self, points: np.ndarray) -> np.ndarray:
        """Return whether each of the points (n, D) lies where some mode has its mass, (n,)."""
        dimension = points.shape[1]
        result: np.ndarray = self.squares(points).min(1) < dimension + MODES.inside * np.sqrt(2.0 * dimension)
        return result

    def unexplained(self, points: np.ndarray, values: np.ndarray, share: float, margin: float) -> np.ndarray:
        """Return by how many nats values (n,) at points (n, D) exceed what the modes allow.

        Allowed is g, more ``share`` of the depth of g below the highest mode, more ``margin`` nats; inside a
        mode everything is, and -inf is returned.
        """
        explained = logsumexp(self.heights - 0.5 * self.squares(points), axis=1)
        allowed = explained + share * np.maximum(self.heights.max() - explained, 0.0) + margin
        return np.where(self.contain(points), -np.inf, values - allowed)

    def alignment(self, points: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Return the cosines of gradients (n, D) with those of the nearest mode, in its units, (n,)."""
        nearest = (self.heights - 0.5 * self.squares(points)).argmax(1)
        towards, slopes = np.empty_like(points), np.empty_like(points)
        for r in np.unique(nearest):
            towards[nearest == r] = -self._whitened(r, points[nearest == r])
            slopes[nearest == r] = gradients[nearest == r] @ self.factors[r]
        lengths = np.linalg.norm(towards, axis=1) * np.linalg.norm(slopes, axis=1)
        result: np.ndarray = np.einsum("nd,nd->n", towards, slopes) / np.maximum(lengths, 1e-300)
        return result


def connected(surrogate: Surrogate, q: DiagonalMixture) -> list[np.ndarray]:
    """Return groups of the components of q between whose means the surrogate's mean has no dip."""
    first, second = np.triu_indices(q.count, 1)
    along = np.linspace(0.0, 1.0, MODES.along)[:, None, None]
    segments = (1.0 - along) * q.means[first] + along * q.means[second]
    heights = surrogate.mean(segments.reshape(-1, q.means.shape[1])).reshape(MODES.along, -1)
    joined = heights.min(0) > np.minimum(heights[0], heights[-1]) - MODES.dip
    label = np.arange(q.count)
    for i, j in zip(first[joined], second[joined], strict=True):
        label[label == label[j]] = label[i]
    return [np.flatnonzero(label == one) for one in np.unique(label)]


def _moments(
    weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (D,) and covariance (D, D) of a mixture, the covariance lifted above rounding."""
    weights = weights / weights.sum()
    mean = weights @ means
    centred = means - mean
    covariance = np.einsum("k,kij->ij", weights, covariances) + (centred.T * weights) @ centred
    return mean, covariance + 1e-12 * np.trace(covariance) * np.eye(len(mean))
