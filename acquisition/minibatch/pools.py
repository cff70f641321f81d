"""Choices by a kernel over the data: greedy ones from a random pool, and the weights of Bayesian quadrature.

A pool of a multiple of S rows is drawn uniformly; from it rows are chosen one by one, each the best given
those before it. With k the kernel, z the kernel means over the data, C the posterior covariance given the
rows chosen so far, and m the expected norm of a row's gradient, the next row maximises

    Herding          z_i - sum_j k(x_i, x_j) / (t + 1)      the MMD of equal weights (Chen et al. 2010)
    SequentialBQ     (z_i left)^2 / C_ii                    the integral variance (Huszar and Duvenaud 2012)
    MaxVariance      C_ii                                   thesis Section 7.3.4
    UpperConfidence  m_i / average m + beta C_ii^(1/2)      thesis Section 7.3.4

and the weights are equal, except that those of SequentialBQ are those of Bayesian quadrature: with K the
kernel of the S rows, the mean of a Gaussian process over the data has the posterior mean sum_i w_i f(x_i) for
every f,

    w = (K + s^2 I)^-1 (z + s^2 / N),

so that one solve serves all coordinates of a gradient; they are scaled by N, as they stand for a sum. s^2 is
the variance of a part of f that is independent between rows, which contributes s^2 / N to the mean.
`QuadratureWeighted` gives them to rows that are drawn uniformly.

All are *biased*, as rows or weights depend on features, so that the error of a run has a floor.

Cost a step O(pool (S M + S^2)), S^3 for quadrature weights, M^2 S for the norms; O(N M^2) once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from acquisition.conditioned import ConditionedPool, greedy, variance_reduction
from acquisition.minibatch.features import Coefficients, Featured, Features, design
from acquisition.minibatch.settings import LEARNING
from acquisition.minibatch.strategy import (
    Selection,
    Summing,
    equally,
    require_between,
)
from acquisition.minibatch.uniform import UniformState
from gp.linalg import Factor
from gp.matrices import cholesky

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
    """Maximum posterior variance (thesis Section 7.3.4), equal weights.

    Parameters
    ----------
    noise : s^2 >= 0, in units of k(x, x)
    """

    noise: float = LEARNING.noise

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("noise", self.noise, 0.0, np.inf)

    def draw(self, state: UniformState, rng: np.random.Generator) -> tuple[Selection, UniformState]:
        pool = self._pool(state.n, rng)
        chosen = pool[greedy_rows(self.features, pool, self.size, self.noise)]
        return equally(chosen, state.n), state


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


_JITTER = 1e-10
"""Share of the largest k(x, x) that is added to the diagonal, as rows may be nearly equal."""


def quadrature_weights(features: Features, indices: np.ndarray, noise: float = 0.0) -> np.ndarray:
    """Weights (S,) of distinct rows ``indices``, for a sum over the data.

    Parameters
    ----------
    features : of the data
    indices : (S,)
    noise : s^2 >= 0, variance that the kernel does not explain, in units of k(x, x)
    """
    size, n = len(indices), len(features)
    gram, z = features.gram(indices), features.kernel_mean(indices)
    nugget = noise + _JITTER * gram.diagonal().max()
    factor = Factor(cholesky(gram + nugget * np.eye(size)))
    return np.asarray(n * factor.solve(factor.solve(z + nugget / n), transposed=True))


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

    def draw(self, state: UniformState, rng: np.random.Generator) -> tuple[Selection, UniformState]:
        indices = rng.choice(state.n, self.size, replace=False, shuffle=False)
        return Selection(indices, quadrature_weights(self.features, indices, self.noise)), state


@dataclass(frozen=True)
class ConfidenceState:
    """The process of the norms."""

    n: int
    norms: Coefficients = field()
    average: float = 0.0
    """Running average of the norms seen, in which later norms have larger weights."""


@dataclass(frozen=True)
class UpperConfidence(Summing, Greedy):
    """Expected gradient norm plus ``beta`` standard deviations, equal weights.

    Parameters
    ----------
    size : S, between 1 and N
    features : of the data
    pool : rows to choose from, in multiples of S, at least 1; never more than N rows
    beta : >= 0
    noise : s^2 > 0, in units of k(x, x)
    drift : rho in [0, 1], how far the norms move between steps
    """

    beta: float = 1.0
    noise: float = LEARNING.noise
    drift: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("beta", self.beta, 0.0, np.inf)
        require_between("noise", self.noise, np.finfo(float).tiny, np.inf)
        require_between("drift", self.drift, 0.0, 1.0)

    def start(self, n: int, rng: np.random.Generator) -> ConfidenceState:
        super().start(n, rng)
        return ConfidenceState(n, Coefficients.prior(self.features))

    def draw(self, state: ConfidenceState, rng: np.random.Generator) -> tuple[Selection, ConfidenceState]:
        pool = self._pool(state.n, rng)
        bonus = None
        if state.norms.known and state.average > 0.0:
            bonus = design(self.features, pool) @ state.norms.table[0] / state.average
        chosen = pool[greedy_rows(self.features, pool, self.size, self.noise, bonus=bonus, factor=self.beta)]
        return equally(chosen, state.n), state

    def observe(self, state: ConfidenceState, selection: Selection, gradients: np.ndarray) -> ConfidenceState:
        at = selection.indices
        norms = np.linalg.norm(gradients, axis=1)
        noise = self.features.residual[at] + self.noise
        estimated = state.norms.observed(design(self.features, at), norms[:, None], noise, self.drift)
        fresh = float(norms.mean())
        kept = 0.0 if state.average == 0.0 else 0.9
        average = kept * state.average + (1.0 - kept) * fresh
        return replace(state, norms=estimated, average=average)
