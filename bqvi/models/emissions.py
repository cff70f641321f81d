"""The contract of the emissions of a hidden Markov model: a likelihood and its conjugate prior.

Values are in the layout of the recursions (`sequences.SequenceLayout`), arrays (c, C) or (c, C, D). Where a
value is missing, or a piece has ended, all states have likelihood 1, and the statistics are zero. In a row
with NaN in some columns these columns are integrated out. The emissions of this package:

    symbol_emissions  CategoricalEmissions  symbols 0..V-1; Dirichlet
    affine_emissions  PoissonEmissions      counts (T,) or (T, D); gamma, each column with rates of its own
                      ComponentEmissions    any `components.Components` of a mixture, for instance Gaussians
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from bqvi.arrays import Values


@dataclass(frozen=True)
class Likelihoods:
    """p(x_t | z_t), relative to the largest of each time."""

    relative: np.ndarray
    """(c, K, C), at least exp(`forward_backward.FLOOR`)."""
    log_largest: np.ndarray
    """(C,), what they are relative to, summed over each piece."""
    floored: np.ndarray
    """Where they had to be raised to the floor, in any shape that ``visits`` has."""


class Emissions(Protocol):
    """A conjugate pair; frozen settings."""

    @property
    def name(self) -> str:
        """The name of the factor of theta with the emissions' parameters."""

    def check(self, values: np.ndarray) -> np.ndarray:
        """The ``values`` (T, ...) in the form that the emissions use, NaN if missing; ValueError if wrong."""

    def for_data(self, values: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """The emissions with settings that depend on checked ``values`` computed; ``weights`` (T,)."""

    def prior(self, n_states: int) -> Any:
        """p(theta_1, .., theta_K) of K = ``n_states``."""

    def start(
        self,
        values: np.ndarray,
        n_states: int,
        how: str,
        rng: np.random.Generator,
        weights: np.ndarray | None = None,
    ) -> Any:
        """A starting q of K = ``n_states`` from ``values`` with ``weights`` (T,).

        ``how`` as in `starts`, ``rng`` for draws.
        """

    def arrange(self, values: np.ndarray, shown: np.ndarray) -> Any:
        """The table for passes over the data, from ``values`` (c, C, ...) where ``shown`` (c, C)."""

    def likelihoods(self, q: Any, arranged: Any) -> Likelihoods:
        """The exponential of the expected log likelihood under ``q`` of ``arranged`` values, without ln h."""

    def logarithms(self, q: Any, arranged: Any) -> np.ndarray:
        """The expected log likelihood under ``q`` of ``arranged`` values, without ln h, (c, K, C)."""

    def visits(self, arranged: Any, posterior: np.ndarray) -> np.ndarray:
        """The sums of a ``posterior`` (c, K, C) of ``arranged`` values from which ``statistics`` are made."""

    def statistics(self, q: Any, arranged: Any, visits: np.ndarray) -> Values:
        """The contribution of ``arranged`` values and their ``visits`` to the prior's natural parameters.

        Missing columns have their expectations under ``q``.
        """

    def log_base_measures(self, values: np.ndarray) -> np.ndarray:
        """The log base measure ln h of each of the ``values``, (T,), 0 for a missing one."""

    def logarithms_at(self, theta: np.ndarray, arranged: Any, n_states: int) -> np.ndarray:
        """ln p of ``arranged`` values at the point ``theta`` of K = ``n_states``, without ln h."""


def known_values(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The values that are not entirely missing, and their weights."""
    shown = ~np.isnan(values.reshape(len(values), -1)).all(axis=1)
    return values[shown], np.ones(shown.sum()) if weights is None else weights[shown]


def finite_or_missing(values: np.ndarray) -> np.ndarray:
    """The ``values``; ValueError where one is infinite, or all are missing."""
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.argwhere(infinite)[0][0])
        raise ValueError(f"data has infinity in row {row}; every entry must be finite, or NaN where missing")
    if np.isnan(values).all():
        raise ValueError("data has no observation: all entries are NaN")
    return values
