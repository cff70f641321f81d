"""A Dirac delta at an array that has no prior and no family: a parameter that is maximised over.

The weights of a network are such. Its one coordinate is its place.
"""

from __future__ import annotations

from typing import Any, Self

from bqvi.arrays import Seed, Values, namespace
from bqvi.checks import require_finite
from gp.arrays import Array


class Point:
    """All mass at ``place``.

    Parameters
    ----------
    place : array of any shape, finite
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
        """Left out: 0, as of every point mass."""
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
        """The gradient itself."""
        return gradient

    def sample(self, n: int, seed: Seed) -> Array:
        """The place (n, ...), whatever the seed."""
        return self.rsample(n, seed)

    def rsample(self, n: int, seed: Seed) -> Array:
        """The place (n, ...) with its gradient, whatever the seed."""
        del seed
        return namespace(self.place).broadcast_to(self.place, (n, *self.place.shape))

    def log_prob(self, theta: Any) -> Array:
        """Left out: 0 at draws theta (L, ...), as of every point mass."""
        return 0.0 * theta.reshape(theta.shape[0], -1).sum(-1)
