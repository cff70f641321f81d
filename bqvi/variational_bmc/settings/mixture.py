"""The components of q, new starts of q, and the modes that components form.

The studies behind them are rows of `experiments/studies/bqvi.variational_bmc.settings.mixture.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from gp.search import Search


@dataclass(frozen=True)
class ComponentSettings:
    """Components of q (`variational`, `added_components`, `learning`)."""

    shallow: float = 7.0
    """The largest depth of a point that q must cover, or of a mode, in nats below the top beyond D / 2."""
    unseen: float = 4.0
    """The least excess of the density at such a point over that at the draws, in nats."""
    longer: float = 1.5
    """The largest number of components, over n^(2/3), where the posterior extends beyond q, or evaluations
    show that q lacks mass."""
    represented: float = 0.3
    """The effective share of the draws in the last record above which its q represents the posterior."""
    doubted: float = 0.5
    """The excess of the log evidence over the ELBO, in nats, above which the end of such an ascent is
    compared with its start, and the q of higher ELBO is kept."""
    added: int = 3
    """The largest number of components that a step adds."""
    added_with_gradients: int = 1
    """The same where evaluations show that q lacks mass and there are gradients."""


@dataclass(frozen=True)
class RestartSettings:
    """New starts of q (`learning`, `new_starts`)."""

    least_effective: float = 20.0
    """The least number of effective draws, below which q starts again."""
    kept_effective: float = 0.02
    """The effective share of the draws in the last record above which q is kept for a further step: new
    components of q lower the share for a step, and would be lost in a new start."""
    draws: int = 256
    """The number of draws of a round of annealed population Monte Carlo."""
    rounds: int = 10
    """The largest number of such rounds."""
    widening: float = 1.3
    """The standard deviations of the proposal over those of the Gaussian."""
    flattest: float = 1e-2
    """The curvature of the mean below which it counts as having no maximum."""

    @property
    def ascent(self) -> Search:
        """The settings of the search for the mode."""
        return Search(iterations=12, halvings=8, longest=inf, settled=1e-9, gained=1e-3)


@dataclass(frozen=True)
class ModeSettings:
    """The definition of modes (`modes`)."""

    dip: float = 1.0
    """The least dip below the lower end of the segment, in nats, that separates two modes."""
    inside: float = 4.0
    """The region of a mode, in sds of |x|^2 under N(0, I) beyond its mean D."""
    least_divergence: float = 0.7
    """The divergence KL(q_r || Gaussian), in nats, above which a mode is represented by its components."""


COMPONENTS = ComponentSettings()
RESTARTS = RestartSettings()
MODES = ModeSettings()
