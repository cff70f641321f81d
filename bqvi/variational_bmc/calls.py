"""One call of the user's log joint and its gradient: an answer, a fault, or why it is no log density.

Nothing but an interrupt comes through; :mod:`target` says what becomes of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gp.arrays import to_numpy

LARGEST = 1e100
"""No log density of data has such values; they are overflows, or stand for 'impossible'."""
AUTODIFF = "autodiff"


@dataclass(frozen=True)
class Answer:
    """What one call gave, still in the user's units."""

    value: float = -math.inf
    sd: float | None = None
    gradient: np.ndarray | None = None
    fault: str = ""
    malformed: str = ""
    """Why it is no log density at all."""


@dataclass(frozen=True)
class Call:
    """One call of the user's functions; picklable where they are, and raises nothing but interrupts."""

    log_joint: Callable[[Any], Any]
    gradient: Callable[[Any], Any] | str | None
    names: tuple[str, ...]

    def __call__(self, theta: np.ndarray) -> Answer:
        """What the user's functions say of theta (P,)."""
        try:
            returned, slope = self._both(theta)
        except Exception as error:
            return Answer(fault=f"raised {type(error).__name__}: {error}")
        value, sd, malformed = _number(returned)
        if malformed:
            return Answer(malformed=f"{malformed} at {self._place(theta)}")
        if not value > -LARGEST:  # NaN too
            return Answer(sd=sd, fault=f"returned {value}")
        return self._with_gradient(theta, value, sd, slope)

    def _both(self, theta: np.ndarray) -> tuple[Any, Any]:
        if self.gradient != AUTODIFF:
            return self.log_joint(theta.copy()), None
        import torch

        leaf = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
        with torch.enable_grad():
            returned = self.log_joint(leaf)
            head = returned[0] if isinstance(returned, tuple) else returned
            scalar = isinstance(head, torch.Tensor) and head.numel() == 1 and head.requires_grad
            slope = torch.autograd.grad(head.reshape(()), leaf)[0].numpy() if scalar else None
        plain = returned if isinstance(returned, tuple) else (returned,)
        host = tuple(to_numpy(x.detach()) if isinstance(x, torch.Tensor) else x for x in plain)
        return (host if isinstance(returned, tuple) else host[0]), slope

    def _with_gradient(self, theta: np.ndarray, value: float, sd: float | None, slope: Any) -> Answer:
        if self.gradient is None:
            return Answer(value, sd)
        nothing = np.full(len(theta), np.nan)
        if self.gradient == AUTODIFF and slope is None:
            malformed = f"the log joint does not depend on theta through torch at {self._place(theta)}"
            return Answer(malformed=f'{malformed}; gradient="autodiff" needs a torch function')
        if callable(self.gradient):
            try:
                slope = self.gradient(theta.copy())
            except Exception as error:
                fault = f"the gradient raised {type(error).__name__}: {error}"
                return Answer(value, sd, nothing, fault=fault)
        array = np.asarray(to_numpy(slope))
        if array.shape != theta.shape or array.dtype.kind not in "fiu":
            told = f"the gradient returned {slope!r:.200} at {self._place(theta)}"
            malformed = f"{told}; it must be ({len(theta)},) real numbers"
            return Answer(malformed=malformed)
        if not (np.abs(array) < LARGEST).all():
            return Answer(value, sd, nothing, fault="the gradient is not finite")
        return Answer(value, sd, array.astype(float))

    def _place(self, theta: np.ndarray) -> str:
        return ", ".join(f"{name} = {x:.6g}" for name, x in zip(self.names, theta, strict=True))


def _number(returned: Any) -> tuple[float, float | None, str]:
    """Value, sd and what is wrong with them."""
    if isinstance(returned, tuple):
        if len(returned) != 2:
            told = (
                f"the log joint returned a tuple of {len(returned)}; it must return a number or (number, sd)"
            )
            return math.nan, None, told
        value, _, wrong = _number(returned[0])
        sd, _, wrong_sd = (
            _number(returned[1]) if not isinstance(returned[1], tuple) else (0.0, None, "a tuple")
        )
        if wrong or wrong_sd or not (math.isfinite(sd) and sd > 0.0):
            told = f"the log joint returned the sd {returned[1]!r:.80}; it must be a positive number"
            return math.nan, None, wrong or told
        return value, sd, ""
    try:
        array = np.asarray(to_numpy(returned))
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.shape not in ((), (1,)) or array.dtype.kind not in "fiu":
        told = (
            f"the log joint returned {returned!r:.80} (shape {array.shape}, {array.dtype}); it must return "
            "one real number for one parameter vector"
        )
        return math.nan, None, told
    value = float(array.reshape(()))
    if value > LARGEST:
        told = f"the log joint is {value}; it must be finite, or -inf where the density vanishes"
        return value, None, told
    return value, None, ""
