"""Constants of `bqvi.fit` that decide results: what each is, and what it was chosen on.

Those of `AscentSettings` were chosen when the trust region was built, on a banana, logistic regression, a
mixture and eight schools (`experiments.gradients.references`) at 20 to 200 evaluations, by the gap of the
ELBO. Other values were tried later on the six targets there at 50 evaluations, seeds 20 to 23. A figure is
the geometric mean of the ratio of gaps with the other value to gaps with this one over the 24 runs, and one
standard error to either side.
"""

from __future__ import annotations

from dataclasses import dataclass

from bqvi.gradients.settings import STOCHASTIC

__all__ = ["ASCENT", "DEFAULTS", "FLAT"]


@dataclass(frozen=True)
class DefaultSettings:
    """Defaults where the caller gives no value (`choices`, `methods`); no comparison was kept."""

    minibatch: int = 100
    """Data in a mini-batch."""
    rate: float = 0.05
    """Of Adam."""
    decay: float = 0.01
    """Of Adam's rate where gradients are noisy (`Adam`)."""
    network_rate: float = 1e-3
    """Of Adam where parameters are those of networks."""
    tolerance: float = 1e-6
    """Change of an exact ELBO between two records that counts as none, nats."""
    power: float = STOCHASTIC.power
    """kappa of the rate (t + tau)^-kappa of stochastic natural gradients (`RobbinsMonro`),"""
    delay: float = STOCHASTIC.delay
    """and its tau."""


@dataclass(frozen=True)
class AscentSettings:
    """The maximisation of a surrogate's ELBO (`surrogate_ascent`)."""

    steps: int = 30
    """At most. With 15 gaps are 1.0 times as large."""
    rate: float = 0.7
    """The first rho; while steps gain it goes to 1, where a quadratic is solved in one step, else down. With
    .4 and with 1 gaps are 1.0 (.9 to 1.1) times as large."""
    least_rate: float = 0.1
    """The smallest rho. With .03 gaps are 1.0 times as large, with .3 1.1 (1.0 to 1.3)."""
    slow: float = 0.5
    """Share of the squared natural gradient that a step leaves, above which rho is halved. With .3 and with
    .8 gaps are 1.0 to 1.1 times as large."""
    fast: float = 0.1
    """The same below which rho grows by ``faster``. With .03 and with .3 gaps are the same."""
    faster: float = 1.5
    """Factor of rho after such a step. With 1.2 gaps are 1.2 (1.0 to 1.4) times as large, with 2 1.0."""
    settled: float = 1e-7
    """Squared Fisher norm of the natural gradient that counts as none: twice the nats still to be won."""
    reach: float = 0.6
    """Most KL per squared norm of the natural gradient at q; a step of 1 on a quadratic has about 1/2. With
    .3 gaps are 2.1 (1.4 to 3.2) times as large; with 1.2 1.0 (.7 to 1.3), and one run has a gap above 10
    nats."""
    doubt: float = 0.1
    """How strongly the reach shrinks where the gradient is within its own error bars; they are wide. With .03
    gaps are .8 (.7 to 1.0) times as large, with .3 1.8 (1.4 to 2.3)."""
    tries: int = 12
    """Step sizes that are tried for a place inside the trust region."""
    halvings: int = 100
    """Where none of those is inside: a log joint that much narrower than q has a very short step."""
    close: float = 0.9
    """Share of the radius that counts as its boundary. With .7 gaps are 1.1 (1.0 to 1.3) times as large."""
    aimed: float = 0.98
    """Share of the way to the boundary, were the divergence quadratic, that is tried next. With .93 gaps are
    1.0 (.9 to 1.0) times as large."""


@dataclass(frozen=True)
class FlatSettings:
    """Whether the log joint has curvature over the width of q (`flat`)."""

    near: float = 5.0
    """Evaluations so far from q, in its standard deviations, are not used."""
    share: float = 0.05
    """Share of the curvature that q should have met. No q of six proper posteriors was below it (a banana,
    two regressions, a mixture, both forms of eight schools; budgets of 20, 50 and 100, two seeds); nor of
    Gaussians of standard deviation .001 to 1000 in D = 2 and 5, but one that had still to widen a
    thousandfold."""

    doubt: float = 3.0
    """Standard errors by which a curvature of values alone, whose regression has no products of coordinates,
    is below that share, and by which a slope outwards is above ``-falls``."""
    falls: float = 0.15
    """Share of the slope outwards that q should have met, -u at u, below which the log joint does not fall.
    Chosen on mixtures of four Gaussians in D = 2 and 3 (6 layouts, 4 distances, 20 to 80 steps of 'pathwise'
    and 'score'), on which there was no false warning, and on -theta_0^2, whose shares are below .05."""
    sides: int = 3
    """Fewest evaluations in the outer half, of each side."""


ASCENT, DEFAULTS, FLAT = AscentSettings(), DefaultSettings(), FlatSettings()
