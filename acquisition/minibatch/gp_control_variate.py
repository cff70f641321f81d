"""A Gaussian process of the gradients, updated from step to step, as control variate.

Gradients of earlier mini-batches enter the current estimate (the last question of the thesis' Section
7.3.2). The per-datum gradient is modelled as a linear function of features, B^T f(x), by a Kalman
filter (`features`); its integral over the data is known, so

    estimate = N mean(f)^T B + sum_i w_i (g_i - B^T f_i),

with B from the steps *before* this one.

The estimate is unbiased over the draw, given the past, where the mini-batches of ``base`` do not depend on
the past: with `Uniform`, and with `Balanced` and ``replacement=True``. With `Reshuffled` and `Balanced` by
epochs the estimate is *biased*: the remaining data are those to which B was not fitted. Where the features
explain most of the gradient that bias is small, and the errors of a partition's batches cancel. Cost O(M^2 S
+ M P S) a step beyond the gradients; O(N M^2) once for the features. Memory N x M and P x M, whatever N.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from acquisition.minibatch.features import Coefficients, Features, design, mean_design, require_features
from acquisition.minibatch.settings import LEARNING
from acquisition.minibatch.strategy import (
    Correcting,
    Selection,
    Strategy,
    require_base,
    require_between,
    require_rows,
)


@dataclass(frozen=True)
class GPControlVariateState:
    """The coefficients, and the state of the strategy ``base``, which draws."""

    below: Any
    coefficients: Coefficients


@dataclass(frozen=True)
class GPControlVariate(Correcting):
    """A Gaussian process of the gradients, as control variate for another strategy's mini-batches.

    Parameters
    ----------
    base : the strategy that draws, such as ``Balanced(10, features, replacement=True)`` or ``Uniform(10)``
    features : features of the data
    noise : s^2 > 0, variance that the features do not explain, in units of the kernel's variance
    drift : rho in [0, 1], the drift of the coefficients between steps
    """

    base: Strategy
    features: Features
    noise: float = LEARNING.noise
    drift: float = LEARNING.drift

    def __post_init__(self) -> None:
        require_base(self.base)
        require_features(self.features)
        require_between("noise", self.noise, np.finfo(float).tiny, np.inf)
        require_between("drift", self.drift, 0.0, 1.0)

    @property
    def setup_seconds(self) -> float:
        """Seconds for the features, and for those of ``base`` where they are others."""
        below = getattr(self.base, "features", None)
        own = 0.0 if below is self.features else self.features.seconds
        return own + super().setup_seconds

    def start(self, n: int, rng: np.random.Generator) -> GPControlVariateState:
        require_rows("features", len(self.features), n)
        return GPControlVariateState(self.base.start(n, rng), Coefficients.prior(self.features))

    def draw(
        self, state: GPControlVariateState, rng: np.random.Generator
    ) -> tuple[Selection, GPControlVariateState]:
        selection, below = self.base.draw(state.below, rng)
        return selection, replace(state, below=below)

    def estimate(
        self, state: GPControlVariateState, selection: Selection, gradients: np.ndarray
    ) -> np.ndarray:
        if not state.coefficients.known:
            return np.asarray(selection.weights @ gradients)
        table, weights = state.coefficients.table, selection.weights
        missing = len(self.features) * mean_design(self.features) - weights @ design(
            self.features, selection.indices
        )
        return np.asarray(weights @ gradients + table @ missing)

    def observe(
        self, state: GPControlVariateState, selection: Selection, gradients: np.ndarray
    ) -> GPControlVariateState:
        at = selection.indices
        noise = self.features.residual[at] + self.noise
        coefficients = state.coefficients.observed(design(self.features, at), gradients, noise, self.drift)
        return replace(state, coefficients=coefficients)
