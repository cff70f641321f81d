"""Constants of `bqvi.fit` that decide results: what each is, and what it was chosen on.

Those of `AscentSettings` were chosen when the trust region was built, on a banana, logistic regression, a
mixture and eight schools (`experiments.gradients.references`) at 20 to 200 evaluations, by the gap of the
ELBO; no study of them was kept.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ASCENT", "DEFAULTS", "FLAT"]


@dataclass(frozen=True)
class DefaultSettings:
    """What is used where the caller says nothing (`choices`)."""

    minibatch: int = 100
    """Data in a mini-batch."""
    rate: float = 0.05
    """Of Adam."""
    decay: float = 0.01
    """Of Adam's rate where gradients are noisy (`Adam`)."""
    network_rate: float = 1e-3
    """Of Adam where parameters are those of networks."""


@dataclass(frozen=True)
class AscentSettings:
    """The climb of a surrogate's ELBO (`surrogate_ascent`)."""

    steps: int = 30
    """At most."""
    rate: float = 0.7
    """The first rho; while steps gain it goes to 1, where a quadratic is solved in one step, else down."""
    least_rate: float = 0.1
    """The smallest rho."""
    slow: float = 0.5
    """Share of the squared natural gradient that a step leaves, above which rho is halved."""
    fast: float = 0.1
    """The same below which rho grows by ``faster``."""
    faster: float = 1.5
    """Factor of rho after such a step."""
    settled: float = 1e-7
    """Squared Fisher norm of the natural gradient that counts as none: twice the nats still to be won."""
    reach: float = 0.6
    """Most KL per squared norm of the natural gradient at q; a step of 1 on a quadratic has about 1/2."""
    doubt: float = 0.1
    """How strongly the reach shrinks where the gradient is within its own error bars; they are wide."""
    tries: int = 12
    """Step sizes that are tried for a place inside the trust region."""
    halvings: int = 100
    """Where none of those is inside: a log joint that much narrower than q has a very short step."""
    close: float = 0.9
    """Share of the radius that counts as its boundary."""
    aimed: float = 0.98
    """Share of the way to the boundary, were the divergence quadratic, that is tried next."""


@dataclass(frozen=True)
class FlatSettings:
    """Whether the log joint bends over the width of q (`flat`)."""

    near: float = 5.0
    """Evaluations so far from q, in its standard deviations, say nothing of its width."""
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
    and 'score'), of which it says nothing false, and on -theta_0^2, whose shares are below .05."""
    sides: int = 3
    """Fewest evaluations in the outer half, of each side."""


ASCENT, DEFAULTS, FLAT = AscentSettings(), DefaultSettings(), FlatSettings()
