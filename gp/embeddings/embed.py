"""The embedding of a kernel against a measure, completed from the formulas of the pair.

:func:`embed` looks up the formulas of the pair and completes them: missing derivatives come from automatic
differentiation, and double integrals between measures of different classes are reduced by identities that
hold for every kernel,

    C(pi, sum_i w_i delta(x_i)) = sum_i w_i z_pi(x_i),
    C(pi, sum_k w_k rho_k)      = sum_k w_k C(pi, rho_k),
    C(pi, rho)                  = C(rho, pi).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gp.arrays import Array, as_like, describe, is_torch, namespace, to_numpy
from gp.embeddings.registry import (
    Formulas,
    UnknownPairError,
    formulas,
    in_kind_of,
    weighted_components,
)
from gp.kernels import Kernel
from gp.measures import Empirical, Measure


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
