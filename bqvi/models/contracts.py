"""The contracts of conditionally conjugate models and of amortised ones, and what all conjugate models share.

A conditionally conjugate model has global variables theta with a conjugate prior p(theta), eta_0 its natural
parameter, and local variables z_n, one for each datum, with (Hoffman et al. 2013; thesis Section 4.2)

    ln p(x_n, z_n | theta) = <s(x_n, z_n), t(theta)> + ln h(x_n).

Mean-field VI with q(theta) in the prior's family then factorises into two steps (thesis Eqs 3.24 to 3.26),

    local    q(z_n) optimal given E[t(theta)];   S = sum_n w_n E_q(z)[s(x_n, z_n)]
    global   eta* = eta_0 + S,   of which the natural gradient is eta* - eta      (Eq. 4.12)

and the ELBO is <S, E[t(theta)]> + H[q(z)], which the local step returns, + sum ln h(x_n) - KL(q || p).

In an amortised model q(z_n) is output of a network (source 002, Section 9.6). Each datum has a latent
variable z_n ~ N(0, I), and q(z_n) = N(m(x_n; omega), diag s(x_n; omega)^2) with the parameters omega of the
encoder. q of a run is a `families.Product` with one factor for each array of parameters: a `families.Point`
where the bound is maximised over it, a diagonal Gaussian where it has a prior. An estimator ascends the bound

    sum_n w_n L_n(omega, theta) - KL(q(theta) || p(theta)),

with L_n one of the bounds on ln p(x_n | theta) of `bqvi.gradients.amortised`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

import numpy as np

from bqvi.arrays import Values, add
from bqvi.families import DiagonalGaussian, ExponentialFamily, Product
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


@runtime_checkable
class AmortisedModel(Protocol):
    """A model with an encoder and a decoder, in torch."""

    @property
    def beta(self) -> float:
        """The weight of KL(q(z_n) || p(z_n)) in the bound; 1 for a bound on the evidence."""

    @property
    def one_theta(self) -> bool:
        """Whether all draws of z in a call of `conditional_terms` share theta."""

    @property
    def reference(self) -> Array:
        """An empty tensor with the dtype and device to compute in."""

    def check(self, data: Data) -> Data:
        """``data`` in the form the model works with; ValueError names what is wrong with it."""

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """A starting q; 'random' draws the networks' parameters anew by numbers of ``rng``."""

    def rows(self, data: Data) -> Array:
        """Rows of ``data``, (S, ...), as a tensor to compute with."""

    def local_posterior(self, q: Product, rows: Array) -> DiagonalGaussian:
        """q(z_n) of tensor ``rows`` (S, ...), a batch of S Gaussians over the latent space, given q."""

    def conditional_terms(self, q: Product, z: Array, rows: Array, rng: np.random.Generator) -> Array:
        """Values ln p(x_n | z_ln, theta), (L, S), at z (L, S, latent) of ``rows``.

        Weights theta with a prior are drawn from ``q`` by numbers of ``rng``.
        """

    def global_kl(self, q: Product) -> Array:
        """KL(q(theta) || p(theta)), nats; 0 where theta has no prior."""


def is_amortised(model: object) -> TypeGuard[AmortisedModel]:
    """Whether ``model`` is an `AmortisedModel`, in less time than a check of the protocol takes."""
    return hasattr(model, "local_posterior")
