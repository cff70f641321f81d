"""Maximisation of a surrogate's ELBO in q, inside a trust region.

In units whitened by the present q, in which q is N(0, I), q' = N(m, P^-1) ascends the surrogate's ELBO by
natural-gradient steps of size rho. With the moments E[y] and J of `bqvi.gradients.whitened` under q',

    P <- P + rho D,         D = (I - J) - P        (I - J estimates minus the expected Hessian)
    m <- m + rho P^-1 (E[y] - m)                   with the new P

and, where P + rho D is not positive definite, along the retraction P + rho D + rho^2 D P^-1 D / 2 (Lin,
Schmidt and Khan 2020). The ascent ends where the natural gradient vanishes, or on the boundary

    KL(q' || q) = (tr P^-1 + m^T m - D + ln|P|) / 2 <= radius,

since there are no evaluations beyond it. Where the gradient does not differ from zero within its error its
direction is not determined. With |g|^2 the squared Fisher norm
of the gradient at q and v its error variance (the model's plus the jackknife's), the step ends at

    KL <= min(radius, r |g|^2) (|g|^2 / (|g|^2 + d v))^2,

with r = `ASCENT.divergence` and d = `ASCENT.variance_weight`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.gradients.whitened import WhitenedSurrogate
from bqvi.inference.settings import ASCENT
from gp.triangular import cholesky_inverse


@dataclass(frozen=True, eq=False)
class Place:
    """q' = N(mean, precision^-1) in whitened units."""

    mean: np.ndarray
    precision: np.ndarray
    covariance: np.ndarray
    divergence: float
    """KL(q' || N(0, I))."""


def ascend(surrogate: WhitenedSurrogate, dimension: int, radius: float, diagonal: bool) -> Place:
    """The best q' within the trust region around N(0, I); with ``diagonal`` it is mean-field.

    Parameters
    ----------
    surrogate : the moments of y under Gaussians, in units whitened by q. dimension : D.
    radius : the largest divergence from N(0, I), nats. diagonal : whether q' is mean-field.
    """
    identity = np.eye(dimension)
    place = Place(np.zeros(dimension), identity, identity, 0.0)
    rate, before = 0.7, np.inf
    for step in range(30):
        moments = surrogate.at_q if step == 0 else surrogate.moments(place.mean, place.covariance)
        pull = moments.mean - place.mean
        change = identity - moments.jacobian - place.precision
        if diagonal:
            change = np.diag(np.diagonal(change))
        remaining = _squared_norm(place, pull, change)
        if not np.isfinite(remaining):
            break
        if step == 0:
            radius = _allowed(surrogate, radius, remaining, diagonal)
        rate, before = _adapted(rate, remaining / before), remaining
        following = _moved(place, pull, change, rate)
        if not following.divergence <= radius:
            return _at_the_boundary(place, pull, change, rate, radius)
        place = following
        # near the maximum each step squares the remaining gain, which is then negligible
        if remaining < 1e-7:
            break
    return place


def _allowed(surrogate: WhitenedSurrogate, radius: float, squared_norm: float, diagonal: bool) -> float:
    """The radius after its reduction by the norm and the error of the gradient at q."""
    sd = surrogate.standard_deviations()
    slopes = np.diagonal(sd.jacobian) if diagonal else sd.jacobian
    variance = float(np.square(sd.mean).sum() + 0.5 * np.square(slopes).sum())
    known = squared_norm / (squared_norm + ASCENT.variance_weight * variance + 1e-300)
    return min(radius, ASCENT.divergence * squared_norm) * known * known


def _adapted(rate: float, ratio: float) -> float:
    """The next rho, given the ratio of the squared natural gradients after and before the last step."""
    if ratio > 0.5:
        return max(0.5 * rate, 0.1)
    return min(ASCENT.faster * rate, 1.0) if ratio < 0.1 else rate


def _squared_norm(place: Place, pull: np.ndarray, change: np.ndarray) -> float:
    """The squared norm of the natural gradient in the Fisher metric at q'."""
    relative = place.covariance @ change
    return float(pull @ place.covariance @ pull + 0.5 * np.vdot(relative, relative.T))


def _moved(place: Place, pull: np.ndarray, change: np.ndarray, rate: float) -> Place:
    try:
        precision = place.precision + rate * change
        factor, covariance = cholesky_inverse(precision)
    except np.linalg.LinAlgError:
        precision = place.precision + rate * change + 0.5 * rate**2 * change @ place.covariance @ change
        try:
            factor, covariance = cholesky_inverse(precision)
        except np.linalg.LinAlgError:  # singular by rounding; the caller shortens the step
            return Place(place.mean, precision, place.covariance, np.inf)
    mean = place.mean + rate * covariance @ pull
    log_determinant = 2.0 * float(np.log(np.einsum("ii->i", factor)).sum())
    trace = float(np.einsum("ii->", covariance))
    divergence = 0.5 * (trace + float(mean @ mean) - len(mean) + log_determinant)
    return Place(mean, precision, covariance, divergence)


def _at_the_boundary(place: Place, pull: np.ndarray, change: np.ndarray, rate: float, radius: float) -> Place:
    """The longest step found that stays inside."""
    low, high, best = 0.0, rate, place
    middle = 0.5 * rate
    for _ in range(12):
        tried = _moved(place, pull, change, middle)
        if tried.divergence <= radius:
            low, best = middle, tried
            if tried.divergence >= 0.9 * radius:
                break
        else:
            high = middle
        # the divergence from q grows about quadratically with the length of the step
        ratio = radius / max(tried.divergence, 1e-300)
        aim = 0.98 * middle * np.sqrt(ratio) if place.divergence == 0.0 else 0.0
        middle = float(aim) if low < aim < high else 0.5 * (low + high)
    return best if low > 0.0 else _halved(place, pull, change, high, radius)


def _halved(place: Place, pull: np.ndarray, change: np.ndarray, rate: float, radius: float) -> Place:
    """The first step that stays inside, from ``rate`` down by halves."""
    for _ in range(100):
        rate *= 0.5
        tried = _moved(place, pull, change, rate)
        if tried.divergence <= radius:
            return tried
    return place
