"""Emissions of symbols: a table of V + 1 log probabilities for each state, the last of a missing one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bqvi.arrays import Values
from bqvi.checks import positive_vector, require_integer
from bqvi.families import Dirichlet
from bqvi.families.family import FamilyOrPoint
from bqvi.models.emissions import Likelihoods, finite_or_missing, known_values
from bqvi.models.forward_backward import FLOOR


@dataclass(frozen=True)
class CategoricalEmissions:
    """Symbols 0, .., V - 1.

    Parameters
    ----------
    n_symbols : V >= 1
    concentration : > 0 of the Dirichlet prior of each state, a number or (V,); 1 is flat
    """

    n_symbols: int
    concentration: float | np.ndarray = 1.0
    name = "symbols"

    def __post_init__(self) -> None:
        size = require_integer("n_symbols", self.n_symbols, 1)
        object.__setattr__(self, "concentration", positive_vector("concentration", self.concentration, size))

    def check(self, values: np.ndarray) -> np.ndarray:
        """(T,) whole numbers below V, NaN where missing."""
        values = _one_column(values)
        known = values[~np.isnan(values)]
        bad = known[(known < 0) | (known >= self.n_symbols) | (known != np.floor(known))]
        if len(bad):
            raise ValueError(
                f"data has the symbol {bad[0]:g}; symbols must be whole numbers below n_symbols = "
                f"{self.n_symbols}, or NaN where missing"
            )
        return values

    def for_data(self, values: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Nothing is taken from data."""
        return self

    def prior(self, n_states: int) -> Dirichlet:
        """Dir(concentration) of each state."""
        return Dirichlet(np.tile(self.concentration, (n_states, 1)))

    def start(
        self,
        values: np.ndarray,
        n_states: int,
        how: str,
        rng: np.random.Generator,
        weights: np.ndarray | None = None,
    ) -> Dirichlet:
        """The frequencies of all symbols, times noise, for K = ``n_states``."""
        known, part = known_values(values, weights)
        counts = np.bincount(known.astype(np.intp), part, self.n_symbols) / n_states
        noise = rng.standard_exponential((n_states, self.n_symbols))
        return Dirichlet(self.concentration + counts * (0.5 + 0.5 * noise))

    def arrange(self, values: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Symbols (c, C) as integers, V for a missing one."""
        return np.where(shown & ~np.isnan(values), values, self.n_symbols).astype(np.intp)

    def likelihoods(self, q: FamilyOrPoint, arranged: np.ndarray) -> Likelihoods:
        """From a table of V + 1 symbols."""
        table = _with_missing(q.expected_statistics[0])
        top = table.max(axis=0)
        relative = np.exp(np.maximum(table - top, FLOOR))
        taken = np.take(relative, arranged, axis=1).transpose(1, 0, 2)
        return Likelihoods(taken, np.take(top, arranged).sum(axis=0), table - top < FLOOR)

    def logarithms(self, q: FamilyOrPoint, arranged: np.ndarray) -> np.ndarray:
        """E ln of each symbol's probability."""
        return np.take(_with_missing(q.expected_statistics[0]), arranged, axis=1).transpose(1, 0, 2)

    def logarithms_at(self, theta: np.ndarray, arranged: np.ndarray, n_states: int) -> np.ndarray:
        """Of probabilities (K, V)."""
        log_symbols = np.log(np.maximum(theta, 1e-300))
        return np.take(_with_missing(log_symbols), arranged, axis=1).transpose(1, 0, 2)

    def visits(self, arranged: np.ndarray, posterior: np.ndarray) -> np.ndarray:
        """(K, V + 1), how often each state emitted each symbol."""
        size = self.n_symbols + 1
        flat = arranged.ravel()
        states = range(posterior.shape[1])
        return np.stack([np.bincount(flat, posterior[:, k].ravel(), minlength=size) for k in states])

    def statistics(self, q: FamilyOrPoint, arranged: np.ndarray, visits: np.ndarray) -> Values:
        """Without the missing ones."""
        return (visits[:, :-1],)

    def log_base_measures(self, values: np.ndarray) -> np.ndarray:
        """0."""
        return np.zeros(len(values))


def _with_missing(log_symbols: np.ndarray) -> np.ndarray:
    """(K, V + 1), the last column for a missing symbol; minus infinity counts as -1e30."""
    return np.column_stack([np.maximum(log_symbols, -1e30), np.zeros(len(log_symbols))])


def _one_column(values: np.ndarray) -> np.ndarray:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"data has values of shape {values.shape}; symbols must be (T,)")
    return finite_or_missing(values.astype(float))
