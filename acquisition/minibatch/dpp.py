"""A k-determinantal point process with Horvitz-Thompson weights.

A set A of S rows of a pool is drawn with probability det K_A / e_S(lambda), so that similar rows are rarely
drawn together (Kulesza and Taskar 2011). With K = V diag(lambda) V^T over the pool and e_k the elementary
symmetric polynomials, row i is in the set with probability

    pi_i = sum_m V_im^2 lambda_m e_{S-1}(lambda without m) / e_S(lambda),

and its weight is N / |pool| / pi_i. The pool is a uniform subset, so the estimate is unbiased over pool and
set together. K contains the residual's diagonal, so every pi_i is positive.

Cost O(|pool|^3) a step, for an exact draw; O(N M^2) once for the features. Memory N x M.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.conditioned import ConditionedPool
from acquisition.minibatch.pools import Greedy
from acquisition.minibatch.strategy import Selection
from acquisition.minibatch.uniform import UniformState
from gp.triangular import symmetric_eigen

__all__ = ["DPP", "log_elementary"]


@dataclass(frozen=True)
class DPP(Greedy):
    """S rows of a random pool that repel each other, with weights that make the estimate unbiased.

    Parameters
    ----------
    size : S, between 1 and N
    features : of the data
    pool : rows to choose from, in multiples of S, at least 1; never more than N rows
    """

    pool: float = 5.0

    def draw(self, state: UniformState, rng: np.random.Generator) -> tuple[Selection, UniformState]:
        """The next mini-batch."""
        pool = self._pool(state.n, rng)
        gram = self.features.gram(pool)
        gram[np.diag_indices(len(pool))] += 1e-8 * gram.diagonal().max()  # identical rows can be drawn too
        values, vectors = symmetric_eigen(gram)
        log_values = np.log(np.maximum(values, 1e-12 * values[-1]))
        before = log_elementary(log_values, self.size)
        chosen = _sample(vectors[:, _eigenvectors(log_values, before, self.size, rng)], rng)
        probabilities = (vectors**2) @ _included(log_values, before, self.size)
        weights = state.n / len(pool) / probabilities[chosen]
        return Selection(pool[chosen], weights), state


def log_elementary(log_values: np.ndarray, size: int) -> np.ndarray:
    """ln e_k of the first m values, (n + 1, size + 1): row m, column k."""
    table = np.full((len(log_values) + 1, size + 1), -np.inf)
    table[:, 0] = 0.0
    for m, value in enumerate(log_values):
        table[m + 1, 1:] = np.logaddexp(table[m, 1:], value + table[m, :-1])
    return table


def _eigenvectors(
    log_values: np.ndarray, before: np.ndarray, size: int, rng: np.random.Generator
) -> np.ndarray:
    """``size`` eigenvectors, drawn with the probabilities of the process."""
    chosen: list[int] = []
    for m in range(len(log_values), 0, -1):
        k = size - len(chosen)
        if k == 0:
            break
        if np.log(rng.random()) < log_values[m - 1] + before[m - 1, k - 1] - before[m, k]:
            chosen.append(m - 1)
    return np.array(chosen)


def _included(log_values: np.ndarray, before: np.ndarray, size: int) -> np.ndarray:
    """Probability that each eigenvector is chosen, (n,)."""
    after = log_elementary(log_values[::-1], size)[::-1]
    # e_{S-1} without m is the convolution of those before m and those after it
    without = before[:-1, :size] + after[1:, size - 1 :: -1][:, :size]
    top = without.max(axis=1)
    log_sums = top + np.log(np.exp(without - top[:, None]).sum(axis=1))
    return np.asarray(np.exp(log_values + log_sums - before[-1, size]))


def _sample(basis: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of the projection process onto the span of ``basis`` (n, S) with orthonormal columns."""
    norms = np.einsum("ns,ns->n", basis, basis)
    state = ConditionedPool(lambda i: basis @ basis[i], norms, np.zeros(len(basis)))
    chosen: list[int] = []
    for _ in range(basis.shape[1]):
        probabilities = np.maximum(state.variance, 0.0)
        probabilities[chosen] = 0.0
        chosen.append(int(rng.choice(len(basis), p=probabilities / probabilities.sum())))
        state = state.given(chosen[-1])
    return np.array(chosen)
