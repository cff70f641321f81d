"""q climbs the ELBO of a surrogate, inside a trust region.

In units whitened by the q of now, which is N(0, I) there, q' = N(m, P^-1) ascends by natural-gradient steps
of size rho on the surrogate's ELBO: with the moments E[y] and J of `whitened` under q',

    P <- P + rho D,         D = (I - J) - P        (I - J estimates minus the expected Hessian)
    m <- m + rho P^-1 (E[y] - m)                   with the new P

and, where P + rho D is not positive definite, along the retraction P + rho D + rho^2 D P^-1 D / 2 (Lin,
Schmidt and Khan 2020). It ends where the natural gradient vanishes, or on the boundary

    KL(q' || q) = (tr P^-1 + m^T m - D + ln|P|) / 2 <= radius:

beyond it the surrogate has seen nothing and the optimiser climbs where it is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.gradients.whitened import Surrogate

STEPS = 30
RATE = 0.7
"""rho away from the fixed point; steps of 1 overshoot where f is far from quadratic."""
SETTLED = 1e-7
"""Squared Fisher norm of the natural gradient that counts as none: twice the nats still to be won."""
_BISECTIONS = 12


@dataclass(frozen=True, eq=False)
class Place:
    """q' = N(mean, precision^-1) in whitened units."""

    mean: np.ndarray
    precision: np.ndarray
    covariance: np.ndarray
    divergence: float
    """KL(q' || N(0, I))."""


def ascend(surrogate: Surrogate, dimension: int, radius: float, diagonal: bool) -> Place:
    """The best q' in reach from N(0, I); ``diagonal`` keeps it mean-field."""
    identity = np.eye(dimension)
    place = Place(np.zeros(dimension), identity, identity, 0.0)
    for _ in range(STEPS):
        moments = surrogate.moments(place.mean, place.covariance)
        pull = moments.mean - place.mean
        change = identity - moments.jacobian - place.precision
        if diagonal:
            change = np.diag(np.diagonal(change))
        left = _squared_norm(place, pull, change)
        if not np.isfinite(left):
            break
        rate = 1.0 if left < 0.01 else RATE
        following = _moved(place, pull, change, rate)
        if not following.divergence <= radius:
            return _at_the_boundary(place, pull, change, rate, radius)
        place = following
        if left < SETTLED:  # this last step squared what was left
            break
    return place


def _squared_norm(place: Place, pull: np.ndarray, change: np.ndarray) -> float:
    """Of the natural gradient in the Fisher metric at q'."""
    relative = place.covariance @ change
    return float(pull @ place.covariance @ pull + 0.5 * np.vdot(relative, relative.T))


def _moved(place: Place, pull: np.ndarray, change: np.ndarray, rate: float) -> Place:
    try:
        precision = place.precision + rate * change
        factor = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        precision = place.precision + rate * change + 0.5 * rate**2 * change @ place.covariance @ change
        try:
            factor = np.linalg.cholesky(precision)
        except np.linalg.LinAlgError:  # by rounding only; the caller shortens the step
            return Place(place.mean, precision, place.covariance, np.inf)
    covariance = np.linalg.inv(precision)
    mean = place.mean + rate * covariance @ pull
    log_determinant = 2.0 * float(np.log(np.diagonal(factor)).sum())
    trace = float(np.trace(covariance))
    divergence = 0.5 * (trace + float(mean @ mean) - len(mean) + log_determinant)
    return Place(mean, precision, covariance, divergence)


def _at_the_boundary(place: Place, pull: np.ndarray, change: np.ndarray, rate: float, radius: float) -> Place:
    """The longest step found that stays inside."""
    low, high, best = 0.0, rate, place
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        tried = _moved(place, pull, change, middle)
        if tried.divergence <= radius:
            low, best = middle, tried
        else:
            high = middle
    return best
