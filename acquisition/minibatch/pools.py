"""Greedy choices from a random pool: kernel herding, sequential Bayesian quadrature, largest variance.

A pool of a multiple of S rows is drawn uniformly; from it rows are chosen one by one, each the best given
those before it. With k the kernel, z the kernel means over the data and C the posterior covariance given the
rows chosen so far, the next row maximises

    Herding          z_i - sum_j k(x_i, x_j) / (t + 1)      the MMD of equal weights (Chen et al. 2010)
    SequentialBQ     (z_i left)^2 / C_ii                    the integral variance (Huszar and Duvenaud 2012)
    MaxVariance      C_ii                                   thesis Section 7.3.4

and the weights are equal, or those of Bayesian quadrature. All are *biased*, as the choice of a row depends
on its features. The rule of largest variance is less accurate than the others and is kept for comparison: it
selects outliers, each of which then has the equal weight N / S.

Cost a step O(pool (S M + S^2)), and S^3 for quadrature weights; O(N M^2) once for the features. Memory N x M.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.conditioned import ConditionedPool, greedy, variance_reduction
from acquisition.minibatch.featured import Featured
from acquisition.minibatch.features import Features
from acquisition.minibatch.quadrature_weights import quadrature_weights
from acquisition.minibatch.settings import LEARNING
from acquisition.minibatch.strategy import (
    Selection,
    equally,
    require_between,
)
from acquisition.minibatch.uniform import UniformState

_LEAST_NOISE = 1e-10
"""Noise variance as a share of the largest k(x, x), below which rounding decides."""


@dataclass(frozen=True)
class Greedy(Featured):
    """The parameters and the pool of all rules.

    Parameters
    ----------
    size : S, between 1 and N
    features : of the data
    pool : rows to choose from, in multiples of S, at least 1; never more than N rows
    """

    size: int
    features: Features
    pool: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("pool", self.pool, 1.0, np.inf)

    def start(self, n: int, rng: np.random.Generator) -> UniformState:
        self.require_fit(n)
        return UniformState(n)

    def _pool(self, n: int, rng: np.random.Generator) -> np.ndarray:
        count = min(n, max(self.size, int(self.pool * self.size)))
        return rng.choice(n, count, replace=False, shuffle=False)


@dataclass(frozen=True)
class Herding(Greedy):
    """Kernel herding, equal weights."""

    def draw(self, state: UniformState, rng: np.random.Generator) -> tuple[Selection, UniformState]:
        pool = self._pool(state.n, rng)
        phi = self.features.phi[pool].astype(np.float64, copy=False)
        means = self.features.kernel_mean(pool)
        drawn: list[int] = []
        covered = np.zeros(len(pool))
        for t in range(self.size):
            score = means - covered / (t + 1.0)
            score[drawn] = -np.inf
            drawn.append(int(np.argmax(score)))
            covered += phi @ phi[drawn[-1]]
        return equally(pool[drawn], state.n), state


@dataclass(frozen=True)
class SequentialBQ(Greedy):
    """Sequential Bayesian quadrature, with its weights: they can be negative.

    Parameters
    ----------
    noise : s^2 >= 0, in units of k(x, x)
    """

    noise: float = LEARNING.noise
    signed = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("noise", self.noise, 0.0, np.inf)

    def draw(self, state: UniformState, rng: np.random.Generator) -> tuple[Selection, UniformState]:
        pool = self._pool(state.n, rng)
        signal = self.features.kernel_mean(pool)
        chosen = pool[greedy_rows(self.features, pool, self.size, self.noise, signal)]
        weights = quadrature_weights(self.features, chosen, self.noise)
        return Selection(chosen, weights), state


@dataclass(frozen=True)
class MaxVariance(Greedy):
    """Maximum posterior variance (thesis Section 7.3.4).

    Parameters
    ----------
    weights : 'equal' or 'quadrature', which can be negative
    noise : s^2 >= 0, in units of k(x, x)
    """

    weights: str = "equal"
    noise: float = LEARNING.noise

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("noise", self.noise, 0.0, np.inf)
        require_weighting(self.weights)

    @property
    def signed(self) -> bool:
        """Whether weights can be negative."""
        return self.weights == "quadrature"

    def draw(self, state: UniformState, rng: np.random.Generator) -> tuple[Selection, UniformState]:
        pool = self._pool(state.n, rng)
        chosen = pool[greedy_rows(self.features, pool, self.size, self.noise)]
        return weighted(self.features, chosen, self.weights, self.noise), state


def require_weighting(weights: str) -> None:
    """Raise ValueError unless ``weights`` is 'equal' or 'quadrature'."""
    if weights not in ("equal", "quadrature"):
        raise ValueError(f"weights is {weights!r}; it must be 'equal' or 'quadrature'")


def weighted(features: Features, chosen: np.ndarray, weights: str, noise: float) -> Selection:
    """``chosen`` rows with equal weights or those of quadrature.

    Parameters
    ----------
    features : those of all rows. chosen : indices (S,) of rows.
    weights : 'equal' or 'quadrature'. noise : the noise variance of the quadrature's process.
    """
    if weights == "equal":
        return equally(chosen, len(features))
    return Selection(chosen, quadrature_weights(features, chosen, noise))


def greedy_rows(
    features: Features,
    pool: np.ndarray,
    size: int,
    noise: float,
    signal: np.ndarray | None = None,
    bonus: np.ndarray | None = None,
    factor: float = 1.0,
) -> list[int]:
    """Places in ``pool`` of ``size`` rows, each the best given those before it.

    Parameters
    ----------
    features : of the data
    pool : rows
    size : the number of rows
    noise : s^2
    signal : kernel means of the pool; the next row has the largest squared remaining signal over remaining
        variance
    bonus : added to ``factor`` times the remaining standard deviation, where there is no signal
    factor : see ``bonus``
    """
    phi, residual = features.phi[pool].astype(np.float64, copy=False), features.residual[pool]
    variance = residual + np.einsum("nm,nm->n", phi, phi)

    def column(i: int) -> np.ndarray:
        covariances: np.ndarray = phi @ phi[i]
        covariances[i] += residual[i]
        return covariances

    def uncertainty(state: ConditionedPool) -> np.ndarray:
        deviations: np.ndarray = factor * np.sqrt(state.predictive_variance)
        return deviations if bonus is None else deviations + bonus

    noises = np.full(len(pool), max(noise, _LEAST_NOISE * float(variance.max())))
    signals = None if signal is None else signal[:, None]
    state = ConditionedPool(column, variance, noises, signals)
    return greedy(state, size, uncertainty if signal is None else variance_reduction)
