"""The surrogate's frame: x = shift + scale u, in which the posterior is about N(0, I).

Kernels, priors of hyperparameters and scales of components are all stated in the frame's units, so that what
is a plausible lengthscale does not depend on the caller's plausible box. The frame follows q.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bqvi.variational_bmc.scaling import Scaling
from bqvi.variational_bmc.settings import FRAMES
from bqvi.variational_bmc.variational import DiagonalMixture
from gp.linear_maps import correlation_eigenvalues, correlation_root
from gp.measures import AffineMap, GaussianMixture
from gp.triangular import symmetric_eigen


@dataclass(frozen=True, eq=False)
class Frame:
    """An affine map, after which scales may depend on a coordinate."""

    shift: np.ndarray
    """(D,)."""
    scale: np.ndarray
    """T, (D, D)."""
    scaling: Scaling | None = None
    """From the affine map's image to x, if they differ."""

    @classmethod
    def unit(cls, dimension: int) -> Frame:
        """The map that changes nothing."""
        return cls(np.zeros(dimension), np.eye(dimension))

    @property
    def affine(self) -> AffineMap:
        """The affine map alone; T is a rotation where axes are rotated."""
        return AffineMap(self.shift, self.scale, triangular=False)

    @property
    def log_volume(self) -> float:
        """log |det T|."""
        return float(self.affine.log_determinant)

    @property
    def diagonal(self) -> bool:
        """Whether axes stay axes."""
        return bool(np.all(self.scale == np.diag(np.diag(self.scale))))

    def into(self, x: np.ndarray) -> np.ndarray:
        """U of points x (m, D), (m, D)."""
        found: np.ndarray = self.affine.to_standard(self.straightened(x))
        return found

    def out(self, u: np.ndarray) -> np.ndarray:
        """X of points u (m, D), (m, D)."""
        y = self.straight(u)
        return y if self.scaling is None else self.scaling.out(y)

    def straight(self, u: np.ndarray) -> np.ndarray:
        """Y, of which the map is affine, of points u (m, D), (m, D)."""
        found: np.ndarray = self.affine.from_standard(u)
        return found

    def straightened(self, x: np.ndarray) -> np.ndarray:
        """Y of points x (m, D), (m, D)."""
        return x if self.scaling is None else self.scaling.into(x)

    def log_stretch(self, u: np.ndarray) -> np.ndarray:
        """Log |det dx / dy| at u (m, D), (m,): what a log density gains beside that of x."""
        return np.zeros(len(u)) if self.scaling is None else self.scaling.log_jacobian(self.straight(u))

    def slopes_into(self, u: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Gradients in u, with those of `log_stretch`, of gradients in x (m, D), at u (m, D), (m, D)."""
        if self.scaling is not None:
            gradients = self.scaling.pulled(self.straight(u), gradients)
        found: np.ndarray = gradients @ self.scale
        return found

    def measure(self, q: DiagonalMixture) -> GaussianMixture:
        """The mixture of x for a mixture of u; where scales change, a finer one that is near it.

        Each component is then cut into pieces along the leading coordinate, and the map is linear in each.
        """
        covariances = np.einsum("ij,kj,lj->kil", self.scale, q.scales**2, self.scale)
        weights, means = q.weights / q.weights.sum(), self.straight(q.means)
        if self.scaling is not None:
            k = self.scaling.leading
            weights, means, covariances = _cut(weights, means, covariances, k)
            turn = self.scaling.jacobian(means)
            means, covariances = self.scaling.out(means), turn @ covariances @ turn.mT
        covariances = 0.5 * (covariances + covariances.mT)
        return GaussianMixture(weights, means, covariances)

    def moved(self, q: DiagonalMixture, to: Frame) -> DiagonalMixture:
        """The mixture in another frame; correlations that are new there are dropped.

        A component keeps its variances, or its precisions where axes are turned: these leave it inside of the
        thin posterior for which they are.
        """
        means = to.into(self.out(q.means))
        if self.diagonal and not to.diagonal:
            turn = self.affine.solve(to.scale)
            return DiagonalMixture(q.weights, means, 1.0 / np.sqrt(q.scales**-2.0 @ turn**2))
        turn = to.affine.solve(self.scale)
        return DiagonalMixture(q.weights, means, np.sqrt(q.scales**2 @ (turn**2).T))


def _cut(
    weights: np.ndarray, means: np.ndarray, covariances: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussians (K,), (K, D), (K, D, D), each in pieces of the same moments, narrower along k."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(FRAMES.pieces)
    share = FRAMES.between
    along = covariances[:, :, k] / np.sqrt(covariances[:, [k], k])
    places = means[:, None] + np.sqrt(share) * nodes[:, None] * along[:, None]
    left = covariances - share * along[:, :, None] * along[:, None, :]
    dimension = means.shape[1]
    return (
        (weights[:, None] * (shares / shares.sum())).ravel(),
        places.reshape(-1, dimension),
        np.repeat(left, FRAMES.pieces, axis=0),
    )


def fitting(mean: np.ndarray, covariance: np.ndarray, last: Frame, within: np.ndarray | None = None) -> Frame:
    """Along the axes, or turned where the correlations ask for it; in between as the ``last`` frame was.

    Of several modes the correlations ``within`` count. Axes along the line through two modes are not those of
    either, and a mixture loses its components where the axes are rotated.
    """
    condition = _condition(covariance if within is None else within)
    along = condition < FRAMES.correlated or (condition < FRAMES.thin and last.diagonal)
    found = axes(mean, covariance) if along else turned(mean, covariance)
    return replace(found, scaling=last.scaling)


def alternative(
    mean: np.ndarray, covariance: np.ndarray, frame: Frame, within: np.ndarray | None = None
) -> Frame | None:
    """The frame of the other kind, where the correlations leave the choice to the evidence.

    Log densities are more often sums of functions of few of the *given* coordinates than of rotated ones, but
    a mixture with axes of its own needs many components for a thin posterior that has none.
    """
    if not FRAMES.correlated < _condition(covariance if within is None else within) < FRAMES.thin:
        return None
    other = turned(mean, covariance) if frame.diagonal else axes(mean, covariance)
    return replace(other, scaling=frame.scaling)


def _condition(covariance: np.ndarray) -> float:
    """Condition number of the correlations."""
    values = correlation_eigenvalues(covariance)
    return float(values[-1] / max(values[0], 1e-300))


def turns(covariance: np.ndarray) -> bool:
    """Whether the axes are to be turned for a covariance that is known without noise.

    -log det C / 2 is the Kullback-Leibler divergence of a Gaussian from the one without its correlations C.
    In twenty dimensions it may be large although each correlation is small. A covariance that is estimated
    from M draws makes the divergence too large, by about D^2 / (4 M).
    """
    values = correlation_eigenvalues(covariance)
    return bool(-0.5 * np.log(np.maximum(values, 1e-300)).sum() > FRAMES.lost)


def elite(points: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of evaluated points (n, D), tempered so that 2 D of them carry the weight.

    Where nothing better is known, they lead uphill as in an evolution strategy. Where they lie less deep than
    draws of a Gaussian would, D / 2 nats, they are spread until they would not, up to the plausible box.
    """
    dimension = points.shape[1]
    each, more = FRAMES.elite
    count = min(len(values), each * dimension + more)
    depth = values.max() - values
    weights = np.ones(len(values))
    for temperature in 2.0 ** np.arange(-20.0, 60.0):
        weights = np.exp(-depth / temperature)
        weights /= weights.sum()
        if 1.0 / (weights @ weights) > FRAMES.elite_effective * count:
            break
    mean = weights @ points
    centred = points - mean
    covariance = (centred.T * weights) @ centred
    covariance += (FRAMES.elite_rounder * np.trace(covariance) / dimension + FRAMES.elite_least) * np.eye(
        dimension
    )
    widest = float(symmetric_eigen(covariance)[0][-1])
    spread = 0.5 * dimension / max(float(weights @ depth), FRAMES.elite_shallow)
    return mean, covariance * np.clip(spread, 1.0, max(1.0, FRAMES.plausible / widest))


def axes(mean: np.ndarray, covariance: np.ndarray) -> Frame:
    """The frame of a Gaussian's location and standard deviations."""
    return Frame(mean, np.diag(np.sqrt(np.diag(covariance))))


def turned(mean: np.ndarray, covariance: np.ndarray) -> Frame:
    """The frame in which a Gaussian is N(0, I), by the symmetric root of its correlations.

    Of all such frames it is the one nearest to the axes.
    """
    return Frame(mean, correlation_root(covariance, FRAMES.least_correlation))
