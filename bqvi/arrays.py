"""Parameters as tuples of arrays, and the small linear algebra and special functions of families.

Formulas are written once for NumPy arrays and torch tensors, as in `gp.arrays`. For NumPy arrays the
namespace is NumPy itself: version 2 is an array-API namespace, and leaving out the look-up saves microseconds
in the loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import scipy.special

from gp.arrays import Array, is_torch
from gp.arrays import namespace as shared_namespace

Values: TypeAlias = tuple[Array, ...]
"""One array for each sufficient statistic of a family: natural parameters, gradients, steps."""


def namespace(x: Array) -> Any:
    """Array-API namespace of ``x``; for NumPy arrays NumPy itself, for speed."""
    return np if isinstance(x, np.ndarray | np.generic | float | int) else shared_namespace(x)


def like(values: np.ndarray, parameter: Array) -> Array:
    """NumPy ``values`` as the kind of array that ``parameter`` is; memory is shared where it can be."""
    if is_torch(parameter):
        import torch

        return torch.as_tensor(values, dtype=parameter.dtype, device=parameter.device)
    # also keeps a number an array of no dimensions
    return np.asarray(values, parameter.dtype)


def add(a: Values, b: Values) -> Values:
    """``a + b``, array by array."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def total(parts: Iterable[Values]) -> Values:
    """The sum of one or more ``parts``, array by array."""
    return reduce(add, parts)


def subtract(a: Values, b: Values) -> Values:
    """``a - b``, array by array."""
    return tuple(x - y for x, y in zip(a, b, strict=True))


def scale(a: Values, factor: float) -> Values:
    """``factor * a``, array by array."""
    return tuple(factor * x for x in a)


def flat(a: Values) -> np.ndarray:
    """All entries in one vector, (P,), for NumPy arrays."""
    return np.concatenate([np.ravel(x) for x in a])


def unflat(vector: np.ndarray, like: Values) -> tuple[np.ndarray, ...]:
    """The entries (P,) as arrays of the shapes of ``like``."""
    shapes = [np.shape(x) for x in like]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    return tuple(x.reshape(shape) for x, shape in zip(np.split(vector, ends[:-1]), shapes, strict=True))


def inner(a: Values, b: Values) -> Array:
    """``<a, b>``: the sum over all entries of all arrays."""
    return sum((x * y).sum() for x, y in zip(a, b, strict=True))


def digamma(x: Array) -> Array:
    """psi(x) = d ln Gamma(x) / dx."""
    return x.digamma() if is_torch(x) else scipy.special.psi(x)


def trigamma(x: Array) -> Array:
    """psi'(x)."""
    return x.polygamma(1) if is_torch(x) else scipy.special.zeta(2.0, x)


def gammaln(x: Array) -> Array:
    """ln Gamma(x) for x > 0."""
    return x.lgamma() if is_torch(x) else scipy.special.gammaln(x)


def logsumexp(x: Array) -> Array:
    """ln sum exp over the last axis; -inf entries allowed."""
    if is_torch(x):
        return x.logsumexp(-1)
    top = x.max(-1, keepdims=True)
    # scipy.special.logsumexp takes half a millisecond even for few numbers
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - top).sum(-1)) + top[..., 0]


def transpose(a: Array) -> Array:
    """Transpose of the last two axes."""
    return a.swapaxes(-1, -2)


def diagonal(a: Array) -> Array:
    """Diagonal of the last two axes, (..., D)."""
    return a.diagonal(0, -2, -1)


def diagonal_matrix(v: Array) -> Array:
    """(..., D, D) with ``v`` (..., D) on the diagonal and zeros elsewhere."""
    if is_torch(v):
        return v.diag_embed()
    return v[..., :, None] * np.eye(v.shape[-1], dtype=v.dtype)


def outer(a: Array, b: Array) -> Array:
    """(..., D, D) outer products of (..., D) and (..., D)."""
    return a[..., :, None] * b[..., None, :]


def matvec(a: Array, v: Array) -> Array:
    """(..., D, D) times (..., D)."""
    return (a @ v[..., None])[..., 0]


def symmetric_from_lower(a: Array) -> Array:
    """The symmetric matrix that shares the lower triangle of ``a``."""
    xp = namespace(a)
    return xp.tril(a) + transpose(xp.tril(a, k=-1))
