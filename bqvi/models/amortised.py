"""The contract of a model whose local posteriors q(z_n) are output of a network (source 002, Section 9.6).

Each datum has a latent variable z_n ~ N(0, I), and q(z_n) = N(m(x_n; omega), diag s(x_n; omega)^2) with the
parameters omega of the encoder. q of a run is a `families.Product` with one factor for each array of
parameters: a `families.Point` where the bound is maximised over it, a diagonal Gaussian where it has a prior.
The bound that an estimator ascends is

    sum_n w_n L_n(omega, theta) - KL(q(theta) || p(theta)),

with L_n one of the bounds on ln p(x_n | theta) of `bqvi.gradients.amortised`.
"""

from __future__ import annotations

from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from bqvi.families import DiagonalGaussian, Product
from bqvi.models.data import Data
from gp.arrays import Array


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
