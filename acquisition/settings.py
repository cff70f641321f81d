"""Constants of the search on a domain that decide results, with the measurements behind them.

The studies behind them are rows of `experiments/studies/acquisition.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DomainSettings:
    """The domain of a search and its starts (`search`)."""

    radius: float = 4.0
    """Standard deviations of the measure to either side."""
    around: tuple[float, float] = (0.05, 1.0)
    """Candidates around a node are N(node, s^2 I) in the measure's units, s uniform on a logarithmic scale
    between these."""
    apart: float = 0.25
    """Distance between starts of ascents, over sqrt(D)."""
    shortlist: int = 8
    """Candidates for each ascent, those of the highest scores, among which the starts are chosen."""


DOMAIN = DomainSettings()
