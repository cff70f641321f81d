"""Mixtures of factor analysers, and of probabilistic principal components: clusters with a subspace each.

    s_n ~ Cat(pi),   z_n ~ N(0, I),   x_n | s_n = k ~ N(W_k z_n + c_k, diag(v_k))

Each component is a `FactorAnalysis`, and pi has a Dirichlet prior. With q(s_n) q(z_n | s_n) the local step
is that of factor analysis for each component, which gives a bound b_nk on E ln p(x_n | s_n = k):

    r_n = softmax(E ln pi + b_n),   ELBO = sum_n ln sum_k exp(E ln pi_k + b_nk) - KL(q(theta) || p(theta))

(Ghahramani and Beal 2000; with family='point' the EM of Ghahramani and Hinton 1996 and, for spherical noise,
of Tipping and Bishop 1999). The bound can be compared over K, Q and the kind of noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.spatial.distance
from scipy.special import logsumexp, softmax

from bqvi.arrays import Values, add
from bqvi.families import Flat, Product
from bqvi.families.family import FamilyOrPoint
from bqvi.models.conjugate import LocalStep, altered
from bqvi.models.data import Data, patterns, spread
from bqvi.models.factor_analysis import PARAMETERS, FactorAnalysis, log_densities
from bqvi.models.mixing import DirichletWeights, expected_weights
from bqvi.models.regression_prior import DEFAULT, RegressionExpectations, RegressionPrior, expectations
from bqvi.models.starts import sample_rows, starting_centres
from gp.arrays import Array, to_numpy


class _Pass(NamedTuple):
    """Rows that have the same columns."""

    members: np.ndarray
    rows: np.ndarray
    """(n, D), about the origin."""
    shown: np.ndarray
    """(D,)."""
    factors: list[tuple[np.ndarray, np.ndarray]]
    """Of each component E[z] (n, Q), and its covariance (Q, Q)."""
    joint: np.ndarray
    """E ln pi_k + b_nk, (n, K)."""


class MixtureOfFactorAnalysers:
    """K factor analysers of which each row has one; data (N, D), NaN where missing with diagonal noise.

    Parameters
    ----------
    n_components : K >= 1
    n_factors : Q >= 1, of each component
    noise : 'diagonal', a variance for each column of each component, or 'spherical', one for each component
        (mixtures of probabilistic principal components)
    concentration : > 0, of the weights, a number or (K,); default 1 / K, which empties superfluous components
    prior : of each component's columns, see `RegressionPrior`; flat, the weights' prior is flat too
    """

    def __init__(
        self,
        n_components: int,
        n_factors: int,
        noise: str = "diagonal",
        *,
        concentration: float | np.ndarray | None = None,
        prior: RegressionPrior = DEFAULT,
    ) -> None:
        self.mixing = DirichletWeights(n_components, concentration)
        self.analyser = FactorAnalysis(n_factors, noise, prior=prior)

    def for_data(self, data: Data) -> Self:
        """The same model, for as many columns as ``data`` has, with the scale of the noise settled."""
        analyser = self.analyser.for_data(data)
        return self if analyser is self.analyser else altered(self, analyser=analyser)

    @cached_property
    def prior(self) -> Product:
        """p(pi) prod_k p(W_k, c_k, v_k)."""
        columns, weights = self.analyser.columns_prior(self.mixing.n_components), self.mixing.prior
        return Product(
            {"weights": Flat(weights) if isinstance(columns, Flat) else weights, "columns": columns}
        )

    def check(self, data: Data) -> np.ndarray:
        """(N, D), N >= 1, NaN where missing; an entry of each row is there."""
        return self.analyser.check(data)

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """Each component from the rows nearest to one of K centres, as `FactorAnalysis` starts."""
        filled = np.where(np.isnan(data), 0.0, data - self.analyser.origin)
        scaled = filled / spread(filled)
        k = self.mixing.n_components
        centres = starting_centres(scaled[sample_rows(len(scaled), rng)], k, how, rng)
        nearest = scipy.spatial.distance.cdist(scaled, centres, "sqeuclidean").argmin(1)
        found = _stacked([self.analyser.starting_sums(filled[nearest == j], how, rng) for j in range(k)])
        columns = self.prior["columns"]
        proper = columns.family if isinstance(columns, Flat) else columns
        return Product(
            {
                "weights": self.mixing.start(np.bincount(nearest, minlength=k).astype(float)),
                "columns": proper.from_natural(add(proper.natural, found)),
            }
        )

    def local_step(self, q: FamilyOrPoint, rows: Data, weights: Array | None = None) -> LocalStep:
        """Components and factors of ``rows``, and the sums of their regressions."""
        part = np.ones(len(rows)) if weights is None else np.asarray(to_numpy(weights), float)
        total: Values | None = None
        bound = 0.0
        for one in self._passes(q, rows):
            level = logsumexp(one.joint, axis=1)
            bound += float(part[one.members] @ level)
            r = part[one.members, None] * np.exp(one.joint - level[:, None])
            sums = [
                self.analyser.sums(one.rows, one.shown, *factors, r[:, k])
                for k, factors in enumerate(one.factors)
            ]
            found = (r.sum(0), *_stacked(sums))
            total = found if total is None else add(total, found)
        if total is None:
            raise ValueError("rows is empty; a local step needs at least one row")
        return LocalStep(total, bound)

    def _passes(self, q: Any, x: np.ndarray) -> Iterator[_Pass]:
        columns, log_weights = expectations(q["columns"]), self.mixing.log_weights(q["weights"])
        each = [RegressionExpectations(*(part[k] for part in columns)) for k in range(len(log_weights))]
        for index, rows, shown in patterns(x - self.analyser.origin):
            found = [self.analyser.factors(expected, rows, shown) for expected in each]
            joint = log_weights + np.column_stack([bounds for *_, bounds in found])
            yield _Pass(index, rows, shown, [(mean, covariance) for mean, covariance, _ in found], joint)

    def log_base_measure(self, data: Data) -> float:
        """-ln(2 pi) / 2 for each entry that is not missing."""
        return self.analyser.log_base_measure(data)

    def responsibilities(self, q: FamilyOrPoint, data: Data) -> np.ndarray:
        """q(s_n = k), (N, K)."""
        x = self.check(data)
        found = np.empty((len(x), self.mixing.n_components))
        for one in self._passes(q, x):
            found[one.members] = softmax(one.joint, axis=1)
        return found

    def transform(self, q: FamilyOrPoint, data: Data) -> np.ndarray:
        """E[z_n | s_n = k] under ``q``, (N, K, Q)."""
        x = self.check(data)
        scores = np.empty((len(x), self.mixing.n_components, self.analyser.n_factors))
        for one in self._passes(q, x):
            scores[one.members] = np.stack([mean for mean, _ in one.factors], axis=1)
        return scores

    def expected_weights(self, q: Any) -> np.ndarray:
        """E pi under ``q``, (K,)."""
        return expected_weights(self.mixing, q["weights"])

    def parameters(self, q: Any) -> dict[str, np.ndarray]:
        """Weights (K,), loadings (K, D, Q), centre (K, D) and noise variances (K, D) at q's means."""
        return {"weights": self.expected_weights(q), **self.analyser.parameters_of(q["columns"])}

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(X | theta), nats, s, z and missing entries integrated out; theta as `parameters` has it."""
        x = self.check(data)
        each = zip(*(np.asarray(theta[key], float) for key in PARAMETERS), strict=True)
        table = np.column_stack([log_densities(x, *of_one) for of_one in each])
        return float(logsumexp(table, axis=1, b=np.asarray(theta["weights"])).sum())

    def representation(self, data: Data) -> np.ndarray:
        """Rows for a kernel over data, missing entries at their columns' means."""
        return self.analyser.representation(data)


def _stacked(sums: list[Values]) -> Values:
    """Of K components, (K, ...)."""
    return tuple(np.stack(parts) for parts in zip(*sums, strict=True))
