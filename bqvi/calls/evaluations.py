"""The record of n evaluations of the user's function that all engines use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from bqvi.calls.cliffs import below_a_cliff

Products = tuple[Mapping[str, Any] | None, ...]
"""The by-products of each row, which are numbers, text and arrays that the log joint returned after its
value; None where a row has none, and () where no row has any."""


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Rows of points, values, gradients, noise and failures; NumPy arrays in float64 on the host.

    Attributes
    ----------
    points : the points (n, D), in the order in which they were requested.
    values : the values (n,), or (n, o) for a function of o outputs. A failed row has -inf for a log density,
        NaN for another function.
    gradients : the gradients (n, D) or (n, o, D), or None; a row is NaN where the function or its gradient
        failed.
    noise_variance : the variances (n,) of the values' noise, or None; NaN where it is not known, or the
        function failed.
    failed : which rows have no usable value, (n,) bool.
    reasons : for each row why it failed, or "".
    n_evaluations : the number of points at which the function was called to get these rows, more than n
        where a batch that failed was called again point by point.
    by_products : for each row the dict that was returned with the value, or None; () where there is none.
    gradient_noise_variance : the variances (n, D) of the noise of the gradients, or None where they are
        exact.
    """

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray | None
    noise_variance: np.ndarray | None
    failed: np.ndarray
    reasons: tuple[str, ...]
    n_evaluations: int = -1
    by_products: Products = ()
    gradient_noise_variance: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.n_evaluations < 0:
            object.__setattr__(self, "n_evaluations", len(self.points))

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        failed = f", {self.failed.sum()} of them failed" if self.failed.any() else ""
        return f"Evaluations({len(self)} points in {self.points.shape[-1]} dimensions{failed})"

    @classmethod
    def none(cls, dimension: int) -> Self:
        """An empty record for points (0, D), D being ``dimension``."""
        return cls(np.zeros((0, dimension)), np.zeros(0), None, None, np.zeros(0, bool), ())

    @cached_property
    def good(self) -> np.ndarray:
        """Which rows have a usable value, and a usable gradient where there are gradients, (n,) bool."""
        found: np.ndarray = ~self.failed
        if self.gradients is not None:
            found &= np.isfinite(self.gradients).all(axis=tuple(range(1, self.gradients.ndim)))
        return found

    @cached_property
    def censored(self) -> Evaluations:
        """Those of a log density, with rows below a cliff (:mod:`cliffs`) as failed ones, for a surrogate.

        Which rows these are depends on all others, so that the table itself has the values as returned.
        """
        rows = np.flatnonzero(~self.failed)
        gradients, noise = _rows(self.gradients, rows), _rows(self.noise_variance, rows)
        rows = rows[below_a_cliff(self.points[rows], self.values[rows], gradients, noise)]
        if not len(rows):
            return self
        failed, reasons = self.failed.copy(), list(self.reasons)
        failed[rows] = True
        for i in rows:
            reasons[i] = f"returned {self.values[i]:.6g}, below a cliff"
        noise, gradients = self.noise_variance, self.gradients
        return replace(
            self,
            values=np.where(failed, -np.inf, self.values),
            gradients=None if gradients is None else np.where(failed[:, None], np.nan, gradients),
            noise_variance=None if noise is None else np.where(failed, np.nan, noise),
            failed=failed,
            reasons=tuple(reasons),
        )

    def __getitem__(self, rows: slice | np.ndarray | list[int]) -> Evaluations:
        """The evaluations ``rows``: a slice, indices, or n booleans; each counted as one evaluation."""
        index = np.arange(len(self))[rows]
        return Evaluations(
            self.points[index],
            self.values[index],
            _rows(self.gradients, index),
            _rows(self.noise_variance, index),
            self.failed[index],
            tuple(self.reasons[i] for i in index),
            by_products=tuple(self.by_products[i] for i in index) if self.by_products else (),
            gradient_noise_variance=_rows(self.gradient_noise_variance, index),
        )

    def joined(self, more: Evaluations) -> Evaluations:
        """These rows followed by those of ``more``, with NaN for a gradient or noise that one lacks."""
        if not (len(self) and len(more)):  # an empty record has no shapes to be kept
            found = self if len(self) else more
            return replace(found, n_evaluations=self.n_evaluations + more.n_evaluations)
        return Evaluations(
            np.concatenate([self.points, more.points]),
            np.concatenate([self.values, more.values]),
            joined_rows(self.gradients, len(self), more.gradients, len(more)),
            joined_rows(self.noise_variance, len(self), more.noise_variance, len(more)),
            np.concatenate([self.failed, more.failed]),
            self.reasons + more.reasons,
            self.n_evaluations + more.n_evaluations,
            joined_products(self.by_products, len(self), more.by_products, len(more)),
            joined_rows(self.gradient_noise_variance, len(self), more.gradient_noise_variance, len(more)),
        )


def _rows(array: np.ndarray | None, index: np.ndarray) -> np.ndarray | None:
    return None if array is None else array[index]


def joined_rows(a: np.ndarray | None, n: int, b: np.ndarray | None, m: int) -> np.ndarray | None:
    """The n rows of ``a`` followed by the m rows of ``b``, NaN for those of the one that is None."""
    if a is None:
        return None if b is None else np.concatenate([np.full((n, *b.shape[1:]), np.nan), b])
    return np.concatenate([a, np.full((m, *a.shape[1:]), np.nan) if b is None else b])


def joined_products(first: Products, n: int, second: Products, m: int) -> Products:
    """The by-products of n rows, followed by those of m rows.

    Parameters
    ----------
    first, second : the by-products of n and of m rows, () where there are none. n, m : the numbers of rows.
    """
    if not first and not second:
        return ()
    return (first or (None,) * n) + (second or (None,) * m)


def matched(pending: np.ndarray, points: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return for each of the points (n, D) its row in ``pending`` (m, D), and which rows remain, (m,).

    Points are compared to the last digit; of equal rows each is matched once. A point that is not pending
    has the row -1.
    """
    waiting: dict[bytes, list[int]] = {}
    for i, row in enumerate(pending):
        waiting.setdefault(row.tobytes(), []).append(i)
    found = [waiting.get(point.tobytes()) for point in points]
    rows = np.array([equal.pop(0) if equal else -1 for equal in found], dtype=int)
    remaining = np.ones(len(pending), dtype=bool)
    remaining[rows[rows >= 0]] = False
    return rows, remaining


def unstated_noise(variances: np.ndarray) -> tuple[str, ...]:
    """A warning where some values have a noise variance and others have none; () otherwise.

    Parameters
    ----------
    variances : the noise variances (n,) of the values; 0 or NaN where none was stated.
    """
    without = int(np.count_nonzero(~(variances > 0.0)))
    if without in (0, len(variances)):
        return ()
    return (
        f"{without} of {len(variances)} values have no noise sd, while the others have one: they count as "
        "exact. If they are noisy, give noise_sd as a function of theta, from which known evaluations have "
        "their noise too.",
    )


def understated_noise(gain: float, factor: float, stated: float) -> tuple[str, ...]:
    """The reason that values vary by more than their noise, whose sd was ``stated``; () where they do not.

    With the right noise none of 400 runs of `vbmc` gained 4 nats, nor of 162 of `fit` one that converged.

    Parameters
    ----------
    gain : of the log evidence of a surrogate, nats, by noise of ``factor`` times that sd. stated : the sd.
    """
    if not (gain > 4.0 and factor > 1.0):
        return ()
    return (
        f"The values vary by more than their noise: with a standard deviation of {factor * stated:.2g} "
        f"instead of {stated:.2g} the log evidence of the surrogate is {gain:.2g} nats higher. State the "
        'noise as it is, or noise_sd="unknown".',
    )
