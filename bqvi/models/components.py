"""The contract of the components of a mixture; that of its weights is in `mixing`.

Components are a conjugate pair: a likelihood in an exponential family, and its prior,

    p(x | theta_k) = h(x) exp(<T(x), eta(theta_k)> - A(theta_k)),      q(theta_k) in the prior's family.

The expected log density is affine in T(x) under any q (`affine`), the contribution of data to the natural
parameters is linear in sum_n r_nk T(x_n) and N_k (`statistics`), and ln h depends on no parameter
(`log_base_measure`). Coordinate ascent, mini-batches and the exact bound are computed from these functions
alone.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
import scipy.spatial.distance

from bqvi.arrays import Values, add
from bqvi.models.data import Data, is_sparse, n_rows, take
from bqvi.models.mixture import AffineLogJoint, Lift, lifted
from bqvi.models.starts import sample_rows, starting_centres
from gp.arrays import Array, to_numpy


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
        """The prior p(theta_1, .., theta_K)."""

    def lift(self) -> Lift | None:
        """The statistic T; None for the datum itself."""

    @property
    def centre(self) -> np.ndarray:
        """The point (D,) about which row-by-row statistics are taken."""

    def affine(self, q: Any, log_weights: np.ndarray) -> AffineLogJoint:
        """E ln p(x | theta_k) - ln h(x) + log_weights_k under q(theta), which may be a point mass."""

    def affine_at(self, theta: Array, log_weights: np.ndarray) -> AffineLogJoint:
        """The same function at a point, in the form of ``log_likelihood``."""

    def statistics(self, counts: np.ndarray, sums: np.ndarray, shift: np.ndarray | None) -> Values:
        """The contribution of N_k (K,) and sum_n r_nk T(x_n - shift) (K, P) to the natural parameters."""

    def feasible(self, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """The possible sums (K, P) of T(x_n - centre) nearest to ``sums``, with each T in its range."""

    def log_base_measure(self, data: Data) -> np.ndarray:
        """The log base measure ln h(x_n), (N,)."""

    def log_joint(self, prior: Any, theta: Array, rows: Array) -> Array:
        """ln p(x_n | theta_k) - ln h(x_n), (L, S, K), for draws of theta; torch tensors carry gradients."""

    def representation(self, data: Data) -> np.ndarray:
        """Rows (N, R) with meaningful distances, for starts and for kernels over data."""

    def start(
        self,
        data: Data,
        n_components: int,
        how: str,
        rng: np.random.Generator,
        weights: np.ndarray | None = None,
    ) -> Any:
        """A starting q(theta) for K components; ``weights`` (N,), positive."""


def start_from_clusters(
    components: Components,
    data: Data,
    n_components: int,
    how: str,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> Any:
    """The posterior if each row belongs to the nearest of K starting centres.

    Of many rows a sample is clustered, and represents all.

    Parameters
    ----------
    components : the family of the K components. data : N rows. n_components : K.
    how : 'k-means++' or 'random' (`starts`). rng : draws the sample and the centres. weights : (N,), or None
        for equal ones.
    """
    chosen = sample_rows(n_rows(data), rng)
    sampled, part = take(data, chosen), None if weights is None else weights[chosen]
    points = components.representation(sampled)
    centres = starting_centres(points, n_components, how, rng, part)
    labels = scipy.spatial.distance.cdist(points, centres, "sqeuclidean").argmin(1)
    r = np.asarray(np.eye(n_components)[labels])
    if weights is None or part is None:
        return posterior_of(components, sampled, r, n_rows(data) / len(points))
    return posterior_of(components, sampled, part[:, None] * r, weights.sum() / part.sum())


def posterior_of(components: Components, rows: Data, r: np.ndarray, times: float = 1.0) -> Any:
    """The posterior given ``rows`` with responsibilities ``r`` (S, K), statistics multiplied by ``times``."""
    prior = components.prior(r.shape[1])
    return prior.from_natural(add(prior.natural, statistics_of(components, rows, times * r)))


def statistics_of(components: Components, rows: Data, r: np.ndarray) -> Values:
    """The contribution of ``rows`` with responsibilities ``r`` (S, K) to the prior's natural parameters."""
    x = rows.toarray() if is_sparse(rows) else to_numpy(rows).astype(float, copy=False)
    sums = r.T @ lifted(x - components.centre, components.lift())
    return components.statistics(r.sum(0), sums, components.centre)
