"""Checks of arguments: each error names the argument, what was given and what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from gp.arrays import Array, is_torch, shown, to_numpy
from gp.checks import require_integer as require_integer
from gp.checks import require_number as require_number
from gp.checks import require_one_of as require_one_of
from gp.checks import require_seed as require_seed
from gp.linear_maps import smallest_eigenvalue

_LARGE = 1e140
"""Sums over data of the squares of larger entries come near the largest floating-point number."""


def require_finite(name: str, x: Array) -> None:
    """Every entry is finite; the error names the first row that is not."""
    if scipy.sparse.issparse(x):
        _require_finite_sparse(name, x)
        return
    finite = x.isfinite() if is_torch(x) else np.isfinite(x)
    if not bool(finite.all()):
        where = np.argwhere(~to_numpy(finite))[0]
        value = to_numpy(x)[tuple(where)]
        place = f"row {where[0]}" + (f", column {where[1]}" if len(where) > 1 else "")
        raise ValueError(f"{name} is {value} in {place}; every entry must be finite")


def require_summable(name: str, x: Array, row: int = 0) -> None:
    """Every entry of finite ``x`` is small enough for sums of squares; its first row has number ``row``."""
    if 0 in tuple(x.shape) or max(-float(x.min()), float(x.max())) < _LARGE:
        return
    where = np.argwhere(np.abs(to_numpy(x)) >= _LARGE)[0]
    place = f"row {row + where[0]}" + (f", column {where[1]}" if len(where) > 1 else "")
    raise ValueError(
        f"{name} is {to_numpy(x)[tuple(where)]} in {place}; entries must be below {_LARGE:g} in size, so "
        "that their squares can be summed: change the units"
    )


def _require_finite_sparse(name: str, x: Any) -> None:
    entries = x.tocoo()
    finite = np.isfinite(entries.data)
    if not finite.all():
        row = entries.row[~finite].min()
        raise ValueError(f"{name} has NaN or infinity in row {row}; remove or impute that row")


def require_numbers(name: str, given: object) -> np.ndarray:
    """The array of real numbers ``given`` as the argument ``name``; TypeError where it is none."""
    try:
        array = to_numpy(given)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} is no array of numbers: {error}") from None
    if array.size and array.dtype.kind not in "fiu":
        raise TypeError(f"{name} is {given!r:.80}; it must be real numbers")
    return array.astype(float)


def require_shape(name: str, x: Array, shape: Sequence[int]) -> None:
    """Exactly ``shape``.

    Parameters
    ----------
    name : the argument's name, for messages. x : the array. shape : what its shape must be.
    """
    if tuple(x.shape) != tuple(shape):
        raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be {tuple(shape)}")


def require_columns(name: str, x: Array, columns: int) -> None:
    """A table (N, ``columns``) with at least one row.

    Parameters
    ----------
    name : the argument's name, for messages. x : the table. columns : the number of columns it must have.
    """
    if len(x.shape) != 2 or x.shape[1] != columns or x.shape[0] < 1:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; it must be (N, {columns}) with N >= 1")


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
    try:
        vector = np.asarray(value, float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {shown(value)}; it must be a number or an array ({length},)") from None
    if vector.shape not in ((), (length,)):
        raise ValueError(f"{name} has shape {vector.shape}; it must be a number or an array ({length},)")
    require_positive(name, vector)
    return np.broadcast_to(vector, (length,)).copy()


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
