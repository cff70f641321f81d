"""Laplace's approximation of a density p: a Gaussian at a mode, with the curvature H of -ln p there.

    N(mode, H^-1),     H by central differences of gradients,   draws mode + R z,  R R^T = H^-1,  z ~ N(0, I)

A draw has the importance weight p / N, the logarithm of which is ln p(draw) - ln p(mode) + |z|^2 / 2 up to a
constant. Where -ln p has almost no curvature along a direction, or is not convex, the width of N would be
unbounded; eigenvalues of H are therefore raised to a least one, which has the effect of a prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from gp.matrices import spectrum

_Result = TypeVar("_Result")
_ROUNDING = 1e-10  # of eigenvalues, relative to the largest


def curvature(gradients: Callable[[np.ndarray], np.ndarray], at: np.ndarray, step: float) -> np.ndarray:
    """Return minus the Hessian at a point, (P, P), symmetric: central differences.

    Parameters
    ----------
    gradients : a function of points (m, P) that returns gradients (m, P) of the log density.
    at : the point (P,). step : the distance to either side, in each coordinate.
    """
    size = len(at)
    moves = step * np.eye(size)
    slopes = np.asarray(gradients(np.concatenate([at + moves, at - moves])))
    falls = (slopes[size:] - slopes[:size]) / (2.0 * step)
    return 0.5 * (falls + falls.T)


def root(curvature: np.ndarray, least: float) -> np.ndarray:
    """Return R (P, P) with R R^T the inverse of a curvature, its eigenvalues raised to ``least`` > 0."""
    values, vectors = spectrum(curvature, least)
    return vectors / np.sqrt(values)


def weighed(
    evaluate: Callable[[np.ndarray], tuple[float, _Result]],
    mode: np.ndarray,
    at_mode: tuple[float, _Result],
    scale: np.ndarray,
    steps: np.ndarray,
    heaviest: float,
) -> tuple[list[_Result], np.ndarray]:
    """Results at the mode and at J draws mode + R z, and their importance weights, of sum 1.

    Parameters
    ----------
    evaluate : a function of a draw (P,) that returns ln p there and a result. A draw at which it raises
        LinAlgError is left out.
    mode : (P,). at_mode : what ``evaluate`` returns there.
    scale : R, (P, P). steps : z, (J, P).
    heaviest : the largest log weight relative to that of the mode; larger ones are lowered to it, as the
        weights of a Gaussian have no bound where p has thicker tails.
    """
    results, logs = [at_mode[1]], [0.0]
    for z in steps:
        try:
            value, result = evaluate(mode + scale @ z)
        except np.linalg.LinAlgError:
            continue
        results.append(result)
        logs.append(min(value - at_mode[0] + 0.5 * float(z @ z), heaviest))
    weights = np.exp(np.array(logs) - max(logs))
    return results, weights / weights.sum()


@dataclass(frozen=True, eq=False)
class LaplaceGaussian:
    """The Gaussian N(mode, H^-1), by the eigenvalues and eigenvectors of H; nothing is factorised again.

    Attributes
    ----------
    curvatures : (P,), > 0. axes : (P, P), a column each.
    """

    curvatures: np.ndarray
    axes: np.ndarray

    @classmethod
    def of(cls, curvature: np.ndarray, flat: float, instead: float) -> tuple[LaplaceGaussian, bool]:
        """From a curvature (P, P), and whether it exceeds ``flat`` >= 0 everywhere; elsewhere ``instead``.

        Eigenvalues that cannot be told from zero beside the largest, because of rounding, count as flat.
        """
        values, axes = np.linalg.eigh(0.5 * (curvature + curvature.T))
        least = _ROUNDING * values[-1]
        curved = values > max(flat, least)
        return cls(np.where(curved, values, max(instead, least)), axes), bool(curved.all())

    @property
    def covariance(self) -> np.ndarray:
        """H^-1, (P, P)."""
        return np.asarray((self.axes / self.curvatures) @ self.axes.T)

    @property
    def log_volume(self) -> float:
        """Half the logarithm of the determinant of 2 pi H^-1: that of the integral of exp(-depth)."""
        return 0.5 * float(np.log(2.0 * np.pi / self.curvatures).sum())

    def depths(self, gaps: np.ndarray) -> np.ndarray:
        """g^T H g / 2 of ``gaps`` g (m, P) to the mode, (m,)."""
        return np.asarray(0.5 * np.square(gaps @ self.axes) @ self.curvatures)
