"""Checks of users' input: each message names the argument, what was given, and what to do."""

from __future__ import annotations

import os
from math import prod

import numpy as np

from gp.arrays import Array, describe, is_torch, namespace, to_numpy

_MATRICES = 3
"""The number of n x n matrices that are held at once."""


def require_memory(n: int) -> None:
    """Raise MemoryError where the covariance matrices of n observations exceed the machine's memory."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return
    most = int((memory / (8 * _MATRICES)) ** 0.5)
    if n > most:
        raise MemoryError(
            f"x has {n} observations: {_MATRICES} covariance matrices of {8 * n**2 / 1e9:.0f} GB each exceed "
            f"the {memory / 1e9:.0f} GB of this machine, which holds those of {most}: give a subset of the "
            "rows, some thousand of them, as the time grows with the cube of their number"
        )


def as_points(name: str, x: Array) -> Array:
    """Return points (n, D) as a floating-point array; raise ValueError where they are not."""
    x = _floating(name, x)
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(
            f"{name} is a {describe(x)}: give points of shape (n, D); n points on a line are {name}[:, None]"
        )
    _require_finite(name, x)
    return x


def as_values(name: str, y: Array, size: int, like: Array) -> Array:
    """Return ``size`` numbers, one for each functional, as (size,) of the kind of ``like``.

    Lists and NumPy arrays of another dtype are taken to that of NumPy points; anything that would
    move data between libraries, dtypes of torch or devices is an error.

    Parameters
    ----------
    name : the argument's name, for messages. y : the numbers, (size,). size : the number of functionals.
    like : an array of the kind that is returned.
    """
    y = _floating(name, y, like)
    if is_torch(y) != is_torch(like) or (is_torch(y) and (y.dtype != like.dtype or y.device != like.device)):
        raise TypeError(
            f"{name} is a {describe(y)}, x is a {describe(like)}: give both as NumPy arrays "
            "or both as torch tensors, of the same dtype and on the same device"
        )
    count = prod(y.shape)
    if count != size:
        raise ValueError(
            f"{name} is a {describe(y)}: give {size} of them, one for each observation, shape ({size},)"
        )
    _require_finite(name, y)
    if is_torch(y):
        return y.reshape(-1)
    with np.errstate(over="ignore"):
        values = y.reshape(-1).astype(like.dtype, copy=False)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} is out of the range of {like.dtype}, the dtype of x: give both as float64")
    return values


def as_noise(noise: Array | None, size: int, like: Array) -> Array:
    """Return noise variances, a number or (size,): >= 0, and finite in the dtype of ``like``."""
    if noise is None:
        return 0.0
    if isinstance(noise, bool | np.bool_):
        raise TypeError(f"noise = {noise!r}: give variances, a number or one for each observation")
    numeric = isinstance(noise, int | float) or is_torch(noise)
    if not numeric and getattr(getattr(noise, "dtype", None), "kind", "O") not in "fiu":
        noise = _floating("noise", noise)
    if isinstance(noise, int | float):
        values, noise = np.asarray(noise, dtype=float), float(noise)
    else:
        values = noise if noise.ndim == 0 else as_values("noise", noise, size, like)
        noise = values
    xp = namespace(values)
    if not bool(xp.all(xp.isfinite(values) & (values >= 0))):
        raise ValueError(f"noise = {noise!r}: give variances, finite and not negative")
    largest = float(namespace(like).finfo(like.dtype).max)
    if np.any(np.asarray(to_numpy(values), float) > largest):  # for float32 this is the largest finite number
        raise ValueError(f"noise = {noise!r}: give variances below {largest:.4g}, the largest {like.dtype}")
    return noise


def _floating(name: str, values: Array, like: Array | None = None) -> Array:
    """Return an array of real numbers in float32 or float64; whole numbers in the dtype of ``like``."""
    if is_torch(values):
        return _floating_tensor(name, values, like)
    if type(values) is np.ndarray and values.dtype in (np.float64, np.float32):
        return values
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has {int(np.sum(values.mask))} masked entries: leave those rows out")
    try:
        complex_ = np.iscomplexobj(values)
        if np.asarray(values).dtype.kind in "mM":
            raise ValueError("it has dates")
    except ValueError as error:
        raise TypeError(f"{name} cannot be read as an array of real numbers: {error}") from None
    if complex_:
        raise TypeError(f"{name} is a {describe(values)}: give real numbers")
    try:
        single = isinstance(values, np.ndarray) and values.dtype == np.float32
        return np.asarray(values, dtype=np.float32 if single else float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} cannot be read as an array of real numbers: {error}") from None


def _floating_tensor(name: str, values: Array, like: Array | None) -> Array:
    import torch

    if values.dtype in (torch.float32, torch.float64):
        return values
    if values.is_floating_point() or values.is_complex():
        raise TypeError(f"{name} is a {describe(values)}: give float32 or float64")
    return values.to(like.dtype if like is not None and is_torch(like) else torch.float64)


def _require_finite(name: str, values: Array) -> None:
    finite = values.isfinite() if is_torch(values) else np.isfinite(values)
    if finite.all():
        return
    bad = [int(i) for i in np.argwhere(~np.asarray(finite.tolist()))[0]]
    raise ValueError(
        f"{name}{bad} is {float(values[tuple(bad)])}: every entry has to be finite; leave out "
        "observations that failed"
    )
