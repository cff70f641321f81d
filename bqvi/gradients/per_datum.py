"""From per-datum gradients to an estimate of their sum, where a mini-batch strategy uses them.

An estimator usually sums its mini-batch with weights, without an array of each datum's gradient. Where a
batch has a `Combination`, the estimator computes the terms of each row, the strategy combines them, and the
loop then passes them to the strategy's ``observe``. A model chooses the terms, whose sum has to determine
the gradient:

    exact expectations     statistics of the local step; combined sums are projected onto what data can give
    pathwise               d ln p(x_n | theta) / du, averaged over the draws of theta of this step
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from bqvi.families.family import FamilyOrPoint
from bqvi.models.conjugate import LocalStep

if TYPE_CHECKING:
    from bqvi.gradients.gradient import Batch

__all__ = ["Combination", "local_step"]


class Combination:
    """The combination of the terms of one mini-batch by its strategy; it keeps the terms of one step.

    Parameters
    ----------
    combine : a function of terms (S, P) that returns the total (P,)
    limits : the model's limits of totals over the data; None for a model without limits
    """

    def __init__(self, combine: Callable[[np.ndarray], np.ndarray], limits: Any = None) -> None:
        self._combine = combine
        self.limits = limits
        self.terms: np.ndarray | None = None
        self.seconds = 0.0

    def __call__(self, terms: np.ndarray) -> np.ndarray:
        """An estimate (P,) of the sum over all data from ``terms`` (S, P)."""
        self.terms = terms
        began = time.perf_counter()
        total = self._combine(terms)
        self.seconds = time.perf_counter() - began
        return total


def local_step(model: Any, q: FamilyOrPoint, batch: Batch) -> LocalStep:
    """The local step on a mini-batch, summed by its weights or by its strategy.

    Parameters
    ----------
    model : the model. q : the present q. batch : the mini-batch.
    """
    if batch.combination is None:
        return model.local_step(q, batch.rows, batch.weights)
    terms = model.local_terms(q, batch.rows)
    total = batch.combination(terms.statistics)
    bound = float(np.asarray(batch.weights) @ terms.bounds)
    return model.local_total(total, bound, batch.combination.limits)
