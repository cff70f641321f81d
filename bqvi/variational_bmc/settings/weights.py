"""Importance weights, and the proposals of the draws that are weighted."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LOCAL", "POOLED", "WEIGHTS", "LocalSettings", "PooledSettings", "WeightSettings"]


@dataclass(frozen=True)
class WeightSettings:
    """Importance weights, and the estimates from them (`correction`).

    A factor of effective draws is the geometric mean of their number in 16 thorough estimates over that with
    the values here, from the last surrogates of eight runs: Rosenbrock 2, lumpy 2, Himmelblau, the half plane
    and cigar 4 from values, Rosenbrock 2 and 4 and cigar 4 with gradients (seed 1101). Log evidences then
    differ by the noise of the draws.
    """

    wide: float = 0.25
    """The share of the proposal that is q widened."""
    widening: float = 1.7
    """The factor by which the scales of q are widened."""
    resampled: int = 256
    """The number of draws at which the covariance of f is computed."""
    rounds: int = 4
    """The number of rounds of population Monte Carlo."""
    tail: float = 10.0
    """The largest depth of evaluated points that count as a tail, in nats below the top beyond D / 2."""
    lacking: float = 2.0
    """The least deficit of q's density there, in nats, for an additional component of the proposal."""
    beside: int = 8
    """The largest number of such components."""
    longer: float = 3.0
    """The scales of their second copies over those of q's component."""
    covered: float = 0.9
    """The effective share of the draws above which the proposal is not adapted any further."""
    best_known: float = 0.05
    """The share of the draws of least variance, from which the reference level of the variance is taken."""
    whole: float = 2.0
    """The scale of the Gaussian with the moments of all of q: thin curved tails lie along this Gaussian, not
    along any component."""
    blended: float = 200.0
    """The number of effective draws below which the posterior's moments are blended with those of q."""
    first_draws: int = 512
    """The number of draws by which the deficits of q and of its proposal are found. With half and with twice
    no estimate differs."""
    first_wide: float = 0.4
    """The share of q widened in the first proposal of the thorough estimate. With half and with twice the
    factor of effective draws is 1.00 +- .01."""
    first_whole: float = 0.05
    """The share, in the same proposal, of the Gaussian with the moments of all of q. With half and with twice
    1.00."""
    first_beside: float = 0.1
    """The share, in the same proposal, of the additional components, where there are any. With half and with
    twice 1.00."""
    renewed: float = 0.1
    """The share of a wide part in an adapted proposal, which thus extends beyond earlier draws. With half
    1.02, with twice .96."""
    renewed_wide: tuple[float, float] = (0.5, 2.0)
    """The share of q widened in this wide part, and the factor by which it is widened. With half and 1.5
    times the share 1.01 and 1.00, with 1.5 and 3 times the scales 1.01 and .99."""
    renewed_whole: float = 0.3
    """The share, in the wide part, of the Gaussian with the moments of all of q. With half 1.01, with twice
    .99."""
    renewed_beside: float = 0.3
    """The share, in the wide part, of the additional components. With half 1.01, with twice 1.00."""
    round_draws: int = 8
    """The number of draws of the estimate over that of a round. With a quarter 1.01, in 1.4 times the time;
    with half 1.00, in 1.2 times."""
    least_round: float = 10.0
    """The effective draws of a round for each dimension, below which the proposal is not adapted further.
    With half and with twice no estimate differs."""


@dataclass(frozen=True)
class LocalSettings:
    """Gaussians at evaluated points where a proposal lacks density (`local_proposal`).

    They were chosen on the ring in boxes 2000 to 2002 of `experiments.vbmc.hard`, and on five unimodal
    targets, where at most four such Gaussians were found, after 6 to 49 evaluations.
    """

    shallow: float = 7.0
    """The largest depth of such a point below the top, in nats beyond D / 2."""
    lacking: float = 1.0
    """The least excess of the density there over the proposal's, in nats."""
    apart: float = 1.0
    """The least squared distance of such Gaussians from each other, in their standard deviations."""
    least: int = 6
    """The least number of Gaussians for which a proposal is made."""
    most: int = 60
    """The largest number of Gaussians of a proposal."""
    mass: float = 0.1
    """The least mass of all these Gaussians, as a share of the evidence, for which a proposal is made; also
    the largest mass that q may lack and still count as covering the posterior."""
    uncovered: float = 2.0
    """The excess of the posterior's density over the proposal's, in nats, from which q lacks the mass there.
    This was .25 of the mass of a ring, and at most .07 for two shells, Rosenbrock-Gaussian 6 and tilted 20,
    whose evidences were right."""
    share: float = 0.7
    """The share of these Gaussians in the first proposal of the thorough estimate."""
    shortest: int = -8
    """The lengths are powers of two from this one to 2^0, in the frame's units. In ten thorough estimates on
    the ring (160 values, seeds 1104 to 1108) the factor of effective draws is .5 +- .3 with -6, and no
    estimate differs with -10."""
    fall: float = 0.5
    """The least fall of the density over a length, in nats. In the same estimates .95 +- .04 with half and
    .93 +- .13 with twice."""
    bend: tuple[float, float] = (1.0, 4.0)
    """The bounds of twice the fall that counts as a parabola's; a larger fall is due to a bend."""


@dataclass(frozen=True)
class PooledSettings:
    """Draws beyond those of q (`pooled_draws`).

    They were chosen on the ring in boxes 9810, 9811, 9813, 9822 and 9823 of `experiments.vbmc.hard`. 42
    unimodal runs (seeds 60 to 62) took 3,246 evaluations, and 3,436 without such draws.
    """

    wider: float = 4.0
    """The factor of q's scales."""
    draws: int = 256
    """The number of draws of each of the two proposals."""
    places: int = 64
    """The number of points at each of which the second proposal has a Gaussian."""
    temper: float = 0.75
    """The power of the density by which these points are chosen."""
    known: float = 10.0
    """The largest standard deviation of f, in nats, at a draw that is kept."""
    uncertain: float = 1.0
    """The standard deviation of f, in nats, above which a draw counts for the rise of the evidence."""
    feasible: float = 0.5
    """The least probability of feasibility of a draw that counts for this rise."""
    highest: float = 50.0
    """The largest logarithm of a weight, so that its exponential does not overflow."""


WEIGHTS = WeightSettings()
LOCAL = LocalSettings()
POOLED = PooledSettings()
