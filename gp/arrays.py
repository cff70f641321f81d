"""Arrays of NumPy or torch, for which each formula is written once.

Formulas follow the Python array API standard. The kind, dtype and device of the *points* decide what
is computed and returned; numbers and arrays in kernels, means and measures (lengthscales, variances,
...) are converted to the kind of the points when they are used, so that one kernel works with NumPy
and torch, and gradients propagate to parameters that are torch tensors.
"""

from __future__ import annotations

from math import inf, log, pi, prod
from typing import Any, TypeAlias

import numpy as np
import scipy.special
from array_api_compat import array_namespace, is_torch_array
from array_api_compat import numpy as compatible_numpy

Array: TypeAlias = Any
"""A ``numpy.ndarray`` or a ``torch.Tensor`` (or, for a parameter, a number)."""

Namespace: TypeAlias = Any
"""The module of array functions that belongs to an array's kind (array API standard)."""

SpecialFunctions: TypeAlias = Any
"""A module with ``ndtr`` (the standard normal distribution function), ``log_ndtr``, ``ndtri`` (its inverse)
and ``erfcx`` (exp(x^2) erfc(x)), as ``scipy.special`` and ``torch.special`` are."""

LOG_2PI = log(2.0 * pi)

IN_CACHE = 2**15
"""The number of entries of an array that are computed at once, as larger arrays do not stay in the cache."""

_numpy_namespace: Namespace = np if hasattr(np, "unstack") else compatible_numpy
"""NumPy follows the standard itself from 2.1 on; a wrapper around it takes up to 20 microseconds a call."""

_FEW, _LINE = 8, 120
"""The most numbers of an array, and the most characters, that an error message shows."""


def namespace(*arrays: Array) -> Namespace:
    """Return the array-API namespace shared by ``arrays``; raises TypeError where they differ."""
    for array in arrays:
        if type(array) is not np.ndarray:
            return array_namespace(*arrays)
    return _numpy_namespace


def is_torch(array: Array) -> bool:
    """Tell whether ``array`` is a torch tensor, without importing torch."""
    return type(array) is not np.ndarray and bool(is_torch_array(array))


def to_numpy(array: Array) -> np.ndarray:
    """Return ``array`` as a NumPy array on the host, cut off from any autodiff graph."""
    return array.detach().cpu().numpy() if is_torch(array) else np.asarray(array)


def as_like(value: Array, like: Array) -> Array:
    """Return ``value`` in the kind, dtype and device of ``like``.

    Numbers are returned unchanged, as arrays of either kind can be multiplied with them. A torch
    tensor stays in its autodiff graph where ``like`` is a torch tensor too.
    """
    if isinstance(value, int | float):  # a subclass, such as NumPy's, would decide the dtype of a product
        return float(value) if isinstance(value, float) else value
    if type(value) is np.ndarray and type(like) is np.ndarray:
        return value if value.dtype == like.dtype else value.astype(like.dtype)
    if is_torch(like):
        if is_torch(value):
            return value.to(dtype=like.dtype, device=like.device)
        xp = namespace(like)
        return xp.asarray(np.asarray(value, dtype=float), dtype=like.dtype, device=like.device)
    return np.asarray(to_numpy(value), dtype=like.dtype)


def describe(value: object) -> str:
    """Say what an argument is, for an error message: kind, shape and dtype."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None:
        return repr(value)
    where = f" on {value.device}" if is_torch(value) else ""  # type: ignore[attr-defined]
    return f"{type(value).__name__} of shape {tuple(shape)}, dtype {dtype}{where}"


def shown(value: object) -> str:
    """A value in one line, for an error message: an array of many numbers by its kind, shape and dtype."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and prod(shape) > _FEW:
        return f"a {describe(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LINE else f"{text[:_LINE]} ..."


def differences(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return x_d - y_d of points x (m, D) and y (n, D), (D, m, n), coordinate first in memory too.

    The difference of transposed points has the order of the points in memory: the innermost loops of what is
    computed from it would have length D, and take up to 30 times as long.
    """
    return np.ascontiguousarray(x.T)[:, :, None] - np.ascontiguousarray(y.T)[:, None, :]


def require_positive(name: str, value: Array) -> None:
    """Raise ValueError unless ``value``, a number or (D,), is finite and positive throughout."""
    if type(value) is float and 0.0 < value < inf:  # a short path: a fit makes its kernel anew at every step
        return
    host = to_numpy(value)
    if host.ndim > 1:
        raise ValueError(
            f"{name} has shape {host.shape}: give a number, or an array (D,) with one entry per "
            "input dimension"
        )
    if host.dtype.kind not in "fiu" or not ((host > 0) & (host < inf)).all():
        raise ValueError(f"{name} = {value!r}: it has to be positive and finite")


def special(array: Array) -> SpecialFunctions:
    """Return the module of special functions that belongs to ``array``'s kind."""
    if is_torch(array):
        import torch

        return torch.special
    return scipy.special


def at_least(values: Array, floor: float) -> Array:
    """Return max(values, floor)."""
    return values.clamp_min(floor) if is_torch(values) else np.maximum(values, floor)


def positive(values: Array) -> Array:
    """Return values that are at least the smallest normal number, so that they have a logarithm."""
    return at_least(values, float(namespace(values).finfo(values.dtype).tiny))


def require_aligned(x: object, y: object) -> None:
    """ValueError where x and y are of pandas and their indices differ, as rows are taken in their order."""
    same, other = getattr(getattr(x, "index", None), "equals", None), getattr(y, "index", None)
    if same is not None and hasattr(other, "equals") and not same(other):
        raise ValueError("the indices of x and y differ: give y.loc[x.index], or .to_numpy() of both")
