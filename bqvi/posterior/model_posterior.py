"""The posterior of a model of another package in the model's own variables, by draws.

A run has the unconstrained parameters of the model. Its variables, such as a simplex of three entries for two
parameters, or a quantity that the model computes, are functions of all of them and have draws, moments and
quantiles, but no density of their own; ``unconstrained`` is the posterior of the run's parameters, with one.

Moments and quantiles are those of the posterior's weighted draws, or of `_DRAWS` points of q of low
discrepancy, whose means have errors of some thousandths of a standard deviation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from bqvi.calls.function import VectorLayout
from bqvi.importance import Proposal
from bqvi.posterior.posterior import Posterior

_DRAWS = 4096
_SHOWN = 12
"""The most entries of variables that are drawn unless they are named."""


@dataclass(frozen=True, eq=False, repr=False)
class ModelPosterior(Posterior):
    """The posterior of a model's variables, whose entries are the parameters of its tables and plots.

    Attributes
    ----------
    shapes : the shape of each variable, by name.
    kept : the entries (m, Q) of the variables at the draws or points, for a posterior without its model.
    """

    shapes: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    kept: np.ndarray | None = None

    @property
    def unconstrained(self) -> Posterior:
        """The posterior of the unconstrained parameters."""
        return Posterior(self.q, self.coordinates, self.draws, self.model)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all Q entries: "s" for a number, "w[0]", "w[1]", ... for an array."""
        return VectorLayout(self.shapes).names

    @property
    def free_names(self) -> tuple[str, ...]:
        """The entries that are drawn: at most the first twelve."""
        return self.names[:_SHOWN]

    @cached_property
    def _table(self) -> np.ndarray:
        """The entries (m, Q) at the weighted draws, or else at points of q."""
        if self.kept is not None:
            return self.kept
        q = Proposal(self.q.weights, self.q.means, self.q.factors)
        points = q.draws(_DRAWS, 0) if self.draws is None else self.draws.points
        return self._entries(self.coordinates.to_user(points))

    def _weighted(self) -> tuple[np.ndarray, np.ndarray]:
        m = len(self._table)
        return self._table, np.full(m, 1.0 / m) if self.draws is None else self.draws.weights

    def _entries(self, theta: np.ndarray) -> np.ndarray:
        """The entries (n, Q) at unconstrained parameters (n, P)."""
        if self.model is None:
            raise ValueError("this posterior was loaded without its model, of which it has draws only")
        named = self.model.constrain(theta)
        return np.concatenate([np.reshape(named[name], (len(theta), -1)) for name in self.shapes], axis=1)

    def recorded(self) -> Self:
        """The posterior with what a file has of it, which are draws of the model's variables."""
        return dataclasses.replace(self, kept=self._table)

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> np.ndarray:
        """``n`` draws (n, Q) of the entries by the ``seed``; without the model, of those in its file."""
        if self.kept is None:
            return self._entries(super().sample(n, seed))
        return self.kept[np.random.default_rng(seed).choice(len(self.kept), n, p=self._weighted()[1])]

    def variables(self, n: int, seed: int | np.random.Generator = 0) -> dict[str, np.ndarray]:
        """``n`` draws by the ``seed`` as arrays (n, ...) by the names of the variables."""
        return VectorLayout(self.shapes).parted(self.sample(n, seed))

    @property
    def mean(self) -> np.ndarray:
        """The means of the entries, (Q,)."""
        rows, weights = self._weighted()
        return weights @ rows

    @property
    def sd(self) -> np.ndarray:
        """Their standard deviations, (Q,); without the covariance, as Q may be large."""
        rows, weights = self._weighted()
        return np.sqrt(weights @ np.square(rows - self.mean))

    def mode(self) -> np.ndarray:
        """The entries (Q,) at the mode of the density of the unconstrained parameters."""
        return self._entries(super().mode()[None])[0]

    @property
    def log_prob(self) -> Any:
        """A density, which variables have not: `unconstrained` has one."""
        raise TypeError("the variables of a model have no density here; `unconstrained` has one")

    marginal_density = to_torch = log_prob


def of_model(posterior: Posterior) -> Posterior:
    """The ``posterior`` in the variables of its model, if these are not its parameters."""
    model = posterior.model
    if model is None or model.to_named is None:
        return posterior
    theta = np.asarray(model.start)[None] + 0.3
    named = {name: np.asarray(x) for name, x in model.constrain(theta).items()}
    shapes = {name: x.shape[1:] for name, x in named.items()}
    found = ModelPosterior(posterior.q, posterior.coordinates, posterior.draws, model, shapes)
    entries = np.concatenate([np.reshape(x, -1) for x in named.values()])
    return posterior if found.names == model.names and np.array_equal(entries, theta[0]) else found
