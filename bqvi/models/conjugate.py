"""The contract of a conditionally conjugate model, and functions for all such models.

Such a model has global variables theta with a conjugate prior p(theta), eta_0 its natural parameter,
and local variables z_n, one for each datum, with (Hoffman et al. 2013; thesis Section 4.2)

    ln p(x_n, z_n | theta) = <s(x_n, z_n), t(theta)> + ln h(x_n).

Mean-field VI with q(theta) in the prior's family then factorises into two steps (thesis Eqs 3.24 to 3.26),

    local    q(z_n) optimal given E[t(theta)];   S = sum_n w_n E_q(z)[s(x_n, z_n)]
    global   eta* = eta_0 + S,   of which the natural gradient is eta* - eta      (Eq. 4.12)

and the ELBO is <S, E[t(theta)]> + H[q(z)], which the local step returns, + sum ln h(x_n) - KL(q || p).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from bqvi.arrays import Values, add
from bqvi.families import ExponentialFamily
from bqvi.models.data import Data
from gp.arrays import Array

Model = TypeVar("Model")


@dataclass(frozen=True)
class LocalStep:
    """The result of one pass over (weighted) data, for the global variables."""

    statistics: Values
    """S = sum_n w_n E[s(x_n, z_n)], aligned with the prior's natural parameters."""
    bound: float
    """sum_n w_n (<E[s], E[t(theta)]> + H[q(z_n)]), nats, up to a constant of the data that is in
    the model's ``log_base_measure``."""
    local: np.ndarray | None = None
    """The end (S, ...) of an iterative local step, for models that can continue from there."""


@dataclass(frozen=True)
class LocalTerms:
    """The terms of the sums of a local step, row by row."""

    statistics: np.ndarray
    """(S, P), in the model's own order: for each row numbers of which its part of S is linear."""
    bounds: np.ndarray
    """(S,), nats."""


@runtime_checkable
class PerDatumModel(Protocol):
    """A model whose local step is available row by row, for mini-batch strategies that use its terms.

    ``local_total(w @ terms.statistics, w @ terms.bounds, limits)`` is ``local_step(q, rows, w)`` where the
    sums are possible for some data; other sums are projected onto possible ones.
    """

    @property
    def prior(self) -> ExponentialFamily:
        """p(theta)."""

    def local_terms(self, q: Any, rows: Data) -> LocalTerms:
        """Terms of ``rows`` under q(theta)."""

    def term_limits(self, data: Data) -> Any:
        """The range of possible sums over ``data``."""

    def local_total(self, total: np.ndarray, bound: float, limits: Any) -> LocalStep:
        """The local step whose sums are ``total`` (P,) and ``bound``, or the nearest within ``limits``."""


@runtime_checkable
class LocalModel(Protocol):
    """A model with a local step, so that the exact natural gradient is eta_0 + S - eta.

    Every `ConjugateModel` is one. So is a model whose log likelihood terms have exact expectations under q:
    with S_n = dE[ln p(x_n | theta)] / dmu, eta_0 + S - eta is the natural gradient (Khan and Lin 2017),
    although a step of 1 does not maximise the ELBO.
    """

    @property
    def prior(self) -> ExponentialFamily:
        """p(theta)."""

    def local_step(self, q: Any, rows: Data, weights: Array | None = None) -> LocalStep:
        """S, and its bound, of ``rows`` under q(theta), at the optimal q(z); ``weights`` (S,)."""


@runtime_checkable
class ConjugateModel(LocalModel, Protocol):
    """A conditionally conjugate model; see the module's docstring."""

    def check(self, data: Data) -> Data:
        """``data`` in the form the model works with; ValueError names what is wrong with it."""

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Any:
        """A starting q(theta) for ``data`` by numbers of ``rng``; ``how`` is 'k-means++' or 'random'."""

    def log_base_measure(self, data: Data) -> float:
        """sum_n ln h(x_n) over ``data``."""

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(X | theta) of ``data`` X at a point theta, local variables summed out."""


def is_conjugate(model: object) -> bool:
    """Whether ``model`` is a `ConjugateModel`, by two methods: a check of the protocol takes far longer."""
    return hasattr(model, "local_step") and hasattr(model, "log_base_measure")


def settled(model: Model, data: Data) -> Model:
    """The ``model`` with a prior settled by ``data``, if it has ``model.for_data``."""
    return model.for_data(data) if hasattr(model, "for_data") and not isinstance(model, type) else model


def altered(model: Model, **changes: Any) -> Model:
    """A copy of ``model`` with other attributes, whose prior is computed again."""
    other = copy.copy(model)
    other.__dict__.pop("prior", None)
    other.__dict__.update(changes)
    return other


def update_target(model: LocalModel | PerDatumModel, local: LocalStep) -> Values:
    """The natural parameter eta* = eta_0 + S of the optimal q(theta) given q(z)."""
    return add(model.prior.natural, local.statistics)


def elbo(model: ConjugateModel, q: Any, data: Data) -> float:
    """The exact ELBO of q for a model of data, with all its constants, nats (thesis Eq. 3.27)."""
    local = model.local_step(q, data)
    return local.bound + model.log_base_measure(data) - float(q.kl(model.prior))
