"""Linear functionals of f, on which a Gaussian process is conditioned and which it predicts.

    Values(x)                  f(x_i)
    Gradients(x, dimensions)   df/dx_d at x_i, for all dimensions or some

The covariance of two functionals is the kernel with one of them applied to each argument; conditioning uses
these covariances only. :class:`Observations` concatenates several blocks. A further kind of functional is a
class with the methods of :class:`Functional`, whose covariances are registered with
:func:`register_covariance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from gp.arrays import Array, describe, is_torch, namespace, shown, to_numpy
from gp.checks import as_points
from gp.kernels.base import Differentiable, Kernel, differentiable, gradient_covariances
from gp.kernels.composite import spread_columns


@runtime_checkable
class Functional(Protocol):
    """A block of n linear functionals of a function on R^D."""

    @property
    def x(self) -> Array:
        """The points of the functionals; results have the kind, dtype and device of the points."""

    def __len__(self) -> int:
        """Return the number n of functionals."""

    def apply(self, function: Differentiable) -> Array:
        """Return the functionals' values for a known function, (n,)."""

    def variance(self, kernel: Kernel) -> Array:
        """Return their prior variances under the kernel, (n,)."""


@dataclass(frozen=True, eq=False)
class Values:
    """f(x_i) at points x (n, D); ``names`` of its columns are those of a data frame."""

    x: Array
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _settle(self)

    def __len__(self) -> int:
        return int(self.x.shape[0])

    def apply(self, function: Differentiable) -> Array:
        return function(self.x)

    def variance(self, kernel: Kernel) -> Array:
        return kernel.diagonal(self.x)


@dataclass(frozen=True, eq=False)
class Gradients:
    """Partial derivatives df/dx_d at points x (n, D), point by point, n d of them for d dimensions.

    Attributes
    ----------
    x : (n, D)
    dimensions : the d dimensions, counted from 0; ``None`` for all. For different dimensions at different
        points give several blocks.
    names : of the D columns; those of x where it is a data frame.
    """

    x: Array
    dimensions: tuple[int, ...] | None = None
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _settle(self)
        if self.dimensions is None:
            return
        dimensions = tuple(int(d) for d in self.dimensions)
        width = self.x.shape[1]
        if not dimensions or len(set(dimensions)) < len(dimensions):
            raise ValueError(f"dimensions = {self.dimensions!r}: give one or more, each once")
        if min(dimensions) < 0 or max(dimensions) >= width:
            raise ValueError(f"dimensions = {self.dimensions!r}: x has columns 0 to {width - 1}")
        object.__setattr__(self, "dimensions", dimensions)

    def __len__(self) -> int:
        width = self.x.shape[1] if self.dimensions is None else len(self.dimensions)
        return int(self.x.shape[0]) * width

    def take(self, derivatives: Array, axis: int) -> Array:
        """Return the entries of the chosen dimensions along an axis of partial derivatives."""
        if self.dimensions is None:
            return derivatives
        index: list[Any] = [slice(None)] * derivatives.ndim
        index[axis] = list(self.dimensions)
        return derivatives[tuple(index)]

    def spread(self, weights: Array) -> Array:
        """Return weights (n d,) of the chosen derivatives as weights of all, (n, D), with zeros elsewhere."""
        columns = weights.reshape((self.x.shape[0], -1))
        if self.dimensions is None:
            return columns
        return spread_columns(columns, self.dimensions, self.x.shape[1], 1)

    def apply(self, function: Differentiable) -> Array:
        return self.take(function.gradient(self.x), 1).reshape(-1)

    def variance(self, kernel: Kernel) -> Array:
        own = namespace(self.x).linalg.diagonal(gradient_covariances(kernel, self.x))
        return self.take(own, 1).reshape(-1)


def _settle(block: Values | Gradients) -> None:
    """Take the names from points that are a data frame, and check these."""
    if (names := getattr(block.x, "columns", None)) is not None:
        object.__setattr__(block, "names", tuple(map(str, names)))
    object.__setattr__(block, "x", as_points("x", block.x))


Covariance: TypeAlias = Callable[[Kernel, Any, Any], Array]
_COVARIANCES: dict[tuple[type, type], Covariance] = {}


def register_covariance(first: type, second: type, function: Covariance) -> None:
    """Register the covariance of two classes of functionals: ``function(kernel, a, b)`` returns (n, m).

    Parameters
    ----------
    first, second : the classes of a and b. function : computes the covariance.
    """
    _COVARIANCES[first, second] = function
    if first is not second:
        _COVARIANCES[second, first] = lambda kernel, a, b: function(kernel, b, a).T


def covariance(kernel: Kernel, a: Functional, b: Functional) -> Array:
    """Return the prior covariance of two blocks of functionals, (n, m).

    Parameters
    ----------
    kernel : of the process. a, b : the blocks, of n and of m functionals.

    Raises TypeError for a pair of kinds that is not registered.
    """
    if isinstance(a, Observations):
        return _concatenated([covariance(kernel, block, b) for block in a.blocks], 0)
    if isinstance(b, Observations):
        return _concatenated([covariance(kernel, a, block) for block in b.blocks], 1)
    function = _COVARIANCES.get((type(a), type(b)))
    if function is None:
        known = ", ".join(f"{p.__name__} x {q.__name__}" for p, q in _COVARIANCES)
        raise TypeError(
            f"no covariance of {type(a).__name__} and {type(b).__name__} is registered; there is "
            f"{known}. Add one with gp.observations.register_covariance"
        )
    return function(kernel, a, b)


@dataclass(frozen=True, eq=False)
class Observations:
    """Several blocks of functionals, one after the other."""

    blocks: tuple[Functional, ...]

    def __post_init__(self) -> None:
        if not self.blocks:
            raise ValueError("blocks is empty: give at least one block (it may have no points)")
        for a, b in pairwise(self.blocks):
            require_same_space("x of one block", a, "x of another", b)

    @property
    def x(self) -> Array:
        """Points of the first block; with ``Values`` only, all points there are."""
        return self.blocks[0].x

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    def apply(self, function: Differentiable) -> Array:
        return _concatenated([block.apply(function) for block in self.blocks], 0)

    def variance(self, kernel: Kernel) -> Array:
        return _concatenated([block.variance(kernel) for block in self.blocks], 0)

    def with_functional(self, block: Functional) -> Observations:
        """Return these functionals followed by those of ``block``."""
        added = block.blocks if isinstance(block, Observations) else (block,)
        last = self.blocks[-1]
        if isinstance(last, Values) and isinstance(added[0], Values):
            require_same_space("x of one block", last, "x of another", added[0])
            both = Values(_concatenated([last.x, added[0].x], 0), last.names or added[0].names)
            return Observations((*self.blocks[:-1], both, *added[1:]))
        return Observations((*self.blocks, *added))


def blocks_of(observed: Functional) -> tuple[Functional, ...]:
    """Return the blocks of functionals; a single functional is one block."""
    return observed.blocks if isinstance(observed, Observations) else (observed,)


def pieces(observed: Functional) -> Iterator[tuple[Functional, slice]]:
    """Yield the blocks, with where they are among all observations."""
    start = 0
    for block in blocks_of(observed):
        yield block, slice(start, start + len(block))
        start += len(block)


def taken(observed: Functional, rows: Sequence[np.ndarray]) -> tuple[Functional, np.ndarray]:
    """Return values and gradients at some points of each block, ``rows``, and their indices among all."""
    blocks, kept = [], []
    for (block, part), chosen in zip(pieces(observed), rows, strict=True):
        width = len(block) // max(len(block.x), 1)
        blocks.append(replace(block, x=block.x[chosen]))  # type: ignore[type-var]
        kept.append(part.start + (width * chosen[:, None] + np.arange(width)).reshape(-1))
    return blocks[0] if len(blocks) == 1 else Observations(tuple(blocks)), np.concatenate(kept)


def on_host(observed: Functional) -> Functional:
    """Return values and gradients at the same points in NumPy and double precision.

    Raises TypeError for any other functional: the covariances of those are not known to have
    derivatives in the kernel's parameters.
    """
    blocks = tuple(
        moved(block, lambda x: np.asarray(to_numpy(x), dtype=float)) for block in blocks_of(observed)
    )
    return blocks[0] if len(blocks) == 1 else Observations(blocks)


def as_functional(x: Array | Functional | Sequence[Functional]) -> Functional:
    """Return points as :class:`Values`, a list of blocks as :class:`Observations`."""
    if (
        isinstance(x, np.ndarray) or is_torch(x) or hasattr(x, "columns")
    ):  # a data frame may have a column 'x'
        return Values(x)
    if isinstance(x, Functional):
        return x
    if isinstance(x, list | tuple) and x and all(isinstance(block, Functional) for block in x):
        return Observations(tuple(x))
    return Values(x)


def names_of(observed: Functional) -> tuple[str, ...] | None:
    """Return the names of the columns, where a block has them."""
    return next(filter(None, (getattr(block, "names", None) for block in blocks_of(observed))), None)


def require_same_space(name: str, a: Functional, other: str, b: Functional) -> None:
    """Raise ValueError unless points share their columns, TypeError unless kind, dtype and device.

    Parameters
    ----------
    name, other : what the message calls their points. a, b : the functionals.
    """
    given, known = names_of(a), names_of(b)
    if given and known and given != known:
        lacking = [column for column in known if column not in given]
        raise ValueError(
            f"{name} has the columns {shown([*given])}, {other} {shown([*known])}"
            f"{f', so that {shown(lacking)} are missing' if lacking else ''}: give the same in the same order"
        )
    if a.x.shape[1] != b.x.shape[1]:
        raise ValueError(
            f"{name} has {a.x.shape[1]} columns, {other} has {b.x.shape[1]}: give points of the same space"
        )
    x, y = a.x, b.x
    alike = type(x) is type(y) or (isinstance(x, np.ndarray) and isinstance(y, np.ndarray))  # of a file
    if alike and x.dtype == y.dtype and getattr(x, "device", None) == getattr(y, "device", None):
        return
    raise TypeError(
        f"{name} is a {describe(x)}, {other} is a {describe(y)}: give both as NumPy arrays or both "
        "as torch tensors, of the same dtype and on the same device"
    )


def _concatenated(parts: Sequence[Array], axis: int) -> Array:
    return parts[0] if len(parts) == 1 else namespace(*parts).concat(list(parts), axis=axis)


def moved(block: Functional, move: Callable[[Any], Any]) -> Functional:
    """Return values or gradients at other points; TypeError for any other functional."""
    if type(block) in (Values, Gradients):
        return replace(block, x=move(block.x))  # type: ignore[type-var]
    raise TypeError(
        f"x holds {type(block).__name__}: hyperparameters can be fitted to gp.Values and gp.Gradients; "
        "condition a process with given hyperparameters on other functionals"
    )


def _values_gradients(kernel: Kernel, a: Values, b: Gradients) -> Array:
    k_y = b.take(differentiable(kernel).derivatives(a.x, b.x).k_y, 2)
    return k_y.reshape((len(a), len(b)))


def _gradients_gradients(kernel: Kernel, a: Gradients, b: Gradients) -> Array:
    k_xy = a.take(b.take(differentiable(kernel).derivatives(a.x, b.x).k_xy, 3), 1)
    return k_xy.reshape((len(a), len(b)))


register_covariance(Values, Values, lambda kernel, a, b: kernel(a.x, b.x))
register_covariance(Values, Gradients, _values_gradients)
register_covariance(Gradients, Gradients, _gradients_gradients)
