"""Derivatives by automatic differentiation, for pairs without derivatives in closed form.

Formulas are written once for NumPy and torch. Here they are evaluated on torch tensors, and the result
is converted to the kind of array that was given. Where tensors are given the graph is kept, so that
the result can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gp.arrays import Array, is_torch, to_numpy
from gp.measures import Measure


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
