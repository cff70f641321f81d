"""Integrals of kernels against measures: formulas by (kernel, measure) pair, and embeddings made of them.

The embedding of a kernel k against a measure pi consists of the integrals by which a Gaussian process is
integrated:

    z(x)        = int k(x, x') pi(dx')               covariance of f(x) and pi[f]
    dz(x)/dx_j                                       covariance of df/dx_j at x and pi[f]
    C(pi, rho)  = int int k(x, x') pi(dx) rho(dx')   covariance of pi[f] and rho[f]

Each pair has its own formulas, and a new pair is one function:

    @embedding(MyKernel, MyMeasure)
    def my_embedding(kernel, measure):
        return Formulas(mean=..., cross=...)

The function has to compute with arrays of the kind of the measure's parameters, NumPy or torch. Derivatives
in the measure's parameters, and in x if left out, are found by automatic differentiation. Kernel and measure
are looked up by their classes from the most derived on, the kernel first; ``object`` stands for any class.

:func:`embed` looks up the formulas of the pair and completes them: missing derivatives come from automatic
differentiation, and double integrals between measures of different classes are reduced by identities that
hold for every kernel,

    C(pi, sum_i w_i delta(x_i)) = sum_i w_i z_pi(x_i),
    C(pi, sum_k w_k rho_k)      = sum_k w_k C(pi, rho_k),
    C(pi, rho)                  = C(rho, pi).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from gp.arrays import Array, as_like, describe, is_torch, namespace, to_numpy
from gp.kernels import Kernel
from gp.measures import Empirical, GaussianMixture, Measure


@dataclass(frozen=True, eq=False)
class Formulas:
    """The integrals of one kernel against one measure.

    Attributes
    ----------
    mean : a function of x (n, D) that returns z(x), (n,).
    cross : a function of another measure that returns C(measure, other), (). It raises
        :class:`UnknownPairError` for other classes (see :func:`choose`); mixtures and empirical measures may
        be among these.
    mean_gradient : a function of x (n, D) that returns dz/dx, (n, D); else automatic differentiation is used.
    """

    mean: Callable[[Array], Array]
    cross: Callable[[Measure], Array]
    mean_gradient: Callable[[Array], Array] | None = None


PairFunction: TypeAlias = Callable[[Any, Any], Formulas]
Known: TypeAlias = Mapping[type, Callable[[Any], Array]]
"""Functions of another measure, by its class."""


class UnknownPairError(TypeError):
    """A kernel and a measure, or two measures, whose integral is not known in closed form."""


_FUNCTIONS: dict[tuple[type, type], PairFunction] = {}


def embedding(kernel: type, measure: type) -> Callable[[PairFunction], PairFunction]:
    """Register a function for a pair of classes, a kernel's and a measure's.

    Raises ValueError where the pair is registered already.
    """

    def register(function: PairFunction) -> PairFunction:
        if (kernel, measure) in _FUNCTIONS:
            raise ValueError(f"{_name(kernel)} x {_name(measure)} has an embedding already")
        _FUNCTIONS[kernel, measure] = function
        return function

    return register


def formulas(kernel: Kernel, measure: Measure) -> Formulas:
    """Return the integrals of a kernel against a measure; UnknownPairError as of `known_pair`."""
    return known_pair(type(kernel), type(measure))(kernel, measure)


def known_pair(kernel: type, measure: type) -> PairFunction:
    """Return the function of a pair of classes, a kernel's and a measure's.

    Raises UnknownPairError, whose message lists the known pairs, where this one is not known.
    """
    for kernel_type in kernel.__mro__:
        for measure_type in measure.__mro__:
            if (kernel_type, measure_type) in _FUNCTIONS:
                return _FUNCTIONS[kernel_type, measure_type]
    raise UnknownPairError(_registered(kernel, measure))


def choose(
    kernel: Kernel,
    measure: Measure,
    other: Measure,
    known: Known,
) -> Array:
    """Return C(measure, other) of the kernel from the functions known for classes of ``other``.

    Raises
    ------
    UnknownPairError
        where ``other`` is none of them.
    """
    for measure_type in type(other).__mro__:
        if measure_type in known:
            return known[measure_type](other)
    names = ", ".join(known_type.__name__ for known_type in known)
    raise UnknownPairError(
        f"no double integral of {type(kernel).__name__} between {type(measure).__name__} and "
        f"{type(other).__name__}: known with {type(measure).__name__} are {names} (and mixtures "
        f"of them, and Empirical). {DISCRETISE}"
    )


def in_kind_of(measure: Measure, like: Array) -> Measure:
    """Return ``measure`` with its parameters in the kind, dtype and device of ``like``."""
    given = measure.parameters()
    wanted = [as_like(value, like) for value in given]
    unchanged = all(a is b for a, b in zip(given, wanted, strict=True))
    return measure if unchanged else measure.with_parameters(wanted)


def weighted_components(measure: Measure) -> tuple[tuple[Array, Measure], ...] | None:
    """Return (weight, component) pairs of a mixture, ``None`` for other measures."""
    if isinstance(measure, GaussianMixture):
        return tuple((measure.weights[k], part) for k, part in enumerate(measure.components))
    return None


def refuse_mixture(measure: Measure) -> None:
    """Raise UnknownPairError for a mixture, so that it is taken component by component."""
    if isinstance(measure, GaussianMixture):
        raise UnknownPairError("mixtures are taken component by component")


DISCRETISE = (
    "Any kernel can be integrated against Empirical(measure.from_unit_cube(u)) instead, with u a "
    "scrambled Sobol set"
)


def _name(registered: type) -> str:
    return "any" if registered is object else registered.__name__


def _registered(kernel: type, measure: type) -> str:
    for_kernel = {_name(m) for k, m in _FUNCTIONS if k is not object and issubclass(kernel, k)}
    # a kernel has an embedding of mixtures if it has one of their components
    for_any = {_name(m) for k, m in _FUNCTIONS if k is object} - {GaussianMixture.__name__}
    for_measure = sorted({_name(k) for k, m in _FUNCTIONS if m is not object and issubclass(measure, m)})
    return (
        f"no embedding of {kernel.__name__} against {measure.__name__}. {kernel.__name__} has one "
        f"against: {', '.join(sorted(for_kernel | for_any))}. {measure.__name__} has one with: "
        f"{', '.join(for_measure) or 'no kernel'}. Add the pair with "
        f"@gp.embeddings.embedding({kernel.__name__}, {measure.__name__}). {DISCRETISE}"
    )


@dataclass(frozen=True, eq=False)
class KernelEmbedding:
    """The integrals of ``kernel`` against ``measure``, and their derivatives.

    Results that depend on points are of the points' kind of array, others of the measure's. Where the
    measure holds torch tensors that are differentiated, its graph is shared by all calls, so that an
    optimiser has to make a new embedding at each step.
    """

    kernel: Kernel
    measure: Measure

    @cached_property
    def _own(self) -> Formulas:
        return formulas(self.kernel, self.measure)

    def _formulas(self, x: Array) -> Formulas:
        measure = in_kind_of(self.measure, x)
        return self._own if measure is self.measure else formulas(self.kernel, measure)

    def _points(self, x: Array) -> Array:
        if getattr(x, "ndim", None) != 2 or x.shape[1] != self.measure.dimension:
            raise ValueError(
                f"x is a {describe(x)}: give points of shape (n, {self.measure.dimension}), the "
                "dimension of the measure"
            )
        floating = x.dtype.is_floating_point if is_torch(x) else x.dtype.kind == "f"
        return x if floating else as_like(x, self.measure.parameters()[0])

    def mean(self, x: Array) -> Array:
        """Return z(x) = int k(x, x') pi(dx'), (n,), for points x (n, D)."""
        x = self._points(x)
        return self._formulas(x).mean(x)

    def mean_gradient(self, x: Array) -> Array:
        """Return dz/dx, (n, D): the covariance of the partial derivatives of f at x and pi[f]."""
        x = self._points(x)
        own = self._formulas(x)
        if own.mean_gradient is not None:
            return own.mean_gradient(x)
        return gradient_in_points(self.mean, x)

    def double(self, other: Measure | None = None) -> Array:
        """Return C(pi, rho) = int int k dpi drho, (); with itself where ``other`` is not given."""
        if other is None:
            return self._cross(self.measure)
        if other.dimension != self.measure.dimension:
            raise ValueError(f"other has dimension {other.dimension}, the measure {self.measure.dimension}")
        return self._cross(in_kind_of(other, self.measure.parameters()[0]))

    def _cross(self, other: Measure) -> Array:
        if isinstance(other, Empirical):
            points, weights = other.parameters()
            return namespace(points).sum(weights * self.mean(points))
        if isinstance(self.measure, Empirical):
            return embed(self.kernel, other).double(self.measure)
        try:
            return self._own.cross(other)
        except UnknownPairError:
            parts = weighted_components(other)
            if parts is not None:
                return sum(weight * self._cross(part) for weight, part in parts)
            if type(other) is type(self.measure):
                raise
            parts = weighted_components(self.measure)
            if parts is not None:
                return sum(weight * embed(self.kernel, part).double(other) for weight, part in parts)
            return formulas(self.kernel, other).cross(self.measure)


def embed(kernel: Kernel, measure: Measure) -> KernelEmbedding:
    """Return the embedding of ``kernel`` against ``measure``.

    Raises
    ------
    UnknownPairError
        when the embedding is first used, where the pair has no formulas; the message lists the known pairs.
    """
    return KernelEmbedding(kernel, measure)


def gradient_in_points(function: Callable[[Array], Array], x: Array) -> Array:
    """Return df(x_i)/dx_i, (n, D), of a function of points x (n, D) that acts on each alone."""
    import torch

    keep = is_torch(x) and torch.is_grad_enabled() and function(x).requires_grad
    with torch.enable_grad():
        points = x if keep and x.requires_grad else _leaf(x)
        value = function(points)
        # no path leads to x, so the function is constant in x
        if not value.requires_grad:
            return _back(torch.zeros_like(points), x)
        (gradient,) = torch.autograd.grad(value.sum(), points, create_graph=keep, materialize_grads=True)
    return _back(gradient, x)


def gradient_in_parameters(function: Callable[[Measure], Array], measure: Measure) -> Any:
    """Return the gradient of a number, ``function(measure)``, in the parameters of the measure.

    Matrices are symmetrised, because a covariance can only change symmetrically.
    """
    import torch

    given = measure.parameters()
    keep = any(is_torch(value) and value.requires_grad for value in given)
    with torch.enable_grad():
        leaves = [value.clone() if keep else _leaf(value) for value in given]
        value = function(measure.with_parameters(leaves))
        gradients: Any = [torch.zeros_like(leaf) for leaf in leaves]
        if value.requires_grad:
            gradients = torch.autograd.grad(value, leaves, create_graph=keep, materialize_grads=True)
    named = getattr(type(given), "_make", tuple)
    return named([_back(g, v) for g, v in zip(gradients, given, strict=True)])


def _leaf(value: Array) -> Any:
    """Return a tensor with the numbers of ``value`` from which a new graph starts."""
    import torch

    tensor = value.detach().clone() if is_torch(value) else torch.tensor(value)
    return tensor.requires_grad_()


def _back(gradient: Any, like: Array) -> Array:
    """``gradient`` in the kind of ``like``."""
    return gradient if is_torch(like) else to_numpy(gradient)
