"""Affine changes of the inputs and the output of a Gaussian process.

A model of y' = (y - shift) / factor over x' = (x - offset) / scale is a model of y over x:

    k(x, x2) = factor^2 k'(x', x2')
    m(x)     = shift + factor m'(x')
    noise    = factor^2 noise'

A kernel in other input units is the same kernel with other parameters, each multiplied by the scale
to the power of its input unit, locations also shifted. The units are attributes of parameters
(:class:`gp.kernels.Parameter`), so this module is independent of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gp.arrays import Array
from gp.kernels.base import Kernel, Parameter
from gp.kernels.parameters import scaled
from gp.means import Constant, Linear, Mean, Zero


@dataclass(frozen=True, eq=False)
class InputMap:
    """x' = (x - offset) / scale; both (D,) in NumPy, scale not zero. ``None`` is no change."""

    offset: Any
    scale: Any

    def then(self, other: InputMap) -> InputMap:
        """Return the map that applies this one first, then ``other``."""
        return InputMap(self.offset + self.scale * other.offset, self.scale * other.scale)


@dataclass(frozen=True, eq=False)
class OutputMap:
    """y' = (y - shift) / factor."""

    shift: float = 0.0
    factor: float = 1.0


def kernel_in_units(kernel: Kernel, inputs: InputMap | None, outputs: OutputMap) -> Kernel:
    """Return k from k', see the module.

    Parameters
    ----------
    kernel : k'. inputs : the map of inputs, None for the identity. outputs : the map of outputs.
    """
    if inputs is not None:
        kernel = kernel.with_parameters([_mapped(p, inputs) for p in kernel.parameters()])
    return kernel if outputs.factor == 1.0 else scaled(kernel, outputs.factor**2)


def mean_in_units(mean: Mean, inputs: InputMap | None, outputs: OutputMap) -> Mean:
    """Return m from m', a zero, constant or linear mean; see the module.

    Parameters
    ----------
    mean : m'. inputs : the map of inputs, None for the identity. outputs : the map of outputs.
    """
    shift, factor = outputs.shift, outputs.factor
    if isinstance(mean, Linear):
        slope, intercept = factor * mean.slope, shift + factor * mean.intercept
        if inputs is not None:
            slope = slope / inputs.scale
            intercept = intercept - float(np.sum(slope * inputs.offset))
        return Linear(intercept, slope)
    value = mean.value if isinstance(mean, Constant) else 0.0
    if isinstance(mean, Zero) and shift == 0.0:
        return mean
    return Constant(shift + factor * value)


def _mapped(parameter: Parameter, inputs: InputMap) -> Array:
    """Return the parameter's value for x from that for x'."""
    if parameter.input_power == 0:
        return parameter.value
    seen = slice(None) if parameter.columns is None else list(parameter.columns)
    scale, offset = inputs.scale[seen], inputs.offset[seen]
    if parameter.kind == "location":
        return offset + scale * parameter.value
    return np.abs(scale) ** parameter.input_power * parameter.value
