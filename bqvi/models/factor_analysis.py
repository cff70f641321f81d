"""Factor analysis, probabilistic principal components, and mixtures of them, by EM and variational Bayes.

    s_n ~ Cat(pi),   z_n ~ N(0, I),   x_n | z_n, s_n = k ~ N(W_k z_n + c_k, diag(v_k))      (spherical: one v)

With zeta = (z, 1) each column d is a linear regression on zeta, so that (w_d, c_d, v_d) has the conjugate
prior `regression_prior.RegressionPrior`: a batch of D with J = 1, or one with J = D where the noise is
shared. With A = E[sum_d lambda_d w_d w_d^T] and b = E[sum_d lambda_d w_d x_nd], sums over the observed
columns of a row with the coefficients w_d of zeta, the local step of a component is

    q(z_n) = N(R^-1 h, R^-1),   R = I + A_zz,   h = b_z - A_z1,
    E ln p(x_n) >= (h^T R^-1 h - ln|R| - A_11 + sum_d (E ln lambda_d - E lambda_d x_nd^2)) / 2 + b_1

less ln(2 pi) / 2 for each entry, and r_n = softmax(E ln pi + b_n) with b_nk these bounds (Ghahramani and
Hinton 1996; Tipping and Bishop 1999; Bishop 1999 and Ghahramani and Beal 2000 for the Bayesian ones). With
family='point' and a flat prior it is maximum likelihood by EM. Columns are taken about their means, about
which c has its prior. NaN in a column with noise of its own is a missing value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg
import scipy.spatial.distance
from scipy.special import logsumexp, softmax

from bqvi.arrays import Values, add, total
from bqvi.families import Flat, Product
from bqvi.families.family import FamilyOrPoint
from bqvi.models.components import sample_rows, starting_centres
from bqvi.models.conjugate import LocalStep, altered
from bqvi.models.data import Data, as_numbers, has_missing, patterns, require_observed_columns, spread
from bqvi.models.mixing import DirichletWeights, Mixing, UniformWeights, expected_weights
from bqvi.models.normal_components import require_table
from bqvi.models.regression_prior import (
    DEFAULT,
    RegressionExpectations,
    RegressionPrior,
    estimates,
    expectations,
    require_prior,
    statistics,
)
from gp.arrays import LOG_2PI, Array, to_numpy
from gp.checks import require_integer, require_one_of

NOISES = ("diagonal", "spherical")
PARAMETERS = ("loadings", "centre", "variances")


def log_densities(
    x: np.ndarray, loadings: np.ndarray, centre: np.ndarray, variances: np.ndarray
) -> np.ndarray:
    """ln N(x_n | c, W W^T + diag(v)) of the columns that each row has, (N,).

    Parameters
    ----------
    x : the rows (N, D), NaN in columns that a row lacks. loadings : W, (D, Q). centre : c, (D,).
    variances : v, (D,).
    """
    found = np.empty(len(x))
    for index, block, shown in patterns(x):
        covariance = loadings[shown] @ loadings[shown].T + np.diag(variances[shown])
        factor = np.linalg.cholesky(covariance)
        white = scipy.linalg.solve_triangular(factor, (block[:, shown] - centre[shown]).T, lower=True)
        level = np.log(np.diag(factor)).sum() + 0.5 * shown.sum() * LOG_2PI
        found[index] = -0.5 * (white**2).sum(0) - level
    return found


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
        self.mixing: Mixing = DirichletWeights(n_components, concentration)
        self.n_factors = require_integer("n_factors", n_factors, 1)
        require_one_of("noise", noise, NOISES)
        self.noise, self.regression_prior = noise, require_prior(prior)
        self.dimension: int | None = None
        self.origin: np.ndarray = np.zeros(1)

    @cached_property
    def prior(self) -> Product:
        """p(pi), if the weights are learnt, and p(W_k, c_k, v_k)."""
        if self.dimension is None:
            raise ValueError("the number of columns is not known; use model.for_data(data), as fit does")
        outputs = 1 if self.noise == "diagonal" else self.dimension
        scale = np.asarray(self.regression_prior.scale)
        scales = np.broadcast_to(scale, (self.mixing.n_components, *scale.shape))
        columns = replace(self.regression_prior, scale=scales).of(outputs, self.n_factors + 1)
        weights = self.mixing.prior
        if weights is None:
            return Product({"columns": columns})
        return Product(
            {"weights": Flat(weights) if isinstance(columns, Flat) else weights, "columns": columns}
        )

    def for_data(self, data: Data) -> Self:
        """The same model, for as many columns as ``data`` has, with the scale of the noise settled."""
        if self.dimension is not None:
            return self
        x = self.check(data)
        require_observed_columns(x)
        shared = self.noise == "spherical"
        prior = self.regression_prior.for_outputs(np.nanvar(x, axis=0), shared=shared)
        return altered(self, dimension=x.shape[1], origin=np.nanmean(x, axis=0), regression_prior=prior)

    def check(self, data: Data) -> np.ndarray:
        """(N, D), N >= 1, NaN where missing; an entry of each row is there."""
        x = np.asarray(to_numpy(as_numbers("data", data)), float)
        if self.noise == "spherical" and has_missing(x):
            raise ValueError("data has NaN, which noise='spherical' does not take; use noise='diagonal'")
        return require_table(x, self.dimension, missing=True)

    def starting_sums(self, x: np.ndarray, how: str, rng: np.random.Generator) -> Values:
        """The statistics of rows ``x`` (N, D) for a start, with ``how`` and ``rng`` as for `initial`.

        The rows are relative to the origin, without NaN.
        """
        z = rng.standard_normal((len(x), self.n_factors))
        if how != "random" and len(x):
            gap = x - x.mean(axis=0)
            scaled = gap / spread(gap)
            vectors = np.linalg.eigh(scaled.T @ scaled)[1][:, ::-1][:, : self.n_factors]
            scores = scaled @ vectors
            z[:, : scores.shape[1]] *= 0.01
            # largest standardised score; of repeated columns they are quotients of rounding errors
            most = np.sqrt(len(x))
            z[:, : scores.shape[1]] += np.clip(scores / spread(scores), -most, most)
        return self.sums(x, np.ones(x.shape[1], bool), z, np.eye(self.n_factors), np.ones(len(x)))

    def factors(
        self, expected: RegressionExpectations, x: np.ndarray, shown: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """E[z] (n, Q), its covariance (Q, Q), and the bounds (n,), of rows ``x`` with the columns ``shown``.

        ``x`` (n, D) is about the origin, ``expected`` of the columns' regressions.
        """
        linear, squares, precision, logs = expected
        d, k = x.shape[1], self.n_factors
        slopes = linear.reshape(d, -1)[shown]
        squares = squares[shown].sum(0) if self.noise == "diagonal" else squares
        precision, logs = np.broadcast_to(precision, (d,))[shown], np.broadcast_to(logs, (d,))[shown].sum()
        factor = np.linalg.cholesky(np.eye(k) + squares[:k, :k])
        b = x[:, shown] @ slopes
        h = b[:, :k] - squares[:k, k]
        mean = scipy.linalg.cho_solve((factor, True), h.T).T
        covariance = scipy.linalg.cho_solve((factor, True), np.eye(k))
        each = 0.5 * (h * mean).sum(1) + b[:, k] - 0.5 * (x[:, shown] ** 2) @ precision
        return mean, covariance, each + 0.5 * (logs - squares[k, k]) - np.log(np.diag(factor)).sum()

    def sums(
        self, x: np.ndarray, shown: np.ndarray, mean: np.ndarray, covariance: np.ndarray, part: np.ndarray
    ) -> Values:
        """The contribution of rows ``x`` with the columns ``shown`` (D,) to the natural parameters.

        Their factors have ``mean`` (n, Q) and ``covariance`` (Q, Q); rows have weights ``part`` (n,).
        """
        zeta = np.column_stack([mean, np.ones(len(x))])
        weighted = part[:, None] * zeta
        filled = np.where(shown, x, 0.0)
        cross, squares, count = filled.T @ weighted, part @ (filled * filled), part.sum()
        second = weighted.T @ zeta
        second[:-1, :-1] += count * covariance
        if self.noise == "spherical":
            return statistics(cross, second, np.asarray(squares.sum()), np.asarray(count * x.shape[1]))
        return statistics(cross[:, None, :], shown[:, None, None] * second, squares, count * shown)

    def log_base_measure(self, data: Data) -> float:
        """-ln(2 pi) / 2 for each entry that is not missing."""
        return -0.5 * float((~np.isnan(data)).sum()) * LOG_2PI

    def representation(self, data: Data) -> np.ndarray:
        """Rows for a kernel over data, missing entries at their columns' means."""
        return np.asarray(np.where(np.isnan(data), np.nanmean(data, axis=0), data))

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """Regressions on principal components ('k-means++'), or on noise ('random'), as factors.

        Each component is of the rows nearest to one of K centres. What is missing counts here as the mean of
        its column.
        """
        filled = np.where(np.isnan(data), 0.0, data - self.origin)
        nearest, k = np.zeros(len(filled), int), self.mixing.n_components
        if k > 1:
            scaled = filled / spread(filled)
            centres = starting_centres(scaled[sample_rows(len(scaled), rng)], k, how, rng)
            nearest = scipy.spatial.distance.cdist(scaled, centres, "sqeuclidean").argmin(1)
        found = _stacked([self.starting_sums(filled[nearest == j], how, rng) for j in range(k)])
        columns = self.prior["columns"]
        proper = columns.family if isinstance(columns, Flat) else columns
        factors = {"columns": proper.from_natural(add(proper.natural, found))}
        weights = self.mixing.start(np.bincount(nearest, minlength=k).astype(float))
        return Product(factors if weights is None else {"weights": weights, **factors})

    def local_step(self, q: FamilyOrPoint, rows: Data, weights: Array | None = None) -> LocalStep:
        """Components and factors of ``rows``, and the sums of their regressions."""
        part = np.ones(len(rows)) if weights is None else np.asarray(to_numpy(weights), float)

        def of_pattern(one: _Pass) -> Values:
            level = logsumexp(one.joint, axis=1)
            r = part[one.members, None] * np.exp(one.joint - level[:, None])
            sums = [
                self.sums(one.rows, one.shown, *factors, r[:, k]) for k, factors in enumerate(one.factors)
            ]
            weights = self.mixing.statistics(None, r.sum(0))
            return (part[one.members] @ level, *weights, *_stacked(sums))

        bound, *found = total(of_pattern(one) for one in self._passes(q, rows))
        return LocalStep(tuple(found), float(bound))

    def _passes(self, q: Any, x: np.ndarray) -> Iterator[_Pass]:
        columns, log_weights = expectations(q["columns"]), self.mixing.log_weights(q.factors.get("weights"))
        each = [RegressionExpectations(*(part[k] for part in columns)) for k in range(len(log_weights))]
        for index, rows, shown in patterns(x - self.origin):
            found = [self.factors(expected, rows, shown) for expected in each]
            joint = log_weights + np.column_stack([bounds for *_, bounds in found])
            yield _Pass(index, rows, shown, [(mean, covariance) for mean, covariance, _ in found], joint)

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
        scores = np.empty((len(x), self.mixing.n_components, self.n_factors))
        for one in self._passes(q, x):
            scores[one.members] = np.stack([mean for mean, _ in one.factors], axis=1)
        return scores

    def expected_weights(self, q: Any) -> np.ndarray:
        """E pi under ``q``, (K,)."""
        return expected_weights(self.mixing, q.factors.get("weights"))

    def parameters(self, q: Any) -> dict[str, np.ndarray]:
        """Weights (K,), loadings (K, D, Q), centre (K, D) and noise variances (K, D) at q's means."""
        coefficients, variances = estimates(q["columns"])
        if self.noise == "diagonal":
            coefficients = coefficients[..., 0, :]
        else:
            variances = np.broadcast_to(variances[..., None], coefficients.shape[:-1]).copy()
        found = coefficients[..., :-1], self.origin + coefficients[..., -1], variances
        return {"weights": self.expected_weights(q), **dict(zip(PARAMETERS, found, strict=True))}

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(X | theta), nats, s, z and missing entries integrated out; theta as `parameters` has it."""
        x = self.check(data)
        each = zip(*(np.asarray(theta[key], float) for key in PARAMETERS), strict=True)
        table = np.column_stack([log_densities(x, *of_one) for of_one in each])
        return float(logsumexp(table, axis=1, b=np.asarray(theta["weights"])).sum())


class FactorAnalysis(MixtureOfFactorAnalysers):
    """Factor analysis with Q factors of D columns, the mixture of one component; data (N, D).

    Parameters
    ----------
    n_factors : Q >= 1
    noise : 'diagonal', a variance for each column (factor analysis), or 'spherical' (probabilistic principal
        components)
    prior : of each column's regression on the factors, see `RegressionPrior`: loadings, centre and noise
        variance. Its scale is (D,) or a number
    """

    def __init__(self, n_factors: int, noise: str = "diagonal", *, prior: RegressionPrior = DEFAULT) -> None:
        super().__init__(1, n_factors, noise, prior=prior)
        self.mixing = UniformWeights(1)

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(X | theta), nats, z and missing entries integrated out; theta as `parameters` has it."""
        one = {name: np.asarray(theta[name])[None] for name in PARAMETERS}
        return super().log_likelihood(data, {"weights": np.ones(1), **one})

    def parameters(self, q: Product) -> dict[str, np.ndarray]:
        """Loadings (D, Q), centre (D,) and noise variances (D,) at the mean of ``q``, or at its point."""
        found = super().parameters(q)
        return {name: found[name][0] for name in PARAMETERS}

    def transform(self, q: FamilyOrPoint, data: Data) -> np.ndarray:
        """E[z_n] under ``q``, (N, Q)."""
        return np.asarray(super().transform(q, data)[:, 0])


def _stacked(sums: list[Values]) -> Values:
    """Of K components, (K, ...)."""
    return tuple(np.stack(parts) for parts in zip(*sums, strict=True))
