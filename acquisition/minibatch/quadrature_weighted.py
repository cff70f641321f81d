"""A random mini-batch with the weights of Bayesian quadrature over the data's empirical measure.

Rows are drawn uniformly without replacement and weighted by `quadrature_weights`. The estimate is *biased*:
its error at one step is small but does not average out over steps, so that the error of a run does not fall
below a floor. Use it early in a run or for single estimates. Weights can be negative.

Cost O(M S^2 + S^3) a step, O(N M^2) once for the features. Memory N x M.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.minibatch.featured import Featured
from acquisition.minibatch.features import Features
from acquisition.minibatch.quadrature_weights import quadrature_weights
from acquisition.minibatch.settings import LEARNING
from acquisition.minibatch.strategy import (
    Selection,
    require_between,
)
from acquisition.minibatch.uniform import UniformState


@dataclass(frozen=True)
class QuadratureWeighted(Featured):
    """BQ weights on a random subset.

    Parameters
    ----------
    size : S, between 1 and N
    features : of the data
    noise : s^2 >= 0, variance that the kernel does not explain, in units of k(x, x)
    """

    size: int
    features: Features
    noise: float = LEARNING.noise
    signed = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("noise", self.noise, 0.0, np.inf)

    def start(self, n: int, rng: np.random.Generator) -> UniformState:
        self.require_fit(n)
        return UniformState(n)

    def draw(self, state: UniformState, rng: np.random.Generator) -> tuple[Selection, UniformState]:
        indices = rng.choice(state.n, self.size, replace=False, shuffle=False)
        return Selection(indices, quadrature_weights(self.features, indices, self.noise)), state
