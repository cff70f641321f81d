"""Which data to evaluate next, and with what weights.

A strategy factorises a stochastic gradient's choice of data into two calls on an immutable state,

    selection, state = strategy.draw(state, rng)            indices i and weights w
    state            = strategy.observe(state, selection, gradients)

where sum_i w_i g_i estimates the sum over all N data. The state is a record of arrays and numbers, so that
a run can be saved and resumed. ``observe`` passes the per-datum gradients of a selection to the strategy.

Per-datum gradients cost more than their sum, so they are made only for a strategy that is `Learning`: one
with a third call between the two,

    total            = strategy.estimate(state, selection, gradients)

which is sum_i w_i g_i, or that sum corrected by a control variate, a prediction for the other data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gp.arrays import shown
from gp.checks import require_integer, require_number


@dataclass(frozen=True)
class Selection:
    """A mini-batch: which data, with what weights."""

    indices: np.ndarray
    """(S,) integers in [0, N)."""
    weights: np.ndarray
    """(S,); sum_i w_i g_i estimates sum_n g_n."""


@runtime_checkable
class Strategy(Protocol):
    """A rule by which mini-batches are drawn; see the module's docstring.

    A strategy may have ``setup_seconds``, the seconds of computations on the data before ``start``, and
    ``signed = True`` if its weights can be negative. One that is `Probable` states how much they vary.
    """

    @property
    def size(self) -> int:
        """S, data in a mini-batch."""

    def start(self, n: int, rng: np.random.Generator) -> Any:
        """State before the first draw from ``n`` data; ValueError if S > n.

        Random numbers come from ``rng``, here and in every draw.
        """

    def draw(self, state: Any, rng: np.random.Generator) -> tuple[Selection, Any]:
        """The next mini-batch, given the present ``state`` and random numbers from ``rng``; the new state."""

    def observe(self, state: Any, selection: Selection, gradients: np.ndarray) -> Any:
        """The ``state`` after having seen the per-datum gradients (S, P) of ``selection``."""


@runtime_checkable
class Learning(Strategy, Protocol):
    """A strategy that needs per-datum gradients."""

    def estimate(self, state: Any, selection: Selection, gradients: np.ndarray) -> np.ndarray:
        """An estimate (P,) of the sum over all data from the gradients (S, P) of ``selection``.

        The ``state`` is the one after the draw, before :meth:`observe`.
        """


class Unlearning:
    """Strategies that do not learn from gradients."""

    def observe(self, state: Any, selection: Selection, gradients: np.ndarray) -> Any:
        return state


class Probable:
    """Strategies whose weights are 1 / pi, with known probabilities pi that a datum is in the mini-batch."""

    def corrections(self, weights: np.ndarray) -> np.ndarray:
        """The finite population corrections 1 - pi of data with ``weights`` (S,), (S,)."""
        return np.asarray(1.0 - 1.0 / weights)


class Summing:
    """Strategies that learn from gradients and whose estimate is their weighted sum."""

    def estimate(self, state: Any, selection: Selection, gradients: np.ndarray) -> np.ndarray:
        return np.asarray(selection.weights @ gradients)


class Correcting:
    """Strategies that correct the estimate of another strategy, their field ``base``, which draws."""

    base: Strategy

    @property
    def size(self) -> int:
        """S, data in a mini-batch."""
        return self.base.size

    @property
    def setup_seconds(self) -> float:
        """Seconds that the base strategy took before the first draw."""
        return float(getattr(self.base, "setup_seconds", 0.0))


def equally(indices: np.ndarray, n: int) -> Selection:
    """Return the data ``indices`` with weights N / S."""
    return Selection(indices, _equal_weights(len(indices), n))


@lru_cache(maxsize=16)
def _equal_weights(size: int, n: int) -> np.ndarray:
    """Equal weights: one array for all steps, and therefore read-only."""
    weights = np.full(size, n / size)
    weights.setflags(write=False)
    return weights


def require_size(size: int, n: int) -> None:
    """Raise ValueError or TypeError unless S is an integer with 1 <= S <= N."""
    if require_integer("size", size, 1) > n:
        raise ValueError(f"size is {size}; a mini-batch of {n} data must have between 1 and {n}")


def require_base(base: object) -> None:
    """Raise TypeError unless ``base`` is a strategy that draws and does not learn itself."""
    if not isinstance(base, Strategy) or isinstance(base, Learning):
        raise TypeError(
            f"base is {shown(base)}; it must be a strategy that only draws: Uniform, Reshuffled, "
            "Balanced, ..."
        )


def require_rows(name: str, rows: int, n: int) -> None:
    """Raise ValueError unless the argument called ``name`` has as many ``rows`` as there are data, n."""
    if rows != n:
        raise ValueError(f"{name} has {rows} rows, but there are {n} data; give one row for each datum")


def require_between(name: str, value: float, lowest: float, highest: float) -> None:
    """Raise ValueError or TypeError unless ``lowest <= value <= highest``."""
    require_number(name, value)
    if not lowest <= value <= highest:
        raise ValueError(f"{name} is {value}; it must be between {lowest:g} and {highest:g}")
