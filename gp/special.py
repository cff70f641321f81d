"""Special functions of the normal distribution for NumPy and torch under one name, and ln(2 pi).

``scipy.special`` and ``torch.special`` agree on the names used here: ``ndtr`` (the standard normal
distribution function), ``log_ndtr``, ``ndtri`` (its inverse) and ``erfcx`` (exp(x^2) erfc(x)).
"""

import math
from typing import Any, TypeAlias

import scipy.special

from gp.arrays import Array, is_torch

__all__ = ["LOG_2PI", "SpecialFunctions", "special"]

LOG_2PI = math.log(2.0 * math.pi)

SpecialFunctions: TypeAlias = Any
"""A module with ``ndtr``, ``log_ndtr``, ``ndtri`` and ``erfcx``."""


def special(array: Array) -> SpecialFunctions:
    """Return the module of special functions that belongs to ``array``'s kind."""
    if is_torch(array):
        import torch

        return torch.special
    return scipy.special
