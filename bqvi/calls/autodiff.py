"""Values and gradients of a torch function; imported only where the user gives one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from bqvi.calls.function import run_user_code
from gp.arrays import Array, is_torch, to_numpy

__all__ = ["Differentiated", "differentiated"]


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


def differentiated(
    function: Callable[..., Any], points: np.ndarray, like: Array, vectorised: bool
) -> Differentiated:
    """The values of ``function`` at points (m, P), and the gradient of each with respect to its own point.

    Parameters
    ----------
    like : a tensor whose dtype and device the points get; anything else for float64 on the host.
    """
    if is_torch(like):
        leaf = like.new_tensor(points).requires_grad_()
    else:
        leaf = torch.from_numpy(np.array(points, dtype=float)).requires_grad_()
    with torch.enable_grad():
        returned = run_user_code(function, leaf if vectorised else leaf[0])
        head = returned[0] if isinstance(returned, tuple) and returned else returned
        graph = is_torch(head) and head.requires_grad and head.numel() % len(points) == 0
        gradients = _gradients(head, leaf) if graph else None
    if gradients is None:
        outputs = max(head.numel() // len(points), 1) if is_torch(head) else 1
        nothing = np.zeros((len(points), outputs, points.shape[1]))
        return Differentiated(_plain(returned), nothing, False, is_torch(head))
    return Differentiated(_plain(returned), gradients, True, True)


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
