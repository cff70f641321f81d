"""Evaluations that the user made before, in his units: checked, and transformed to the coordinates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bqvi.calls.assembly import CallBatch
from bqvi.calls.call import CallResult, weighted
from bqvi.calls.evaluations import Evaluations
from bqvi.calls.function import LARGEST
from bqvi.calls.returned import reasons_of, refused
from bqvi.checks import require_shape
from gp.arrays import Array, to_numpy

if TYPE_CHECKING:
    from bqvi.calls.caller import Caller

__all__ = ["evaluation_arrays", "evaluations_given", "evaluations_received", "numbers"]


def evaluation_arrays(evaluations: object) -> tuple[np.ndarray | None, ...] | None:
    """The arrays of the argument ``evaluations``: theta and values, then gradients and noise sds if any.

    Raises
    ------
    TypeError
        ``evaluations`` is no tuple or list of two to four arrays of real numbers.
    ValueError
        theta has no points, or one that is not finite.
    """
    if evaluations is None:
        return None
    if not isinstance(evaluations, tuple | list) or not 2 <= len(evaluations) <= 4:
        what = type(evaluations).__name__
        if isinstance(evaluations, tuple | list):
            what += f" of {len(evaluations)}"
        raise TypeError(
            f"evaluations is a {what}; it must be (theta (n, P), values (n,)), then gradients (n, P) and "
            "noise sds (n,) if any"
        )
    titles = ("theta", "values", "gradients", "noise_sd")
    found = tuple(
        None if x is None else numbers(f"evaluations' {title}", x)
        for title, x in zip(titles, evaluations, strict=False)
    )
    if found[0] is not None:
        _require_points(found[0])
    return found


def _require_points(theta: np.ndarray) -> None:
    """ValueError where there are none, or one is not finite."""
    if not theta.size:
        raise ValueError(f"evaluations has no points: theta has shape {theta.shape}; leave evaluations out")
    rows = np.atleast_2d(theta)
    bad = ~np.isfinite(rows).all(axis=-1)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"evaluations' theta[{at}] is {rows[at].tolist()}; it must be finite")


def numbers(name: str, given: object) -> np.ndarray:
    """The array of real numbers ``given`` as the argument ``name``; TypeError where it is none."""
    try:
        array = to_numpy(given)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} is no array of numbers: {error}") from None
    if array.size and array.dtype.kind not in "fiu":
        raise TypeError(f"{name} is {given!r:.80}; it must be real numbers")
    return array.astype(float)


def evaluations_given(
    caller: Caller, theta: Array, values: Array, gradients: Array, noise_sd: Array
) -> Evaluations:
    """See `Caller.given`.

    Parameters
    ----------
    caller : the caller. theta : (n, P). values : (n,). gradients : (n, P), or None.
    noise_sd : (n,), a number, or None.
    """
    theta, values = np.atleast_2d(np.asarray(theta, float)), np.atleast_1d(np.asarray(values, float))
    if values.shape != (len(theta),):
        raise ValueError(f"values has shape {values.shape}; it must be ({len(theta)},), one for each theta")
    if (values == np.inf).any():
        raise ValueError(f"values is inf in row {int(np.argmax(values))}; a log density is below inf")
    points = theta if caller.coordinates is None else caller.coordinates.from_user(theta)
    slopes = None if gradients is None else np.asarray(gradients, float)
    if slopes is not None:
        require_shape("gradients", slopes, theta.shape)
    return _rows(caller, points, theta, values, slopes, _sds(noise_sd, len(values)))


def evaluations_received(
    caller: Caller, points: np.ndarray, values: Array, gradients: Array, noise_sd: Array
) -> Evaluations:
    """See `Caller.received`.

    Parameters
    ----------
    caller : the caller. points : (n, D), in the coordinates. values : (n,), or (n, o).
    gradients : (n, P), (n, o, P), or None. noise_sd : (n,), a number, or None.
    """
    function, n, values = caller.function, len(points), np.atleast_1d(numbers("values", values))
    if len(values) != n or values.ndim > 1 + function.range.outputs:
        raise ValueError(f"values has shape {values.shape}; it must be ({n},), one for each theta")
    theta = caller.to_user(points)
    bad, what, must = refused(function, values.reshape(n, -1))
    if bad.any():
        raise ValueError(f"values, row {int(np.argmax(bad))}: {what}; {must}")
    if callable(function.noise_sd) and noise_sd is None:
        raise ValueError("noise_sd is None, and the run was begun with a function of it: give its values")
    if (gradients is None) != (function.gradient is None):
        raise ValueError(
            "gradients is None, and the function has gradients: give them too"
            if gradients is None
            else "gradients was given, and the run was begun without a gradient"
        )
    slopes = None if gradients is None else np.asarray(numbers("gradients", gradients))
    if slopes is not None and slopes.shape not in (theta.shape, (*values.shape, theta.shape[1])):
        raise ValueError(f"gradients has shape {slopes.shape}; it must be {(*values.shape, theta.shape[1])}")
    made = _rows(caller, points, theta, values, slopes, _sds(noise_sd, n), "told")
    if function.errors == "raise" and not made.good.all():
        raise ValueError(f"values or gradients, row {int(np.argmin(made.good))}: one is not finite")
    if function.log_weight is None:
        return made
    return replace(made, values=weighted(function, made.values, theta))


def _sds(noise_sd: Array, n: int) -> np.ndarray | None:
    if noise_sd is None:
        return None
    sds = np.asarray(noise_sd, float)
    if sds.shape not in ((), (n,)):
        raise ValueError(f"noise_sd has shape {sds.shape}; it must be a number or {(n,)}")
    if not (sds > 0.0).all():
        raise ValueError("noise_sd has entries that are not positive; give None where there is no noise")
    return np.broadcast_to(sds, (n,))


def _rows(
    caller: Caller,
    points: np.ndarray,
    theta: np.ndarray,
    values: np.ndarray,
    slopes: np.ndarray | None,
    sds: np.ndarray | None,
    how: str = "given",
) -> Evaluations:
    values = values.reshape(len(values), -1)
    reasons = np.array(
        [one.replace("returned", f"was {how} as") for one in reasons_of(caller.function, values)]
    )
    failed = reasons != ""
    if slopes is not None:
        slopes = slopes.reshape(len(values), values.shape[1], theta.shape[1])
        fine = (np.abs(slopes) < LARGEST).all(axis=(1, 2))
        reasons = np.where((reasons == "") & ~fine, "the gradient is not finite", reasons)
        slopes = np.where(fine[:, None, None], slopes, np.nan)
    with_gradients = slopes is not None
    batch = CallBatch(caller.function, caller.coordinates, points, theta, with_gradients=with_gradients)
    batch.enter_whole(CallResult(values, sds, slopes, failed, tuple(reasons.tolist())))
    return batch.rows()
