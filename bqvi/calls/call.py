"""One call of the user's function at m points: the values that it returned, or its exception."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls.evaluations import Products
from bqvi.calls.faults import EvaluationError, described, message_of
from bqvi.calls.function import AUTODIFF, LARGEST, Function, GradientWithValue
from bqvi.calls.returned import (
    gradients_of,
    log_weights_of,
    no_tensor,
    parted,
    reasons_of,
    refused,
    sds_of,
    values_of,
)


@dataclass(frozen=True, eq=False)
class CallResult:
    """The result of one call at m points, in the user's units.

    Attributes
    ----------
    values : the values (m, o), NaN where the function raised. sds : the standard deviations of their noise
        (m,), or None. gradients : the gradients (m, o, P), or None.
    failed : which rows have no usable value, (m,) bool.
    reasons : for each row why it failed, or "".
    kept : which rows are evaluations, good or infeasible, (m,) bool or True for all; ``error`` describes the
        others.
    error : the exception that the value or the gradient raised, or an EvaluationError about what they
        returned; None if there is none.
    graph : whether the values depend on theta in torch's graph; with "autodiff" False where they do not.
    left : whether an operation of the function left torch's graph, where the call was watched.
    raised : whether the value, its noise or its factor raised, so that there is no value.
    who : the function that raised, where it was neither the value nor the gradient: "noise_sd" or
        "log_density".
    by_products : for each row the dict that was returned with its value; () for none.
    """

    values: np.ndarray
    sds: np.ndarray | None = None
    gradients: np.ndarray | None = None
    failed: np.ndarray | bool = False
    reasons: tuple[str, ...] | str = ""
    kept: np.ndarray | bool = True
    error: Exception | None = None
    graph: bool = True
    left: bool = False
    raised: bool = False
    who: str = ""
    by_products: Products = ()


@dataclass(frozen=True)
class Call:
    """A call of a function at points (m, P), or at one point (P,); picklable where the function is.

    Exceptions are returned in the result; only BaseExceptions that are no Exception, such as Ctrl-C, are
    raised. ``elsewhere`` is True where results are sent between processes, and exceptions have to be pickled;
    ``watched``, where a function of torch is watched for operations that leave its graph.
    """

    function: Function
    elsewhere: bool = False
    watched: bool = False

    def __call__(self, points: np.ndarray) -> CallResult:
        """The result of the function at ``points``."""
        points = np.atleast_2d(points)
        try:
            result = _call_result(self.function, points, self.watched)
        except EvaluationError as error:
            result = no_values(points, error, kept=False)
        except Exception as error:
            result = no_values(points, error)
        if self.elsewhere and result.error is not None:
            result = replace(result, error=_picklable(result.error))
        return result


def no_values(points: np.ndarray, error: Exception, kept: bool = True, who: str = "") -> CallResult:
    """The result at points (m, P) where no values were returned, or they are no numbers.

    Parameters
    ----------
    points : (m, P). error : the exception that was raised, or that says what is wrong with the values.
    kept : whether the points become rows without a value. who : what raised, in words; "" for the function.
    """
    values, reason = np.full((len(points), 1), np.nan), f"{who} {described(error)}".strip()
    return CallResult(values, failed=True, reasons=reason, kept=kept, error=error, raised=True, who=who)


def _call_result(function: Function, points: np.ndarray, watched: bool) -> CallResult:
    slopes, graph, left, tensor = None, True, False, True
    if function.gradient == AUTODIFF:
        from bqvi.calls.autodiff import differentiated

        found = differentiated(function.value, points, function.like, function.vectorised, watched)
        returned, slopes, graph, tensor, left = found
    elif isinstance(function.gradient, GradientWithValue):
        returned, slopes = function.gradient.both(_as_given(function, points))
    else:
        returned = function.value(_as_given(function, points))
    returned, products = parted(function, returned, points)
    values, sds = values_of(function, returned, points)
    if not tensor and np.isfinite(values).any():
        raise no_tensor(function, points)
    if isinstance(function.gradient, GradientWithValue):
        slopes = gradients_of(function, slopes, points, values.shape[1])
    result = CallResult(values, sds, slopes, graph=graph, left=left)
    if products is not None:
        result = replace(result, by_products=(products,))
    elif _plain(function, result):
        return result
    if callable(function.noise_sd) and sds is None:
        try:
            returned = function.noise_sd(_as_given(function, points))
        except Exception as error:
            return no_values(points, error, who="noise_sd")
        result = replace(result, sds=sds_of(function, returned, points))
    reasons = reasons_of(function, values)
    result = replace(result, reasons=reasons, failed=np.array([bool(reason) for reason in reasons]))
    result = _with_gradient(function, result, points)
    return _weighted(function, _without_refused(function, result, points), points)


def noise_at(function: Function, points: np.ndarray) -> np.ndarray:
    """The standard deviations (m,) of the noise at points (m, P), by the function's own ``noise_sd``.

    Parameters
    ----------
    function : a function whose ``noise_sd`` is a function. points : (m, P); m is 1 unless it is vectorised.
    """
    assert callable(function.noise_sd)  # checked by the callers
    return sds_of(function, function.noise_sd(_as_given(function, points)), points)


def _plain(function: Function, result: CallResult) -> bool:
    """Whether all values are finite real numbers: a fast test, which nearly all calls pass."""
    if function.range.non_negative or function.log_weight is not None or callable(function.noise_sd):
        return False
    if callable(function.gradient) and result.gradients is None:
        return False
    largest = LARGEST if function.range.density else np.inf  # the comparison is false for NaN
    numbers = (result.values, result.gradients)
    return all(x is None or bool((np.abs(x) < largest).all()) for x in numbers)


def _as_given(function: Function, points: np.ndarray) -> object:
    converted = function.converted(points)
    return converted if function.vectorised else converted[0]


def _with_gradient(function: Function, result: CallResult, points: np.ndarray) -> CallResult:
    """The result with gradients, NaN with a reason where they fail; not called where no value is usable."""
    if function.gradient is None:
        return result
    gradients, outputs = result.gradients, result.values.shape[1]
    if callable(function.gradient) and gradients is None:
        missing = np.full((len(points), outputs, points.shape[1]), np.nan)
        if np.all(result.failed):
            return replace(result, gradients=missing)
        try:
            returned = function.gradient(_as_given(function, points))
        except Exception as error:
            reason = f"the gradient {described(error)}"
            reasons = tuple(known or reason for known in result.reasons)
            return replace(result, gradients=missing, reasons=reasons, error=error)
        gradients = gradients_of(function, returned, points, outputs)
    assert gradients is not None  # returned by autodiff, or with the values by the user's function
    largest = LARGEST if function.range.density else np.inf
    finite = (np.abs(gradients) < largest).all(axis=(1, 2))
    if not finite.all():
        gradients = np.where(finite[:, None, None], gradients, np.nan)
    reasons = tuple(
        known or ("" if fine else "the gradient is not finite")
        for known, fine in zip(result.reasons, finite, strict=True)
    )
    return replace(result, gradients=gradients, reasons=reasons)


def _weighted(function: Function, result: CallResult, points: np.ndarray) -> CallResult:
    if function.log_weight is None:
        return result
    try:
        return replace(result, values=weighted(function, result.values, points))
    except EvaluationError:
        raise
    except Exception as error:
        return no_values(points, error, who="log_density")


def weighted(function: Function, values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The values (m, o) at points (m, P), multiplied by the function's factor if it has one."""
    logs = log_weights(function, points)[:, None]
    return values + logs if function.range.logarithmic else values * np.exp(logs)


def log_weights(function: Function, points: np.ndarray) -> np.ndarray:
    """The logarithms (n,) of the function's factor at points (n, P)."""
    assert function.log_weight is not None  # called only where there is a log weight
    return log_weights_of(function.log_weight(function.converted(points)), points)


def _without_refused(function: Function, result: CallResult, points: np.ndarray) -> CallResult:
    if result.error is not None:
        return result
    bad, what, must = refused(function, result.values)
    kept = ~bad
    # The error is about the gradient; the values count as evaluations.
    if not bad.any() and function.errors == "raise":
        bad = np.array([bool(reason) for reason in result.reasons])
        what, must = "the gradient is not finite", "it has to be" + function.range.everywhere
    if not bad.any():
        return result
    first = int(np.argmax(bad))
    large = function.range.density and bool((result.values[first] >= LARGEST).any())
    error = EvaluationError(
        f"{what} at {function.place(points[first])}: {must}",
        points[first],
        no_value=bool(result.reasons[first]) and not large,
    )
    return replace(result, kept=kept, error=error)


def _picklable(error: Exception) -> Exception:
    """The error with its traceback as a note; a built-in exception in its place if it cannot be pickled."""
    note = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        kind = next(base for base in type(error).__mro__ if base.__module__ == "builtins")
        error = kind(f"{type(error).__name__}: {message_of(error)}")
    error.add_note(note)
    return error
