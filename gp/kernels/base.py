"""The contract of kernels, and the algebra of kernels.

A kernel k(x, y) is the covariance of f(x) and f(y). The gradient of the log evidence in its parameters is the
*pull-back* of weights W = (a a^T - K^-1) / 2, the gradient of sum_ij W_ij k(x_i, x_j). Units are stated as
powers of the unit of the inputs and of the outputs: a lengthscale has (1, 0), a variance (0, 2), a linear
kernel's weight variance (-2, 2). Priors and starting points are therefore numbers without a unit, and fits do
not depend on the scale of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

from gp.arrays import Array, as_like, namespace, require_positive, to_numpy

if TYPE_CHECKING:
    from gp.kernels.composite import Product, Sum


Kind: TypeAlias = Literal["lengthscale", "variance", "noise", "period", "shape", "location"]
Pullback: TypeAlias = Callable[[Array], Array]
_TOGETHER = 16
"""The number of points between which second derivatives are computed where those of each alone are needed."""


@dataclass(frozen=True, eq=False)
class Parameter:
    """A hyperparameter: its name and value, and the attributes that a fit uses.

    Attributes
    ----------
    name : path to it from the kernel, such as ``"terms[0].lengthscale"``.
    value : a number or an array (D,).
    kind : its role, which decides its prior.
    input_power, output_power : powers of the inputs' and the outputs' unit in its unit.
    positive : whether it is fitted on the log scale.
    columns : the input columns it refers to; ``None`` for all.
    redundant : whether a change of its (first) number is equivalent to a change of another parameter, as for
        the second variance of a product: a fit leaves it at its unit.
    """

    name: str
    value: Array
    kind: Kind
    input_power: int = 0
    output_power: float = 0
    positive: bool = True
    columns: tuple[int, ...] | None = None
    redundant: bool = False


@dataclass(frozen=True, eq=False)
class Derivatives:
    """A kernel and its first derivatives in both arguments, between n and m points in D dimensions.

    An axis of partial derivatives stands right after the axis of the points it belongs to, so that
    ``k_xy.reshape(n * D, m * D)`` is the covariance matrix of the two sets of gradients.

    Attributes
    ----------
    k : (n, m), k(x_i, y_j)
    k_x : (n, D, m), the derivative in x_id: covariance of df/dx_d at x_i and f at y_j
    k_y : (n, m, D), the derivative in y_je
    k_xy : (n, D, m, D), the mixed second derivative: covariance of the two partial derivatives
    """

    k: Array
    k_x: Array
    k_y: Array
    k_xy: Array


def of_rank_one(a: Array, b: Array, slope_a: Array, slope_b: Array) -> Derivatives:
    """Return those of a(x) b(y): values a (n,), b (m,), gradients slope_a (n, D), slope_b (m, D)."""
    k_x, k_y = slope_a[:, :, None] * b, a[:, None, None] * slope_b
    return Derivatives(a[:, None] * b, k_x, k_y, slope_a[:, :, None, None] * slope_b)


def of_columns(k: Array, scale: Array, slopes: Array, own: Array) -> Derivatives:
    """Return the derivatives of a product over columns, up to a constant.

    Parameters ---------- k : its values, (n, m). scale : the product, (n, m). slopes : those of its logarithm
    in x_d, (D, n, m). own : the mixed second derivatives in x_d and y_d over ``scale``, (D, n, m); others are
    -slopes_d slopes_e.
    """
    xp = namespace(k)
    identity = xp.eye(slopes.shape[0], dtype=k.dtype, device=k.device)[:, :, None, None]
    mixed = -slopes[:, None, :, :] * slopes[None, :, :, :] * (1 - identity) + identity * own[:, None, :, :]
    k_x = scale * slopes
    return Derivatives(
        k=k,
        k_x=xp.permute_dims(k_x, (1, 0, 2)),
        k_y=-xp.permute_dims(k_x, (1, 2, 0)),
        k_xy=xp.permute_dims(scale * mixed, (2, 0, 3, 1)),
    )


class Differentiable(Protocol):
    """A function with a gradient: a prior mean, a sample path."""

    def __call__(self, x: Array, /) -> Array:
        """Return f(x_i), (n,)."""

    def gradient(self, x: Array, /) -> Array:
        """Return df/dx at x_i, (n, D)."""


@runtime_checkable
class Kernel(Protocol):
    """A covariance function on points in R^D."""

    def __call__(self, x: Array, y: Array) -> Array:
        """Return k(x_i, y_j), (n, m), for points x (n, D) and y (m, D)."""

    def diagonal(self, x: Array) -> Array:
        """Return k(x_i, x_i) at points x (n, D), (n,)."""

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the hyperparameters in a fixed order."""

    def with_parameters(self, values: Sequence[Array]) -> Self:
        """Return a copy with other values, in the order and the shapes of :meth:`parameters`."""


class PulledBack(Kernel, Protocol):
    """A kernel with a pull-back of its own. Others have those of `gp.fixed_points`, or those by torch."""

    def with_pullback(self, x: Array) -> tuple[Array, Pullback]:
        """Return k(x, x), (n, n), and its pull-back.

        The pull-back takes symmetric weights W (n, n) to the gradient (P,) of sum_ij W_ij k(x_i, x_j) in the
        P entries of all parameters, those that are positive taken on the log scale. NumPy only.
        """


@runtime_checkable
class DifferentiableKernel(Kernel, Protocol):
    """A kernel whose functions have first derivatives in mean square."""

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        """Return k and its first derivatives in both arguments between x (n, D) and y (m, D)."""


def differentiable(kernel: Kernel) -> DifferentiableKernel:
    """Return ``kernel``, or raise a TypeError if its functions have no derivatives."""
    if not isinstance(kernel, DifferentiableKernel):
        raise TypeError(
            f"{type(kernel).__name__} has no derivatives: use a kernel that does, such as "
            "SquaredExponential or Matern52"
        )
    return kernel


def gradient_covariances(kernel: Kernel, x: Array) -> Array:
    """Return the prior covariances of df/dx at each of the points x (n, D) with itself, (n, D, D).

    They are parts of the second derivatives between points, which are computed for some points at a time.
    """
    from gp.kernels.composite import Sum

    xp, derivatives = namespace(x), differentiable(kernel).derivatives
    if isinstance(kernel, Sum):
        return sum(gradient_covariances(term, x) for term in kernel.terms)
    if isinstance(kernel, Homogeneous):  # the same everywhere
        origin = xp.zeros((1, x.shape[1]), dtype=x.dtype, device=x.device)
        return xp.ones_like(x)[:, :, None] * derivatives(origin, origin).k_xy[:, :, 0, :]
    parts = [x[at : at + _TOGETHER] for at in range(0, max(x.shape[0], 1), _TOGETHER)]
    own = [xp.linalg.diagonal(xp.permute_dims(derivatives(p, p).k_xy, (1, 3, 0, 2))) for p in parts]
    return xp.permute_dims(xp.concat(own, axis=-1), (2, 0, 1))


def parameter(
    default: Array, kind: Kind, input_power: int = 0, output_power: float = 0, positive: bool = True
) -> Any:
    """Return the field of a dataclass that is a hyperparameter, with the attributes of a `Parameter`.

    Parameters
    ----------
    default : its value where none is given; ``dataclasses.MISSING`` where one has to be.
    kind, input_power, output_power, positive : as of `Parameter`.
    """
    declared = Parameter("", None, kind, input_power, output_power, positive)
    return field(default=default, metadata={"parameter": declared})


@cache
def _declared(kind: Any) -> tuple[Parameter, ...]:
    """The parameters among the fields of a dataclass, without values."""
    return tuple(
        replace(each.metadata["parameter"], name=each.name)
        for each in fields(kind)
        if "parameter" in each.metadata
    )


def _type(of: object) -> Any:
    return type(of)


class Algebra:
    """``k1 + k2`` and ``k1 * k2``; and parameters, the fields of a dataclass that `parameter` makes."""

    def __post_init__(self) -> None:
        for each in _declared(_type(self)):
            value = getattr(self, each.name)
            if each.positive:
                require_positive(each.name, value)
            elif not np.all(np.isfinite(to_numpy(value))):
                raise ValueError(f"{each.name} = {value!r}: it has to be finite")

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters in the order of the fields."""
        return tuple(
            Parameter(p.name, getattr(self, p.name), p.kind, p.input_power, p.output_power, p.positive)
            for p in _declared(_type(self))
        )

    def with_parameters(self, values: Sequence[Array]) -> Self:
        """Return a copy with other values, in that order."""
        named = {p.name: value for p, value in zip(_declared(_type(self)), values, strict=True)}
        changed: Self = replace(self, **named)  # type: ignore[type-var]
        return changed

    def __add__(self, other: Kernel) -> Sum:
        from gp.kernels.composite import Sum

        return Sum((*_parts(self, Sum, "terms"), *_parts(other, Sum, "terms")))

    def __mul__(self, other: Kernel) -> Product:
        from gp.kernels.composite import Product

        return Product((*_parts(self, Product, "factors"), *_parts(other, Product, "factors")))


class Homogeneous(Algebra):
    """Kernels of functions that have the same variance, their parameter ``variance``, everywhere."""

    variance: Array

    def diagonal(self, x: Array) -> Array:
        """Return the variance, (n,)."""
        return as_like(self.variance, x) * namespace(x).ones_like(x[:, 0])


class OfKernel(Algebra):
    """Kernels made of another one, their field ``kernel``, whose parameters they have."""

    kernel: Kernel

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters of the kernel."""
        return self.kernel.parameters()

    def with_parameters(self, values: Sequence[Array]) -> Self:
        """Return a copy with other values."""
        changed: Self = replace(self, kernel=self.kernel.with_parameters(values))  # type: ignore[type-var]
        return changed


def _parts(kernel: object, composite: type, field: str) -> tuple[Kernel, ...]:
    """Terms of a sum or factors of a product, so that a + b + c is one sum of three."""
    if isinstance(kernel, composite):
        return tuple(getattr(kernel, field))
    if not isinstance(kernel, Kernel):
        raise TypeError(f"a kernel can be combined with another kernel only, not with {kernel!r}")
    return (kernel,)
