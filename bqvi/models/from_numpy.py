"""A NumPy function, with its gradient if there is one, as a torch function that can be differentiated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from bqvi.calls.returned import numbers_in
from gp.arrays import Array, shown, to_numpy
from gp.threads import users_threads


@dataclass(frozen=True)
class TorchFunction:
    """A function of theta (L, D) or (D,), returning (L,) or a scalar, on tensors.

    Differentiating it without a gradient raises TypeError.

    Parameters
    ----------
    function : of arrays of NumPy. gradient : likewise; None where there is none.
    """

    function: Callable[[Array], Array]
    gradient: Callable[[Array], Array] | None

    def __call__(self, theta: torch.Tensor) -> torch.Tensor:
        """The function's values."""
        value: torch.Tensor = _NumpyFunction.apply(theta, self)  # type: ignore[no-untyped-call]
        return value


class _NumpyFunction(torch.autograd.Function):
    """A `TorchFunction` as torch differentiates it."""

    @staticmethod
    def forward(ctx: Any, theta: torch.Tensor, called: TorchFunction) -> torch.Tensor:
        ctx.save_for_backward(theta)
        ctx.called = called
        # torch disables gradients here, and the user's function may need them
        with torch.enable_grad(), users_threads():
            value = called.function(to_numpy(theta).copy())  # a copy, as the function may work in place
        return _as_tensor("log_prob", value, theta)

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, None]:
        (theta,) = ctx.saved_tensors
        gradient = ctx.called.gradient
        if gradient is None:
            raise TypeError(
                "this LogJoint has values only; give it gradient=..., or use a method that needs none: "
                "'bq' or 'score'"
            )
        with torch.enable_grad(), users_threads():
            slope = _as_tensor("gradient", gradient(to_numpy(theta).copy()), theta)
        if slope.shape != theta.shape:
            raise ValueError(
                f"gradient returned shape {tuple(slope.shape)} for theta of shape {tuple(theta.shape)}; "
                "they must be the same"
            )
        return outer[0][..., None] * slope, None


def _as_tensor(name: str, returned: Any, like: torch.Tensor) -> torch.Tensor:
    numbers = numbers_in(returned)
    if numbers is None:
        raise TypeError(f"{name} returned {shown(returned)}; it must return real numbers")
    return torch.as_tensor(numbers.astype(float), dtype=like.dtype, device=like.device)
