"""Checks of users' input: each message names the argument, what was given, and what to do."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
import scipy.sparse

from gp.arrays import Array, as_like, describe, is_torch, namespace, shown, to_numpy
from gp.matrices import smallest_eigenvalue
from gp.names import did_you_mean

Seed: TypeAlias = int | np.random.Generator

_MATRICES = 3
"""The number of n x n matrices that are held at once."""

_LARGE = 1e140
"""Sums over data of the squares of larger entries come near the largest floating-point number."""


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
            f"{name} is a {describe(x)}: give points of shape (n, D); one point is {name}[None, :], n "
            f"points on a line are {name}[:, None]"
        )
    require_finite(name, x)
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
    require_finite(name, y)
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


def require_number(name: str, value: object) -> None:
    """A real number, and no boolean."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {shown(value)}; it must be a number")
    try:
        float(value)
    except OverflowError:
        raise ValueError(
            f"{name} is {value!r:.40}; it must be in the range of floating-point numbers"
        ) from None


def require_seed(name: str, value: object) -> None:
    """A nonnegative integer or a generator: ``None`` would give other numbers each time."""
    if not isinstance(value, np.random.Generator):
        try:
            require_integer(name, value, 0)
        except TypeError:
            message = f"{name} is {shown(value)}; it must be an integer of at least 0 or a numpy Generator"
            raise TypeError(message) from None


def generator(seed: Seed) -> np.random.Generator:
    """A generator from a seed; a generator is passed through."""
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)


def whole_seed(seed: Seed) -> int:
    """A whole number is passed through; of a generator, a number that it draws."""
    return int(seed) if isinstance(seed, int | np.integer) else int(generator(seed).integers(2**31))


def noise_seed(rng: np.random.Generator) -> int:
    """A seed that follows from that of ``rng``, whose own numbers stay the same; 0 if that is not known."""
    seeds = getattr(rng.bit_generator, "seed_seq", None)
    return 0 if seeds is None else int(seeds.spawn(1)[0].generate_state(1)[0])


def require_integer(name: str, value: object, lowest: int) -> int:
    """An integer of at least ``lowest`` that fits into 64 bits, returned as int.

    Parameters
    ----------
    name : the argument's name, for messages. value : what was given. lowest : the least integer that is
        allowed.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        whole = f": give {int(value)}" if isinstance(value, float) and value.is_integer() else ""
        raise TypeError(f"{name} is {shown(value)}; it must be an integer of at least {lowest}{whole}")
    if value < lowest:
        raise ValueError(f"{name} is {value}; it must be at least {lowest}")
    if value > np.iinfo(np.int64).max:
        raise ValueError(f"{name} is {value}; it must be at most {np.iinfo(np.int64).max}")
    return int(value)


def require_one_of(name: str, value: object, allowed: Iterable[str]) -> None:
    """One of ``allowed``; the error offers the near ones.

    Parameters
    ----------
    name : the argument's name, for messages. value : what was given. allowed : the texts that are allowed.
    """
    options = list(allowed)
    if isinstance(value, str) and value in options:
        return
    hint = did_you_mean(value, options)
    raise ValueError(f"{name} is {shown(value)}; it must be one of {', '.join(options)}{hint}")


def require_each(name: str, x: Array, fits: Array, what: str, row: int = 0) -> None:
    """Every entry of ``x`` fits; the error has the place of the first that does not.

    Parameters
    ----------
    name : the argument's name, for messages. fits : booleans, of the shape of x.
    what : the sentence that says what is allowed. row : the number of the first row of x.
    """
    if bool(fits.all()):
        return
    first, *rest = np.argwhere(~to_numpy(fits))[0]
    place = ", ".join(map(str, rest))
    kind = ", column " if len(rest) == 1 else ", entry " if rest else ""
    raise ValueError(f"{name} is {to_numpy(x)[(first, *rest)]:g} in row {row + first}{kind}{place}; {what}")


def require_finite(name: str, x: Array, row: int = 0) -> None:
    """Every entry of ``x`` is finite; the error has the place of one that is not, counting from ``row``."""
    if scipy.sparse.issparse(x):
        entries = x.tocoo()  # type: ignore[attr-defined]
        finite = np.isfinite(entries.data)
        if not finite.all():
            first = entries.row[~finite].min()
            raise ValueError(f"{name} has NaN or infinity in row {first}; remove or impute that row")
    else:
        finite = x.isfinite() if is_torch(x) else np.isfinite(x)
        require_each(name, x, finite, "every entry must be finite", row)


def require_summable(name: str, x: Array, row: int = 0) -> None:
    """Every entry of finite ``x`` is small enough for sums of squares; its first row has number ``row``."""
    if 0 in tuple(x.shape) or max(-float(x.min()), float(x.max())) < _LARGE:
        return
    what = f"entries must be below {_LARGE:g} in size, so that their squares can be summed: change the units"
    require_each(name, x, np.abs(to_numpy(x)) < _LARGE, what, row)


def require_numbers(name: str, given: object) -> np.ndarray:
    """The array of real numbers ``given`` as the argument ``name``; TypeError where it is none."""
    try:
        array = to_numpy(given)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} is no array of numbers: {error}") from None
    if array.size and array.dtype.kind not in "fiu":
        raise TypeError(f"{name} is {given!r:.80}; it must be real numbers")
    return array.astype(float)


def require_shape(name: str, x: Array, shape: Sequence[int | str]) -> None:
    """Exactly ``shape``.

    Parameters
    ----------
    name : the argument's name, for messages. x : the array. shape : what its shape must be; a string stands
        for any size of at least 1.
    """
    free = [size for size in shape if isinstance(size, str)]
    pairs = zip(x.shape, shape, strict=False)
    if len(x.shape) != len(shape) or any(size < 1 if own in free else size != own for size, own in pairs):
        wanted = f"{tuple(shape)}{' with ' if free else ''}{', '.join(free)}{' >= 1' if free else ''}"
        raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be " + wanted.replace("'", ""))


def require_positive(name: str, x: Array) -> None:
    """Every entry positive and finite."""
    values = to_numpy(x)
    good = np.isfinite(values) & (values > 0.0)
    if not good.all():
        bad = values[~good].flat[0]
        raise ValueError(f"{name} contains {bad}; every entry must be positive and finite")


def require_nonnegative(name: str, x: Array) -> None:
    """Every entry 0 or positive and finite, and one in each row of the last axis positive."""
    values = np.atleast_1d(to_numpy(x))
    good = np.isfinite(values) & (values >= 0.0)
    if not good.all():
        raise ValueError(
            f"{name} contains {values[~good].flat[0]}; every entry must be 0 or positive, and finite"
        )
    if not (values > 0.0).any(-1).all():
        raise ValueError(f"{name} is 0 throughout a row; at least one entry must be positive")


def positive_vector(name: str, value: Array, length: int) -> np.ndarray:
    """Return an array (``length``,) from one positive number or from as many as its entries.

    Parameters
    ----------
    name : the argument's name, for messages. value : a number, or an array (length,). length : the number of
        entries.
    """
    vector = vector_of(name, value, length, np.nan)
    require_positive(name, vector)
    return vector


def vector_of(name: str, value: object, count: int, missing: float) -> np.ndarray:
    """Return an array (``count``,) with ``missing`` where the value or an entry is None.

    Parameters
    ----------
    name : the argument, for messages. value : a number, an array (count,) or None.
    count : the number of entries. missing : the number that stands for None.
    """
    try:
        given = to_numpy(value)
        if given.dtype.kind not in "fiubO":
            raise TypeError(given.dtype)
        vector = np.where(given == None, missing, given).astype(float)  # noqa: E711
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is {shown(value)}; it must be a number or an array ({count},)") from None
    if vector.shape not in ((), (count,)):
        raise ValueError(f"{name} has shape {vector.shape}; it must be a number or an array ({count},)")
    return np.broadcast_to(vector, (count,)).copy()


def require_covariance(name: str, x: Array) -> None:
    """Symmetric positive definite matrices (..., D, D)."""
    values = to_numpy(x).astype(float)
    if values.ndim < 2 or values.shape[-1] != values.shape[-2] or values.size == 0:
        raise ValueError(f"{name} has shape {values.shape}; it must be square, (..., D, D) with D >= 1")
    require_finite(name, values)
    scale = np.abs(values).max(initial=0.0)
    if np.abs(values - np.swapaxes(values, -1, -2)).max(initial=0.0) > 1e-8 * scale:
        raise ValueError(f"{name} is not symmetric; give (A + A.T) / 2 if rounding is the cause")
    lowest = smallest_eigenvalue(values)
    if lowest <= 0.0:
        raise ValueError(
            f"{name} is not positive definite (smallest eigenvalue {lowest:.3g}); "
            "it must be a covariance with positive eigenvalues"
        )


def require_above(name: str, value: float, bound: float) -> None:
    """``value > bound`` and finite."""
    require_number(name, value)
    if not bound < value < np.inf:
        raise ValueError(f"{name} is {value}; it must be above {bound} and finite")


def require_boolean(name: str, value: object) -> None:
    """True or False; a number or an array is neither."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {shown(value)}; it must be True or False")


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
