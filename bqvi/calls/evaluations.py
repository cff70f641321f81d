"""The record of n evaluations of the user's function that all engines use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from bqvi.calls.by_products import Products, chosen, joined


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
            by_products=chosen(self.by_products, index.tolist()),
            gradient_noise_variance=_rows(self.gradient_noise_variance, index),
        )

    def joined(self, more: Evaluations) -> Evaluations:
        """These rows followed by those of ``more``, with NaN for a gradient or noise that one lacks."""
        first = self._like(more)
        second = more._like(first)
        return Evaluations(
            np.concatenate([self.points, more.points]),
            np.concatenate([first.values, second.values]),
            _joined(first.gradients, second.gradients),
            _joined(first.noise_variance, second.noise_variance),
            np.concatenate([self.failed, more.failed]),
            self.reasons + more.reasons,
            self.n_evaluations + more.n_evaluations,
            joined(self.by_products, len(self), more.by_products, len(more)),
            _joined(first.gradient_noise_variance, second.gradient_noise_variance),
        )

    def _like(self, other: Evaluations) -> Evaluations:
        """These rows with all arrays that ``other`` has; an empty record takes its shapes."""
        n = len(self)
        values = self.values if n else np.zeros((0, *other.values.shape[1:]))
        gradients, noise = self.gradients, self.noise_variance
        if (gradients is None or not n) and other.gradients is not None:
            gradients = np.full((n, *other.gradients.shape[1:]), np.nan)
        if noise is None and other.noise_variance is not None:
            noise = np.full(n, np.nan)
        slopes_noise = self.gradient_noise_variance
        if slopes_noise is None and other.gradient_noise_variance is not None:
            slopes_noise = np.full(self.points.shape, np.nan)
        if not len(other):
            gradients, noise, slopes_noise = self.gradients, self.noise_variance, self.gradient_noise_variance
        return Evaluations(
            self.points,
            values,
            gradients,
            noise,
            self.failed,
            self.reasons,
            gradient_noise_variance=slopes_noise,
        )


def _rows(array: np.ndarray | None, index: np.ndarray) -> np.ndarray | None:
    return None if array is None else array[index]


def _joined(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    if a is None or b is None:
        return b if a is None else a
    return np.concatenate([a, b])
