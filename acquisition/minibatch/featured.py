"""Common parts of strategies that choose data by their features."""

from __future__ import annotations

from acquisition.minibatch.features import Features
from acquisition.minibatch.strategy import Unlearning, require_rows, require_size

__all__ = ["Featured"]


class Featured(Unlearning):
    """Strategies that choose by features and learn nothing; each states the two as its fields."""

    size: int
    features: Features

    @property
    def setup_seconds(self) -> float:
        """Seconds that the features took."""
        return self.features.seconds

    def require_fit(self, n: int) -> None:
        """Mini-batches and features that fit ``n`` data, or a ValueError."""
        require_size(self.size, n)
        require_rows("features", len(self.features), n)
