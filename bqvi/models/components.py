"""The contract of the components of a mixture; that of its weights is in `mixing`.

Components are a conjugate pair: a likelihood in an exponential family, and its prior,

    p(x | theta_k) = h(x) exp(<T(x), eta(theta_k)> - A(theta_k)),      q(theta_k) in the prior's family.

The expected log density is affine in T(x) under any q (`affine`), what data add to the natural parameters is
linear in sum_n r_nk T(x_n) and N_k (`statistics`), and ln h depends on no parameter (`log_base_measure`).
Coordinate ascent, mini-batches and the exact bound need no more than these.
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
        """Of the factor of theta that has the components' parameters."""

    def for_data(self, data: Data, weights: np.ndarray | None = None) -> Self:
        """The same components, with what they take from ``data`` (checked) settled; ``weights`` (N,)."""

    def check(self, data: Data) -> Data:
        """``data`` in the form that the components work with; ValueError names what is wrong with it."""

    def prior(self, n_components: int) -> Any:
        """p(theta_1, .., theta_K)."""

    def lift(self) -> Lift | None:
        """T; None for the datum itself."""

    @property
    def centre(self) -> np.ndarray:
        """(D,), about which row-by-row statistics are taken."""

    def affine(self, q: Any, log_weights: np.ndarray) -> AffineLogJoint:
        """E ln p(x | theta_k) - ln h(x) + log_weights_k under q(theta), also a point mass."""

    def affine_at(self, theta: Array, log_weights: np.ndarray) -> AffineLogJoint:
        """The same at a point, as ``log_likelihood`` takes it."""

    def statistics(self, counts: np.ndarray, sums: np.ndarray, shift: np.ndarray | None) -> Values:
        """What N_k (K,) and sum_n r_nk T(x_n - shift) (K, P) add to the prior's natural parameters."""

    def feasible(self, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Sums (K, P) of T(x_n - centre) that data can give, nearest to ``sums``, each T in its range."""

    def log_base_measure(self, data: Data) -> np.ndarray:
        """ln h(x_n), (N,)."""

    def log_joint(self, prior: Any, theta: Array, rows: Array) -> Array:
        """ln p(x_n | theta_k) - ln h(x_n), (L, S, K), for draws of theta; torch tensors carry gradients."""

    def representation(self, data: Data) -> np.ndarray:
        """Rows (N, R) whose distances mean something: for starts, and for kernels over data."""

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
    """What the prior becomes if each row belongs to the nearest of K starting centres.

    Of many rows a sample is clustered, and counts for all. ``how`` as in `starts`; ``weights`` (N,).
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
    """What the prior becomes if ``rows`` have responsibilities ``r`` (S, K), and count so many ``times``."""
    prior = components.prior(r.shape[1])
    return prior.from_natural(add(prior.natural, statistics_of(components, rows, times * r)))


def statistics_of(components: Components, rows: Data, r: np.ndarray) -> Values:
    """What ``rows`` with responsibilities ``r`` (S, K) add to the prior's natural parameters."""
    x = rows.toarray() if is_sparse(rows) else to_numpy(rows).astype(float, copy=False)
    sums = r.T @ lifted(x - components.centre, components.lift())
    return components.statistics(r.sum(0), sums, components.centre)
