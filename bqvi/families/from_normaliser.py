"""An exponential family given by its log normaliser, for conjugate priors without a class of their own.

    eta any arrays,   mu = grad A(eta) by automatic differentiation,   KL = the Bregman divergence of A

Coordinate ascent, natural gradients and the exact bound need the log normaliser only. With the mode and t
given as well, q may also be a point mass (EM, MAP). Draws and Euclidean coordinates are not available.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np

from bqvi.arrays import Values
from bqvi.checks import require_finite
from gp.arrays import to_numpy


class FromNormaliser:
    """A batch of distributions of the family whose log normaliser is ``log_normaliser``.

    Parameters
    ----------
    log_normaliser : A, a function in torch of the tensors of eta, each with the axes of the batch in front;
        returns an array of the batch's shape
    natural : eta, one array for each argument of A
    mode : a function of eta, a tuple of arrays, that returns the mode theta (batch, ...); without it there
        are no point estimates
    statistics : t, a function of theta (L, batch, ...) that returns a tuple of arrays with the shapes of eta
        and L in front

    Raises
    ------
    ValueError
        A is not finite at eta.
    """

    def __init__(
        self,
        log_normaliser: Callable[..., Any],
        *natural: np.ndarray,
        mode: Callable[[Values], np.ndarray] | None = None,
        statistics: Callable[[np.ndarray], Values] | None = None,
    ) -> None:
        self.log_normaliser_of = log_normaliser
        self._mode_of, self._statistics_of = mode, statistics
        self.natural: Values = tuple(np.asarray(eta, float) for eta in natural)
        require_finite("log_normaliser of the natural parameters", np.asarray(self.log_normaliser))

    @property
    def leaf_names(self) -> tuple[str, ...]:
        """An empty name for each array of eta: there is one factor."""
        return ("",) * len(self.natural)

    def from_natural(self, natural: Values) -> Self:
        """Return the family at ``natural``; not checked, for use inside loops."""
        other = object.__new__(type(self))
        other.log_normaliser_of = self.log_normaliser_of
        other._mode_of, other._statistics_of = self._mode_of, self._statistics_of
        other.natural = natural
        return other

    @cached_property
    def _evaluated(self) -> tuple[np.ndarray, Values]:
        import torch

        eta = [torch.tensor(to_numpy(x), dtype=torch.float64, requires_grad=True) for x in self.natural]
        values = self.log_normaliser_of(*eta)
        slopes = torch.autograd.grad(values.sum(), eta)
        return to_numpy(values), tuple(map(to_numpy, slopes))

    @property
    def log_normaliser(self) -> np.ndarray:
        """A(eta)."""
        return self._evaluated[0]

    @property
    def expected_statistics(self) -> Values:
        """mu."""
        return self._evaluated[1]

    @property
    def mean(self) -> Values:
        """mu, as the mean of theta is not known."""
        return self.expected_statistics

    def kl(self, other: FromNormaliser) -> np.ndarray:
        """KL(self || other), batch-shaped."""
        found = other.log_normaliser - self.log_normaliser
        batch = found.ndim
        for p, q, mu in zip(other.natural, self.natural, self.expected_statistics, strict=True):
            found = found - ((p - q) * mu).reshape(*found.shape[:batch], -1).sum(-1)
        return np.asarray(found)

    @property
    def has_mode(self) -> bool:
        """Whether the mode and t were given."""
        return self._mode_of is not None and self._statistics_of is not None

    @property
    def mode(self) -> np.ndarray:
        """The point of highest density."""
        assert self._mode_of is not None  # called only where `has_mode`
        return self._mode_of(self.natural)

    def statistics(self, theta: np.ndarray) -> Values:
        """t of theta (L, batch, ...)."""
        assert self._statistics_of is not None
        return self._statistics_of(theta)

    def log_prob(self, theta: np.ndarray) -> np.ndarray:
        """ln of the density at theta (L, batch, ...): (L, batch)."""
        batch = self.log_normaliser.ndim
        found = -self.log_normaliser
        for eta, t in zip(self.natural, self.statistics(theta), strict=True):
            found = found + (eta * t).reshape(*t.shape[: 1 + batch], -1).sum(-1)
        return np.asarray(found)
