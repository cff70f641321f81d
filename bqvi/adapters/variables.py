"""Named arrays in one vector: the variable to which each entry belongs, and its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from bqvi.checks import require_shape

PRIOR_DRAWS = 200
"""The number of draws from the prior that define the plausible box. The widths of boxes of 50, 100, 200 and
400 draws of a Gaussian are off by 8, 6, 6 and 4 %."""


@dataclass(frozen=True)
class VectorLayout:
    """Variables one after the other in a vector of P entries, each with its last index moving fastest.

    Attributes
    ----------
    shapes : name -> shape, in the order of the vector.
    """

    shapes: Mapping[str, tuple[int, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The titles of the entries: "mu" for a number, "z[0]", "z[1]", ... for an array."""
        return tuple(title for name, shape in self.shapes.items() for title in _entries(name, shape))

    def parted(self, vectors: Any) -> dict[str, Any]:
        """The arrays (..., shape) of ``vectors`` (..., P), by name; views, of the same kind of array."""
        found, at = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            found[name] = vectors[..., at : at + size].reshape(vectors.shape[:-1] + shape)
            at += size
        return found

    def joined(self, values: Mapping[str, Any]) -> np.ndarray:
        """The vector (P,) of arrays by name.

        Raises
        ------
        KeyError
            An array is missing.
        ValueError
            An array has another shape.
        """
        parts = [np.asarray(values[name], float) for name in self.shapes]
        for part, (name, shape) in zip(parts, self.shapes.items(), strict=True):
            require_shape(name, part, shape)
        return np.concatenate([part.reshape(-1) for part in parts])


class Compiled:
    """Models that compile functions when they are first called, which are no part of what is pickled."""

    def __getstate__(self) -> dict[str, Any]:
        made = {
            name
            for one in type(self).__mro__
            for name, x in vars(one).items()
            if isinstance(x, cached_property)
        }
        return {name: x for name, x in self.__dict__.items() if name not in made}


def _entries(name: str, shape: Sequence[int]) -> list[str]:
    """The titles of the entries of an array with this name and shape."""
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, index))}]" for index in product(*(range(n) for n in shape))]


def box_of_draws(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends (P,), (P,) of a plausible box from draws of a prior (n, P): their central 95 %.

    Entries that are not finite are left out; a parameter that is constant over the draws gets a width of 1.
    """
    low, high = np.nanquantile(np.where(np.isfinite(draws), draws, np.nan), [0.025, 0.975], axis=0)
    narrow = ~(high - low > 1e-8 * (1.0 + np.abs(low)))
    return np.where(narrow, low - 0.5, low), np.where(narrow, high + 0.5, high)


def start_within(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The start (P,) in the box of a prior (P,), (P,): 0, or the middle of an interval without 0.

    For Stan's programs, which do not report their priors, the start is 0. The same model then has the same
    start in all packages, except for parameters whose prior is far from 0.
    """
    return np.where((low < 0.0) & (high > 0.0), 0.0, 0.5 * (low + high))
