"""The steps of q: the coordinates in which they are taken, natural or Euclidean, and how long they are.

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

*Schedules* of step sizes map the direction of a geometry to the increment of the parameters, with a state of
their own (moments for Adam; none for step sizes rho_t). States are tuples of arrays, so that a run can be
saved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np

from bqvi.arguments import Above, AtLeast, Checked, Such
from bqvi.arrays import Values, add, like, namespace, scale, subtract
from bqvi.families import DiagonalGaussian, ExponentialFamily, Gaussian, GaussianMixture, Product
from bqvi.families.family import Distribution
from bqvi.gradients.gradient import Gradient
from bqvi.gradients.whitened import WhitenedFrame, WhitenedSurrogate
from bqvi.inference.settings import ASCENT
from gp.arrays import Array, is_torch
from gp.checks import require_above, require_one_of
from gp.matrices import cholesky_inverse


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


@runtime_checkable
class Schedule(Protocol):
    """A map from directions to increments.

    A schedule with moments may state ``propagates = True``: where an entry of the direction is not finite,
    that of the increment is not. Then only the increment is checked at each step.
    """

    @property
    def largest(self) -> float | None:
        """The largest rho_t; None where the increment is no multiple of the direction."""

    def start(self, like: Values) -> Any:
        """State before the first step, for parameters shaped as ``like``."""

    def increment(self, direction: Values, state: Any, t: int) -> tuple[Values, Any]:
        """The increment at iteration t = 0, 1, ... along ``direction``, and the state after it.

        Tensors of the increment are not shared, so that the geometry may write over them.
        """


_CONVERGES = Such(
    lambda kappa: 0.5 < kappa <= 1.0, "in (0.5, 1], by Robbins and Monro's conditions", error=ValueError
)
_BELOW_ONE = Such(lambda decay: decay < 1.0, "in [0, 1), as a decay of moments", error=ValueError)


class StepSizes(Checked):
    """Schedules that are a sequence of step sizes rho_t, and nothing else."""

    def __call__(self, t: int) -> float:
        raise TypeError(f"{type(self).__name__} states no step size")

    @property
    def largest(self) -> float:
        return self(0)

    def start(self, like: Values) -> None:
        """None, as there is no state."""

    def increment(self, direction: Values, state: None, t: int) -> tuple[Values, None]:
        size = self(t)
        shared = size == 1.0 and not is_torch(direction[0])
        return (direction if shared else scale(direction, size)), state


@dataclass(frozen=True)
class Constant(StepSizes):
    """rho_t = scale."""

    scale: Annotated[float, Above(0.0)] = 1.0

    def __call__(self, t: int) -> float:
        return self.scale


@dataclass(frozen=True)
class Exponential(StepSizes):
    """rho_t = scale * exp(-decay t) (thesis Section 6.2).

    The steps sum to scale / (1 - exp(-decay)): an optimum at a larger distance is not reached.
    """

    scale: Annotated[float, Above(0.0)] = 1.0
    decay: Annotated[float, AtLeast(0.0)] = 0.01

    def __call__(self, t: int) -> float:
        return self.scale * math.exp(-self.decay * t)


@dataclass(frozen=True)
class Cosine(StepSizes):
    """rho_t = scale (1 + cos(pi t / steps)) / 2 up to t = ``steps``, and 0 afterwards.

    Parameters
    ----------
    scale : > 0, rho_0
    steps : >= 1, the number of steps of the whole run
    """

    scale: Annotated[float, Above(0.0)]
    steps: Annotated[int, AtLeast(1.0)]

    def __call__(self, t: int) -> float:
        return 0.5 * self.scale * (1.0 + math.cos(math.pi * min(t / self.steps, 1.0)))


@dataclass(frozen=True)
class RobbinsMonro(StepSizes):
    """rho_t = scale * (t + tau)^-kappa: sum rho_t = infinity, sum rho_t^2 < infinity.

    The sum grows slowly: with the default of 'sngd' (kappa = 0.7, tau = 10), 20,000 steps add up to 58, and
    to first order q is then as near to the optimum as after 58 passes of coordinate ascent. Where components
    overlap this is not enough: a larger ``scale`` or a smaller ``kappa`` helps, or some passes of "cavi" that
    start from q.

    Parameters
    ----------
    kappa : in (0.5, 1], as the two conditions require (Robbins and Monro 1951)
    tau : >= 1, reduces the first steps
    scale : > 0
    """

    kappa: Annotated[float, AtLeast(0.0), _CONVERGES] = 0.7
    tau: Annotated[float, AtLeast(1.0)] = 1.0
    scale: Annotated[float, Above(0.0)] = 1.0

    def __call__(self, t: int) -> float:
        return float(self.scale * (t + self.tau) ** -self.kappa)


@dataclass(frozen=True)
class Adam(Checked):
    """Adam (Kingma and Ba 2015), ascending, with an optional Robbins-Monro decay of the rate.

    Parameters
    ----------
    rate : > 0, about the largest change of a coordinate in one step
    first, second : decay of the two moments, in [0, 1)
    epsilon : > 0, added to the root of the second moment
    decay : rate_t = rate / (1 + decay t); 0 keeps the rate
    """

    rate: Annotated[float, Above(0.0)] = 0.05
    first: Annotated[float, AtLeast(0.0), _BELOW_ONE] = 0.9
    second: Annotated[float, AtLeast(0.0), _BELOW_ONE] = 0.999
    epsilon: Annotated[float, Above(0.0)] = 1e-8
    decay: Annotated[float, AtLeast(0.0)] = 0.0

    largest = None
    propagates = True
    """An infinite gradient makes both moments infinite, and their ratio NaN."""

    def start(self, like: Values) -> tuple[Values, Values]:
        """Zero moments."""
        zeros = tuple(namespace(x).zeros_like(x) for x in like)
        return zeros, zeros

    def increment(
        self, direction: Values, state: tuple[Values, Values], t: int
    ) -> tuple[Values, tuple[Values, Values]]:
        """The bias-corrected ratio of moments, times the rate."""
        rate = self.rate / (1.0 + self.decay * t) / (1.0 - self.first ** (t + 1))
        correction = 1.0 - self.second ** (t + 1)
        moved = [
            (self._in_torch if is_torch(g) else self._in_numpy)(like(m, g), like(v, g), g, rate, correction)
            for m, v, g in zip(*state, direction, strict=True)
        ]
        steps, means, squares = (tuple(part) for part in zip(*moved, strict=True))
        return steps, (means, squares)

    def _in_numpy(self, m: Array, v: Array, g: Array, rate: float, correction: float) -> Values:
        a, b = self.first, self.second
        with np.errstate(over="ignore", invalid="ignore"):  # the loop reports entries that are not finite
            m, v = a * m + (1.0 - a) * g, b * v + (1.0 - b) * g * g
            step = rate * m / (np.sqrt(v / correction) + self.epsilon)
        # where the square of g has overflowed, the step would be 0 at this and all later steps
        return np.where(np.isinf(v), np.nan, step), m, v

    def _in_torch(self, m: Array, v: Array, g: Array, rate: float, correction: float) -> Values:
        """The increment in torch, in as few passes over memory as possible, for the weights of networks."""
        import torch

        m, v = m.lerp(g, 1.0 - self.first), (self.second * v).addcmul_(g, g, value=1.0 - self.second)
        bounded = math.isfinite(v.sum())
        root = v.sqrt().mul_(correction**-0.5 / rate).add_(self.epsilon / rate)
        step = torch.div(m, root, out=root)
        # NaN where g^2 has overflowed, as in the NumPy form above
        return (step if bounded else step.masked_fill_(v.isinf(), math.nan)), m, v
