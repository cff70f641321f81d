"""A mixture of weighted rows: data are (X, w), and row n enters as w_n copies of itself."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from bqvi.checks import require_finite, require_shape
from bqvi.models.component_mixture import Mixture
from bqvi.models.conjugate import LocalStep
from bqvi.models.data import Data, n_rows
from gp.arrays import Array


class Weighted:
    """A mixture of weighted rows; its data are a tuple (X, w), w (N,) nonnegative.

    Parameters
    ----------
    mixture : the model of X
    """

    def __init__(self, mixture: Mixture) -> None:
        self.mixture = mixture

    @property
    def prior(self) -> Any:
        """The mixture's."""
        return self.mixture.prior

    def for_data(self, data: Data) -> Self:
        """With what the mixture's prior takes from X settled; weights do not enter it."""
        other = copy.copy(self)
        other.mixture = self.mixture.for_data(self.check(data)[0])
        return other

    def check(self, data: Data) -> tuple[Data, np.ndarray]:
        """X as the mixture takes it, and w (N,): finite, nonnegative, some of it positive."""
        x, weights = data
        x = self.mixture.check(x)
        weights = np.asarray(weights, float)
        require_shape("weights", weights, (n_rows(x),))
        require_finite("weights", weights)
        if weights.min() < 0.0 or not weights.any():
            raise ValueError("weights must not be negative, and not all of them zero")
        return x, weights

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Any:
        """The mixture's start on the rows that count."""
        x, weights = data
        return self.mixture.initial(x[weights > 0.0], how, rng)

    def local_step(self, q: Any, rows: Data, weights: Array | None = None) -> LocalStep:
        """The mixture's, with both weights."""
        x, own = rows
        return self.mixture.local_step(q, x, own if weights is None else own * weights)

    def log_base_measure(self, data: Data) -> float:
        """sum_n w_n ln h(x_n)."""
        x, weights = data
        return float(weights @ self.mixture.components.log_base_measure(x))

    def log_likelihood(self, data: Data, theta: Any) -> float:
        """ln p of every row, times its weight, is not asked for here: of X without weights."""
        return self.mixture.log_likelihood(data[0], theta)
