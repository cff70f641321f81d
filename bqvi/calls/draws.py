"""Values of a log joint at draws of q, as tensors that can be differentiated.

An estimator that keeps no evaluations averages the log joint over its draws. The function is called, and
what it returns is tested, as in all of :mod:`bqvi.calls`. But a draw without a value has no place in an
average, so that numerical exceptions end the run too, and no infeasible point is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bqvi.calls.errors import EvaluationError
from bqvi.calls.faults import OF_ITS_CODE, advice, described, is_numerical
from bqvi.calls.function import Function, run_user_code
from bqvi.calls.returned import no_tensor, values_of
from gp.arrays import is_torch, to_numpy

__all__ = ["raised_at", "values_at_draws"]

_OF_A_POINT = (
    ". The mean over draws of q has no place for a draw without a value: guard the log joint, lower the "
    "schedule's scale if q has moved too far, or use method 'bq', which goes on without such points"
)


def values_at_draws(function: Function, log_joint: Callable[[Any], Any], theta: Any) -> Any:
    """Values (L,) at draws theta (L, P), tensors.

    Parameters
    ----------
    function : the user's function. log_joint : the same as a function of tensors.

    Raises
    ------
    EvaluationError
        The function raised, or returned something else than one real number for each draw.
    """
    if function.vectorised:
        return _values(function, log_joint, theta, to_numpy(theta))
    import torch

    points = to_numpy(theta)
    values = [_values(function, log_joint, theta[i], points[i : i + 1]) for i in range(len(points))]
    return torch.cat(values)


def _values(function: Function, log_joint: Callable[[Any], Any], theta: Any, points: Any) -> Any:
    try:
        returned = run_user_code(log_joint, theta)
    except EvaluationError:
        raise
    except Exception as error:
        raise raised_at(function, error, points) from error
    if isinstance(returned, tuple):
        returned = returned[0]  # an sd of its noise, or by-products, which an average does not use
    if not is_torch(returned):
        raise no_tensor(function, points)
    values_of(function, returned, points)  # raises where these are no numbers, one for each point
    return returned.reshape(len(points))


def raised_at(function: Function, error: Exception, points: Any, who: str = "") -> EvaluationError:
    """The error for an exception that ``who``, by default the function, raised at points (m, P)."""
    message = advice(error, function.gradient)
    if isinstance(error, IndexError):
        message = f"; theta has {points.shape[1]} entries a point, as dimension={points.shape[1]}"
    message += _OF_A_POINT if is_numerical(error) else OF_ITS_CODE
    who = who or f"the {function.range.title}"
    point = points[0] if len(points) == 1 else None
    return EvaluationError(f"{who} {described(error)}, at {function.places(points)}{message}", point)
