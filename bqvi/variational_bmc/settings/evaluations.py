"""Where the log joint is evaluated: climbs, the next points, feasible points, and exploration.

The studies behind them are rows of `experiments/studies/bqvi.variational_bmc.settings.evaluations.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NodeSettings:
    """The choice of the next points (`next_points`, `steps`)."""

    targets: int = 160
    """The number of draws by which the criterion is integrated."""
    candidates: int = 256
    """The number of draws that are candidates for an evaluation."""
    most: float = 20.0
    """The largest standard deviation of f in the interquantile range, in nats."""
    tempers: tuple[float, float] = (0.4, 0.75)
    """The lower bounds of the least and the usual power of the density in the integral of the criterion."""
    deeper: tuple[float, float] = (2.0, 0.75)
    """The largest excess depth of draws of a tempered density over those of the posterior, in sds of the
    depth, under the least and the usual power (`next_points`)."""
    uncertain: float = 0.01
    """The share of the mass at the edge of the feasible region from which a step has an evaluation there."""
    known: float = 0.01
    """The variance of f, nats squared, below which another evaluation is of little use."""


@dataclass(frozen=True)
class FeasibilitySettings:
    """The probability that a point can be evaluated (`feasibility`)."""

    sharpness: float = 6.0
    """The factor a of the logit (:mod:`bqvi.variational_bmc.feasibility`)."""
    alone: float = 0.7
    """The largest ratio of the distances of an isolated failure to the nearest good and the nearest failed
    evaluation."""
    most_draws: float = 64.0
    """The largest number of draws for one between the bounds."""


@dataclass(frozen=True)
class ExplorationSettings:
    """Sobol points and climbs before convergence (`exploration`).

    They were chosen on three Gaussians in boxes of 2, 4 and 6 dimensions and on 20 Gaussians in the plane.

    Attributes
    ----------
    points : half of what is left of the budget may be explored, and this many points.
    share, margin : a value is explained where it exceeds the known modes' density by less than this share of
        its depth and these nats. With a share of .3 a narrow mode beside a wide one was missed.
    without_mode : the number of climbs without a mode, one more for each known mode beyond the first, after
        which no further climb is begun, for each ``points`` points; points from which no climb was begun
        count like those from which one was.
    gain : the nats that a climb has to gain in its last steps to continue.
    longest : the largest length of the first step of a climb, and of twice its first radius from values.
    most_with_gradients : the largest number of points of a climb with gradients.
    late : with half of the budget spent a run explores ``late`` points although it is not about to converge,
        if its sd but for unseen modes is below what these may add and the sd of the noise of a value. Modes
        that are known too badly explain few points, and climbs would use all that is left.
    located : a result with a smaller sd of the log evidence, nats, is given advice on bounds and intervals.
    """

    points: int = 24
    share: float = 0.1
    margin: float = 3.0
    without_mode: int = 3
    gain: float = 0.3
    longest: float = 1.0
    most_with_gradients: int = 15
    located: float = 1.0
    late: int = 7

    def climbs(self, modes: int, points: int) -> int:
        """The number of climbs without a mode, from this number of explored ``points``."""
        return self.without_mode * max(points // self.points, 1) + modes - 1


NODES = NodeSettings()
FEASIBILITY = FeasibilitySettings()
EXPLORATION = ExplorationSettings()
