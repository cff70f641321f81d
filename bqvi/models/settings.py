"""Constants of the moves between components, merges and births, that decide results; none was compared."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MOVES", "MoveSettings"]


@dataclass(frozen=True)
class MoveSettings:
    """Merges and births of a mixture's components (`merging`, `births`, `gradients.memoised_moves`)."""

    neighbours: int = 3
    """The number of components with the most shared data for which a merge with a component is tried."""
    least: float = 0.5
    """The number of data below which a component counts as empty, and no merge is tried."""
    own: float = 0.5
    """The responsibility above which a row belongs to a component."""


MOVES = MoveSettings()
