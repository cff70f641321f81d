"""A point mass (Dirac delta) at an array without a prior: a parameter over which the ELBO is maximised.

The weights of a network are an example. The coordinates u of a point mass are the array itself.
"""

from __future__ import annotations

from typing import Self

from bqvi.arrays import Seed, Values, namespace
from bqvi.checks import require_finite
from gp.arrays import Array


class Point:
    """All mass at ``place``.

    Parameters
    ----------
    place : array of any shape, finite: where all mass is
    """

    leaf_names = ("",)

    def __init__(self, place: Array) -> None:
        require_finite("place", place)
        self.place = place

    @property
    def mean(self) -> Array:
        """The place."""
        return self.place

    @property
    def mode(self) -> Array:
        """The place."""
        return self.place

    @property
    def entropy(self) -> Array:
        """0 by convention, as for every point mass (see `point_mass`)."""
        return namespace(self.place).zeros_like(self.place).sum()

    @property
    def unconstrained(self) -> Values:
        """u = the place."""
        return (self.place,)

    def from_unconstrained(self, unconstrained: Values) -> Self:
        """The point at u; not checked, for use inside loops."""
        found = object.__new__(type(self))
        found.place = unconstrained[0]
        return found

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        """The gradient itself, as u is the place."""
        return gradient

    def sample(self, n: int, seed: Seed) -> Array:
        """``n`` copies of the place, (n, ...); the seed is not used."""
        return self.rsample(n, seed)

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` copies of the place, (n, ...), which carry gradients to it; the seed is not used."""
        return namespace(self.place).broadcast_to(self.place, (n, *self.place.shape))

    def log_prob(self, theta: Array) -> Array:
        """0 at each of the draws theta (L, ...) by convention, as for every point mass."""
        return 0.0 * theta.reshape(theta.shape[0], -1).sum(-1)
