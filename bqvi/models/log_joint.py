"""The contract of all other models: a log joint density of theta in R^D, in torch unless stated otherwise.

    ln p(X, theta) = log_prior(theta) + sum_n log_likelihood_terms(theta)_n,

of which the sum is estimated from a weighted mini-batch. A model without data of its own has the first part
only. q is a Gaussian with full or diagonal covariance.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bqvi.calls import HERE, Coordinates, Function, Run, TargetModel
from bqvi.checks import require_integer
from bqvi.families import Gaussian
from bqvi.families.family import FamilyOrPoint
from bqvi.models.data import Data
from gp.arrays import Array, is_torch, shown
from gp.suggestions import suggesting

VALUES_ONLY = (
    "this LogJoint has values only; give it gradient=..., or use a method that needs none: 'bq' or 'score'"
)
"""The message of an error where gradients are needed."""


@runtime_checkable
class LogJointModel(Protocol):
    """A log joint density in torch; theta is (L, D), or a dictionary of draws if q is a product."""

    def check(self, data: Data) -> Data:
        """``data`` in the form the model works with; ValueError names what is wrong with it."""

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Any:
        """A starting q(theta); 'random' scatters it."""

    def log_prior(self, theta: Array) -> Array:
        """(L, D) -> (L,)."""

    def log_likelihood_terms(self, theta: Array, rows: Data) -> Array:
        """(L, D) and S rows -> (L, S)."""


class MovingLogJoint(Protocol):
    """A model over R^D whose log joint depends on q, as a bound with a local step inside does."""

    def at(self, q: FamilyOrPoint) -> LogJointModel:
        """The log joint at q, which sampling estimators differentiate with its dependence on q held fixed."""


def is_moving(model: object) -> bool:
    """Whether ``model`` is a `MovingLogJoint`, in less time than a check of the protocol takes."""
    return callable(getattr(model, "at", None))


@suggesting
class LogJoint:
    """A log joint density given as a function; and a function itself, of NumPy arrays or tensors.

    Parameters
    ----------
    log_prob : (L, D) -> (L,); with ``vectorised=False``, (D,) -> scalar
    dimension : D >= 1
    vectorised : whether ``log_prob``, and ``gradient``, take many points at once
    gradient : "autodiff": ``log_prob`` is a torch function; a function (L, D) -> (L, D), or (D,) -> (D,):
        ``log_prob`` and it work on NumPy arrays; None: values only, ``log_prob`` works on NumPy arrays

    Attributes
    ----------
    function : what was given, as a `bqvi.calls.Function`
    coordinates : from R^D to theta, where the function has bounds (`within`); else None
    run : what makes the calls, as of `bqvi.calls.Caller`
    """

    coordinates: Coordinates | None = None
    run: Run = HERE

    def __init__(
        self,
        log_prob: Callable[[Array], Array],
        dimension: int,
        *,
        vectorised: bool = True,
        gradient: str | Callable[[Array], Array] | None = "autodiff",
    ) -> None:
        if not callable(log_prob):
            raise TypeError(f"log_prob is {shown(log_prob)}; it must be a function of theta")
        self.dimension = require_integer("dimension", dimension, 1)
        self.vectorised = vectorised
        self.differentiable = gradient is not None
        self.function = Function(log_prob, gradient, vectorised=vectorised)
        self._log_prob, self._gradient = log_prob, gradient

    @classmethod
    def of(cls, model: TargetModel) -> LogJoint:
        """The log joint of a ``model`` that `bqvi.adapters` made, in its unconstrained parameters."""
        function = model.function()
        found = cls(function.value, model.dimension, vectorised=model.vectorised, gradient=function.gradient)
        found.function = function
        return found

    @property
    def target(self) -> TargetModel | None:
        """The model of another package whose log joint this is (made by `of`); None for other log joints."""
        return self.function.model

    def with_noise(self, noise_sd: Any, gradient_noise_sd: np.ndarray | None) -> LogJoint:
        """The log joint with a statement of its noise.

        Parameters
        ----------
        noise_sd : the noise of the values, as in `bqvi.calls.Function`.
        gradient_noise_sd : the noise of the gradients, in the same form.
        """
        found = copy.copy(self)
        found.function = replace(self.function, noise_sd=noise_sd, gradient_noise_sd=gradient_noise_sd)
        return found

    def within(self, coordinates: Coordinates | None, run: Run) -> LogJoint:
        """The same log joint in other coordinates, with the log Jacobian added, evaluated in parallel.

        Parameters
        ----------
        coordinates : the map from R^D to the P parameters of ``log_prob``; None for none.
        run : how calls are made in parallel, and errors treated.
        """
        found = copy.copy(self)
        found.coordinates, found.run = coordinates, run
        found.function = replace(found.function, errors=run.errors or "numerical")
        if coordinates is not None:
            found.dimension = coordinates.dimension
            found.function = replace(found.function, names=coordinates.names)
        return found

    def check(self, data: Data) -> Data:
        """None: the function holds its data."""
        if data is not None:
            raise ValueError(
                "data was given to a LogJoint, whose function holds its own; pass data=None, "
                "or write a model with log_likelihood_terms to use mini-batches"
            )

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Gaussian:
        """N(0, I), or for 'random' a mean drawn from it.

        With coordinates both at half the scale: the plausible box [-1, 1]^D is then two standard deviations
        to either side.
        """
        found = initial_gaussian(self.dimension, how, rng)
        if self.coordinates is None:
            return found
        return Gaussian(0.5 * np.asarray(found.mean), 0.25 * np.eye(self.dimension))

    def __call__(self, theta: Array) -> Array:
        """The log joint at theta (n, D), (n,), or at (D,), a number: for doors that take a function.

        Arrays are of the kind of ``theta``; with tensors the values can be differentiated.
        """
        if is_torch(theta):
            return self._values(theta) if theta.ndim == 2 else self._values(theta[None])[0]
        import torch

        return self(torch.as_tensor(np.asarray(theta, float))).detach().numpy()

    def log_prior(self, theta: Array) -> Array:
        """The whole log joint, (L, D) -> (L,), in torch's graph."""
        if self.coordinates is not None:
            raise TypeError("the log joint has bounds, and only methods of bqvi.fit take it so")
        return self._values(theta)

    def _values(self, theta: Array) -> Array:
        import torch

        log_prob: Any = self._log_prob
        if self._gradient != "autodiff":
            from bqvi.models.from_numpy import TorchFunction

            log_prob = TorchFunction(log_prob, self._gradient if callable(self._gradient) else None)
        if self.vectorised:
            return log_prob(theta)
        return torch.stack([torch.as_tensor(log_prob(point)).reshape(()) for point in theta])

    def log_likelihood_terms(self, theta: Array, rows: Data) -> Array:
        """None: (L, 0)."""
        return theta.new_zeros((theta.shape[0], 0))


def initial_gaussian(dimension: int, how: str, rng: np.random.Generator) -> Gaussian:
    """N(0, I), or for 'random' a mean drawn from it."""
    mean = rng.standard_normal(dimension) if how == "random" else np.zeros(dimension)
    return Gaussian(mean, np.eye(dimension))
