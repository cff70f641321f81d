"""The components of q, new starts of q, and the modes that components form."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from gp.search import Search

__all__ = ["COMPONENTS", "MODES", "RESTARTS", "ComponentSettings", "ModeSettings", "RestartSettings"]


@dataclass(frozen=True)
class ComponentSettings:
    """Components of q (`variational`, `added_components`, `learning`)."""

    lowest_logit: float = -9.0
    """The least logit of a weight."""
    smallest: float = 5e-3
    """The least scale of a component, in the frame's units."""
    largest: float = 4.0
    """The largest scale of a component, in the frame's units."""
    shallow: float = 7.0
    """The largest depth of an evaluated point that q must cover, in nats below the top beyond D / 2."""
    unseen: float = 4.0
    """The least excess of the density at such a point over that at the draws, in nats."""
    longer: float = 1.5
    """The largest number of components, over n^(2/3), where the posterior extends beyond q, or evaluations
    show that q lacks mass. On the ring in boxes 9810, 9811 and 9813 errors after 400 evaluations were .02,
    .07 and .64 with 1, and at most .05 with 1.5."""
    beyond_variance: float = 1.0
    """The largest variance of f, nats squared, at points beyond q's draws where q is given components. On the
    ring, clusters and Himmelblau after 160, 120 and 80 values (layouts 2032 and 2033 of
    `experiments.vbmc.hard`) the geometric mean of errors was .015 with a half, .014 with twice and .030 with
    this value. Of six errors one is .43 of a ring that is not found yet with this value, and .03 and .01 with
    the others; the others differ little. For ``lacking`` the three were .018, .016 and .030, for
    ``lacking_at_most`` .031, .020 and .030, for ``beyond_mass`` .028, .024 and .030, and for ``compared``
    .031, .024 and .030: no difference beyond the noise of the ring."""
    lacking: float = 2.0
    """The least excess of the surrogate's density over that of q and q widened there, in nats."""
    lacking_at_most: float = 10.0
    """The excess, in nats, beyond which all such points are treated alike."""
    beyond_mass: float = 0.02
    """The least share of the evidence at these points for which q is given components there."""
    pairs: int = 20
    """The number of pairs of steps and gradients that L-BFGS keeps. The factor of one step is 1.01 +- .01
    with half, and no step differs with twice, as an ascent has 16 steps."""
    compared: int = 40
    """The number of draws of the largest ratio, for each added component, among which it is placed; compared
    with others as said at ``beyond_variance``."""
    narrower: float = 0.7
    """The scales of an added component over those of the component that explains the draw. The factor of one
    step is .99 +- .02 with .5 and 1.01 +- .01 with 1."""
    share: float = 0.5
    """The weight of an added component over the average weight. The factor of one step is .99 +- .01 with
    half and 1.00 +- .01 with twice."""
    first_places: float = 0.2
    """The distance of the first two components from the middle of the frame, along its diagonal. The factor
    of one step is 1.03 +- .03 with half and 1.01 +- .01 with twice."""
    first_scale: float = 0.7
    """The scale of the first two components. The factor of one step is 1.05 +- .03 with half and 1.03 +- .03
    with twice."""
    represented: float = 0.3
    """The effective share of the draws in the last record above which its q represents the posterior. An
    ascent from such a q is doubted where its end has an ELBO far below the log evidence."""
    doubted: float = 0.5
    """The excess of the log evidence over the ELBO, in nats, above which the end of such an ascent is
    compared with its start, and the q of higher ELBO is kept. On the bounded banana with 16 workers that are
    never idle the error stayed below .1 from 35 evaluations on by the median without this comparison (seeds
    300 to 329), and from 31 on with it (30.5 on seeds 342 to 369); no other value was tried."""
    dropped: float = 0.003
    """The weight below which a component is removed after an ascent. The factor of one step is 1.00 with half
    and 1.03 +- .03 with twice."""
    samples: int = 32
    """The least number of points by which the entropy of a component is estimated. It acts on q of more than
    31 components; no step differs with half and twice."""
    gain_with_gradients: float = 0.005
    """The gain of the ELBO, in nats, without which an ascent ends after an iteration where there are
    gradients. On logistic 5, cigar 4, lumpy 4, Rosenbrock 4 and 6 (seeds 1440 to 1445) runs without this took
    54, 34, 68, 74 and 94 evaluations on average, with it 54, 34, 73, 65 and 80, with equal errors, in .80 of
    the time. From values there is none: on lumpy 4 runs took 119 evaluations without and 131 with this (seeds
    1460 to 1475), on three other problems as many, in .95 of the time."""
    draws: int = 512
    """The number of draws by which the deficits of q are found. The factor of one step is 1.00 with half and
    twice."""
    covered: float = 0.7
    """The effective share of these draws above which q lacks nothing. The factor of one step is 1.00 with .5
    and 1.01 +- .01 with .85, with 3 % more components."""
    added: int = 3
    """The largest number of components that a step adds. On the ring from values, boxes 1000 to 1009, with
    one at a time where evaluations show that q lacks mass, 9 of 10 errors were below .1 and 5 runs converged;
    with three 10 of 10 and 7."""
    added_with_gradients: int = 1
    """The same where evaluations show that q lacks mass and there are gradients. On a turned funnel with 60
    evaluations, seeds 0 to 3, errors were 7 to 14 with one and 5 to 12 with three, which does not decide."""
    floor: float = 5.0
    """The largest deficit of q's density against the proposal's there, in nats, that counts. The factor of
    one step is 1.00 with half and twice."""
    margins: tuple[float, float] = (0.5, 1.0)
    """The largest distances of the means of components, and of the mode, from the evaluated points, in the
    frame's units. The factor of one step is 1.00 with half and twice."""


@dataclass(frozen=True)
class RestartSettings:
    """New starts of q (`learning`, `new_starts`)."""

    least_effective: float = 20.0
    """The least number of effective draws, below which q starts again."""
    kept_effective: float = 0.02
    """The effective share of the draws in the last record above which q is kept for a further step: new
    components of q lower the share for a step, and would be lost in a new start."""
    poor: float = 0.1
    """The effective share of the draws below which a run with gradients tries Laplace's approximation again,
    and the frame along its axes. Two of six correlated Gaussians in twenty dimensions stayed in a frame along
    the coordinates, with an effective share of .02 to .07 and an exact surrogate, for 200 evaluations and
    120 s."""
    draws: int = 256
    """The number of draws of a round of annealed population Monte Carlo."""
    rounds: int = 10
    """The largest number of such rounds."""
    widening: float = 1.3
    """The standard deviations of the proposal over those of the Gaussian."""
    flattest: float = 1e-2
    """The curvature of the mean below which it counts as having no maximum."""
    tries: int = 12
    """The largest number of Newton steps to that maximum."""
    difference: float = 1e-3
    """The step, in the frame's units and to either side, of the differences of gradients from which the
    curvature of the mean is computed. The factor of one step is 1.00 with half and with twice."""
    cooling: float = 0.7
    """The ratio of successive powers of the density that are tried. The factor of one step is .98 +- .02 with
    .5 and 1.00 +- .01 with .84 (nine states of three Gaussians 4 with gradients)."""
    powers: int = 120
    """The number of powers that are tried. None of 33 adaptations in runs on 20 problems reached the last."""
    required_draws: tuple[float, float, float] = (0.2, 4.0, 0.5)
    """The effective draws that are required: this share of all, or this number for each dimension up to the
    last share. At the states of ``cooling`` the factor is .97 +- .07 with halves of the first two and .95 +-
    .03 with twice these."""
    rounder: float = 1e-3
    """The share of its mean variance that is added in every direction. At these states 1.00 with half and .99
    with twice."""

    @property
    def ascent(self) -> Search:
        """The settings of the search for the mode."""
        return Search(iterations=self.tries, halvings=8, longest=inf, settled=1e-9, gained=1e-3)


@dataclass(frozen=True)
class ModeSettings:
    """The definition of modes (`modes`)."""

    along: int = 7
    """The number of points of a segment between two components at which a dip is tested."""
    neighbours: int = 3
    """The number of nearest components with which each is compared first; it changes no result."""
    dip: float = 1.0
    """The least dip below the lower end of the segment, in nats, that separates two modes."""
    inside: float = 4.0
    """The region of a mode, in sds of |x|^2 under N(0, I) beyond its mean D."""
    least_divergence: float = 0.7
    """The divergence KL(q_r || Gaussian), in nats, above which a mode is represented by its components. It
    was 1.8 to 1.9 on two rings, at most .44 on clusters and three Gaussians, .9 to 1.2 on Rosenbrock. Over 42
    unimodal runs it made no difference; components for every mode took .5 % more evaluations."""
    draws: int = 512
    """The number of draws of a mode from which the divergence is computed."""


COMPONENTS = ComponentSettings()
RESTARTS = RestartSettings()
MODES = ModeSettings()
