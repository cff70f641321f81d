"""The contract of the components of a mixture, and their starts; that of the weights is in `mixing`.

Components are a conjugate pair: a likelihood in an exponential family, and its prior,

    p(x | theta_k) = h(x) exp(<T(x), eta(theta_k)> - A(theta_k)),      q(theta_k) in the prior's family.

Coordinate ascent, mini-batches and the exact bound are computed from `affine`, `statistics` and
`log_base_measure` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import scipy.spatial.distance

from bqvi.arrays import Values, add
from bqvi.models.data import Data, as_table, n_rows, take
from bqvi.models.mixture import AffineLogJoint, Lift, lifted
from bqvi.models.settings import CENTRES
from gp.arrays import Array
from gp.checks import require_one_of

STARTS = ("k-means++", "random")


@dataclass(frozen=True)
class Start:
    """How components start."""

    how: str
    """One of `STARTS`, see `starting_centres`."""
    rng: np.random.Generator
    weights: np.ndarray | None = None
    """(N,), positive: what each row counts; None for ones."""


def starting_centres(
    points: np.ndarray,
    n_components: int,
    how: str,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
    unit: bool = False,
) -> np.ndarray:
    """(K, D) centres among ``points`` (N, D); with fewer than K points each is one, and some repeat.

    Parameters
    ----------
    points : (N, D). n_components : K.
    how : 'k-means++' (Arthur and Vassilvitskii 2007, and one Lloyd step) or 'random' rows. rng : draws them.
    weights : (N,), positive: a row is drawn as often as so many copies of it. None for equal ones.
    unit : whether points have length 1, which matrix products are enough for.
    """
    require_one_of("start", how, STARTS)
    n = len(points)
    if n <= n_components:
        return points[np.append(rng.permutation(n), rng.choice(n, n_components - n))]
    if how == "random":
        shares = None if weights is None else weights / weights.sum()
        return points[rng.choice(n, n_components, replace=False, p=shares)]
    spread = _spread(points, n_components, rng, weights, unit)
    return cluster_means(points, points, spread, weights, spread, unit)


def cluster_means(
    values: np.ndarray,
    points: np.ndarray,
    centres: np.ndarray,
    weights: np.ndarray | None,
    empty: np.ndarray,
    unit: bool = False,
) -> np.ndarray:
    """(K, V) means of the rows of ``values`` (N, V) whose points are nearest to each of the ``centres``.

    Parameters
    ----------
    points : (N, D)
    centres : (K, D)
    weights : (N,), positive; None for ones
    empty : (K, V), what a centre has that is nearest to no point
    unit : whether points have length 1
    """
    nearest = _squared_gaps(points, centres, unit).argmin(0)
    member = (nearest[:, None] == np.arange(len(centres))).astype(float)
    if weights is not None:
        member *= weights[:, None]
    counts = member.sum(0)[:, None]
    return np.asarray(
        np.where(counts > 0.0, (member.T @ values) / np.where(counts > 0.0, counts, 1.0), empty)
    )


def scatter(points: np.ndarray, centres: np.ndarray, weights: np.ndarray | None, unit: bool) -> float:
    """The sum of the squared distances of ``points`` to their nearest centres, with ``weights`` (N,)."""
    nearest = _squared_gaps(points, centres, unit).min(axis=0)
    return float(nearest.sum() if weights is None else nearest @ weights)


def _spread(
    points: np.ndarray, n_components: int, rng: np.random.Generator, weights: np.ndarray | None, unit: bool
) -> np.ndarray:
    """Rows drawn in turn with probabilities proportional to the squared distance to the nearest so far.

    Of several draws that one is taken after which the sum of these squared distances is smallest: greedy
    k-means++, of the implementation that Arthur and Vassilvitskii (2007) describe last.
    """
    shares = None if weights is None else weights / weights.sum()
    chosen = [int(rng.integers(len(points)) if shares is None else rng.choice(len(points), p=shares))]
    nearest = _squared_gaps(points, points[chosen], unit)[0]
    for _ in range(n_components - 1):
        odds = nearest if weights is None else nearest * weights
        total = odds.sum()
        # If each row is already a centre (repeated rows), a row is drawn uniformly.
        drawn = rng.choice(len(points), CENTRES.candidates, p=odds / total if total > 0.0 else None)
        gaps = np.minimum(nearest, _squared_gaps(points, points[drawn], unit))
        best = int((gaps.sum(1) if weights is None else gaps @ weights).argmin())
        chosen.append(int(drawn[best]))
        nearest = gaps[best]
    return points[chosen]


def _squared_gaps(points: np.ndarray, centres: np.ndarray, unit: bool) -> np.ndarray:
    """(C, N) squared distances; those of points of length 1 by a product, 0 where they are rounding."""
    if unit:
        gaps = (1.0 + (centres * centres).sum(axis=1))[:, None] - 2.0 * (centres @ points.T)
        return np.asarray(np.where(gaps > 1e-12, gaps, 0.0))
    return np.asarray(scipy.spatial.distance.cdist(centres, points, "sqeuclidean"))


def sample(data: Data, begin: Start) -> tuple[Data, np.ndarray | None, float]:
    """Some rows of ``data`` for a start, their weights if there are any, and the weight of all rows."""
    chosen = sample_rows(n_rows(data), begin.rng)
    if begin.weights is None:
        return take(data, chosen), None, float(n_rows(data))
    return take(data, chosen), begin.weights[chosen], float(begin.weights.sum())


def sample_rows(n: int, rng: np.random.Generator, most: int = CENTRES.rows) -> np.ndarray:
    """Sorted indices of at most ``most`` of ``n`` rows."""
    if n <= most:
        return np.arange(n)
    return np.sort(rng.choice(n, most, replace=False, shuffle=False))


class Components(Protocol):
    """A conjugate pair; frozen settings."""

    @property
    def name(self) -> str:
        """The name of the factor of theta with the components' parameters."""

    def for_data(self, data: Data, weights: np.ndarray | None = None) -> Self:
        """The components with settings that depend on checked ``data`` computed; ``weights`` (N,)."""

    def check(self, data: Data) -> Data:
        """The ``data`` in the form that the components use; ValueError states what is wrong with them."""

    def prior(self, n_components: int) -> Any:
        """The prior p(theta_1, .., theta_K), K = ``n_components``."""

    def lift(self) -> Lift | None:
        """The statistic T; None for the datum itself."""
        return None

    @property
    def centre(self) -> np.ndarray:
        """The point (D,) about which statistics are taken; zeros if there is no shift."""

    by_pattern: bool = False
    """Whether each pattern of missing columns (NaN) takes a pass of its own; else T of NaN is 0."""

    def expectations(self, q: Any) -> Any:
        """A tuple of arrays (K, ...), from which `affine` is computed, under q(theta) or at a point mass."""
        return q.expected_statistics

    def expectations_at(self, theta: Array, n_components: int) -> Any:
        """The same at points of K = ``n_components``, (K, ...) or draws (L, K, ...); torch has gradients."""

    def affine(
        self, expected: Any, log_weights: np.ndarray, shown: np.ndarray | None = None
    ) -> AffineLogJoint:
        """E ln p(x | theta_k) - ln h(x) plus ``log_weights`` (K,), relative to the `centre`.

        Parameters
        ----------
        expected : the `expectations`. log_weights : (K,).
        shown : (D,), the columns that the rows have; None where they have all.
        """

    def statistics(
        self, counts: np.ndarray, sums: np.ndarray, expected: Any = None, shown: np.ndarray | None = None
    ) -> Values:
        """The contribution of rows to the natural parameters.

        Parameters
        ----------
        counts : N_k, (K,). sums : sum_n r_nk T(x_n - centre), (K, P).
        expected, shown : where columns are missing, the `expectations`, from which those of missing columns
            are computed, and the columns that the rows have (D,).
        """

    def feasible(self, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """The possible sums (K, P) of T(x_n - centre) nearest to ``sums``, with each T in its range."""
        return sums

    def log_base_measure(self, data: Data) -> np.ndarray:
        """The log base measure ln h(x_n), (N,)."""

    def representation(self, data: Data) -> np.ndarray:
        """Rows (N, R) with meaningful distances, for starts and for kernels over data."""

    def start(self, data: Data, n_components: int, begin: Start) -> Any:
        """A starting q(theta) for K = ``n_components`` from ``data``; as ``begin`` says, from clusters."""
        return start_from_clusters(self, data, n_components, begin)


def expectations_of(components: Components, theta: Any, n_components: int) -> Any:
    """The expectations of ``components``, K = ``n_components``, at ``theta`` in the form of ``q.mean``.

    A parameter of zero counts as 1e-300.
    """
    prior = components.prior(1)
    if getattr(getattr(prior, "family", prior), "logarithmic_points", False):
        theta = np.log(np.maximum(theta, 1e-300))
    return components.expectations_at(np.asarray(theta), n_components)


def start_from_clusters(components: Components, data: Data, n_components: int, begin: Start) -> Any:
    """The posterior if each row belongs to the nearest of K starting centres.

    Of many rows a sample is clustered, and represents all.

    Parameters
    ----------
    components : the family of the K components. data : N rows. n_components : K.
    begin : how the centres are chosen.
    """
    sampled, part, total = sample(data, begin)
    points = components.representation(sampled)
    centres = starting_centres(points, n_components, begin.how, begin.rng, part)
    labels = scipy.spatial.distance.cdist(points, centres, "sqeuclidean").argmin(1)
    r = np.asarray(np.eye(n_components)[labels])
    if part is None:
        return posterior_of(components, sampled, r, total / len(points))
    return posterior_of(components, sampled, part[:, None] * r, total / part.sum())


def posterior_of(components: Components, rows: Data, r: np.ndarray, times: float = 1.0) -> Any:
    """The posterior given ``rows`` with responsibilities ``r`` (S, K), statistics multiplied by ``times``."""
    prior, r = components.prior(r.shape[1]), times * r
    sums = r.T @ lifted(as_table(rows) - components.centre, components.lift())
    return prior.from_natural(add(prior.natural, components.statistics(r.sum(0), sums)))
