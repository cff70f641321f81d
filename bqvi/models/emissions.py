"""The emissions of a hidden Markov model: their contract, symbols, and the components of a mixture.

Values are in the layout of the recursions (`sequences.SequenceLayout`), arrays (c, C) or (c, C, D). Where a
value is missing, or a piece has ended, all states have likelihood 1, and the statistics are zero. In a row
with NaN in some columns these columns are integrated out.

Symbols have a table of V + 1 log probabilities for each state, the last of a missing one. The components of a
mixture are affine in statistics T(x). T and a column of ones are stored once; an iteration is then one matrix
product for the log likelihoods and one for the sums,

    ln p(x_t | z_t = k) = w_k . (T(x_t), 1) + ln h(x_t),        sum_t r_tk (T(x_t), 1),

or, where columns of Gaussians are missing (`mixture`), a product for each pattern of columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from bqvi.arrays import Values
from bqvi.families import Dirichlet
from bqvi.families.family import FamilyOrPoint
from bqvi.models.components import Components, Start, expectations_of
from bqvi.models.conjugate_components import poisson
from bqvi.models.data import has_missing
from bqvi.models.forward_backward import FLOOR
from bqvi.models.gaussian_mixture import gaussian_components
from bqvi.models.mixture import ExpectedLogJoint, lifted
from gp.checks import positive_vector, require_each, require_integer


@dataclass(frozen=True)
class Likelihoods:
    """p(x_t | z_t), relative to the largest of each time."""

    relative: np.ndarray
    """(c, K, C), at least exp(`forward_backward.FLOOR`)."""
    log_largest: np.ndarray
    """(C,), what they are relative to, summed over each piece."""
    floored: np.ndarray
    """Where they had to be raised to the floor, in any shape that ``visits`` has."""


class Emissions(Protocol):
    """A conjugate pair; frozen settings."""

    @property
    def name(self) -> str:
        """The name of the factor of theta with the emissions' parameters."""

    def check(self, values: np.ndarray) -> np.ndarray:
        """The ``values`` (T, ...) in the form that the emissions use, NaN if missing; ValueError if wrong."""

    def for_data(self, values: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """The emissions with settings that depend on checked ``values`` computed; ``weights`` (T,)."""
        return self

    def prior(self, n_states: int) -> Any:
        """p(theta_1, .., theta_K) of K = ``n_states``."""

    def start(self, values: np.ndarray, n_states: int, begin: Start) -> Any:
        """A starting q of K = ``n_states`` from ``values``, as ``begin`` says; its weights are (T,)."""

    def arrange(self, values: np.ndarray, shown: np.ndarray) -> Any:
        """The table for passes over the data, from ``values`` (c, C, ...) where ``shown`` (c, C)."""

    def likelihoods(self, q: Any, arranged: Any) -> Likelihoods:
        """The exponential of the expected log likelihood under ``q`` of ``arranged`` values, without ln h."""
        return _relative(self.logarithms(q, arranged))

    def logarithms(self, q: Any, arranged: Any) -> np.ndarray:
        """The expected log likelihood under ``q`` of ``arranged`` values, without ln h, (c, K, C)."""

    def visits(self, arranged: Any, posterior: np.ndarray) -> np.ndarray:
        """The sums of a ``posterior`` (c, K, C) of ``arranged`` values from which ``statistics`` are made."""
        return posterior

    def statistics(self, q: Any, arranged: Any, visits: np.ndarray) -> Values:
        """The contribution of ``arranged`` values and their ``visits`` to the prior's natural parameters.

        Missing columns have their expectations under ``q``.
        """

    def log_base_measures(self, values: np.ndarray) -> np.ndarray:
        """The log base measure ln h of each of the ``values``, (T,), 0 for a missing one."""

    def logarithms_at(self, theta: np.ndarray, arranged: Any, n_states: int) -> np.ndarray:
        """ln p of ``arranged`` values at the point ``theta`` of K = ``n_states``, without ln h."""


def known_values(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The values that are not entirely missing, and their weights."""
    shown = ~np.isnan(values.reshape(len(values), -1)).all(axis=1)
    return values[shown], np.ones(shown.sum()) if weights is None else weights[shown]


def finite_or_missing(values: np.ndarray) -> np.ndarray:
    """The ``values``; ValueError where one is infinite, or all are missing."""
    require_each("data", values, ~np.isinf(values), "every entry must be finite, or NaN where missing")
    if np.isnan(values).all():
        raise ValueError("data has no observation: all entries are NaN")
    return values


@dataclass(frozen=True)
class CategoricalEmissions(Emissions):
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
        symbol = (values >= 0) & (values < self.n_symbols) & (values == np.floor(values))
        allowed = f"symbols must be whole numbers below n_symbols = {self.n_symbols}, or NaN where missing"
        require_each("data", values, symbol | np.isnan(values), allowed)
        return values

    def prior(self, n_states: int) -> Dirichlet:
        return Dirichlet(np.tile(self.concentration, (n_states, 1)))

    def start(self, values: np.ndarray, n_states: int, begin: Start) -> Dirichlet:
        """The frequencies of all symbols, times noise, for K = ``n_states``."""
        known, part = known_values(values, begin.weights)
        counts = np.bincount(known.astype(np.intp), part, self.n_symbols) / n_states
        noise = begin.rng.standard_exponential((n_states, self.n_symbols))
        return Dirichlet(self.concentration + counts * (0.5 + 0.5 * noise))

    def arrange(self, values: np.ndarray, shown: np.ndarray) -> np.ndarray:
        return np.where(shown & ~np.isnan(values), values, self.n_symbols).astype(np.intp)

    def likelihoods(self, q: FamilyOrPoint, arranged: np.ndarray) -> Likelihoods:
        table = _with_missing(q.expected_statistics[0])
        top = table.max(axis=0)
        relative = np.exp(np.maximum(table - top, FLOOR))
        taken = np.take(relative, arranged, axis=1).transpose(1, 0, 2)
        return Likelihoods(taken, np.take(top, arranged).sum(axis=0), table - top < FLOOR)

    def logarithms(self, q: FamilyOrPoint, arranged: np.ndarray) -> np.ndarray:
        """E ln of each symbol's probability."""
        return np.take(_with_missing(q.expected_statistics[0]), arranged, axis=1).transpose(1, 0, 2)

    def logarithms_at(self, theta: np.ndarray, arranged: np.ndarray, n_states: int) -> np.ndarray:
        log_symbols = np.log(np.maximum(theta, 1e-300))
        return np.take(_with_missing(log_symbols), arranged, axis=1).transpose(1, 0, 2)

    def visits(self, arranged: np.ndarray, posterior: np.ndarray) -> np.ndarray:
        size = self.n_symbols + 1
        flat = arranged.ravel()
        states = range(posterior.shape[1])
        return np.stack([np.bincount(flat, posterior[:, k].ravel(), minlength=size) for k in states])

    def statistics(self, q: FamilyOrPoint, arranged: np.ndarray, visits: np.ndarray) -> Values:
        return (visits[:, :-1],)

    def log_base_measures(self, values: np.ndarray) -> np.ndarray:
        return np.zeros(len(values))


def _with_missing(log_symbols: np.ndarray) -> np.ndarray:
    """(K, V + 1), the last column for a missing symbol; minus infinity counts as -1e30."""
    return np.column_stack([np.maximum(log_symbols, -1e30), np.zeros(len(log_symbols))])


def _one_column(values: np.ndarray) -> np.ndarray:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"data has values of shape {values.shape}; symbols must be (T,)")
    return finite_or_missing(values.astype(float))


@dataclass(frozen=True)
class ComponentEmissions(Emissions):
    """Emissions that are the components of a mixture: state k emits what component k generates.

    Parameters
    ----------
    components : a conjugate pair over rows (T, D), such as `GaussianComponents`
    """

    components: Components

    @property
    def name(self) -> str:
        return self.components.name

    def check(self, values: np.ndarray) -> np.ndarray:
        """The values (T, D), NaN where missing: whole rows, or columns if the components allow it."""
        values = finite_or_missing((values[:, None] if values.ndim == 1 else values).astype(float))
        self.components.check(known_values(values, None)[0])
        return values

    def for_data(self, values: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """With the components' prior settled by ``values`` with ``weights`` (T,)."""
        known, part = known_values(values, weights)
        settled = self.components.for_data(known, None if weights is None else part)
        return self if settled is self.components else replace(self, components=settled)

    def prior(self, n_states: int) -> Any:
        return self.components.prior(n_states)

    def start(self, values: np.ndarray, n_states: int, begin: Start) -> Any:
        """The components' start for K = ``n_states``, without regard to the order of the values."""
        known, part = known_values(values, begin.weights)
        begin = replace(begin, weights=None if begin.weights is None else part)
        return self.components.start(known, n_states, begin)

    def arrange(self, values: np.ndarray, shown: np.ndarray) -> np.ndarray | _IncompleteRows:
        """T of the values, about the components' centre, (c, P + 1, C); or rows with missing columns."""
        seen = shown & ~np.isnan(values).all(axis=-1)
        if self.components.by_pattern and has_missing(rows := values[seen]):
            return _IncompleteRows(rows, seen)
        flat = values.reshape(-1, values.shape[-1]) - self.components.centre
        table = lifted(flat, self.components.lift()).reshape(*shown.shape, -1)
        ones = np.concatenate([np.where(seen[..., None], table, 0.0), seen[..., None]], axis=-1)
        return np.ascontiguousarray(ones.transpose(0, 2, 1))

    def logarithms(self, q: FamilyOrPoint, arranged: np.ndarray | _IncompleteRows) -> np.ndarray:
        """The sums by one product, or by one for each pattern of missing columns."""
        return self._logarithms(self.components.expectations(q), arranged)

    def logarithms_at(
        self, theta: np.ndarray, arranged: np.ndarray | _IncompleteRows, n_states: int
    ) -> np.ndarray:
        return self._logarithms(expectations_of(self.components, theta, n_states), arranged)

    def _logarithms(self, expected: Any, arranged: np.ndarray | _IncompleteRows) -> np.ndarray:
        joint = self._joint(expected)
        if not isinstance(arranged, _IncompleteRows):
            affine = joint.affine()
            return np.asarray(np.column_stack([affine.slope, affine.offset]) @ arranged)
        logs = np.zeros((*arranged.seen.shape, len(joint.log_weights)))
        logs[arranged.seen] = joint.rho(arranged.rows)
        return np.ascontiguousarray(logs.transpose(0, 2, 1))

    def _joint(self, expected: Any) -> ExpectedLogJoint:
        return ExpectedLogJoint(self.components, expected, np.zeros(len(expected[0])))

    def statistics(
        self, q: FamilyOrPoint, arranged: np.ndarray | _IncompleteRows, visits: np.ndarray
    ) -> Values:
        if isinstance(arranged, _IncompleteRows):
            joint = self._joint(self.components.expectations(q))
            return joint.statistics(arranged.rows, visits.transpose(0, 2, 1)[arranged.seen])
        sums = _weighted_sums(visits, arranged)
        return self.components.statistics(sums[:, -1], sums[:, :-1])

    def log_base_measures(self, values: np.ndarray) -> np.ndarray:
        shown, found = ~np.isnan(values).all(axis=1), np.zeros(len(values))
        if shown.any():
            found[shown] = self.components.log_base_measure(values[shown])
        return found


@dataclass(frozen=True)
class _IncompleteRows:
    """Values of which some have missing columns, for components that integrate these out."""

    rows: np.ndarray
    """The rows (n, D) that are not missing throughout."""
    seen: np.ndarray
    """The places (c, C) of these rows."""


def gaussian_emissions(covariance: str | np.ndarray = "full", **prior: Any) -> ComponentEmissions:
    """Gaussian emissions; ``covariance`` and ``prior`` as of `GaussianMixture`."""
    return ComponentEmissions(gaussian_components(covariance, **prior))


def poisson_emissions(shape: float = 1.0, rate: float | np.ndarray | None = None) -> ComponentEmissions:
    """Counts, independent over columns, with rates ~ Gamma(``shape``, ``rate``) as of `poisson`."""
    return ComponentEmissions(poisson(shape, rate))


def _relative(logs: np.ndarray) -> Likelihoods:
    """exp of ``logs`` (c, K, C), which are overwritten, relative to the largest of each time."""
    top = logs.max(axis=1)
    logs -= top[:, None, :]
    floored = logs < FLOOR
    if not floored.any():
        floored = np.zeros((1, 1, 1), bool)
    np.maximum(logs, FLOOR, out=logs)
    return Likelihoods(np.exp(logs, out=logs), top.sum(axis=0), floored)


def _weighted_sums(visits: np.ndarray, arranged: np.ndarray) -> np.ndarray:
    """sum of ``visits`` (c, K, C) times ``arranged`` (c, P, C), (K, P)."""
    return np.asarray(np.matmul(visits, arranged.transpose(0, 2, 1)).sum(axis=0))
