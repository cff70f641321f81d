"""The contract of all other models: a log joint density of theta in R^D, in torch unless stated otherwise.

    ln p(X, theta) = log_prior(theta) + sum_n log_likelihood_terms(theta)_n,

of which the sum is estimated from a weighted mini-batch. A model without data of its own has the first part
only. q is a Gaussian with full or diagonal covariance.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bqvi.calls import HERE, Coordinates, Function, Run, TargetModel, make_coordinates
from bqvi.calls.coordinates import Bound
from bqvi.calls.function import AUTODIFF, STATED, ByName, by_name
from bqvi.families import Gaussian
from bqvi.families.family import FamilyOrPoint
from bqvi.models.data import Data, as_numbers
from bqvi.priors import BOUNDS, UNIT_QUANTILE, posed
from gp.arrays import Array, as_like, is_torch, shown, to_numpy
from gp.checks import require_integer, require_numbers
from gp.names import needing

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


class LogJoint:
    """A log joint density given as a function; and a function itself, of NumPy arrays or tensors.

    Parameters
    ----------
    log_joint : (L, P) -> (L,), or with ``vectorised=False`` (P,) -> a number; or a function of the parameters
        by name (`bqvi.calls.function`), of arrays (L,), or numbers. It may return (value, deviation) where
        values are noisy, for 'bq'
    dimension : the number P of parameters, where neither bounds nor prior have it
    log_likelihood, prior : both in the place of ``log_joint``: a function as that, and distributions of SciPy
        (frozen) or torch, in a dict by the parameters' names or in a sequence, or alone. A joint one is
        of a vector; in a dict it is called with arrays (k,). Bounds and plausible box are the ends of their
        support and their quantiles at .16 and .84, where none are given. With gradients they are of torch, or
        those of SciPy that torch has, too. Or a function as ``log_joint``, which returns the log density, or
        (such, its gradient) where ``gradient`` is a function
    lower, upper : bounds: (P,), a number, or a dict, which gives the parameters their names and their order;
        infinite or None: no bound. lower == upper fixes a parameter. q is then over the unbounded coordinates
        of the free parameters, and ``Fit.posterior`` over the parameters
    plausible_lower, plausible_upper : likewise, corners of a box that is likely to contain most of the
        posterior, where parameters have fewer than two bounds; two standard deviations to either side of the
        first q's mean are the box
    periodic : names, indices or booleans of periodic parameters, whose period is upper - lower
    vectorised : whether the functions take many points at once
    gradient : "autodiff": torch functions; a function (L, P) -> (L, P), or (P,) -> (P,): functions of NumPy
        arrays; None: values only, from NumPy arrays
    data : N rows, an array or a tuple of arrays with common rows, for mini-batches. ``log_likelihood``, of
        torch, then takes theta (L, P), or with ``vectorised=False`` (P,), and S of the rows as tensors, and
        returns a term for each, (L, S) or (S,); by name it takes them as ``rows``. There are no bounds then
    noise_sd : for 'bq': standard deviation of the noise of values, nats: a number, or a function of theta
    gradient_noise_sd : of the entries of the gradient: a number or (P,), 0 if they are exact. Noise is
        independent from one evaluation to the next

    Attributes
    ----------
    function : what was given, as a `bqvi.calls.Function`
    coordinates : from R^D to theta, where there are bounds or names; else None
    dimension : the number D of free parameters
    run : what makes the calls, as of `bqvi.calls.Caller`
    """

    run: Run = HERE

    def __init__(
        self,
        log_joint: Callable[..., Any] | None = None,
        dimension: int | None = None,
        *,
        log_likelihood: Callable[..., Any] | None = None,
        prior: Any = None,
        lower: Bound = None,
        upper: Bound = None,
        plausible_lower: Bound = None,
        plausible_upper: Bound = None,
        periodic: Any = (),
        vectorised: bool = True,
        gradient: str | Callable[..., Any] | None = "autodiff",
        data: Data = None,
        noise_sd: float | Callable[..., Any] | None = None,
        gradient_noise_sd: float | Sequence[float] | np.ndarray | None = None,
    ) -> None:
        count = None if dimension is None else require_integer("dimension", dimension, 1)
        bounds = dict(zip(BOUNDS, (lower, upper, plausible_lower, plausible_upper), strict=True))
        self.data, self._terms = data, log_likelihood
        if data is not None:
            self.data = _rows_of(data, log_likelihood, gradient, [*bounds.values(), noise_sd])
            log_likelihood, bounds = self._log_likelihood, {"plausible_lower": -1.0, "plausible_upper": 1.0}
        asked = self._asked = posed(log_joint, log_likelihood, prior, gradient, vectorised, bounds)
        if data is not None and any(np.isfinite(asked.usual[end]).any() for end in BOUNDS[:2] if asked.usual):
            raise ValueError("prior has bounds, and data were given: use unbounded parameters, as ln sd is")
        ends, turning = asked.arguments, not isinstance(periodic, tuple | list) or len(periodic) > 0
        if asked.names is None and not turning and all(end is None for end in ends.values()):
            self.coordinates: Coordinates | None = None
            self.dimension = require_integer("dimension", count, 1)
        else:
            made = make_coordinates(**ends, periodic=periodic, names=asked.names, dimension=count)
            self.coordinates, self.dimension = made, made.dimension
        self.vectorised, self.differentiable = vectorised, gradient is not None
        names = () if self.coordinates is None else self.coordinates.names
        if noise_sd is not None:
            STATED("noise_sd", noise_sd)
        noise = _gradient_noise(self, len(names) or self.dimension, noise_sd, gradient_noise_sd)
        self.function = Function(
            asked.value, asked.gradient, vectorised, noise_sd, noise, names=names, range=asked.range
        )

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

    def within(self, coordinates: Coordinates | None, run: Run) -> LogJoint:
        """The same log joint, evaluated as a ``run`` says, in other ``coordinates`` unless these are None."""
        found = copy.copy(self)
        found.run = run
        found.function = replace(found.function, errors=run.errors or "numerical")
        if coordinates is not None:
            found.coordinates, found.dimension = coordinates, coordinates.dimension
            found.function = replace(found.function, names=coordinates.names)
        return found

    def check(self, data: Data) -> Data:
        """The data of a log joint of rows, and None of others, whose function holds its data."""
        if data is not None:
            raise ValueError(
                "data was given to a LogJoint, whose function holds its own; pass data=None, "
                "or give data to the LogJoint, with log_likelihood and prior, to use mini-batches"
            )
        return self.data

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Gaussian:
        """N(0, I), or for 'random' a mean drawn from it.

        With coordinates both at half the scale: the plausible box [-1, 1]^D is then two standard deviations
        to either side. Of a log joint of rows they are in units of the prior.
        """
        found, usual = initial_gaussian(self.dimension, how, rng), self._asked.usual
        if self.data is not None and usual:
            scale = 0.5 * (usual["plausible_upper"] - usual["plausible_lower"]) / UNIT_QUANTILE
            return Gaussian(usual["start"] + scale * np.asarray(found.mean), np.diag(scale**2))
        if self.coordinates is None:
            return found
        return Gaussian(0.5 * np.asarray(found.mean), 0.25 * np.eye(self.dimension))

    def __call__(self, theta: Array, /) -> Array:
        """The log joint at theta (n, P), (n,), or at (P,), a number, of the kind of ``theta``; -inf outside.

        With tensors the values of a log joint in torch can be differentiated.
        """
        in_torch, value = self.function.gradient == AUTODIFF, self.function.value
        if in_torch:
            with needing():
                import torch
            if not is_torch(theta):
                return self(torch.as_tensor(np.asarray(theta, float))).detach().numpy()
        if theta.ndim == 1:
            return self(theta[None])[0]
        inside: Any = ... if self.coordinates is None else self.coordinates.inside(to_numpy(theta)).all(1)
        points = (theta if in_torch else to_numpy(theta).copy())[inside]  # a function may work in place
        found: Any = value(points) if self.vectorised else [value(point) for point in points]
        if not in_torch:
            values = np.full(len(theta), -np.inf)
            values[inside] = np.reshape(np.asarray(found, float), -1)
            return as_like(values, theta)
        found = found if self.vectorised else torch.stack([torch.as_tensor(x).reshape(()) for x in found])
        if inside is ...:
            return found
        return theta.new_full((len(theta),), -np.inf).masked_scatter(torch.as_tensor(inside), found)

    def log_prior(self, theta: Array) -> Array:
        """The whole log joint, or of one of rows the prior, (L, D) -> (L,), in torch's graph."""
        if self.data is not None:
            return self._asked.prior.log_density(theta)
        if self.coordinates is not None:
            raise TypeError("the log joint has bounds, and only methods of bqvi.fit take it so")
        return self(theta)

    def _log_likelihood(self, theta: Array, /) -> Array:
        terms = self.log_likelihood_terms(theta.reshape(-1, theta.shape[-1]), self.data)
        return terms.sum(-1).reshape(theta.shape[:-1])

    def log_likelihood_terms(self, theta: Array, rows: Data) -> Array:
        """The terms of rows, (L, S); (L, 0) of a log joint without data."""
        if self.data is None:
            return theta.new_zeros((theta.shape[0], 0))
        import torch

        terms: Any = self._terms
        named = by_name(partial(terms, rows=None), self._asked.names or ())  # errors print all of a partial
        own = ByName(partial(terms, rows=rows), named.layout) if isinstance(named, ByName) else None
        called: Any = own or (lambda point: terms(point, rows))
        return called(theta) if self.vectorised else torch.stack([called(point) for point in theta])


def _rows_of(data: Data, log_likelihood: object, gradient: object, others: Sequence[Any]) -> Data:
    """The ``data`` as tensors; arrays of floating-point numbers in float64."""
    if not callable(log_likelihood) or gradient != AUTODIFF or any(one is not None for one in others):
        raise ValueError(
            "data was given, for log_likelihood, a function of torch, and a prior: without bounds or noise"
        )
    with needing():
        import torch
    parts = tuple(as_numbers("data", part) for part in (data if isinstance(data, tuple) else (data,)))
    sizes = [len(part) for part in parts]
    if len(set(sizes)) > 1 or not sizes[0]:
        raise ValueError(f"data has parts of {sizes} rows; each must have N >= 1 rows")
    kinds = [torch.float64 if getattr(part.dtype, "kind", None) == "f" else None for part in parts]
    found = tuple(torch.as_tensor(part, dtype=kind) for part, kind in zip(parts, kinds, strict=True))
    return found if isinstance(data, tuple) else found[0]


def _gradient_noise(model: LogJoint, count: int, noise_sd: object, given: Any) -> np.ndarray | None:
    """The standard deviations of a gradient's ``count`` entries, () or (P,); None where it has no noise."""
    if given is not None and not model.differentiable:
        raise ValueError("gradient_noise_sd was given, and the log joint has no gradient; leave it out")
    if model.differentiable and (noise_sd is None) != (given is None):
        one, other = ("noise_sd", "gradient_noise_sd")[:: 1 if given is None else -1]
        raise ValueError(f"{one} was given and {other} was not; with gradients give both, 0 for exact ones")
    sds = None if given is None else require_numbers("gradient_noise_sd", given)
    if sds is not None and not (sds.shape in ((), (count,)) and (np.isfinite(sds) & (sds >= 0.0)).all()):
        raise ValueError(
            f"gradient_noise_sd is {shown(given)}; it must be a number or ({count},), finite and not negative"
        )
    return sds


def initial_gaussian(dimension: int, how: str, rng: np.random.Generator) -> Gaussian:
    """N(0, I), or for 'random' a mean drawn from it."""
    mean = rng.standard_normal(dimension) if how == "random" else np.zeros(dimension)
    return Gaussian.from_natural((mean, -0.5 * np.eye(dimension)))
