"""Constants that affect results, with the problems that they were chosen on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SETTINGS", "BoundsSettings"]


@dataclass(frozen=True)
class BoundsSettings:
    """Constants of the pilot run, of resampling and of credibility.

    A factor of errors is the geometric mean, with its standard error, of the ratios of root mean square
    errors of 20 log estimates to those with the value here: at 30,000 evaluations, by "smc" and "ais", on
    Gaussians (D = 6 and 15), a banana, a funnel (5) and a product of Student t's (4), seeds 1100 to 1105, 90
    runs.
    """

    pilot_share: float = 0.2
    """The largest share of the budget that the pilot run uses."""
    pilot_particles: int = 128
    """The largest number of particles of the pilot run, for each problem."""
    pilot_moves: int = 5
    """The number of moves at each temperature of the pilot run; step sizes are adapted after each."""
    pilot_ess: float = 0.5
    """The conditional effective sample size, over L, from one temperature of the pilot run to the next."""
    near_best: float = 1.1
    """The factor of the least predicted variance at equal cost up to which fewer temperatures are chosen."""
    delay: float = 2.0
    """The number of temperatures, as a multiple of that for particles in equilibrium.

    On a Gaussian (D = 10), a banana (2) and a funnel (5), at 60,000 evaluations, the standard deviations of a
    log estimate with multiples 1, 2, 4 and 8 differ by no more than between seeds.
    """
    compared: tuple[float, float] = (16.0, 4.0)
    """The numbers of temperatures that are compared: up to the first number plus the second times the length
    d of the path, or times d (1 + d) without resampling. With half of both numbers the factor of errors is
    1.01 +- .01, with twice 1.00 +- .01."""
    least_particles: int = 8
    """The least number of particles that the number of temperatures has to allow."""
    resampling: float = 0.5
    """Particles are resampled where their effective sample size is below this share of L."""
    bisections: int = 30
    """The number of bisections by which the next temperature is found. 2^-30 of the remaining interval is the
    least increase. With 20 the factor of errors is 1.00 +- .01, with 80 1.00."""
    least_loss: float = 1e-6
    """The distance from 0 and from 1 that is kept by a conditional effective sample size over L, so that
    distances between temperatures are finite and positive. With 1e-9 no run differs, with 1e-3 four of 90
    do."""
    least_variance: float = 1e-12
    """The least variance of a coordinate in the units of moves, over the largest variance. The covariance of
    particles that share a coordinate thus has a Cholesky factor. With 1e-15, 1e-9 and 1e-4 no run differs."""
    shortest: float = 0.8
    """The least factor of the step size of Hamiltonian dynamics, which is drawn for each move. On the
    problems of the comparison of ``leapfrog``, seeds 1114 to 1116, the factor of errors is 1.02 +- .03 with
    .6 and 1.00 +- .03 with .9."""
    longest: float = 1.2
    """The largest such factor: trajectories of one fixed length may be periodic (Neal 2011, 5.4.2). In the
    same runs it is 1.01 +- .03 with 1.1 and 1.00 +- .03 with 1.4."""
    leapfrog: int = 2
    """The number of leapfrog steps of a move; the more, the fewer temperatures are affordable. Relative to 3,
    which was used before, factors of errors are .83 +- .03 with 2, .79 +- .04 with 1, 1.06 +- .02 with 4 and
    1.29 +- .07 with 8, although a third of these runs has no such moves. With such moves, on eight problems
    (Gaussians with D = 6, 30 and 60, a regression, the non-centred eight schools, and the three others
    above), seeds 1110 to 1113, it is .70 +- .04 with 2, at most 1.02 on a problem, and .72 +- .05 with 1, up
    to 1.5; with 100,000 evaluations, seeds 1120 and 1121, .68 +- .06 with 2, at most 1.3, and .73 +- .08."""
    hamiltonian_acceptance: float = 0.8
    """The rate of acceptance to which step sizes are adapted; Betancourt et al. (2014) advise .6 to .9."""
    hamiltonian_step: float = 1.2
    """The first step size is this times D^(-1/4), with which the acceptance of a Gaussian is about .8."""
    walk_acceptance: float = 0.25
    """The rate of acceptance of the random walk; .234 is best for large D (Roberts et al. 1997)."""
    walk_step: float = 2.38
    """The first step size of the random walk is this times D^(-1/2), the best for a Gaussian of large D."""
    wide: float = 1.0
    """The standard deviation of one log estimate, in nats, above which few particles dominate the mean weight
    and the bounds are not credible. In 540 runs with 1,000 to 10,000 evaluations, seeds 1130 to 1141, the log
    evidence was off by more than a nat in none with a deviation below .5, in 4 % with .5 to 1, 10 % with 1 to
    2, 33 % with 2 to 4, and 87 % of the others."""


SETTINGS = BoundsSettings()
