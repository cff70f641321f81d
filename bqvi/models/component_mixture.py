"""A mixture: components and a prior of the weights; all mixtures of this package are of this class.

    z_n ~ weights (`mixing`),   x_n | z_n = k ~ p(x | theta_k) (`components`),
    q(theta) = q(weights) prod_k q(theta_k)

    rho_nk = E ln pi_k + E ln p(x_n | theta_k) - ln h(x_n),   r_n = softmax(rho_n)
    eta_weights* = eta_0 + (N_k),   eta_k* = eta_0 + sum_n r_nk (T(x_n), 1)
    ELBO = sum_n ln sum_k exp rho_nk + sum_n ln h(x_n) - KL(q(theta) || p(theta))

The bound includes all constants: it is below ln p(X), and can be compared over K, components and weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.special

from bqvi.families import Flat, Product
from bqvi.models.components import STARTS, Components, Start, expectations_of
from bqvi.models.contracts import LocalStep, LocalTerms, altered
from bqvi.models.data import Data, as_table, has_missing, is_sparse, n_rows
from bqvi.models.mixing import Mixing, expected_weights
from bqvi.models.mixture import ExpectedLogJoint, MixtureLimits, mixture_terms
from gp.arrays import Array, to_numpy
from gp.checks import require_one_of


class Mixture:
    """A mixture model.

    Parameters
    ----------
    mixing : the weights: `DirichletWeights`, `UniformWeights` or `Sticks`
    components : such as `GaussianComponents`, or a user's `ConjugateComponents`
    """

    def __init__(self, mixing: Mixing, components: Components) -> None:
        if mixing.tied and getattr(components, "shared", False):
            raise ValueError(
                "tail is 'tied' with a covariance that all components share, so that none is as the prior "
                "has it; use tail='truncated'"
            )
        self.mixing = mixing
        self.components = components
        self.incomplete = False
        """Whether the data by which the prior was settled have NaN, for which another pass is used."""

    @property
    def n_components(self) -> int:
        """K; T of a Dirichlet process."""
        return self.mixing.n_components

    def for_data(self, data: Data, weights: np.ndarray | None = None) -> Self:
        """The model with the parameters of its prior that depend on ``data`` computed; called by `fit`.

        Parameters
        ----------
        data : the data, in a form that the model accepts
        weights : the weights (N,) of the rows; default 1
        """
        data = self.components.check(data)
        settled = self.components.for_data(data, weights)
        begins = settled is not self.components  # and not with a further batch of a stream
        if begins and getattr(settled, "flat", False) and self.n_components > n_rows(data):
            raise ValueError(
                f"n_components is {self.n_components}, but data has {n_rows(data)} rows; under a flat prior "
                "there can be at most as many components as rows"
            )
        incomplete = settled.by_pattern and has_missing(data)
        if settled is self.components and incomplete == self.incomplete:
            return self
        return altered(self, components=settled, incomplete=incomplete)

    @cached_property
    def prior(self) -> Product:
        """p(theta): the weights' factor, if they have one, and the components'."""
        components = self.components.prior(self.n_components)
        weights: Any = self.mixing.prior
        if weights is None:
            return Product({self.components.name: components})
        if isinstance(components, Flat):
            weights = Flat(weights)
        return Product({self.mixing.name: weights, self.components.name: components})

    def check(self, data: Data) -> Data:
        return self.components.check(data)

    def initial(
        self, data: Data, how: str, rng: np.random.Generator, weights: np.ndarray | None = None
    ) -> Product:
        """A starting q(theta), with the components' start ``how`` from ``data`` and equal weights.

        Random numbers are from ``rng``; rows have positive ``weights`` (N,), default 1.
        """
        require_one_of("start", how, STARTS)
        components = self.components.start(data, self.n_components, Start(how, rng, weights))
        total = n_rows(data) if weights is None else weights.sum()
        shares = self.mixing.start(np.full(self.n_components, total / self.n_components))
        factors = {} if shares is None else {self.mixing.name: shares}
        return Product({**factors, self.components.name: components})

    def _weights(self, q: Product) -> Any:
        return q.factors.get(self.mixing.name)

    def expected(self, q: Product) -> ExpectedLogJoint:
        """The expected log joint under q, with a last column for a tied tail."""
        factor = q[self.components.name]
        if self.mixing.tied:  # a prior component behind the others
            behind = zip(factor.natural, self.components.prior(1).natural, strict=True)
            factor = factor.from_natural(tuple(np.concatenate(pair) for pair in behind))
        log_weights = self.mixing.log_weights(self._weights(q))
        return ExpectedLogJoint(self.components, self.components.expectations(factor), log_weights)

    def local_step(self, q: Product, rows: Data, weights: Array | None = None) -> LocalStep:
        """Responsibilities of ``rows`` (S, D) and their statistics; see the module's docstring."""
        joint, factor = self.expected(q), self._weights(q)
        counts, found, bound = joint.summed(rows, weights, self.n_components, self.incomplete)
        if np.isnan(bound) and has_missing(rows):
            raise ValueError("rows have NaN, and the data that the prior was settled on none; use `for_data`")
        return LocalStep((*self.mixing.statistics(factor, counts), *found), bound + self.mixing.bound(factor))

    def representation(self, data: Data) -> np.ndarray:
        """Rows for a kernel over data."""
        return self.components.representation(data)

    def local_terms(self, q: Product, rows: Data) -> LocalTerms:
        """(r_nk, r_nk T(x_n - c)) of each row, (S, K + K P), and logsumexp_k rho_nk."""
        return mixture_terms(as_table(rows), self.expected(q).affine(), self.components.centre)

    def term_limits(self, data: Data) -> MixtureLimits:
        """N, and the range of each column of T(x - c).

        Raises
        ------
        ValueError
            NaN in the data: their statistics are sums by pattern, not by row.
        """
        if self.incomplete:
            raise ValueError(
                "data has NaN, which a mini-batch strategy that learns from single data does not take; use "
                "another strategy"
            )
        return MixtureLimits.of(data, self.components.centre, self.components.lift())

    def local_total(self, total: np.ndarray, bound: float, limits: MixtureLimits) -> LocalStep:
        counts, sums = limits.feasible(total, self.n_components + self.mixing.tied)
        sums = self.components.feasible(counts, sums)
        k = self.n_components
        statistics = self.mixing.statistics(None, counts)
        found = self.components.statistics(counts[:k], sums[:k])
        return LocalStep((*statistics, *found), bound)

    def responsibilities(self, q: Product, data: Data) -> np.ndarray:
        """r of ``data`` under ``q``, (N, K), or (N, K + 1) with a tied tail (thesis Eq. 3.23, corrected)."""
        rho = self.expected(q).rho(data if is_sparse(data) else to_numpy(data))
        return np.asarray(scipy.special.softmax(rho, axis=1))

    def log_base_measure(self, data: Data) -> float:
        return float(self.log_base_measures(data).sum())

    def log_base_measures(self, data: Data) -> np.ndarray:
        """ln h(x_n) of each row of ``data``, (N,)."""
        return self.components.log_base_measure(data)

    def expected_weights(self, q: Product) -> np.ndarray:
        """E pi under ``q``, (K,), or (K + 1,) with a tied tail."""
        return expected_weights(self.mixing, self._weights(q))

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(X | theta), nats.

        theta contains 'weights', pi (K,), and the components' point in the form of ``q.mean``. K may differ
        from the model's, so that the generating mixture can be evaluated, too.
        """
        # A weight of zero counts as 1e-300, which changes sums by less than rounding.
        log_weights = np.log(np.maximum(np.asarray(theta["weights"], float), 1e-300))
        k = len(log_weights)
        expected = expectations_of(self.components, theta[self.components.name], k)
        joint = ExpectedLogJoint(self.components, expected, log_weights)
        return joint.summed(data, None, k, joint.incomplete(data))[2] + self.log_base_measure(data)
