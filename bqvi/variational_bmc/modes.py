"""The modes of q, and the evaluations that they explain.

Components of q belong to one mode where the surrogate's mean has no dip between them. The moments of each
group define a Gaussian, N(m_r, Sigma_r). With the evidence Z the modes define an approximation of the log
joint,

    g(x) = log Z + log sum_j w_j N(x; m_j, Sigma_j),

whose parts j are the Gaussians of the modes, with x in the straight coordinates of the frame. For a mode far
from Gaussian, such as a ring or a curved ridge, the parts are the components of its group instead, as one
Gaussian would contain regions without mass, or that no evaluation has reached. A group q_r counts as far from
Gaussian if KL(q_r || N(m_r, Sigma_r)) is above ``ModeSettings.least_divergence``.

A log joint with several modes falls as the squared distance from the nearest one. A point whose value exceeds
g by more than a share of its depth below the top therefore lies in the region of a mode that q lacks, or in a
tail that is heavier than a Gaussian's. The direction of a gradient gives similar information: the gradient of
g points, in the units of Sigma_j, to the nearest part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.settings import MODES
from bqvi.variational_bmc.surrogate import Surrogate
from bqvi.variational_bmc.variational import DiagonalMixture
from gp.linear_maps import lower_inverse
from gp.measures import GaussianMixture
from gp.measures.mixture_density import MixtureDensity
from gp.triangular import solve_lower


@dataclass(frozen=True, eq=False)
class Modes:
    """The known modes.

    Attributes
    ----------
    means : the means m_r, (R, D). factors : the lower Cholesky factors of Sigma_r, (R, D, D).
    shares : the shares (R,) of the posterior's mass.
    outline : the approximation g of the log joint.
    levels : for each part of g the height (J,) of the highest part of its mode.
    frame : the frame, in whose straight coordinates y all of these are: there a mode beside a bound is as
        narrow as others, and a funnel a Gaussian. Methods take points, values and gradients in x.
    """

    means: np.ndarray
    factors: np.ndarray
    shares: np.ndarray
    outline: MixtureDensity
    levels: np.ndarray
    frame: Frame

    @classmethod
    def of(cls, surrogate: Surrogate, q: DiagonalMixture, frame: Frame, log_evidence: float) -> Modes:
        """The modes of the mixture q, in its frame, with the log evidence."""
        measure, groups = replace(frame, scaling=None).measure(q), connected(surrogate, q)
        shares = np.array([measure.weights[rows].sum() for rows in groups])
        modes = [
            GaussianMixture(measure.weights[rows] / share, measure.means[rows], measure.covariances[rows])
            for rows, share in zip(groups, shares, strict=True)
        ]
        wholes = [GaussianMixture(np.ones(1), mode.mean[None], mode.covariance[None]) for mode in modes]
        parts = [
            mode if _divergence(mode, whole) > MODES.least_divergence else whole
            for mode, whole in zip(modes, wholes, strict=True)
        ]
        outline = MixtureDensity.of(
            np.concatenate([share * part.weights for share, part in zip(shares, parts, strict=True)]),
            np.concatenate([part.means for part in parts]),
            np.concatenate([part.factors for part in parts]),
        )
        outline = replace(outline, heights=outline.heights + log_evidence)
        ends = np.cumsum([len(part.weights) for part in parts])[:-1]
        levels = [np.full(len(each), each.max()) for each in np.split(outline.heights, ends)]
        means, factors = (np.concatenate([getattr(w, name) for w in wholes]) for name in ("means", "factors"))
        return cls(means, factors, shares, outline, np.concatenate(levels), frame)

    def __len__(self) -> int:
        return len(self.shares)

    def outlined(self, points: np.ndarray) -> np.ndarray:
        """The depths of g at points (n, D) below its top, (n,), nats."""
        return np.maximum(self._top - self.outline.log_density(self.frame.straightened(points)), 0.0)

    def depths(self, points: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The depths of values (n,) at points (n, D) below the top of g, (n,), nats."""
        return self._top - values - self.frame.log_stretch_at(points)

    @cached_property
    def _top(self) -> float:
        return float(self.outline.log_density(self.outline.means).max())

    def squares(self, points: np.ndarray) -> np.ndarray:
        """The squared distances (x - m_r)^T Sigma_r^-1 (x - m_r) of points (n, D), (n, R)."""
        at = self.frame.straightened(points)
        whitened = [
            solve_lower(factor, (at - mean).T) for mean, factor in zip(self.means, self.factors, strict=True)
        ]
        return np.stack([np.square(each).sum(0) for each in whitened], axis=1)

    def contain(self, points: np.ndarray) -> np.ndarray:
        """Whether each of the points (n, D) lies in the region of the mass of a mode, (n,).

        A part of g that is wide, and lower than others of its mode, has no such region of its own.
        """
        dimension = points.shape[1]
        depths = 2.0 * (self.levels[:, None] - self.outline.log_parts(self.frame.straightened(points))).min(0)
        return depths < dimension + MODES.inside * np.sqrt(2.0 * dimension)

    def unexplained(self, points: np.ndarray, values: np.ndarray, share: float, margin: float) -> np.ndarray:
        """Return by how many nats values (n,) at points (n, D) exceed what the modes allow.

        Allowed is g, more ``share`` of the depth of g below the highest mode, more ``margin`` nats; inside a
        part everything is, and -inf is returned.
        """
        excess = (1.0 - share) * self.outlined(points) - self.depths(points, values) - margin
        return np.where(self.contain(points), -np.inf, excess)

    def alignment(self, points: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """The cosines of gradients (n, D) with that of the nearest part of g, in its units, (n,)."""
        at = self.frame.straightened(points)
        if self.frame.scaling is not None:
            gradients = self.frame.scaling.pulled(points, gradients)
        nearest = self.outline.log_parts(at).argmax(0)
        whitening, means = self.outline.whitening[nearest], self.outline.means[nearest]
        towards = np.einsum("nij,nj->ni", whitening, means - at)
        slopes = np.einsum("ni,nij->nj", gradients, lower_inverse(whitening))
        lengths = np.linalg.norm(towards, axis=1) * np.linalg.norm(slopes, axis=1)
        return np.einsum("nd,nd->n", towards, slopes) / np.maximum(lengths, 1e-300)


def connected(surrogate: Surrogate, q: DiagonalMixture) -> list[np.ndarray]:
    """The groups of the components of q between whose means the surrogate's mean has no dip.

    Neighbours are compared first, and then only components of different groups: the K components of a curved
    mode need a multiple of K segments instead of K^2 / 2, and the groups are the same.
    """
    first, second = np.triu_indices(q.count, 1)
    squares = np.square(q.means[first] - q.means[second]).sum(1)
    table = np.full((q.count, q.count), np.inf)
    table[first, second] = table[second, first] = squares
    distance = np.sort(table, axis=1)[:, min(3, q.count) - 1]
    near = squares <= np.maximum(distance[first], distance[second])
    label = np.arange(q.count)
    for some in (near, ~near):
        pairs = np.flatnonzero(some & (label[first] != label[second]))
        for i, j in _without_dip(surrogate, q, first[pairs], second[pairs]):
            label[label == label[j]] = label[i]
    groups = [np.flatnonzero(label == one) for one in np.unique(label)]
    return sorted(groups, key=lambda rows: int(rows[0]))


def _without_dip(
    surrogate: Surrogate, q: DiagonalMixture, first: np.ndarray, second: np.ndarray
) -> list[tuple[int, int]]:
    """Those of the pairs ``first``, ``second`` (m,) of components with no dip of the mean between them."""
    along = np.linspace(0.0, 1.0, 7)[:, None, None]
    segments = (1.0 - along) * q.means[first] + along * q.means[second]
    heights = surrogate.mean(segments.reshape(-1, q.means.shape[1])).reshape(7, -1)
    joined = heights.min(0) > np.minimum(heights[0], heights[-1]) - MODES.dip
    return list(zip(first[joined].tolist(), second[joined].tolist(), strict=True))


def pooled_within(surrogate: Surrogate, q: DiagonalMixture) -> np.ndarray | None:
    """The covariance (D, D) within the modes of q, pooled by their masses; None for a single mode."""
    groups = connected(surrogate, q)
    if len(groups) == 1:
        return None
    found = np.zeros((q.means.shape[1],) * 2)
    for rows in groups:
        share = float(q.weights[rows].sum())
        found += share * DiagonalMixture(q.weights[rows] / share, q.means[rows], q.scales[rows]).covariance
    return found / float(q.weights.sum())


def _divergence(mode: GaussianMixture, whole: GaussianMixture) -> float:
    """The divergence KL(mode || whole), estimated by draws."""
    x = mode.sample(512, 0)
    return float(np.mean(mode.log_density(x) - whole.log_density(x)))
