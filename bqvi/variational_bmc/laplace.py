"""Laplace's approximation of the surrogate: where its mode is, and how wide.

Newton's method on the posterior mean, whose Hessian is a difference of its gradients; directions in which the
mean is not concave count as barely so. It finds at once what a mixture that starts far away would climb to in
hundreds of steps: the thin ellipsoid of a correlated posterior.
"""

from __future__ import annotations

import numpy as np

from bqvi.variational_bmc.settings import RESTARTS
from bqvi.variational_bmc.surrogate import Surrogate

Vector = np.ndarray

_STEP = 1e-3


def laplace(
    surrogate: Surrogate, start: Vector, lower: Vector, upper: Vector, widest: float | None = None
) -> tuple[Vector, Vector] | None:
    """Mean (D,) and covariance (D, D) in the frame, or ``None`` where the mean has no mode inside the box.

    With ``widest`` there always is one: in directions in which the mean is flatter than a Gaussian of that
    standard deviation, or not concave, it stands in.
    """
    u = ascended(surrogate, start, lower, upper)
    values, vectors = np.linalg.eigh(hessian(surrogate, u))
    if widest is not None:
        values = np.minimum(values, -(widest**-2.0))
    elif values.max() > -RESTARTS.flattest or not np.all((u > lower) & (u < upper)):
        return None
    return u, (vectors / -values) @ vectors.T


def ascended(surrogate: Surrogate, start: Vector, lower: Vector, upper: Vector) -> Vector:
    """Where Newton's ascent of the mean from ``start`` ends, (D,): a mode, or on the box's boundary."""
    u = start.copy()
    value = float(surrogate.mean(u[None])[0])
    for _ in range(RESTARTS.tries):
        slope, curvature = surrogate.mean_gradient(u[None])[0], hessian(surrogate, u)
        values, vectors = np.linalg.eigh(curvature)
        bowl = np.minimum(values, -RESTARTS.flattest)
        newton = -(vectors / bowl) @ (vectors.T @ slope)
        for length in 0.5 ** np.arange(8):
            trial = np.clip(u + length * newton, lower, upper)
            found = float(surrogate.mean(trial[None])[0])
            if found > value:
                break
        else:
            break
        gain, u, value = found - value, trial, found
        if gain < 1e-3:
            break
    return u


def hessian(surrogate: Surrogate, u: Vector) -> Vector:
    """Of the posterior mean at u (D,), (D, D)."""
    steps = _STEP * np.eye(len(u))
    slopes = surrogate.mean_gradient(np.concatenate([u + steps, u - steps]))
    found = (slopes[: len(u)] - slopes[len(u) :]) / (2.0 * _STEP)
    result: Vector = 0.5 * (found + found.T)
    return result
