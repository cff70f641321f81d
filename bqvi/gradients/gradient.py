"""The contract of an estimator: (model, q, mini-batch, rng) -> gradient of a bound in q's parameters.

A gradient is of one of two kinds; geometries accept both:

- *natural*: dL/dmu, the gradient in the mean parameters, which is the natural gradient in eta. Exact
  methods for conjugate models return eta* - eta (thesis Eq. 4.12).
- *unconstrained*: dL/du in q's coordinates without constraints. Black-box estimators differentiate
  sampled values there.

An estimator usually sums its mini-batch with weights, without an array of each datum's gradient. Where a
batch has a `Combination`, the estimator computes the terms of each row, the strategy combines them, and the
loop then passes them to the strategy's ``observe``. A model chooses the terms, whose sum has to determine
the gradient:

    exact expectations     statistics of the local step; combined sums are projected onto what data can give
    pathwise               d ln p(x_n | theta) / du, averaged over the draws of theta of this step

An estimator may keep its evaluations, because the log joint stays the same while q moves. It then has a
`start`, receives the memory of the step before, and returns a new memory in its gradient, of arrays and
numbers. When a step that failed is repeated it uses the evaluations in the ledger of the batch's account
instead of calls, and those that it does not use are added to the memory (`with_evaluations`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from bqvi.arrays import Values
from bqvi.calls import Account
from bqvi.families.family import FamilyOrPoint
from bqvi.models.contracts import LocalStep
from bqvi.models.data import Data
from gp.arrays import Array

if TYPE_CHECKING:
    from bqvi.gradients.whitened import WhitenedSurrogate


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


@dataclass(frozen=True)
class Anchor:
    """A point at which the sum of the log likelihood over all data is known, with its slope.

    A mini-batch estimates the sum of the remainders of a first-order expansion there (Baker et al. 2019),

        sum_n l_n(theta)  ~  value + (theta - place)^T slope + sum_i w_i (l_i(theta) - l_i(place)
                             - (theta - place)^T grad l_i(place)),

    whose variance is of fourth order in the distance, by a second evaluation of its terms. The estimate is
    unbiased wherever the anchor is.
    """

    place: np.ndarray
    """(D,)."""
    value: float
    """The log likelihood of all data."""
    slope: np.ndarray
    """Its gradient, (D,)."""


@dataclass(frozen=True)
class Batch:
    """The data of one step of an estimator."""

    rows: Data
    """S rows of the data; all N of them for a full-batch method."""
    size: int
    """S."""
    weights: Array | None = None
    """(S,); None means all ones: the rows are all the data."""
    combination: Combination | None = None
    """The strategy's sum of the rows' gradients, for a strategy that uses them one by one."""
    account: Account = field(default_factory=Account)
    """The budget of the step, and the ledger of its evaluations."""
    anchor: Anchor | None = None
    """What is known of the sum over all data; None for nothing."""
    corrections: Callable[[np.ndarray], np.ndarray] | None = None
    """The finite population corrections of weights, of a strategy whose probabilities are known."""


@dataclass(frozen=True)
class Gradient:
    """A gradient, and the evaluations that it took."""

    values: Values
    """One array for each array of q's parameters."""
    natural: bool
    """True: dL/dmu; False: dL/du."""
    n_evaluations: int
    """Per-datum evaluations spent; for a model without data, of the log joint."""
    samples: int = 0
    """Draws of theta spent."""
    bound: float | None = None
    """The estimator's own value of the bound it ascends, less ln h of the data; None if it has none."""
    elbo: float | None = None
    """An estimate of the ELBO from this step's draws, less ln h of the data, if it is not ``bound``."""
    local: LocalStep | None = None
    """The local step at q over all data, if one was made; the exact ELBO follows from it."""
    memory: Any = None
    """The memory of a `RememberingEstimator` for the next step."""
    standard_error: Values | None = None
    """The standard error of each entry of ``values``, with ``errors=True``: that of Monte Carlo, or the
    standard deviation of Bayesian quadrature; infinite where no evaluation has succeeded. On a mini-batch it
    contains the sampling of the data, and is None where that is not known."""
    covariance: np.ndarray | None = None
    """Posterior covariance between the entries of ``values``, one array after the other, (P, P), with
    ``errors=True``, for estimators that have one."""
    surrogate: WhitenedSurrogate | None = None
    """A model of the log joint's gradient in units whitened by q, where the estimator has one."""
    end: Values | None = None
    """The natural parameters to which ``values`` lead from q, if they are a difference to those. The end of a
    step of 1 is then exact where a small parameter is lost in the sum of q's and the difference."""


@runtime_checkable
class Estimator(Protocol):
    """An estimator of the gradient; a frozen record of settings."""

    @property
    def samples(self) -> int:
        """L, draws of theta a step; 0 for exact expectations."""

    def __call__(self, model: Any, q: Any, batch: Batch, rng: np.random.Generator) -> Gradient:
        """The gradient at q."""


@runtime_checkable
class RememberingEstimator(Estimator, Protocol):
    """An estimator that keeps its evaluations from step to step."""

    def start(self, model: Any, q: Any) -> Any:
        """The memory before a run of ``model`` from ``q``: a record of arrays, or None.

        Where evaluations of a failed step are to be kept, it has a method ``with_evaluations(found)``.
        """

    def __call__(
        self, model: Any, q: Any, batch: Batch, rng: np.random.Generator, memory: Any = None
    ) -> Gradient:
        """The gradient at q, given the memory of the step before; without one, of this step alone."""
