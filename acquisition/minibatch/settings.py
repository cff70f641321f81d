"""Constants of mini-batch strategies that decide results: what each is, and what is known of it.

"Not studied" says that no other value was compared, or that no figures of a comparison were kept.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "FEATURES",
    "LEARNING",
    "PARTITION",
    "STRATA",
    "FeatureSettings",
    "LearningSettings",
    "PartitionSettings",
    "StrataSettings",
]


@dataclass(frozen=True)
class FeatureSettings:
    """A kernel over the data (`features`)."""

    rank: int = 100
    """M, where the data allow it; not studied, like all but ``multiple``."""
    multiple: float = 0.5
    """Of the median distance: the lengthscale. It was the most robust of those that do not change while q
    moves, on the problems of `experiments.minibatch`; no figures were kept."""
    single: int = 10_000_000
    """Entries of Phi above which it is held in single precision."""
    block: int = 10
    """Pivots proposed together: the same pivots are drawn with any number."""
    smooth_rank: int = 60
    """Features of x by which labels are explained,"""
    rows_a_feature: int = 20
    """but no more than one for so many rows,"""
    ridge: float = 0.01
    """and the ridge of that regression."""
    exhausted: float = 1e-10
    """Share of the trace of K below which what is left is rounding,"""
    left: float = 1e-12
    """and share of a row's own residual."""


@dataclass(frozen=True)
class PartitionSettings:
    """Partitions by assignment (`partition`)."""

    block: int = 80
    """Batches assigned together. Assignment takes cubic time, and what larger blocks still balance is little
    beside what the features do not see: at N = 40 000, S = 100 the squared MMD is 2.1e-4 with 100 and 1.4e-4
    with 200, where the residual makes 1.9e-3 and a random batch has 6.3e-3 more."""
    sweeps: int = 3
    """Passes over the strata; not studied."""


@dataclass(frozen=True)
class StrataSettings:
    """Strata by k-means (`stratified`); not studied."""

    sweeps: int = 20
    """Lloyd iterations, at most."""
    settled: float = 1e-6
    """Relative fall of the spread that counts as none."""


@dataclass(frozen=True)
class LearningSettings:
    """Processes over the data that learn of gradients (`gp_control_variate`, `confidence`); not studied."""

    noise: float = 0.01
    """Variance that the features do not explain, in units of the kernel's."""
    drift: float = 0.03
    """How far the coefficients of gradients move between steps,"""
    norm_drift: float = 0.1
    """and those of their norms."""
    kept: float = 0.9
    """Share of the average norm that a step leaves."""


FEATURES, PARTITION = FeatureSettings(), PartitionSettings()
STRATA, LEARNING = StrataSettings(), LearningSettings()
