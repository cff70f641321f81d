"""Constants of the search on a domain that decide results: what each is, and what is known of it.

What a caller may change stands in `acquisition.search.ContinuousSearch`, with what its defaults were chosen
on. "Not studied" says that no other value was compared, or that no figures of a comparison were kept.
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
    """Factor of a step that gained less."""
    longest: float = 10.0
    """Of a step, over the first one."""
    curved: float = 1e-10
    """Least cosine between step and change of gradient for an update of the inverse Hessian."""


@dataclass(frozen=True)
class DomainSettings:
    """Where is searched, and from where (`search`)."""

    radius: float = 4.0
    """Standard deviations of the measure to either side. In ten dimensions ten of them cost two orders of
    magnitude in accuracy; values near 4 were not compared."""
    around: tuple[float, float] = (0.05, 1.0)
    """Candidates around a node are N(node, s^2 I) in the measure's units, s uniform on a logarithmic scale
    between these; not studied, like the next two."""
    apart: float = 0.25
    """Distance between starts of ascents, over sqrt(D)."""
    shortlist: int = 8
    """Candidates looked at for each ascent: those of the highest scores."""


ASCENT, DOMAIN = QuasiNewtonSettings(), DomainSettings()
