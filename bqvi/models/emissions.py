"""Components of a mixture as emissions of a hidden Markov model: state k emits what component k generates.

Values are in the layout of the recursions (`sequences.SequenceLayout`), arrays (c, C, D). Where a value is
missing, or a piece has ended, all states have likelihood 1, and the statistics are zero. In a row with NaN in
some columns these columns are integrated out.

Components are affine in statistics T(x). T and a column of ones are stored once (`_Table`); an iteration is
then one matrix product for the log likelihoods and one for the sums,

    ln p(x_t | z_t = k) = w_k . (T(x_t), 1) + ln h(x_t),        sum_t r_tk (T(x_t), 1).

Where rows repeat, as symbols and small counts do, both are computed for the distinct rows (`_Distinct`). So
are those of rows with missing columns (`mixture`), by a product for each pattern of columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from bqvi.arrays import Values
from bqvi.models.components import Components
from bqvi.models.data import has_missing
from bqvi.models.forward_backward import FLOOR
from bqvi.models.mixture import ExpectedLogJoint, lifted
from gp.checks import require_each

_SAMPLE, _REPEATED = 1000, 0.25
"""Rows repeat where no more than this share of so many first rows are distinct."""


@dataclass(frozen=True)
class Likelihoods:
    """p(x_t | z_t), relative to the largest of each time."""

    relative: np.ndarray
    """(c, K, C), at least exp(`forward_backward.FLOOR`)."""
    log_largest: np.ndarray
    """(C,), what they are relative to, summed over each piece."""
    floored: np.ndarray
    """Where they had to be raised to the floor, in the shape of ``visits``, or of ones."""

    @classmethod
    def of(cls, logs: np.ndarray, axis: int) -> Likelihoods:
        """Of ``logs`` with states on an ``axis``, which are overwritten; ``log_largest`` is not summed."""
        top = logs.max(axis=axis, keepdims=True)
        logs -= top
        floored = logs < FLOOR
        if not floored.any():
            floored = np.zeros((1,) * logs.ndim, bool)
        np.maximum(logs, FLOOR, out=logs)
        return cls(np.exp(logs, out=logs), top.squeeze(axis), floored)


@dataclass(frozen=True)
class _Table:
    """T of the values, about the components' centre, and ones."""

    table: np.ndarray
    """(c, P + 1, C)."""

    def logarithms(self, joint: ExpectedLogJoint) -> np.ndarray:
        """The expected log likelihood without ln h, (c, K, C)."""
        affine = joint.affine()
        return np.asarray(np.column_stack([affine.slope, affine.offset]) @ self.table)

    def likelihoods(self, joint: ExpectedLogJoint) -> Likelihoods:
        """Its exponential."""
        found = Likelihoods.of(self.logarithms(joint), 1)
        return replace(found, log_largest=found.log_largest.sum(axis=0))

    def visits(self, posterior: np.ndarray) -> np.ndarray:
        """The sums of a ``posterior`` (c, K, C) from which `statistics` are made."""
        return posterior

    def statistics(self, joint: ExpectedLogJoint, visits: np.ndarray) -> Values:
        """The contribution of the values and their ``visits`` to the prior's natural parameters."""
        sums = np.matmul(visits, self.table.transpose(0, 2, 1)).sum(axis=0)
        return joint.components.statistics(sums[:, -1], sums[:, :-1])


@dataclass(frozen=True)
class _Distinct:
    """The distinct values, and where they are; methods as of `_Table`."""

    rows: np.ndarray
    """The rows (n, D) that are not missing throughout."""
    which: np.ndarray
    """(c, C), the row at each place; n where there is none."""

    def _each(self, joint: ExpectedLogJoint) -> np.ndarray:
        """(K, n + 1), the last column of zeros."""
        logs = joint.rho(self.rows).T
        return np.column_stack([logs, np.zeros(len(logs))])

    def _placed(self, each: np.ndarray) -> np.ndarray:
        return np.take(each, self.which, axis=1).transpose(1, 0, 2)

    def logarithms(self, joint: ExpectedLogJoint) -> np.ndarray:
        return self._placed(self._each(joint))

    def likelihoods(self, joint: ExpectedLogJoint) -> Likelihoods:
        found = Likelihoods.of(self._each(joint), 0)
        return Likelihoods(
            self._placed(found.relative), np.take(found.log_largest, self.which).sum(axis=0), found.floored
        )

    def visits(self, posterior: np.ndarray) -> np.ndarray:
        flat, size = self.which.ravel(), len(self.rows) + 1
        states = range(posterior.shape[1])
        return np.stack([np.bincount(flat, posterior[:, k].ravel(), size) for k in states])

    def statistics(self, joint: ExpectedLogJoint, visits: np.ndarray) -> Values:
        return joint.statistics(self.rows, visits[:, :-1].T)


Arranged: TypeAlias = _Table | _Distinct
"""Values as the passes over the data take them."""


def arranged(components: Components, values: np.ndarray, shown: np.ndarray) -> Arranged:
    """The ``values`` (c, C, D) for passes with ``components``, where they are ``shown`` (c, C)."""
    seen = shown & ~np.isnan(values).all(axis=-1)
    rows = values[seen]
    first = rows[:_SAMPLE]
    repeated = len(np.unique(first, axis=0)) <= _REPEATED * len(first)
    if repeated or (components.by_pattern and has_missing(rows)):
        distinct, places = np.unique(rows, axis=0, return_inverse=True) if repeated else (rows, None)
        which = np.full(shown.shape, len(distinct))
        which[seen] = np.arange(len(rows)) if places is None else places.ravel()
        return _Distinct(distinct, which)
    flat = values.reshape(-1, values.shape[-1]) - components.centre
    table = lifted(flat, components.lift()).reshape(*shown.shape, -1)
    ones = np.concatenate([np.where(seen[..., None], table, 0.0), seen[..., None]], axis=-1)
    return _Table(np.ascontiguousarray(ones.transpose(0, 2, 1)))


def expected_emissions(components: Components, expected: Any) -> ExpectedLogJoint:
    """The ``expected`` log likelihood of each state, with weights of one."""
    return ExpectedLogJoint(components, expected, np.zeros(len(expected[0])))


def log_base_measures(components: Components, values: np.ndarray) -> np.ndarray:
    """The log base measure ln h of each of the ``values``, (T,), 0 for a missing one."""
    shown, found = known(values), np.zeros(len(values))
    if shown.any():
        found[shown] = components.log_base_measure(values[shown])
    return found


def known(values: np.ndarray) -> np.ndarray:
    """Which of the ``values`` (T, ...) are not entirely missing, (T,)."""
    return ~np.isnan(values.reshape(len(values), -1)).all(axis=1)


def finite_or_missing(values: np.ndarray) -> np.ndarray:
    """The ``values``; ValueError where one is infinite, or all are missing."""
    require_each("data", values, ~np.isinf(values), "every entry must be finite, or NaN where missing")
    if np.isnan(values).all():
        raise ValueError("data has no observation: all entries are NaN")
    return values
