"""An exponential family given by its log normaliser alone, for conjugate priors without a class of their own.

    eta any arrays,   mu = grad A(eta) by automatic differentiation,   KL = the Bregman divergence of A

That is what coordinate ascent, natural gradients and the exact bound ask for. Draws and Euclidean coordinates
need more, and are not there.
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
    log_normaliser : A, written for torch: of as many tensors as eta has, each with the batch's axes in front;
        returns the batch's shape
    natural : eta, one array for each argument of A

    Raises
    ------
    ValueError
        A is not finite at eta.
    """

    def __init__(self, log_normaliser: Callable[..., Any], *natural: np.ndarray) -> None:
        self.log_normaliser_of = log_normaliser
        self.natural: Values = tuple(np.asarray(eta, float) for eta in natural)
        require_finite("log_normaliser of the natural parameters", np.asarray(self.log_normaliser))

    @property
    def leaf_names(self) -> tuple[str, ...]:
        """One for each array of eta."""
        return ("",) * len(self.natural)

    def from_natural(self, natural: Values) -> Self:
        """Return the family at ``natural``; not checked, for use inside loops."""
        other = object.__new__(type(self))
        other.log_normaliser_of = self.log_normaliser_of
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
        """mu: the family is known by its statistics only."""
        return self.expected_statistics

    def kl(self, other: FromNormaliser) -> np.ndarray:
        """KL(self || other), batch-shaped."""
        found = other.log_normaliser - self.log_normaliser
        batch = found.ndim
        for p, q, mu in zip(other.natural, self.natural, self.expected_statistics, strict=True):
            found = found - ((p - q) * mu).reshape(*found.shape[:batch], -1).sum(-1)
        return np.asarray(found)
