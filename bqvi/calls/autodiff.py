"""Values and gradients of a torch function; imported only where the user gives one.

What leaves torch on the way (numpy, ``.item()``, ``.detach()``, ``torch.no_grad``) is a constant in the
graph, and the gradient lacks its share without any error of torch. `GraphWatch` sees the operation. It may be
meant, as a maximum that is subtracted and added again has no share; differences of the values decide
(:func:`bqvi.calls.faults.require_slope`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bqvi.calls.function import Function
from gp.arrays import Array, is_torch, to_numpy
from gp.names import needing

with needing():
    import torch
    from torch.overrides import TorchFunctionMode

_OF_ITSELF = ("type_as", "to", "expand_as", "view_as", "reshape_as", "broadcast_tensors")
"""Operations whose other arguments give a type or a shape only; so do names with "new_" and "_like"."""


class GraphWatch(TorchFunctionMode):
    """A context in which ``left`` becomes True where an operation on a function of theta leaves the graph."""

    left = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The result of the operation."""
        found = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if not self.left and any(is_torch(x) and x.requires_grad for x in args):
            parts = found if isinstance(found, tuple | list) else (found,)
            numbers = any(isinstance(x, float | list) for x in parts)
            tensors = any(is_torch(x) and x.is_floating_point() and not x.requires_grad for x in parts)
            shapes = name in _OF_ITSELF or "new_" in name or "_like" in name
            self.left = numbers or (tensors and not shapes)
        return found


class Differentiated(NamedTuple):
    """The values and gradients of a torch function at m points."""

    returned: Any
    """The returned tensors, detached from the graph."""
    gradients: np.ndarray
    """Gradients (m, o, P); zero where nothing depends on theta."""
    graph: bool
    """Whether the values depend on theta, by torch's graph."""
    tensor: bool
    """Whether the function returned a tensor, or (tensor, standard deviation)."""
    left: bool = False
    """Whether an operation left the graph, where the call was watched."""


def differentiated(
    function: Callable[..., Any], points: np.ndarray, like: Array, vectorised: bool, watched: bool = False
) -> Differentiated:
    """The values of ``function`` at points (m, P), and the gradient of each with respect to its own point.

    Parameters
    ----------
    like : a tensor whose dtype and device the points get; anything else for float64 on the host.
    watched : whether operations that leave the graph are looked for.
    """
    if is_torch(like):
        leaf = like.new_tensor(points).requires_grad_()
    else:
        leaf = torch.from_numpy(np.array(points, dtype=float)).requires_grad_()
    watch = GraphWatch()
    with torch.enable_grad(), watch if watched else nullcontext():
        returned = function(leaf if vectorised else leaf[0])
    head = returned[0] if isinstance(returned, tuple) and returned else returned
    with torch.enable_grad():
        graph = is_torch(head) and head.requires_grad and head.numel() % len(points) == 0
        gradients = _gradients(head, leaf) if graph else None
    if gradients is None:
        outputs = max(head.numel() // len(points), 1) if is_torch(head) else 1
        nothing = np.zeros((len(points), outputs, points.shape[1]))
        return Differentiated(_plain(returned), nothing, False, is_torch(head), watch.left)
    return Differentiated(_plain(returned), gradients, True, True, watch.left)


def values_only(function: Function) -> Function:
    """The function without its gradient; it is still called with tensors."""
    like = function.like if is_torch(function.like) else torch.empty(0, dtype=torch.float64)
    return replace(function, gradient=None, like=like)


def _gradients(head: Any, leaf: Any) -> np.ndarray | None:
    if head.numel() == len(leaf):  # a single output needs no sum in the graph
        (found,) = torch.autograd.grad(head, leaf, torch.ones_like(head), allow_unused=True)
        return None if found is None else _array(found)[:, None, :]
    columns = head.reshape(len(leaf), -1)
    each = [
        torch.autograd.grad(
            columns[:, o].sum(), leaf, retain_graph=o + 1 < columns.shape[1], allow_unused=True
        )[0]
        for o in range(columns.shape[1])
    ]
    if all(part is None for part in each):
        return None
    return _array(torch.stack([torch.zeros_like(leaf) if part is None else part for part in each], dim=1))


def _array(found: object) -> np.ndarray:
    return to_numpy(found).astype(float, copy=False)


def _plain(returned: object) -> Any:
    if isinstance(returned, tuple):
        return tuple(to_numpy(x) if is_torch(x) else x for x in returned)
    return to_numpy(returned) if is_torch(returned) else returned
