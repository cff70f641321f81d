"""Constants of the search on a domain that decide results, with the measurements behind them.

Settings that a caller may change are in `acquisition.search.ContinuousSearch`, with the measurements on which
their defaults were chosen. "Not studied" says that no other value was compared, or that no figures of a
comparison were kept.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ASCENT", "DOMAIN", "DomainSettings", "QuasiNewtonSettings"]


@dataclass(frozen=True)
class QuasiNewtonSettings:
    """Several ascents together (`ascent`); not studied."""

    sufficient: float = 1e-4
    """Share of the gain predicted by the gradient that a step has to gain (Armijo)."""
    shorter: float = 0.3
    """Factor by which a step that gained less is shortened."""
    longest: float = 10.0
    """The largest length of a step, over that of the first one."""
    curved: float = 1e-10
    """Least cosine between step and change of gradient for an update of the inverse Hessian."""


@dataclass(frozen=True)
class DomainSettings:
    """The domain of a search and its starts (`search`)."""

    radius: float = 4.0
    """Standard deviations of the measure to either side. In ten dimensions a radius of ten lost two orders of
    magnitude in accuracy; values near 4 were not compared."""
    around: tuple[float, float] = (0.05, 1.0)
    """Candidates around a node are N(node, s^2 I) in the measure's units, s uniform on a logarithmic scale
    between these; not studied, like the next two."""
    apart: float = 0.25
    """Distance between starts of ascents, over sqrt(D)."""
    shortlist: int = 8
    """Candidates for each ascent, those of the highest scores, among which the starts are chosen."""


ASCENT, DOMAIN = QuasiNewtonSettings(), DomainSettings()
