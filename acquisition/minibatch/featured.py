"""Common parts of strategies that choose data by their features."""

from __future__ import annotations

from acquisition.minibatch.features import Features, require_features
from acquisition.minibatch.strategy import Unlearning, require_rows, require_size


class Featured(Unlearning):
    """Strategies that choose by features and do not learn from gradients; both attributes are fields."""

    size: int
    features: Features

    def __post_init__(self) -> None:
        require_features(self.features)

    @property
    def setup_seconds(self) -> float:
        """Seconds that the computation of the features took."""
        return self.features.seconds

    def require_fit(self, n: int) -> None:
        """Raise ValueError unless the size of mini-batches and the features agree with ``n`` data."""
        require_size(self.size, n)
        require_rows("features", len(self.features), n)
