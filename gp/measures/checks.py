"""Checks of the arguments of measures.

Each raises a ValueError (a TypeError where the argument is no array of numbers) that names the argument, what
was given and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gp.arrays import Array, as_like, is_torch, namespace, to_numpy
from gp.checks import require_integer as require_integer
from gp.checks import require_shape as require_shape


def common_arrays(**arguments: Array) -> tuple[Array, ...]:
    """Return the arguments as floating arrays of one kind, dtype and device, all finite.

    They are torch tensors where one of them is, in the widest floating dtype among those given as
    arrays (float64 where none is).
    """
    tensors = {name: value for name, value in arguments.items() if is_torch(value)}
    if tensors:
        like = _torch_model(tensors)
    else:
        dtypes = [a.dtype for a in arguments.values() if getattr(a, "dtype", None) is not None]
        floating = [dtype for dtype in dtypes if dtype.kind == "f"]
        like = np.empty(0, np.result_type(*floating) if floating else np.float64)
    return tuple(_finite(name, value, like) for name, value in arguments.items())


def _torch_model(tensors: Mapping[str, Array]) -> Array:
    """Return an empty tensor of the dtype and device that the tensors share."""
    import torch

    devices = {name: str(tensor.device) for name, tensor in tensors.items()}
    if len(set(devices.values())) > 1:
        raise ValueError(f"the arguments are on different devices, {devices}: move them to one")
    dtype = next(iter(tensors.values())).dtype
    for tensor in tensors.values():
        dtype = torch.promote_types(dtype, tensor.dtype)
    if not dtype.is_floating_point:
        dtype = torch.float64
    return torch.empty(0, dtype=dtype, device=next(iter(tensors.values())).device)


def _finite(name: str, value: Array, like: Array) -> Array:
    try:
        host = np.asarray(to_numpy(value), dtype=float)
    except (TypeError, ValueError) as failure:
        raise TypeError(f"{name} = {value!r}: give an array of numbers") from failure
    if not np.all(np.isfinite(host)):
        raise ValueError(f"{name} has {np.sum(~np.isfinite(host))} entries that are NaN or infinite")
    return as_like(value if is_torch(value) else host, like)


def require_weights(weights: Array) -> None:
    """Raise ValueError unless ``weights`` are non-negative and sum to one within 1e-6.

    Weights that were rounded to float32 are within this tolerance.
    """
    host = to_numpy(weights)
    if np.any(host < 0):
        raise ValueError(f"weights has negative entries (smallest {host.min():.3g}): give >= 0")
    total = float(host.sum(dtype=np.float64))
    if abs(total - 1) > 1e-6:
        raise ValueError(f"weights sum to {total:.10g}: divide them by their sum")


def as_covariances(name: str, given: Array, shape: tuple[int, ...]) -> Array:
    """Return covariances (..., D, D) from such, symmetric up to rounding, or from variances (..., D).

    The result is the mean of matrices and their transposes, so that gradients in it are symmetric.

    Parameters
    ----------
    name : the argument's name, for messages. given : the matrices or variances. shape : (..., D).
    """
    xp, host = namespace(given), to_numpy(given)
    if given.ndim == len(shape):
        require_shape(name, given, shape)
        if np.any(host <= 0):
            raise ValueError(f"{name} has a variance of {host.min():.3g}: give positive variances")
        return xp.eye(shape[-1], dtype=given.dtype, device=given.device) * given[..., None, :]
    require_shape(name, given, (*shape, shape[-1]))
    gap = np.abs(host - np.swapaxes(host, -1, -2))
    root = np.sqrt(np.abs(np.diagonal(host, axis1=-2, axis2=-1)))
    if np.any(gap > np.sqrt(np.finfo(host.dtype).eps) * root[..., :, None] * root[..., None, :]):
        raise ValueError(f"{name} is not symmetric (entries differ by up to {gap.max():.3g})")
    return (given + xp.matrix_transpose(given)) / 2


def require_cube(u: Array, dimension: int) -> None:
    """Raise ValueError unless u (n, D) lies in the unit cube."""
    require_shape("u", u, ("n", dimension))
    host = to_numpy(u)
    if not np.all((host >= 0) & (host <= 1)):
        raise ValueError(f"u has entries in [{host.min():.3g}, {host.max():.3g}]: give [0, 1]")


def by_first(weights: Array, u: Array) -> tuple[np.ndarray, np.ndarray]:
    """Which of K parts by ``weights`` (K,) the first coordinate of u (n, D) chooses, and where in it, (n,).

    Part k has the interval [c_(k-1), c_k) of cumulative weights.
    """
    shares = to_numpy(weights).astype(np.float64)
    edges, first = np.cumsum(shares) / shares.sum(), to_numpy(u)[:, 0].astype(np.float64)
    last = int(np.flatnonzero(shares)[-1])  # by rounding, 1 may lie beyond the last edge
    index = np.minimum(np.searchsorted(edges, first, side="right"), last)
    return index, np.clip((first - (edges - shares)[index]) / shares[index], 0.0, 1.0)


def open_interval(u: Array) -> Array:
    """Return u moved off 0 and 1 by the precision of its dtype, so that quantiles are finite."""
    xp = namespace(u)
    eps = float(xp.finfo(u.dtype).eps)
    return xp.clip(u, eps, 1 - eps)
