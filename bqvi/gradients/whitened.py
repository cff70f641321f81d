"""Units whitened by a Gaussian q: theta = mu + L u, with u ~ N(0, I) under q.

A surrogate of the log joint f is a model of y(u) = L^T grad f(theta) + u. Its two moments under a Gaussian
q' = N(m, Sigma) in these units,

    E[y] = L^T E[grad f] + m,                 J = E[dy/du] = L^T E[Hessian of f] L + I,

are the natural gradient of the ELBO at q'. With the gradients dL/dm = E[grad f] and
dL/dC = (E[Hessian of f] + C^-1) / 2, at q itself (m = 0, Sigma = I)

    dL/dmu = (dL/dm - 2 G mu, G),    dL/dm = L^-T E[y],    G = dL/dC = L^-T J L^-1 / 2,

and for a diagonal q the same with the diagonal of G.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from bqvi.arrays import Values
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients.settings import LEFT_OUT, NOISE
from gp.arrays import to_numpy
from gp.matrices import transposed_solve, triangular_inverse, whitened_rows

JITTER = NOISE.jitter


@dataclass(frozen=True, eq=False)
class WhitenedMoments:
    """Moments of y under a Gaussian; or their standard deviations."""

    mean: np.ndarray
    """E[y], (D,)."""
    jacobian: np.ndarray
    """E[dy/du], symmetric, (D, D)."""

    @classmethod
    def of_flat(cls, flat: np.ndarray, dimension: int) -> WhitenedMoments:
        """Moments of their ``dimension`` from E[y] and the lower triangle of J row by row, ``flat`` (F,)."""
        rows, columns = np.tril_indices(dimension)
        jacobian = np.empty((dimension, dimension))
        jacobian[rows, columns] = jacobian[columns, rows] = flat[dimension:]
        return cls(flat[:dimension], jacobian)


class WhitenedSurrogate(Protocol):
    """A model of y that can be integrated against any Gaussian."""

    @property
    def at_q(self) -> WhitenedMoments:
        """The moments under q itself."""

    def moments(self, mean: np.ndarray, covariance: np.ndarray) -> WhitenedMoments:
        """The moments under q' = N(mean, covariance) in q's units, (D,) and (D, D)."""

    def standard_deviations(self) -> WhitenedMoments:
        """Standard deviations of the moments `at_q`, by which steps are shortened."""


@dataclass(frozen=True, eq=False)
class WhitenedFrame:
    """The units of one q.

    It is an affine map like `gp.measures.AffineMap`, by direct calls of LAPACK: for two points in D = 5 it
    takes 5 microseconds where the general map, which determines the kind of array, takes 31.
    """

    mean: np.ndarray
    """mu, (D,)."""
    scale: np.ndarray
    """Lower triangular L, (D, D)."""
    diagonal: bool
    """Whether q is a mean-field Gaussian."""

    @classmethod
    def of(cls, q: Any) -> WhitenedFrame:
        """The units of a Gaussian q.

        Raises
        ------
        TypeError
            q is of another family, or a batch.
        """
        full = isinstance(q, Gaussian)  # checked first, as a protocol's check takes much longer
        if not (full or isinstance(q, DiagonalGaussian)) or q.mean.ndim != 1:
            raise TypeError(
                f"q is a {type(q).__name__}; Bayesian quadrature of the gradient needs one Gaussian over "
                "R^D, full or mean-field"
            )
        mean = to_numpy(q.mean).astype(float, copy=False)
        if not full:
            return cls(mean, np.diag(np.sqrt(to_numpy(q.variance))), True)
        return cls(mean, to_numpy(q.scale_tril).astype(float, copy=False), False)

    @classmethod
    def standard(cls, dimension: int) -> WhitenedFrame:
        """The units of N(0, I)."""
        return cls(np.zeros(dimension), np.eye(dimension), False)

    def seen_from(self, other: WhitenedFrame) -> WhitenedFrame:
        """The frame in the units of another, in which q is N(L_o^-1 (mu - mu_o), L_o^-1 L L^T L_o^-T)."""
        scale = whitened_rows(other.scale, self.scale.T).T
        return WhitenedFrame(other.whiten(self.mean[None])[0], scale, self.diagonal)

    @cached_property
    def inverse(self) -> np.ndarray:
        """L^-1, (D, D)."""
        return triangular_inverse(self.scale)

    @property
    def divergence(self) -> float:
        """KL(q || N(0, I)), nats."""
        squares = float(np.vdot(self.scale, self.scale) + self.mean @ self.mean)
        return 0.5 * (squares - len(self.mean)) - float(np.log(np.einsum("ii->i", self.scale)).sum())

    def points(self, whitened: np.ndarray) -> np.ndarray:
        """theta of u, (n, D)."""
        return self.mean + whitened @ self.scale.T

    def whiten(self, points: np.ndarray) -> np.ndarray:
        """u of theta, (n, D)."""
        return whitened_rows(self.scale, points - self.mean)

    def natural_gradient(self, moments: WhitenedMoments) -> Values:
        """dL/dmu at q, from the moments at q."""
        mean_gradient = self._pulled(moments.mean[:, None])[:, 0]
        second = 0.5 * self._pulled(self._pulled(moments.jacobian).T)
        if self.diagonal:
            second = np.diagonal(second).copy()
            return mean_gradient - 2.0 * second * self.mean, second
        return mean_gradient - 2.0 * second @ self.mean, 0.5 * (second + second.T)

    def moments(self, values: Values) -> WhitenedMoments:
        """The moments whose `natural_gradient` is ``values``; off a diagonal q's diagonal they are zero."""
        first, second = values
        full = np.diag(second) if self.diagonal else second
        mean_gradient = first + 2.0 * full @ self.mean
        return WhitenedMoments(self.scale.T @ mean_gradient, 2.0 * self.scale.T @ full @ self.scale)

    def natural_parameters(self, mean: np.ndarray, precision: np.ndarray) -> Values:
        """eta of the Gaussian that is N(mean, precision^-1) in these units."""
        outside = self._pulled(self._pulled(precision).T)
        centre = self.mean + self.scale @ mean
        if self.diagonal:
            diagonal = np.diagonal(outside).copy()
            return diagonal * centre, -0.5 * diagonal
        outside = 0.5 * (outside + outside.T)
        return outside @ centre, -0.5 * outside

    def _pulled(self, right: np.ndarray) -> np.ndarray:
        """L^-T right."""
        return transposed_solve(self.scale, right)


def jitter_multiple(points: np.ndarray, scaled: np.ndarray | None = None) -> np.ndarray:
    """Multiple of the jitter at (m, D) points, (m,): 1 where q has mass, e^(2 (|u|^2 / D - 4)) beyond.

    A stationary kernel cannot fit both the region of q and the steep region from which q has moved. The noise
    of earlier points grows with their distance from q, so that those at three standard deviations in each
    coordinate have hardly any effect. Of |u|^2 and that of ``scaled`` points (m, D) the larger counts.
    """
    squares = np.einsum("nd,nd->n", points, points)
    if scaled is not None:
        squares = np.maximum(squares, np.einsum("nd,nd->n", scaled, scaled))
    grown = np.maximum((squares / points.shape[1] - NOISE.near) / NOISE.fading, 0.0)
    return np.exp(np.minimum(grown, 25.0))


def distance_noise(points: np.ndarray) -> np.ndarray:
    """The noise over s^2 of observations of one function at (m, D) points, (m,)."""
    return JITTER * jitter_multiple(points)


def typical_noise(measured: np.ndarray | None, jitter: float = JITTER) -> float:
    """The noise variance over s^2 of an observation near q, from those of others; None if they are exact."""
    return jitter if measured is None else jitter + float(np.median(measured))


def near_q(points: np.ndarray, alone: bool) -> np.ndarray:
    """Which of (m, D) points are near enough to q to be used, (m,); all, if fewer than two are.

    Where there are values ``alone``, points beyond `NOISE.near` are used only among the nearest, twice as
    many as a quadratic function has coefficients, or 40: more of them determine the process in the place of
    those where q has mass.
    """
    dimension = points.shape[1]
    squares, reach = np.einsum("nd,nd->n", points, points) / dimension, LEFT_OUT
    if alone:
        nearest = np.sort(squares)[: max(40, (dimension + 1) * (dimension + 2))]
        reach = min(reach, np.max(nearest, initial=NOISE.near))
    near: np.ndarray = squares <= reach
    return near if near.sum() >= 2 else np.ones_like(near)
