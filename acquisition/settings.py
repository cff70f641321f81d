"""Constants of the search on a domain that decide results, with the measurements behind them.

Settings that a caller may change are in `acquisition.search.ContinuousSearch`, with the measurements on which
their defaults were chosen.

Factors are geometric means, with standard errors, of the variance of an integral after 12 to 30 nodes that
reduce it most, over that with the values here: under Gaussians (D = 1, 2, 5 and 10), a box and a mixture of
two Gaussians (D = 2), with squared exponentials, seeds 1100 to 1107, 41 designs. For 73 designs by
uncertainty sampling and by mutual information the same comparisons give factors, of the mean variance of f,
that differ from one by no more than two standard errors or .001.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ASCENT", "DOMAIN", "DomainSettings", "QuasiNewtonSettings"]


@dataclass(frozen=True)
class QuasiNewtonSettings:
    """Several ascents together (`ascent`)."""

    sufficient: float = 1e-4
    """Share of the gain predicted by the gradient that a step has to gain (Armijo). With 1e-5 and 1e-3 no
    design differs."""
    shorter: float = 0.3
    """Factor by which a step that gained less is shortened. With .15 the factor is .98 +- .02, with .6 .95 +-
    .04, and .98 +- .02 on seeds 1110 to 1125."""
    longest: float = 10.0
    """The largest length of a step, over that of the first one. With half 1.01 +- .01, with twice 1.00."""


@dataclass(frozen=True)
class DomainSettings:
    """The domain of a search and its starts (`search`)."""

    radius: float = 4.0
    """Standard deviations of the measure to either side. In ten dimensions a radius of ten lost two orders of
    magnitude in accuracy. With 5 and 8 one of 114 designs differs; with 3 the factor is .98 +- .03, and 1.2
    +- .1 for the mean variance of f."""
    around: tuple[float, float] = (0.05, 1.0)
    """Candidates around a node are N(node, s^2 I) in the measure's units, s uniform on a logarithmic scale
    between these. With (.1, 1) the factor is .91 +- .04, and 1.00 +- .02 on seeds 1110 to 1125; with (.05, 2)
    .95 +- .03, and .99 +- .03; with (.025, 1) and (.05, .5) .97 +- .03 and .97 +- .05."""
    apart: float = 0.25
    """Distance between starts of ascents, over sqrt(D). With .125 the factor is .89 +- .04, and .99 +- .03 on
    seeds 1110 to 1125; with .5 .99 +- .04."""
    shortlist: int = 8
    """Candidates for each ascent, those of the highest scores, among which the starts are chosen. With 4 the
    factor is 1.01 +- .01, with 16 1.00."""


ASCENT, DOMAIN = QuasiNewtonSettings(), DomainSettings()
