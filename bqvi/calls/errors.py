"""The error raised when a run cannot go on with the user's function."""

from __future__ import annotations

from collections import Counter

import numpy as np

from bqvi.calls.evaluations import Evaluations

__all__ = ["EvaluationError", "kind_and_message", "message_of", "require_good"]


def message_of(error: BaseException) -> str:
    """The message of an exception, also where the ``__str__`` of its class fails."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its message cannot be formatted: {type(failure).__name__})"


def kind_and_message(error: BaseException) -> str:
    """The name of the exception's class with its message; the name alone where it has none."""
    message = message_of(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


class EvaluationError(RuntimeError):
    """The user's function failed, is not as documented, or has no usable value.

    Its ``__cause__`` is the exception that the function raised, if it raised one.

    Parameters
    ----------
    message : what failed, where, and what to do.

    Attributes
    ----------
    point : the parameters (P,) at which the function failed; None if no single point is the cause.
    evaluations : the evaluations that returned: of the failed batch or, when a front door raises, of the run.
    state : the state of the run, when a front door raises; this exception may be given as ``resume`` once the
        function is mended.
    no_value : whether the value, or the gradient, at ``point`` is not finite; other points may have one.
    """

    def __init__(
        self,
        message: str,
        point: np.ndarray | None = None,
        evaluations: Evaluations | None = None,
        state: object = None,
        no_value: bool = False,
    ) -> None:
        super().__init__(message)
        self.point = point
        self.evaluations = evaluations
        self.state = state
        self.no_value = no_value

    def __reduce__(self) -> tuple[object, ...]:
        """The message and attributes, so that the exception can be sent to another process."""
        return type(self), (str(self), self.point, self.evaluations, self.state, self.no_value)


def require_good(evaluations: Evaluations, needed: int = 1) -> None:
    """Raise EvaluationError, with the reasons, unless ``needed`` evaluations of a log density are good."""
    good = int((~evaluations.failed).sum())
    if good >= needed:
        return
    if not len(evaluations):
        raise EvaluationError("no evaluation has been made yet: take a step first", evaluations=evaluations)
    counts = Counter(reason for reason in evaluations.reasons if reason)
    listed = "; ".join(f"{reason} ({count} times)" for reason, count in counts.most_common(3))
    raise EvaluationError(
        f"the log joint is finite at {good} of the {len(evaluations)} first points, {needed} are needed: "
        f"{listed}. Move the plausible bounds, or give start points, to where the density is positive",
        evaluations=evaluations,
    )
