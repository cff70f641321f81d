"""Constants of mini-batch strategies that decide results, with the measurements behind them.

The studies behind them are rows of `experiments/studies/acquisition.minibatch.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FeatureSettings:
    """A kernel over the data (`features`)."""

    rank: int = 100
    """M, where the rank of the kernel allows it."""
    multiple: float = 0.5
    """The lengthscale over the median distance."""


@dataclass(frozen=True)
class PartitionSettings:
    """Partitions by assignment (`balanced`)."""

    block: int = 80
    """Batches assigned together."""


@dataclass(frozen=True)
class LearningSettings:
    """Processes over the data, fitted to gradients (`control_variates`, `pools`)."""

    noise: float = 0.01
    """Variance that the features do not explain, in units of the kernel's."""
    drift: float = 0.06
    """rho, the drift of the coefficients of gradients between steps."""


FEATURES, PARTITION = FeatureSettings(), PartitionSettings()
LEARNING = LearningSettings()
