"""What the states of a hidden Markov model emit: a likelihood and its conjugate prior.

Values come in the layout of the recursions (`sequences.Layout`), arrays (c, C) or (c, C, D). Where a value
is missing, or a piece has ended, nothing is emitted: all states have likelihood 1, and the statistics are
zero.

    CategoricalEmissions    symbols 0..V-1              Dirichlet
    PoissonEmissions        counts (T,) or (T, D)       gamma, each column with rates of its own
    ComponentEmissions      any `components.Components` of a mixture: Gaussians of all covariances

The last two are affine in statistics T(x): with T and a column of ones stored once, an iteration is a
matrix product for the log likelihoods and one for the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import scipy.special

from bqvi.arrays import Values
from bqvi.checks import positive_vector, require_integer
from bqvi.families import Dirichlet, Gamma
from bqvi.models.compiled import worth_compiling
from bqvi.models.components import Components
from bqvi.models.forward_backward import FLOOR
from bqvi.models.gaussian_mixture import gaussian_components
from bqvi.models.mixture import AffineLogJoint, lifted


@dataclass(frozen=True)
class Likelihoods:
    """p(x_t | z_t), relative to the largest of each time."""

    relative: np.ndarray
    """(c, K, C), at least exp(`FLOOR`)."""
    log_largest: np.ndarray
    """(C,), what they are relative to, summed over each piece."""
    floored: np.ndarray
    """Where they had to be raised to the floor, in any shape that ``visits`` has."""


class Emissions(Protocol):
    """A conjugate pair; frozen settings."""

    @property
    def name(self) -> str:
        """Of the factor of theta that has the emissions' parameters."""

    def check(self, values: np.ndarray) -> np.ndarray:
        """``values`` (T, ...) as the emissions take them, NaN where missing; ValueError where wrong."""

    def for_data(self, values: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """The same emissions, with what they take from checked ``values`` settled; ``weights`` (T,)."""

    def prior(self, n_states: int) -> Any:
        """p(theta_1, .., theta_K) of K = ``n_states``."""

    def start(
        self,
        values: np.ndarray,
        n_states: int,
        how: str,
        rng: np.random.Generator,
        weights: np.ndarray | None = None,
    ) -> Any:
        """A starting q of K = ``n_states`` from ``values`` with ``weights`` (T,).

        ``how`` as in `starts`, ``rng`` for draws.
        """

    def arrange(self, values: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """What passes over the data read, made of ``values`` (c, C, ...) where ``shown`` (c, C)."""

    def likelihoods(self, q: Any, arranged: np.ndarray) -> Likelihoods:
        """exp of the expected log likelihood under ``q`` of values that are ``arranged``, less ln h."""

    def logarithms(self, q: Any, arranged: np.ndarray) -> np.ndarray:
        """The expected log likelihood under ``q`` of values that are ``arranged``, less ln h, (c, K, C)."""

    def visits(self, arranged: np.ndarray, posterior: np.ndarray) -> np.ndarray:
        """What ``statistics`` take of a ``posterior`` (c, K, C) of ``arranged`` values."""

    def statistics(self, arranged: np.ndarray, visits: np.ndarray) -> Values:
        """What ``arranged`` values and their ``visits`` add to the prior's natural parameters."""

    def log_base_measures(self, values: np.ndarray) -> np.ndarray:
        """ln h of each of the ``values``, (T,), 0 of a missing one."""

    def logarithms_at(self, theta: np.ndarray, arranged: np.ndarray, n_states: int) -> np.ndarray:
        """ln p of values that are ``arranged`` at the point ``theta`` of K = ``n_states``, less ln h."""


@dataclass(frozen=True)
class CategoricalEmissions:
    """Symbols 0, .., V - 1.

    Parameters
    ----------
    n_symbols : V >= 1
    concentration : > 0 of the Dirichlet prior of each state, a number or (V,); 1 is flat
    """

    n_symbols: int
    concentration: float | np.ndarray = 1.0
    name = "symbols"

    def __post_init__(self) -> None:
        size = require_integer("n_symbols", self.n_symbols, 1)
        object.__setattr__(self, "concentration", positive_vector("concentration", self.concentration, size))

    def check(self, values: np.ndarray) -> np.ndarray:
        """(T,) whole numbers below V, NaN where missing."""
        values = _one_column(values)
        known = values[~np.isnan(values)]
        bad = known[(known < 0) | (known >= self.n_symbols) | (known != np.floor(known))]
        if len(bad):
            raise ValueError(
                f"data has the symbol {bad[0]:g}; symbols must be whole numbers below n_symbols = "
                f"{self.n_symbols}, or NaN where missing"
            )
        return values

    def for_data(self, values: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Nothing is taken from data."""
        del values, weights
        return self

    def prior(self, n_states: int) -> Dirichlet:
        """Dir(concentration) of each state."""
        return Dirichlet(np.tile(self.concentration, (n_states, 1)))

    def start(
        self,
        values: np.ndarray,
        n_states: int,
        how: str,
        rng: np.random.Generator,
        weights: np.ndarray | None = None,
    ) -> Dirichlet:
        """The frequencies of all symbols, times noise, for K = ``n_states``."""
        del how
        known, part = _known(values, weights)
        counts = np.bincount(known.astype(np.intp), part, self.n_symbols) / n_states
        noise = rng.standard_exponential((n_states, self.n_symbols))
        return Dirichlet(self.concentration + counts * (0.5 + 0.5 * noise))

    def arrange(self, values: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Symbols (c, C) as integers, V for a missing one."""
        return np.where(shown & ~np.isnan(values), values, self.n_symbols).astype(np.intp)

    def likelihoods(self, q: Any, arranged: np.ndarray) -> Likelihoods:
        """From a table of V + 1 symbols."""
        table = _with_missing(q.expected_statistics[0])
        top = table.max(axis=0)
        relative = np.exp(np.maximum(table - top, FLOOR))
        taken = _taken(relative, arranged)
        return Likelihoods(taken, np.take(top, arranged).sum(axis=0), table - top < FLOOR)

    def logarithms(self, q: Any, arranged: np.ndarray) -> np.ndarray:
        """E ln of each symbol's probability."""
        return np.take(_with_missing(q.expected_statistics[0]), arranged, axis=1).transpose(1, 0, 2)

    def logarithms_at(self, theta: np.ndarray, arranged: np.ndarray, n_states: int) -> np.ndarray:
        """Of probabilities (K, V)."""
        del n_states
        log_symbols = np.log(np.maximum(theta, 1e-300))
        return np.take(_with_missing(log_symbols), arranged, axis=1).transpose(1, 0, 2)

    def visits(self, arranged: np.ndarray, posterior: np.ndarray) -> np.ndarray:
        """(K, V + 1), how often each state emitted each symbol."""
        size = self.n_symbols + 1
        if worth_compiling(posterior.size):
            from bqvi.models import compiled_recursions

            counts = np.zeros((size, posterior.shape[1]))
            compiled_recursions.symbol_visits(arranged, posterior, counts)
            return counts.T
        flat = arranged.ravel()
        states = range(posterior.shape[1])
        return np.stack([np.bincount(flat, posterior[:, k].ravel(), minlength=size) for k in states])

    def statistics(self, arranged: np.ndarray, visits: np.ndarray) -> Values:
        """Without the missing ones."""
        del arranged
        return (visits[:, :-1],)

    def log_base_measures(self, values: np.ndarray) -> np.ndarray:
        """0."""
        return np.zeros(len(values))


def _known(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The values that are not missing, and what each counts."""
    shown = ~np.isnan(values.reshape(len(values), -1)).any(axis=1)
    return values[shown], np.ones(shown.sum()) if weights is None else weights[shown]


def _taken(table: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    """What ``table`` (K, V) has for ``symbols`` (c, C), (c, K, C)."""
    out = np.empty((len(symbols), len(table), symbols.shape[1]))
    if not worth_compiling(out.size):
        return np.take(table, symbols, axis=1).transpose(1, 0, 2)
    from bqvi.models import compiled_recursions

    compiled_recursions.symbol_likelihoods(table, symbols, out)
    return out


def _with_missing(log_symbols: np.ndarray) -> np.ndarray:
    """(K, V + 1), the last column for a missing symbol; minus infinity counts as -1e30."""
    return np.column_stack([np.maximum(log_symbols, -1e30), np.zeros(len(log_symbols))])


def _relative(logs: np.ndarray) -> Likelihoods:
    """exp of ``logs`` (c, K, C), which are overwritten, relative to the largest of each time."""
    top = logs.max(axis=1)
    logs -= top[:, None, :]
    floored = logs < FLOOR
    if not floored.any():
        floored = np.zeros((1, 1, 1), bool)
    np.maximum(logs, FLOOR, out=logs)
    return Likelihoods(np.exp(logs, out=logs), top.sum(axis=0), floored)


def _affine_likelihoods(weights: np.ndarray, arranged: np.ndarray) -> Likelihoods:
    """exp of ``weights`` (K, P) times ``arranged`` (c, P, C), relative to the largest of each time."""
    shape = (len(arranged), len(weights), arranged.shape[2])
    if not worth_compiling(math.prod(shape)):
        return _relative(weights @ arranged)
    from bqvi.models import compiled_recursions

    logs, top, floored = np.empty(shape), np.zeros(shape[2]), np.zeros(shape, bool)
    found = compiled_recursions.relative_logarithms(
        np.ascontiguousarray(weights), arranged, FLOOR, logs, top, floored
    )
    return Likelihoods(np.exp(logs, out=logs), top, floored if found else np.zeros((1, 1, 1), bool))


def _weighted_sums(visits: np.ndarray, arranged: np.ndarray) -> np.ndarray:
    """sum of ``visits`` (c, K, C) times ``arranged`` (c, P, C), (K, P)."""
    if not worth_compiling(visits.size):
        return np.asarray(np.matmul(visits, arranged.transpose(0, 2, 1)).sum(axis=0))
    from bqvi.models import compiled_recursions

    sums = np.zeros((visits.shape[1], arranged.shape[1]))
    compiled_recursions.weighted_sums(visits, arranged, sums)
    return sums


@dataclass(frozen=True)
class PoissonEmissions:
    """Counts.

    Parameters
    ----------
    shape, rate : > 0, of the gamma prior of each state's rate; the default prior, 1 and a rate that is
    taken from data,
        is exponential with the data's mean
    columns : D, where it is known before the data
    """

    shape: float = 1.0
    rate: float | np.ndarray | None = None
    columns: int | None = None
    name = "rates"

    def check(self, values: np.ndarray) -> np.ndarray:
        """(T, D) whole nonnegative numbers, rows of NaN where missing."""
        values = _table(values, self.columns)
        known = values[~np.isnan(values).any(axis=1)]
        bad = known[(known < 0.0) | (known != np.floor(known))]
        if len(bad):
            raise ValueError(f"data has a count of {bad[0]:g}; counts must be whole and nonnegative, or NaN")
        return values

    def for_data(self, values: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """With a rate."""
        columns = values.shape[1]
        if self.rate is not None:
            rate = positive_vector("rate", self.rate, columns)
        else:
            known, part = _known(values, weights)
            rate = 1.0 / np.maximum(part @ known / part.sum(), 1e-3)
        return replace(self, rate=rate, columns=columns)

    def prior(self, n_states: int) -> Gamma:
        """Gamma(shape, rate) of each state and column."""
        rate = np.tile(np.asarray(self.rate, float), (n_states, 1))
        return Gamma(np.full(rate.shape, float(self.shape)), rate)

    def start(
        self,
        values: np.ndarray,
        n_states: int,
        how: str,
        rng: np.random.Generator,
        weights: np.ndarray | None = None,
    ) -> Gamma:
        """The rates of K = ``n_states`` windows of the data, in a random order."""
        del how
        known, part = _known(values, weights)
        prior = self.prior(n_states)
        size = max(1, min(len(known) // (2 * n_states), 20))
        odds = part[: len(known) - size + 1] + 1e-300
        where = rng.choice(len(odds), n_states, p=odds / odds.sum())
        means = np.stack([known[i : i + size].mean(axis=0) for i in where])
        share = part.sum() / n_states
        means = means * np.exp(0.1 * rng.standard_normal(means.shape))
        return Gamma(prior.shape + share * means, prior.rate + share)

    def arrange(self, values: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """(c, D + 1, C)."""
        return _with_ones(values, shown)

    def likelihoods(self, q: Any, arranged: np.ndarray) -> Likelihoods:
        """Relative to the largest of each time."""
        return _affine_likelihoods(_rate_weights(*q.expected_statistics), arranged)

    def logarithms(self, q: Any, arranged: np.ndarray) -> np.ndarray:
        """One product."""
        return np.asarray(_rate_weights(*q.expected_statistics) @ arranged)

    def logarithms_at(self, theta: np.ndarray, arranged: np.ndarray, n_states: int) -> np.ndarray:
        """Of rates (K, D)."""
        del n_states
        return np.asarray(_rate_weights(np.log(np.maximum(theta, 1e-300)), -theta) @ arranged)

    def visits(self, arranged: np.ndarray, posterior: np.ndarray) -> np.ndarray:
        """The posterior itself."""
        del arranged
        return posterior

    def statistics(self, arranged: np.ndarray, visits: np.ndarray) -> Values:
        """sum r x, and sum r for each column."""
        sums = _weighted_sums(visits, arranged)
        return sums[:, :-1], np.repeat(sums[:, -1:], sums.shape[1] - 1, axis=1)

    def log_base_measures(self, values: np.ndarray) -> np.ndarray:
        """-sum ln x!."""
        return np.asarray(-np.nan_to_num(scipy.special.gammaln(values + 1.0)).sum(axis=1))


def _rate_weights(log_rates: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """(K, D + 1), of counts and of 1: ln of the rates, and minus their sum."""
    return np.column_stack([np.maximum(log_rates, -1e30), negative.sum(axis=1)])


@dataclass(frozen=True)
class ComponentEmissions:
    """What the components of a mixture are, each state emits.

    Parameters
    ----------
    components : a conjugate pair over rows (T, D), such as `GaussianComponents`
    """

    components: Components

    @property
    def name(self) -> str:
        """As the components'."""
        return self.components.name

    def check(self, values: np.ndarray) -> np.ndarray:
        """(T, D), rows of NaN where missing."""
        values = _table(values, None)
        missing = np.isnan(values).any(axis=1)
        self.components.check(values[~missing])
        return values

    def for_data(self, values: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """With the components' prior settled by ``values`` with ``weights`` (T,).

        Raises
        ------
        ValueError
            Components whose expected log density is about another place than their centre, with products of
            the columns among their statistics: these are taken about the centre once for all iterations.
        """
        known, part = _known(values, weights)
        settled = self.components.for_data(known, None if weights is None else part)
        other = self if settled is self.components else replace(self, components=settled)
        prior = settled.prior(1)
        if settled.lift() is not None and np.any(other._gap(other._affine(getattr(prior, "family", prior)))):
            raise ValueError(
                f"emissions are {type(settled).__name__}, whose `affine` has another shift than their "
                "`centre`; with statistics T(x) besides the datum itself the two must be the same"
            )
        return other

    def prior(self, n_states: int) -> Any:
        """The components'."""
        return self.components.prior(n_states)

    def start(
        self,
        values: np.ndarray,
        n_states: int,
        how: str,
        rng: np.random.Generator,
        weights: np.ndarray | None = None,
    ) -> Any:
        """The components' for K = ``n_states``, as if the values were in no order."""
        known, part = _known(values, weights)
        return self.components.start(known, n_states, how, rng, None if weights is None else part)

    def arrange(self, values: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """T of the values, about the components' centre, (c, P + 1, C)."""
        flat = values.reshape(-1, values.shape[-1]) - self.components.centre
        table = lifted(flat, self.components.lift())
        return _with_ones(table.reshape(*shown.shape, -1), shown)

    def likelihoods(self, q: Any, arranged: np.ndarray) -> Likelihoods:
        """Relative to the largest of each time."""
        return _affine_likelihoods(self._weights(self._affine(q)), arranged)

    def logarithms(self, q: Any, arranged: np.ndarray) -> np.ndarray:
        """One product."""
        return np.asarray(self._weights(self._affine(q)) @ arranged)

    def logarithms_at(self, theta: np.ndarray, arranged: np.ndarray, n_states: int) -> np.ndarray:
        """Of a point of the components' family."""
        affine = self.components.affine_at(theta, np.zeros(n_states))
        return np.asarray(self._weights(affine) @ arranged)

    def visits(self, arranged: np.ndarray, posterior: np.ndarray) -> np.ndarray:
        """The posterior itself."""
        del arranged
        return posterior

    def _affine(self, q: Any) -> AffineLogJoint:
        # of states that share a covariance the family is no batch, and this one zero
        return self.components.affine(q, np.zeros(q.natural[0].shape[0]))

    def _weights(self, affine: AffineLogJoint) -> np.ndarray:
        """(K, P + 1), of T about the components' centre, and of 1."""
        slope, offset = affine.slope, affine.offset + affine.level
        if affine.tilt is not None:
            slope = slope + affine.tilt
        gap = self._gap(affine)
        if np.any(gap):
            offset = offset + slope @ gap
        return np.column_stack([slope, offset])

    def _gap(self, affine: AffineLogJoint) -> np.ndarray:
        return np.asarray(self.components.centre - (0.0 if affine.shift is None else affine.shift))

    def statistics(self, arranged: np.ndarray, visits: np.ndarray) -> Values:
        """As the components'."""
        sums = _weighted_sums(visits, arranged)
        return self.components.statistics(sums[:, -1], sums[:, :-1], self.components.centre)

    def log_base_measures(self, values: np.ndarray) -> np.ndarray:
        """Of the rows that are not missing."""
        shown, found = ~np.isnan(values).any(axis=1), np.zeros(len(values))
        if shown.any():
            found[shown] = self.components.log_base_measure(values[shown])
        return found


def gaussian_emissions(covariance: str | np.ndarray = "full", **prior: Any) -> ComponentEmissions:
    """Gaussian emissions; ``covariance`` and ``prior`` as of `GaussianMixture`."""
    return ComponentEmissions(gaussian_components(covariance, **prior))


def _one_column(values: np.ndarray) -> np.ndarray:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"data has values of shape {values.shape}; symbols must be (T,)")
    return _finite_or_missing(values.astype(float))


def _table(values: np.ndarray, columns: int | None) -> np.ndarray:
    table = values[:, None] if values.ndim == 1 else values
    if columns is not None and table.shape[1] != columns:
        raise ValueError(f"data has {table.shape[1]} columns; the model has {columns}")
    table = _finite_or_missing(table.astype(float))
    missing = np.isnan(table)
    partly = missing.any(axis=1) & ~missing.all(axis=1)
    if partly.any():
        raise ValueError(
            f"data has NaN in some columns of row {int(np.argmax(partly))}; a row must be observed, or NaN "
            "throughout"
        )
    return table


def _finite_or_missing(values: np.ndarray) -> np.ndarray:
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.argwhere(infinite)[0][0])
        raise ValueError(f"data has infinity in row {row}; every entry must be finite, or NaN where missing")
    if np.isnan(values).all():
        raise ValueError("data has no observation: all entries are NaN")
    return values


def _with_ones(table: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """(c, P + 1, C) of T (c, C, P), zeros where nothing is shown or T is missing."""
    seen = shown & ~np.isnan(table).any(axis=-1)
    arranged = np.zeros((table.shape[0], table.shape[2] + 1, table.shape[1]))
    arranged[:, :-1] = np.where(seen[:, None, :], table.transpose(0, 2, 1), 0.0)
    arranged[:, -1] = seen
    return arranged
