"""Schedules of step sizes: from a direction to an increment.

A schedule maps the direction of a geometry to the increment of the parameters, with a state of its own
(moments for Adam; none for step sizes rho_t). States are tuples of arrays, so that a run can be saved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np

from bqvi.arguments import Above, AtLeast, Checked, Such
from bqvi.arrays import Values, like, namespace, scale
from gp.arrays import Array, is_torch


@runtime_checkable
class Schedule(Protocol):
    """A map from directions to increments.

    A schedule with moments may state ``propagates = True``: where an entry of the direction is not finite,
    that of the increment is not. Then only the increment is checked at each step.
    """

    @property
    def largest(self) -> float | None:
        """The largest rho_t; None where the increment is no multiple of the direction."""

    def start(self, like: Values) -> Any:
        """State before the first step, for parameters shaped as ``like``."""

    def increment(self, direction: Values, state: Any, t: int) -> tuple[Values, Any]:
        """The increment at iteration t = 0, 1, ... along ``direction``, and the state after it.

        Tensors of the increment are not shared, so that the geometry may write over them.
        """


_CONVERGES = Such(
    lambda kappa: 0.5 < kappa <= 1.0, "in (0.5, 1], by Robbins and Monro's conditions", error=ValueError
)
_BELOW_ONE = Such(lambda decay: decay < 1.0, "in [0, 1), as a decay of moments", error=ValueError)


class StepSizes(Checked):
    """Schedules that are a sequence of step sizes rho_t, and nothing else."""

    def __call__(self, t: int) -> float:
        raise TypeError(f"{type(self).__name__} states no step size")

    @property
    def largest(self) -> float:
        return self(0)

    def start(self, like: Values) -> None:
        """None, as there is no state."""

    def increment(self, direction: Values, state: None, t: int) -> tuple[Values, None]:
        size = self(t)
        shared = size == 1.0 and not is_torch(direction[0])
        return (direction if shared else scale(direction, size)), state


@dataclass(frozen=True)
class Constant(StepSizes):
    """rho_t = scale."""

    scale: Annotated[float, Above(0.0)] = 1.0

    def __call__(self, t: int) -> float:
        return self.scale


@dataclass(frozen=True)
class Exponential(StepSizes):
    """rho_t = scale * exp(-decay t) (thesis Section 6.2).

    The steps sum to scale / (1 - exp(-decay)): an optimum at a larger distance is not reached.
    """

    scale: Annotated[float, Above(0.0)] = 1.0
    decay: Annotated[float, AtLeast(0.0)] = 0.01

    def __call__(self, t: int) -> float:
        return self.scale * math.exp(-self.decay * t)


@dataclass(frozen=True)
class Cosine(StepSizes):
    """rho_t = scale (1 + cos(pi t / steps)) / 2 up to t = ``steps``, and 0 afterwards.

    Parameters
    ----------
    scale : > 0, rho_0
    steps : >= 1, the number of steps of the whole run
    """

    scale: Annotated[float, Above(0.0)]
    steps: Annotated[int, AtLeast(1.0)]

    def __call__(self, t: int) -> float:
        return 0.5 * self.scale * (1.0 + math.cos(math.pi * min(t / self.steps, 1.0)))


@dataclass(frozen=True)
class RobbinsMonro(StepSizes):
    """rho_t = scale * (t + tau)^-kappa: sum rho_t = infinity, sum rho_t^2 < infinity.

    The sum grows slowly: with the default of 'sngd' (kappa = 0.7, tau = 10), 20,000 steps add up to 58, and
    to first order q is then as near to the optimum as after 58 passes of coordinate ascent. Where components
    overlap this is not enough: a larger ``scale`` or a smaller ``kappa`` helps, or some passes of "cavi" that
    start from q.

    Parameters
    ----------
    kappa : in (0.5, 1], as the two conditions require (Robbins and Monro 1951)
    tau : >= 1, reduces the first steps
    scale : > 0
    """

    kappa: Annotated[float, AtLeast(0.0), _CONVERGES] = 0.7
    tau: Annotated[float, AtLeast(1.0)] = 1.0
    scale: Annotated[float, Above(0.0)] = 1.0

    def __call__(self, t: int) -> float:
        return float(self.scale * (t + self.tau) ** -self.kappa)


@dataclass(frozen=True)
class Adam(Checked):
    """Adam (Kingma and Ba 2015), ascending, with an optional Robbins-Monro decay of the rate.

    Parameters
    ----------
    rate : > 0, about the largest change of a coordinate in one step
    first, second : decay of the two moments, in [0, 1)
    epsilon : > 0, added to the root of the second moment
    decay : rate_t = rate / (1 + decay t); 0 keeps the rate
    """

    rate: Annotated[float, Above(0.0)] = 0.05
    first: Annotated[float, AtLeast(0.0), _BELOW_ONE] = 0.9
    second: Annotated[float, AtLeast(0.0), _BELOW_ONE] = 0.999
    epsilon: Annotated[float, Above(0.0)] = 1e-8
    decay: Annotated[float, AtLeast(0.0)] = 0.0

    largest = None
    propagates = True
    """An infinite gradient makes both moments infinite, and their ratio NaN."""

    def start(self, like: Values) -> tuple[Values, Values]:
        """Zero moments."""
        zeros = tuple(namespace(x).zeros_like(x) for x in like)
        return zeros, zeros

    def increment(
        self, direction: Values, state: tuple[Values, Values], t: int
    ) -> tuple[Values, tuple[Values, Values]]:
        """The bias-corrected ratio of moments, times the rate."""
        rate = self.rate / (1.0 + self.decay * t) / (1.0 - self.first ** (t + 1))
        correction = 1.0 - self.second ** (t + 1)
        moved = [
            (self._in_torch if is_torch(g) else self._in_numpy)(like(m, g), like(v, g), g, rate, correction)
            for m, v, g in zip(*state, direction, strict=True)
        ]
        steps, means, squares = (tuple(part) for part in zip(*moved, strict=True))
        return steps, (means, squares)

    def _in_numpy(self, m: Array, v: Array, g: Array, rate: float, correction: float) -> Values:
        a, b = self.first, self.second
        with np.errstate(over="ignore", invalid="ignore"):  # the loop reports entries that are not finite
            m, v = a * m + (1.0 - a) * g, b * v + (1.0 - b) * g * g
            step = rate * m / (np.sqrt(v / correction) + self.epsilon)
        # where the square of g has overflowed, the step would be 0 at this and all later steps
        return np.where(np.isinf(v), np.nan, step), m, v

    def _in_torch(self, m: Array, v: Array, g: Array, rate: float, correction: float) -> Values:
        """The increment in torch, in as few passes over memory as possible, for the weights of networks."""
        import torch

        m, v = m.lerp(g, 1.0 - self.first), (self.second * v).addcmul_(g, g, value=1.0 - self.second)
        bounded = math.isfinite(v.sum())
        root = v.sqrt().mul_(correction**-0.5 / rate).add_(self.epsilon / rate)
        step = torch.div(m, root, out=root)
        # NaN where g^2 has overflowed, as in the NumPy form above
        return (step if bounded else step.masked_fill_(v.isinf(), math.nan)), m, v
