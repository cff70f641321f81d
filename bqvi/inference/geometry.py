"""The coordinates in which steps are taken: natural or Euclidean.

A geometry has two parts, the direction that it computes from a gradient, and the move along it:

    Natural      direction eta* - eta, move eta + rho (eta* - eta): a convex combination for rho <= 1,
                 so it stays in the (convex) domain. For the gradients of conjugate models.
    Riemannian   the natural gradient of any estimator may leave the domain: the move is the family's
                 retraction, which agrees with the straight line to first order and stays in it.
    Euclidean    direction dL/du, move u + increment, u without constraints.
    TrustRegion  direction to the optimum of the estimator's surrogate within KL(q' || q) <= radius, move
                 along the straight line in eta, so that a step of rho <= 1 stays in the ball. The mean may
                 move further where the surrogate's predictions were accurate.

In all of them parameters remain in their domain by construction, without clipping.

*The optimum of a surrogate.* In units whitened by the present q, in which q is N(0, I), q' = N(m, P^-1)
ascends the surrogate's ELBO by natural-gradient steps of size rho. With the moments E[y] and J of
`bqvi.gradients.whitened` under q',

    P <- P + rho D,         D = (I - J) - P        (I - J estimates minus the expected Hessian)
    m <- m + rho P^-1 (E[y] - m)                   with the new P

and, where P + rho D is not positive definite, along the retraction P + rho D + rho^2 D P^-1 D / 2 (Lin,
Schmidt and Khan 2020). The ascent ends where the natural gradient vanishes, or on the boundary

    KL(q' || q) = (tr P^-1 + m^T m - D + ln|P|) / 2 <= radius,

since there are no evaluations beyond it. Where the gradient does not differ from zero within its error its
direction is not determined. With |g|^2 the squared Fisher norm of the gradient at q and v its error variance
(the model's plus the jackknife's), the step ends at

    KL <= min(radius, r |g|^2) (|g|^2 / (|g|^2 + d v))^2,

with r = `ASCENT.divergence` and d = `ASCENT.variance_weight`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np

from bqvi.arguments import Above, Checked
from bqvi.arrays import Values, add, subtract
from bqvi.families import DiagonalGaussian, ExponentialFamily, Gaussian, GaussianMixture, Product
from bqvi.families.family import Distribution
from bqvi.gradients.gradient import Gradient
from bqvi.gradients.whitened import WhitenedFrame, WhitenedSurrogate
from bqvi.inference.settings import ASCENT
from gp.arrays import is_torch
from gp.checks import require_above, require_one_of
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


@runtime_checkable
class Geometry(Protocol):
    """Directions and moves."""

    def check(self, q: Distribution) -> None:
        """Raise ValueError or TypeError, before any work, if ``q`` cannot be moved in this geometry."""

    def direction(self, q: Distribution, gradient: Gradient) -> Values:
        """The direction of ascent at q, given the gradient there."""

    def move(self, q: Distribution, increment: Values) -> Distribution:
        """q after an increment along a direction; tensors of ``increment`` may be written over."""

    def coordinates(self, q: Distribution) -> Values:
        """The coordinates that determine q, for a saved state."""

    def at(self, q: Distribution, coordinates: Values) -> Distribution:
        """The distribution of q's structure at ``coordinates``."""


class _NaturalParameters:
    """q has the coordinates eta, and moves along straight lines in eta."""

    def move(self, q: Any, increment: Values) -> Any:
        """eta + increment."""
        return q.from_natural(add(q.natural, increment))

    def coordinates(self, q: Any) -> Values:
        """eta."""
        return q.natural

    def at(self, q: Any, coordinates: Values) -> Any:
        """q at eta."""
        return q.from_natural(coordinates)


@dataclass(frozen=True)
class Natural(_NaturalParameters):
    """Straight lines in the natural parameters, for natural gradients of conjugate models."""

    def check(self, q: Distribution) -> None:
        """Raise ValueError unless ``q`` is an exponential family."""
        if isinstance(q, GaussianMixture):
            raise ValueError(
                "geometry is Natural, but q is a GaussianMixture, without natural parameters; use Euclidean"
            )

    def direction(self, q: Distribution, gradient: Gradient) -> Values:
        return gradient.values


@dataclass(frozen=True)
class Riemannian(_NaturalParameters):
    """Natural gradients of any estimator, followed by a retraction."""

    def check(self, q: Distribution) -> None:
        """Raise ValueError unless ``q`` is an exponential family with a retraction."""
        factors = q.factors.values() if isinstance(q, Product) else [q]
        for factor in factors:
            if not isinstance(factor, ExponentialFamily):
                raise ValueError(
                    f"geometry is Riemannian, but q is a {type(factor).__name__}, which has no retraction; "
                    "use Euclidean, or Natural with a conjugate model"
                )

    def direction(self, q: Any, gradient: Gradient) -> Values:
        if gradient.natural:
            return gradient.values
        return q.gradient_to_natural(gradient.values)

    def move(self, q: Any, increment: Values) -> Any:
        return q.retract(increment)


@dataclass(frozen=True)
class Euclidean:
    """Plain gradients in the unconstrained coordinates.

    Parameters
    ----------
    scales : for each factor, by name, the multiple of the step in its parameters, > 0; default 1 each
        (thesis Section 6: 1 for the weights, 1e-3 for the means)
    """

    scales: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.scales.items():
            require_above(f"scales[{name!r}]", value, 0.0)

    def check(self, q: Distribution) -> None:
        """Raise an error unless ``scales`` names factors of ``q``, and ``q`` has coordinates u."""
        for name in self.scales:
            require_one_of("scales", name, dict.fromkeys(q.leaf_names))
        _ = q.unconstrained

    def direction(self, q: Any, gradient: Gradient) -> Values:
        values: Values = gradient.values
        if gradient.natural:
            values = q.gradient_to_unconstrained(values)
        if not self.scales:
            return values
        return tuple(self.scales.get(name, 1.0) * g for name, g in zip(q.leaf_names, values, strict=True))

    def move(self, q: Distribution, increment: Values) -> Distribution:
        """u + increment; FloatingPointError where exp(u) is 0 or infinity in floating point."""
        if is_torch(increment[0]):  # weights of a network: in place, without another array for each
            moved = zip(increment, q.unconstrained, strict=True)
            return q.from_unconstrained(tuple(step.add_(u) for step, u in moved))
        with np.errstate(over="raise", under="raise"):
            return q.from_unconstrained(add(q.unconstrained, increment))

    def coordinates(self, q: Distribution) -> Values:
        return q.unconstrained

    def at(self, q: Distribution, coordinates: Values) -> Distribution:
        return q.from_unconstrained(coordinates)


@dataclass(frozen=True)
class TrustRegion(Checked, _NaturalParameters):
    """The optimum of a surrogate within a Kullback-Leibler ball around q; for a Gaussian q.

    Parameters
    ----------
    radius : the largest KL(q_new || q_old) of a step of 1, nats. Without a limit the optimum may lie where
        the surrogate is wrong; with 5 fits from values fail
    """

    radius: Annotated[float, Above(0.0)] = 1.0

    def check(self, q: Distribution) -> None:
        """Raise ValueError unless ``q`` is a Gaussian, full or mean-field."""
        if not isinstance(q, Gaussian | DiagonalGaussian):
            raise ValueError(
                f"geometry is TrustRegion, but q is a {type(q).__name__}; a surrogate needs a Gaussian "
                "q over R^D, as a LogJoint has: for a mixture, one with z summed out"
            )

    def direction(self, q: Any, gradient: Gradient) -> Values:
        """The step from q's natural parameters to those of the optimum."""
        if gradient.surrogate is None:  # there is no surrogate yet: q stays
            return subtract(q.natural, q.natural)
        frame = WhitenedFrame.of(q)
        place = ascend(gradient.surrogate, len(frame.mean), self.radius, frame.diagonal)
        return subtract(frame.natural_parameters(place.mean, place.precision), q.natural)
