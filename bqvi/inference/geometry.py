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
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.inference.surrogate_ascent import ascend
from gp.arrays import is_torch
from gp.checks import require_above, require_one_of


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
