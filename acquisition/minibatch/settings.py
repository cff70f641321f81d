"""Constants of mini-batch strategies that decide results, with the measurements behind them.

Factors are geometric means, with standard errors, of the mean squared error of the gradient in Fisher's
metric, over that with the values here: mini-batches of ten, averages over 15 steps from the start, from step
40 and from step 120 of a run, on the mixture and the logistic regression of `experiments.minibatch`, seeds
1100 to 1107, 16 runs in all.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "FEATURES",
    "LEARNING",
    "PARTITION",
    "FeatureSettings",
    "LearningSettings",
    "PartitionSettings",
]


@dataclass(frozen=True)
class FeatureSettings:
    """A kernel over the data (`features`)."""

    rank: int = 100
    """M, where the rank of the kernel allows it. With half and with twice as many the factors are 1.32 +- .08
    and .86 +- .02 for a control variate, 1.05 +- .05 and .97 +- .04 for balanced mini-batches; time
    and memory grow with M^2 and M."""
    multiple: float = 0.5
    """The lengthscale over the median distance. Of the lengthscales that do not change while q moves it was
    the most robust on the problems of `experiments.minibatch`. With half and with twice (seeds 1100 to 1103)
    the factors are 1.12 +- .06 and 1.08 +- .06 for balanced mini-batches, 1.15 +- .09 and 1.03 +- .07 for a
    control variate."""
    single: int = 10_000_000
    """Entries of Phi above which it is held in single precision. With all features in single precision the
    factors are 1.000 to 1.001."""
    block: int = 10
    """The number of pivots proposed together, which does not change the pivots drawn."""
    smooth_rank: int = 60
    """The most features of x in the regression of labels on x. On two regressions with gradients affine in
    labels (Gaussian and Poisson, 300 and 1,500 data, seeds 1100 to 1105, 24 runs of 300 balanced
    mini-batches) the factor of the mean squared error of the gradient is .99 +- .04 with half and 1.00 +- .01
    with twice."""
    rows_a_feature: int = 20
    """The least number of rows for each feature of that regression. In the same runs 1.07 +- .04 with half
    and .99 +- .04 with twice."""
    ridge: float = 0.01
    """The ridge of that regression. In the same runs 1.02 +- .02 with half, 1.04 +- .02 with twice, 1.02 +-
    .02 with 1e-6 and .94 +- .04 with 1."""
    exhausted: float = 1e-10
    """Share of the trace of K below which the remaining trace is rounding. With 1e-12 and 1e-8 no run
    differs; it ends the factorisation of a kernel of lower rank."""
    left: float = 1e-12
    """Share of a row's residual before a block of pivots, below which the residual in it is rounding. With
    1e-14 and 1e-10 no run differs; it is for proposed rows that coincide."""


@dataclass(frozen=True)
class PartitionSettings:
    """Partitions by assignment (`partition`)."""

    block: int = 80
    """Batches assigned together. Assignment takes cubic time, and the gain from larger blocks is small
    compared with the residual r of the features: at N = 40 000, S = 100 the squared MMD is 2.1e-4 with 100
    and 1.4e-4 with 200, while the residual contributes 1.9e-3 and a random batch has 6.3e-3 more."""
    sweeps: int = 3
    """Passes over the strata. With 1 the factor is 1.11 +- .04, with 2 1.04 +- .02, with 6 1.01 +- .02."""


@dataclass(frozen=True)
class LearningSettings:
    """Processes over the data, fitted to gradients (`gp_control_variate`, `confidence`).

    Factors but those of ``noise`` with half are of seeds 1100 to 1103, 8 runs.
    """

    noise: float = 0.01
    """Variance that the features do not explain, in units of the kernel's. With half and twice the factors
    are .99 +- .01 and 1.03 +- .01 for a control variate, .98 +- .01 and 1.04 +- .02 for sequential
    quadrature, .96 +- .05 and .93 +- .08 for the largest variance."""
    drift: float = 0.06
    """rho, the drift of the coefficients of gradients between steps. Relative to .03, which was used before,
    factors for control variates without and with balanced mini-batches are .96 +- .01 and .95 +- .02 with
    .06, and 1.08 +- .03 and 1.07 +- .02 with .015; on seeds 1110 to 1115 .96 +- .02 and .96 +- .02 with .06,
    .95 +- .02 and .95 +- .02 with .1, .98 +- .02 and .99 +- .03 with .2; on the digits, seeds 1110 and 1111,
    .98, .98, .97, .98, .97 and .97. After 400 and 800 steps, seeds 1110 to 1112, they are .80 +- .11 and .81
    +- .12 with .06."""
    norm_drift: float = 0.1
    """rho for the coefficients of the norms of gradients. With half and with twice the factor is 1.00 +-
    .01."""
    kept: float = 0.9
    """Weight of the earlier average norm in a step's average. With .8 the factor is 1.00 +- .01, with .95
    1.02 +- .01."""


FEATURES, PARTITION = FeatureSettings(), PartitionSettings()
LEARNING = LearningSettings()
