"""What a call of the user's function returned, as numbers; EvaluationError for anything else.

A log joint may have forgotten the logarithm (`not_logarithms`). It may have any value, and its values on the
first design differ by nats around their mean. A density is nowhere negative, varies by orders of magnitude
over that design, and underflows to 0 on most data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from bqvi.calls.coordinates import Coordinates
from bqvi.calls.faults import EvaluationError, described
from bqvi.calls.function import LARGEST, LOG_JOINT, Function
from bqvi.calls.settings import DENSITY
from bqvi.calls.table import Products
from gp.arrays import is_torch, to_numpy
from gp.names import TRANSFORM

_OF_SINGLES = 1e30
"""Below what float32 can hold, 3e38."""


@dataclass(frozen=True, eq=False)
class CallResult:
    """The result of one call at m points, in the user's units.

    Attributes
    ----------
    values : the values (m, o); None where the value, its noise or its factor raised.
    failed : which rows have no usable value, (m,) bool.
    reasons : for each row why it failed, or "".
    kept : which rows are evaluations, good or infeasible, (m,) bool; ``error`` describes the others.
    sds : the standard deviations of the values' noise (m,), or None. gradients : (m, o, P), or None.
    error : the exception that the value or the gradient raised, or an EvaluationError about what they
        returned; None if there is none.
    graph : whether the values depend on theta in torch's graph, () or (m,); with "autodiff" False where they
        do not.
    left : whether an operation of the function left torch's graph, where the call was watched.
    who : the function that raised, where it was neither the value nor the gradient: "noise_sd" or
        "log_density".
    by_products : for each row the dict that was returned with its value, or None; () for none.
    """

    values: np.ndarray | None
    failed: np.ndarray
    reasons: tuple[str, ...]
    kept: np.ndarray
    sds: np.ndarray | None = None
    gradients: np.ndarray | None = None
    error: Exception | None = None
    graph: np.ndarray | bool = True
    left: bool = False
    who: str = ""
    by_products: Products = ()


def no_values(points: np.ndarray, error: Exception, kept: bool = True, who: str = "") -> CallResult:
    """The result at points (m, P) where no values were returned, or they are no numbers.

    Parameters
    ----------
    points : (m, P). error : the exception that was raised, or that says what is wrong with the values.
    kept : whether the points become rows without a value. who : what raised, in words; "" for the function.
    """
    m, reason = len(points), f"{who} {described(error)}".strip()
    return CallResult(None, np.ones(m, bool), (reason,) * m, np.full(m, kept), error=error, who=who)


def together(parts: Sequence[CallResult], outputs: int, dimension: int) -> CallResult:
    """The results of several calls as one, whose values are (n, o) and gradients (n, o, P), without an error.

    Parameters
    ----------
    parts : the results. outputs, dimension : o and P.
    """
    if len(parts) == 1 and parts[0].values is not None:
        return parts[0]
    failed, kept, graph = (
        np.concatenate([np.zeros(0, bool), *(np.broadcast_to(getattr(part, name), len(part.failed))
                                             for part in parts)])
        for name in ("failed", "kept", "graph")
    )  # fmt: skip

    def column(name: str, *shape: int) -> np.ndarray | None:
        """(n, *shape), NaN for parts without it; None where all lack it."""
        found = [(getattr(part, name), (len(part.failed), *shape)) for part in parts]
        if all(x is None for x, _ in found):
            return None
        return np.concatenate([np.full(size, np.nan) if x is None else x for x, size in found])

    values, products = column("values", outputs), [part.by_products for part in parts]
    rows = (one or (None,) * len(part.failed) for one, part in zip(products, parts, strict=True))
    return CallResult(
        np.full((len(failed), outputs), np.nan) if values is None else values,
        failed,
        tuple(chain.from_iterable(part.reasons for part in parts)),
        kept,
        column("sds"),
        column("gradients", outputs, dimension),
        graph=graph,
        by_products=tuple(chain.from_iterable(rows)) if any(products) else (),
    )


def _wrong(function: Function, points: np.ndarray, what: str, must: str) -> EvaluationError:
    """The error about ``what`` the function returned at points (m, P), and what it ``must`` return."""
    place = function.places(points)
    return EvaluationError(f"the {function.range.title} {what} at {place}; {must}", points[0])


def no_tensor(function: Function, points: np.ndarray) -> EvaluationError:
    """The error about a function of tensors that returned none at points (m, P)."""
    must = (
        'gradient="autodiff" needs a torch function: write it in torch throughout, or give gradient=None to '
        "use its values only"
    )
    return _wrong(function, points, "does not return a torch tensor", must)


def parted(function: Function, returned: object, points: np.ndarray) -> tuple[Any, Products]:
    """Split what was returned at points (m, P) into the values and the by-products of the rows, if any.

    Raises
    ------
    EvaluationError
        The function takes many points at once, or the dict contains something that cannot be saved.
    """
    if not (isinstance(returned, tuple) and returned and isinstance(returned[-1], Mapping)):
        return returned, ()
    if function.vectorised:
        must = "only a function of one point has by-products: give vectorised=False"
        raise _wrong(function, points, "returned a dict", must)
    products = {name: _kept(function, name, value, points) for name, value in returned[-1].items()}
    rest = returned[:-1]
    return (rest[0] if len(rest) == 1 else rest), (products,)


def _kept(function: Function, name: object, value: object, points: np.ndarray) -> Any:
    """A copy of a by-product as a NumPy array, a number or text."""
    if is_torch(value):
        value = to_numpy(value)
    if isinstance(name, str):
        if value is None or isinstance(value, bool | int | float | str):
            return value
        array = np.array(value)
        if array.dtype.kind in "biufcU":
            return array.item() if array.ndim == 0 else array
    what = f"returned the by-product {name!r} = {value!r:.80}"
    raise _wrong(function, points, what, "by-products are numbers, text and arrays, by names")


def values_of(
    function: Function, returned: object, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """The values (m, o) at points (m, P), and their standard deviations (m,) if they were returned."""
    sds = None
    if isinstance(returned, tuple):
        if function.range.outputs or len(returned) != 2:
            must = "it must return a number or (number, sd)"
            if function.range.outputs:
                must = f"it must return {_wanted(function, len(points))}, and its noise is stated by noise_sd"
            raise _wrong(function, points, f"returned a tuple of {len(returned)}", must)
        sds = _sds_of(function, returned[1], points)
        returned = returned[0]
    array = numbers_in(returned, indicators=function.range.outputs and not function.range.logarithmic)
    if array is None:
        title = "torch tensor" if is_torch(returned) else type(returned).__name__
        must = f"it must return {_wanted(function, len(points))}"
        raise _wrong(function, points, f"returned {returned!r:.200} (a {title})", must)
    return _shaped(function, array, points), sds


def _sds_of(function: Function, returned: object, points: np.ndarray) -> np.ndarray:
    """The standard deviations (m,) of the noise at points (m, P), as the function returned them."""
    n, array = len(points), numbers_in(returned)
    if array is None or array.size not in (1, n) or not ((array > 0.0) & (array < np.inf)).all():
        what = f"has the {'noise_sd' if callable(function.noise_sd) else 'sd'} {returned!r:.80}"
        raise _wrong(function, points, what, "it must be one positive number; give a gradient as gradient=")
    return np.broadcast_to(array.reshape(-1).astype(float), (n,))


def gradients_of(function: Function, returned: object, points: np.ndarray, outputs: int) -> np.ndarray:
    """The gradients (m, o, P) at points (m, P).

    Parameters
    ----------
    function : the user's function. returned : the gradients as it returned them. points : (m, P).
    outputs : o.
    """
    n, dimension = points.shape
    try:
        array = to_numpy(returned)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if not function.vectorised:
        array = array[None]
    if array.shape == (n, dimension) and outputs == 1:
        array = array[:, None, :]
    if array.shape != (n, outputs, dimension) or array.dtype.kind not in "fiu":
        one = [dimension] if outputs == 1 else [outputs, dimension]
        must = tuple([n, *one] if function.vectorised else one)
        got = array.shape[not function.vectorised :]
        raise EvaluationError(
            f"the gradient returned {returned!r:.200} (shape {got}) at {function.places(points)}; it must be "
            f"{must} real numbers",
            points[0],
        )
    return array.astype(float, copy=False)


def noise_at(function: Function, points: np.ndarray) -> np.ndarray:
    """The standard deviations (m,) of the noise at points (m, P), by the function's own ``noise_sd``.

    Parameters
    ----------
    function : a function whose ``noise_sd`` is a function. points : (m, P); m is 1 unless it is vectorised.
    """
    assert callable(function.noise_sd)  # checked by the callers
    return _sds_of(function, function.noise_sd(function.given(points)), points)


def log_weights(function: Function, points: np.ndarray) -> np.ndarray:
    """The logarithms (n,) of the function's factor at points (n, P)."""
    assert function.log_weight is not None  # called only where there is a log weight
    logs = np.asarray(to_numpy(function.log_weight(function.many(points))), dtype=float).reshape(-1)
    if logs.shape != (len(points),) or np.isnan(logs).any() or (logs == np.inf).any():
        raise EvaluationError(
            f"the log density returned {logs!r:.200} at {len(points)} points: it has to return one "
            "number for each, finite or -inf"
        )
    return logs


def weighted(function: Function, values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The values (m, o) at points (m, P), multiplied by the function's factor."""
    logs = log_weights(function, points)[:, None]
    return values + logs if function.range.logarithmic else values * np.exp(logs)


def reasons_of(function: Function, values: np.ndarray) -> tuple[str, ...]:
    """For each row of values (m, o) the reason why it cannot be used, or ""."""
    largest = LARGEST if function.range.density else np.inf
    fine = np.abs(values) < largest
    if function.range.logarithmic:
        fine |= values == -np.inf
    rows: np.ndarray = np.all(fine, axis=1)
    return tuple("" if good else f"returned {_numbers(row)}" for good, row in zip(rows, values, strict=True))


def _numbers(row: np.ndarray) -> str:
    return str(float(row[0])) if len(row) == 1 else str(row.tolist())


def numbers_in(returned: object, indicators: bool = False) -> np.ndarray | None:
    """The array of real numbers that a function ``returned``, in its own dtype; None for anything else.

    With ``indicators`` booleans, of whether a point is in a set, are 0 and 1. Masked entries are NaN: NumPy's
    own conversion makes 0 of a masked number.
    """
    if isinstance(returned, np.ma.MaskedArray):
        returned = np.ma.filled(returned.astype(float), np.nan)
    try:
        array = to_numpy(returned)
    except (TypeError, ValueError):
        return None
    if indicators and array.dtype.kind == "b":
        return array.astype(float)
    return array if array.dtype.kind in "fiu" else None


def _shaped(function: Function, array: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The array as values (m, o); EvaluationError where its shape is wrong."""
    n, several = len(points), function.range.outputs
    shape = array.shape
    if function.vectorised:
        fine = shape == (n,) or (several and array.ndim == 2 and shape[0] == n and array.size > 0)
    else:
        fine = shape in ((), (1,)) or (several and array.ndim == 1 and array.size > 0)
    if fine:
        return array.reshape(n, -1).astype(float)
    hint = (
        " (if it takes one point at a time, pass vectorised=False)" if function.vectorised and n > 1 else ""
    )
    raise EvaluationError(
        f"the {function.range.title} returned shape {shape} for {'' if n == 1 else f'{n} points, '}"
        f"{function.places(points)}; it must return {_wanted(function, n)}{hint}",
        points[0],
    )


def _wanted(function: Function, n: int) -> str:
    if not function.vectorised:
        return (
            "one real number" + (", or o of them (o,)," if function.range.outputs else "") + " for one point"
        )
    return f"real numbers ({n},)" + (f" or ({n}, o)" if function.range.outputs else "")


def refused(function: Function, values: np.ndarray) -> tuple[np.ndarray, str, str]:
    """Which rows (m,) of values (m, o) are not allowed; a text of the first, and of what is allowed."""
    kind, must = function.range, ""
    bad: np.ndarray = np.zeros(len(values), bool)
    if kind.density and function.errors != "infeasible":
        bad = np.any(values >= LARGEST, axis=1)
        must = "it must be finite" + (kind.everywhere or ", or -inf where the density vanishes")
    if kind.non_negative:
        bad, must = np.any(values < 0.0, axis=1), kind.non_negative
    if not bad.any() and function.errors == "raise":
        bad = np.array([bool(reason) for reason in reasons_of(function, values)])
        must = "it has to be finite" + (" or -inf" if kind.logarithmic else "") + kind.everywhere
    if not bad.any():
        return bad, "", ""
    return bad, f"the {kind.title} is {_numbers(values[int(np.argmax(bad))])}", must


def doubts(function: Function, values: np.ndarray, theta: np.ndarray) -> tuple[str, ...]:
    """Warnings about the values (n,) of a logarithm at theta (n, P): a density, or in single precision."""
    kind, of = function.range, "f" if function.range.logarithmic else "prior times likelihood"
    with np.errstate(invalid="ignore", over="ignore"):  # of infinite and of huge values
        if function.log_weight is not None:
            values = values - log_weights(function, theta)
        elif kind.beside is not None:
            of, values = "the likelihood", values - kind.beside(theta)
        values = np.round(values, 9)  # a 0 is exact no longer after a prior was added and subtracted
        falls = values[np.square(theta - theta.mean(0)).sum(1).argmax()] <= 0.01 * values.max()
    density = not_logarithms(values, kind.title, of) if falls else ""  # a square does not fall
    return tuple(filter(None, (density, _in_single(values, kind.title))))


def _in_single(values: np.ndarray, title: str) -> str:
    """A message that values (n,) are multiples of a step of float32 that is above .0001; "" otherwise."""
    values = values[np.abs(values) < _OF_SINGLES]
    if len(values) < 4 or (values == np.round(values)).all():
        return ""
    best, single = float(values.max()), values.astype(np.float32)
    step = float(np.spacing(np.float32(abs(best))))
    if step < 1e-4 or (np.abs(values - single) > 1e-5 * step).any():
        return ""
    return (
        f"The {title} is in single precision (float32): near its largest value, {best:.2g}, it is a multiple "
        f"of {step:.1g}, and no sd contains such errors. Compute it in float64: with arrays of that dtype, "
        '.to(torch.float64), or jax.config.update("jax_enable_x64", True).'
    )


def require_logarithm(function: Function, coordinates: Coordinates | None, theta: np.ndarray) -> None:
    """Raise EvaluationError where the user's function for a log density beside the values is none.

    A density is positive at one of theta (n, P), and nearly 0 far from there along all parameters without a
    bound, where its logarithm is negative; a prior transform is much larger there. With bounds on all of them
    neither can be told. An exception that the function raises so far out says nothing.
    """
    beside, start = function.range.beside, theta[0]
    ends = (-np.inf, np.inf) if coordinates is None else (coordinates.lower, coordinates.upper)
    step = 1e6 * (1.0 + np.abs(start))
    away = [np.where(np.isinf(end), start + np.sign(end) * step, start) for end in ends]
    away = [point for point in away if (point != start).any()]
    if beside is None or not away:
        return
    points, logs = np.stack([*theta, *away]), np.zeros(len(theta))
    name, given = ("prior", points) if function.log_weight is None else ("log_density", function.many(points))
    with suppress(Exception), np.errstate(all="ignore"):
        logs = to_numpy(beside(given)).reshape(-1)
    far, at = logs[len(theta) :], int(np.argmax(logs[: len(theta)]))
    small = ((far >= 0.0) & (far <= 1e-3 * logs[at])).all()
    grows = name == "prior" and np.isfinite(logs[at]) and (far > logs[at] + 1e3).any()
    if grows or (small and logs[at] > 0.0):
        raise EvaluationError(
            f"{name} is {'no log' if grows else 'a'} density: it is {logs[at]:.4g} at "
            f"{function.place(theta[at])}, and {far.max():.4g} at {function.place(away[far.argmax()])}; "
            + (TRANSFORM if grows else "it must return the logarithm, as .logpdf does in the place of .pdf"),
            theta[at],
        )


def not_logarithms(
    values: np.ndarray, title: str = LOG_JOINT.title, of: str = "prior times likelihood"
) -> str:
    """A message why values (n,) look like those of a density ``of`` something; "" where they do not.

    They do if none is negative and a quarter of them or more is below a hundredth of the largest, or if all
    are 0 (which is also true of the logarithm of a uniform density without its constant).
    """
    if len(values) < 4 or not np.isfinite(values).all() or (values < 0.0).any():
        return ""
    largest = float(values.max())
    small = int((values <= 0.01 * largest).sum())
    if small < DENSITY.share * len(values):
        return ""
    seen = (
        f"is 0 at each of {len(values)} points, as a density that underflows is"
        if largest == 0.0
        else f"is nowhere negative at {len(values)} points, and at {small} of them below a hundredth of the "
        f"largest value, {largest:.3g}, as a density is"
    )
    return (
        f"The {title} {seen}: return the logarithm of {of}, summed term "
        "by term, as the exponential of such a sum underflows. If it is a logarithm already, its sign may be "
        "wrong: the logarithm is wanted, and not its negative."
    )


def unstated_noise(variances: np.ndarray) -> tuple[str, ...]:
    """A warning where some values have a noise variance and others have none; () otherwise.

    Parameters
    ----------
    variances : the noise variances (n,) of the values; 0 or NaN where none was stated.
    """
    without = int(np.count_nonzero(~(variances > 0.0)))
    if without in (0, len(variances)):
        return ()
    return (
        f"{without} of {len(variances)} values have no noise sd, while the others have one: they count as "
        "exact. If they are noisy, give noise_sd as a function of theta, from which known evaluations have "
        "their noise too.",
    )


def understated_noise(gain: float, factor: float, stated: float) -> tuple[str, ...]:
    """The reason that values vary by more than their noise, whose sd was ``stated``; () where they do not.

    Parameters
    ----------
    gain : of the log evidence of a surrogate, nats, by noise of ``factor`` times that sd. stated : the sd.
    """
    if not (gain > 4.0 and factor > 1.0):
        return ()
    return (
        f"The values vary by more than their noise: with a standard deviation of {factor * stated:.2g} "
        f"instead of {stated:.2g} the log evidence of the surrogate is {gain:.2g} nats higher. State the "
        'noise as it is, or noise_sd="unknown".',
    )
