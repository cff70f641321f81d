"""Upper confidence: rows whose gradients are large or uncertain (thesis Section 7.3.4).

The norm of a datum's gradient is a Gaussian process over the data, learnt from the norms seen
(`regression`); from a random pool, rows are taken one by one by

    m_i / scale + beta sd_i,

m the expected norm, scale its average, sd^2 the variance that the kernel leaves given the rows already taken.
Weights are equal, or those of Bayesian quadrature.

*Biased*: large gradients are preferred without a correction by weights. Cost O(pool (S M + S^2) + M^2 S) a
step; O(N M^2) once for the features. Memory N x M.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from acquisition.minibatch.pools import Greedy, greedy_rows, require_weighting, weighted
from acquisition.minibatch.regression import Coefficients, design
from acquisition.minibatch.settings import LEARNING
from acquisition.minibatch.strategy import Selection, Summing, require_between


@dataclass(frozen=True)
class ConfidenceState:
    """The process of the norms."""

    n: int
    norms: Coefficients = field()
    average: float = 0.0
    """Running average of the norms seen, in which later norms have larger weights."""


@dataclass(frozen=True)
class UpperConfidence(Summing, Greedy):
    """Expected gradient norm plus ``beta`` standard deviations.

    Parameters
    ----------
    size : S, between 1 and N
    features : of the data
    pool : rows to choose from, in multiples of S, at least 1; never more than N rows
    beta : >= 0
    weights : 'equal' or 'quadrature', which can be negative
    noise : s^2 > 0, in units of k(x, x)
    drift : rho in [0, 1], how far the norms move between steps
    """

    beta: float = 1.0
    weights: str = "equal"
    noise: float = LEARNING.noise
    drift: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between("beta", self.beta, 0.0, np.inf)
        require_between("noise", self.noise, np.finfo(float).tiny, np.inf)
        require_between("drift", self.drift, 0.0, 1.0)
        require_weighting(self.weights)

    @property
    def signed(self) -> bool:
        """Whether weights can be negative."""
        return self.weights == "quadrature"

    def start(self, n: int, rng: np.random.Generator) -> ConfidenceState:  # type: ignore[override]
        super().start(n, rng)
        return ConfidenceState(n, Coefficients.prior(self.features))

    def draw(self, state: ConfidenceState, rng: np.random.Generator) -> tuple[Selection, ConfidenceState]:
        pool = self._pool(state.n, rng)
        bonus = None
        if state.norms.known and state.average > 0.0:
            bonus = design(self.features, pool) @ state.norms.table[0] / state.average
        chosen = pool[greedy_rows(self.features, pool, self.size, self.noise, bonus=bonus, factor=self.beta)]
        return weighted(self.features, chosen, self.weights, self.noise), state

    def observe(self, state: ConfidenceState, selection: Selection, gradients: np.ndarray) -> ConfidenceState:
        """One step of the filter on the norms."""
        at = selection.indices
        norms = np.linalg.norm(gradients, axis=1)
        noise = self.features.residual[at] + self.noise
        estimated = state.norms.observed(design(self.features, at), norms[:, None], noise, self.drift)
        fresh = float(norms.mean())
        kept = 0.0 if state.average == 0.0 else 0.9
        average = kept * state.average + (1.0 - kept) * fresh
        return replace(state, norms=estimated, average=average)
