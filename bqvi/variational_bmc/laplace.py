"""Laplace's approximation of the surrogate, by its mode and the curvature there.

Newton's method (`gp.search`) is applied to the posterior mean, whose curvature is a difference of its
gradients; directions in which the mean is not concave get a small curvature. The method finds the thin
ellipsoid of a correlated posterior in a few steps, for which the optimisation of a mixture from a distant
start takes hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.variational_bmc.settings import RESTARTS
from bqvi.variational_bmc.surrogate import Surrogate
from gp.laplace import curvature, spectrum
from gp.search import Expansion, search

__all__ = ["ascended", "laplace"]


def laplace(
    surrogate: Surrogate, start: np.ndarray, lower: np.ndarray, upper: np.ndarray, widest: float | None = None
) -> tuple[np.ndarray, np.ndarray] | None:
    """The mean (D,) and covariance (D, D) in the frame; None where the mean has no mode inside the box.

    With ``widest`` there always is a result: in directions in which the mean is flatter than a Gaussian of
    that standard deviation, or not concave, the standard deviation is ``widest``.

    Parameters
    ----------
    surrogate : the surrogate, in the frame. start : (D,). lower, upper : the corners (D,) of the box.
    widest : the largest standard deviation, or None.
    """
    u = ascended(surrogate, start, lower, upper)
    values, vectors = spectrum(_curvature(surrogate, u), -np.inf if widest is None else widest**-2.0)
    inside = np.all((u > lower) & (u < upper))
    if widest is None and (values.min() < RESTARTS.flattest or not inside):
        return None
    return u, (vectors / values) @ vectors.T


def ascended(surrogate: Surrogate, start: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The end (D,) of Newton's ascent of the mean from ``start``: a mode, or a point on the boundary.

    Parameters
    ----------
    surrogate : the surrogate, in the frame. start : (D,). lower, upper : the corners (D,) of the box.
    """
    return search(_Mean(surrogate), [start], (lower, upper), RESTARTS.ascent).psi


@dataclass(frozen=True, eq=False)
class _Mean:
    """The posterior mean as an objective, with a curvature of at least ``RESTARTS.flattest``."""

    surrogate: Surrogate

    def value(self, psi: np.ndarray) -> float:
        return float(self.surrogate.mean(psi[None])[0])

    def expanded(self, psi: np.ndarray) -> Expansion:
        def bowl() -> np.ndarray:
            values, vectors = spectrum(_curvature(self.surrogate, psi), RESTARTS.flattest)
            return (vectors * values) @ vectors.T

        return Expansion(self.value(psi), lambda: self.surrogate.function.gradient(psi[None])[0], bowl)


def _curvature(surrogate: Surrogate, u: np.ndarray) -> np.ndarray:
    """Minus the Hessian of the posterior mean at u (D,), (D, D)."""
    return curvature(surrogate.function.gradient, u, RESTARTS.difference)
