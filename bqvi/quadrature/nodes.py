"""Where to evaluate next.

By default nodes are taken greedily from a pool of candidates so that the variance of the integral
falls most (thesis Eq. 7.17): with v and r the posterior variance of f at a candidate and its posterior
covariance with the integral, the next node maximises r^2 / (v + tau). Conditioning on it changes both
by one rank,

    g(x) = cov(f(x), f(x*)) / sqrt(v* + tau),   v -> v - g^2,   r -> r - g g_Z,

so that k nodes from M candidates cost O(n^2 M + k n M), less than one fit. The pool lies where the
measure has its mass and somewhat beyond, where a smooth integrand is pinned down by its tails; a finite
measure is its own pool.

Any criterion of :mod:`acquisition.pointwise` may be used instead: it is maximised over a continuous
domain by its gradient, one node after the other, each conditioned on the surrogate's own mean there
until it is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from acquisition.pointwise import Criterion, bind
from acquisition.search import ContinuousSearch
from bqvi.quadrature.charts import Cube
from bqvi.quadrature.quasi_monte_carlo import shifted_sobol
from bqvi.quadrature.surrogate import Surrogate
from gp.measures import Empirical, Measure, Uniform
from gp.observations import Values, covariance

POOL = 512
_STRETCH = 1.5
_LARGEST_POOL = 2000
_LEAST_NOISE = 1e-12


def pool(measure: Measure, chart: Any, seed: int, taken: Any = None) -> Any:
    """Return candidates in standard coordinates, (M, D).

    ``taken`` are the nodes there are, (n, D): points of a finite measure are evaluated once.
    """
    if isinstance(measure, Empirical):
        return _left(measure, taken, seed)
    cube_points = shifted_sobol(measure.dimension, POOL, seed)
    if isinstance(chart, Cube):
        u: Any = chart.backward(chart.measure.from_unit_cube(cube_points))
        return u
    u = measure.from_unit_cube(cube_points)
    if not isinstance(measure, Uniform):
        u[POOL // 2 :] *= _STRETCH
    return u


def _left(measure: Empirical, taken: Any, seed: int) -> Any:
    distinct = np.unique(measure.points, axis=0)
    seen = {tuple(row) for row in taken}
    left = np.array([row for row in distinct if tuple(row) not in seen])
    if len(left) > _LARGEST_POOL:
        left = np.random.default_rng(seed).permutation(left)[:_LARGEST_POOL]
    return left.reshape(-1, measure.dimension)


@dataclass(eq=False)
class Reduction:
    """Posterior moments of f at M candidates, conditioned on one chosen candidate after the other.

    Attributes
    ----------
    mean, variance, signal : (M,); the variance and the signal for unit scale.
    scale : of the kernel. noise : tau, (M,), and no less than rounding leaves of a variance.
    """

    mean: Any
    variance: Any
    signal: Any
    scale: float
    noise: Any
    half: Any
    columns: Callable[[int], Any]
    rows: list[Any]
    open: Any

    @staticmethod
    def of(surrogate: Surrogate, v: Any, cross: Any, with_data: Any) -> Reduction:
        """Return the moments at v (M, D) in the chart.

        Parameters
        ----------
        cross : prior covariances of f(v) with the functional of interest, (M,).
        with_data : those of the data with it, (n,).
        """
        kernel, found = surrogate.kernel, surrogate.profile
        half = found.factor.solve(covariance(kernel, surrogate.view.observed, Values(v)))
        signal = cross - half.T @ found.factor.solve(with_data)
        prior = kernel.diagonal(v)
        variance = prior - np.einsum("nm,nm->m", half, half)
        return Reduction(
            mean=half.T @ found.residual[:, 0],
            variance=variance,
            signal=signal,
            scale=float(found.scales[0]),
            noise=np.maximum(surrogate.tau, _LEAST_NOISE * prior),
            half=half,
            columns=lambda j: kernel(v[j : j + 1], v)[0],
            rows=[],
            open=np.ones(len(v), dtype=bool),
        )

    def scores(self) -> Any:
        """Return by how much each candidate would reduce the functional's variance, (M,)."""
        return self.signal**2 / (np.maximum(self.variance, 0.0) + self.noise)

    def take(self, scores: Any) -> int:
        """Condition on the candidate with the best score among those not taken; return its index."""
        best = int(np.argmax(np.where(self.open, scores, -1.0)))
        self.condition(best)
        return best

    def condition(self, best: int) -> None:
        """Condition on the candidate of this index."""
        self.open[best] = False
        total = np.sqrt(max(float(self.variance[best]), 0.0) + self.noise[best])
        row = self.columns(best) - self.half[:, best] @ self.half
        for earlier in self.rows:
            row = row - earlier[best] * earlier
        # cov(f, f*)^2 <= var f var f*: beyond that are rounding errors, which would grow from node to node
        bound = np.sqrt(np.maximum(self.variance, 0.0))
        row = np.minimum(np.maximum(row / total, -bound), bound)
        self.rows.append(row)
        self.signal = self.signal - self.signal[best] / total * row
        self.variance = self.variance - row**2


def greedy(surrogate: Surrogate, candidates: Any, count: int, given: int = 0) -> Any:
    """Return the indices of ``count`` candidates (M, D) that reduce the integral's variance most.

    The first ``given`` of the candidates will be evaluated anyway.
    """
    v = surrogate.chart.forward(candidates)
    reduction = Reduction.of(surrogate, v, surrogate.embedding().mean(v), surrogate.with_integral())
    for index in range(given):
        reduction.condition(index)
    chosen = [reduction.take(reduction.scores()) for _ in range(min(count, len(v) - given))]
    return np.array(chosen, dtype=int)


def by_criterion(surrogate: Surrogate, criterion: Criterion, count: int, seed: int, among: Any = None) -> Any:
    """Return ``count`` nodes in standard coordinates, (count, D), by a criterion of the user's.

    ``among`` are the points of a finite measure that are left, (M, D); otherwise the domain is searched.
    """
    posterior = surrogate.posterior()
    noise = surrogate.tau * float(surrogate.profile.scales[0])
    search, rng = ContinuousSearch(), np.random.default_rng(seed)
    chosen = []
    for _ in range(count):
        acquisition = bind(criterion, posterior, surrogate.chart.measure, noise=noise)
        if among is None:
            x = search.maximise(acquisition, rng).x
        else:
            v = surrogate.chart.forward(among)
            best = int(np.argmax(acquisition.score(v)))
            x, among = v[best : best + 1], np.delete(among, best, axis=0)
        chosen.append(x[0])
        posterior = posterior.extend(x, posterior.mean(x), np.array([noise]))
    return surrogate.chart.backward(np.array(chosen))
