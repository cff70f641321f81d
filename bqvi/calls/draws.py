"""The log joint at draws of q, for estimators that average over the draws.

A function that its user gave (a `LogJoint`) is called by `Caller`, as `at_each_draw` states it. The log joint
of a model with data stays in torch's graph, where its terms can be weighted and combined: `ModelCalls` calls
it, and reports what the model raises or returns with the same errors and in the same words.

A draw without a value has no place in an average, and the estimate of E_q[log p] with a draw at -inf is -inf.
Numerical exceptions and values that are not finite therefore end the run, and no infeasible point is made of
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bqvi.calls.faults import OF_ITS_CODE, EvaluationError, described, is_numerical
from bqvi.calls.function import Function, VectorLayout, named_point
from gp.arrays import is_torch, to_numpy

_NO_PLACE = (
    ". The mean over draws of q has no place for a draw without a value, and with one at -inf it is -inf: "
    "guard the log joint, lower the schedule's scale if q has moved too far, "
)
_EVERYWHERE = (
    _NO_PLACE + "give bounds where the density ends, or use method 'bq', which goes on without such points"
)
_OF_A_MODEL = _NO_PLACE + "or use method 'bq', which goes on without such points"
_OF_A_NETWORK = ": lower the schedule's scale if parameters have moved too far, or guard the networks"
_SHOWN = 3
"""The number of datum indices that a message lists."""


def at_each_draw(function: Function) -> Function:
    """The function with the policy for an average: it must have a finite value at each point."""
    return replace(function, errors="raise", range=replace(function.range, everywhere=_EVERYWHERE))


def raised(error: Exception, who: str = "the gradient of the log joint", place: str = "") -> EvaluationError:
    """The error for an exception that code of the user raised, called ``who`` in messages, at a ``place``."""
    rest = _OF_A_MODEL if is_numerical(error) else OF_ITS_CODE
    return EvaluationError(f"{who} {described(error)}{place}{rest}")


def called(who: str, place: Callable[[], str], function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)``, code of a model, which messages call ``who``; ``place`` says where.

    Raises
    ------
    EvaluationError
        The function raised an exception, which is the error's cause.
    """
    try:
        return function(*arguments)
    except EvaluationError:
        raise
    except Exception as error:
        raise raised(error, who, place()) from error


def require_finite_terms(who: str, terms: Any) -> None:
    """Raise EvaluationError unless the terms of data (S,), a tensor called ``who``, are finite."""
    if not bool(terms.isfinite().all()):
        numbers = to_numpy(terms.detach())
        value = float(numbers[~np.isfinite(numbers)][0])
        raise EvaluationError(
            f"{who} is {value}{_rows_without_value(numbers)}: it has to be finite{_OF_A_NETWORK}",
            no_value=True,
        )


@dataclass(frozen=True)
class ModelCalls:
    """Calls of the functions of a model at draws theta: a tensor (L, P), or a dictionary of tensors (L, ...).

    Attributes
    ----------
    model : the name of its class, for messages. theta : the draws.
    """

    model: str
    theta: Any

    def call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """``function(*arguments)``, a method of the model called ``name``; as `called`."""
        return called(f"{name} of the {self.model}", self._places, function, *arguments)

    def log_prior(self, function: Callable[[Any], Any], theta: Any) -> Any:
        """The tensor (L,) that ``log_prior`` returns at theta, the draws as `watched` gives them."""
        return self._tensor("log_prior", self.call("log_prior", function, theta), 1, None)

    def terms(self, function: Callable[[Any, Any], Any], theta: Any, rows: Any, count: int | None) -> Any:
        """The tensor (L, S) that ``log_likelihood_terms`` returns; ``count`` is S, if it is known."""
        name = "log_likelihood_terms"
        return self._tensor(name, self.call(name, function, theta, rows), 2, count)

    def _tensor(self, name: str, returned: Any, axes: int, columns: int | None) -> Any:
        draws = len(self._first)
        shape = tuple(returned.shape) if is_torch(returned) else ()
        if len(shape) == axes and shape[0] == draws and (columns is None or shape[-1] == columns):
            return returned
        what = f"a tensor of shape {shape}" if is_torch(returned) else f"a {type(returned).__name__}"
        must = "one number for each draw" if axes == 1 else "a row for each draw and a column for each datum"
        size = f"({draws},)" if axes == 1 else f"({draws}, {'S' if columns is None else columns})"
        raise EvaluationError(
            f"{name} of the {self.model} returned {what} at {draws} draws; it must return a torch tensor "
            f"{size}, {must}"
        )

    def require_finite(self, values: Any, terms: Any = None) -> None:
        """Raise an error unless the ``values`` (L,) are finite.

        Parameters
        ----------
        values : the log joint at each draw.
        terms : its terms of data (L, S), to name those that are not finite.
        """
        numbers = to_numpy(values)
        if np.isfinite(numbers).all():
            return
        first = int(np.argmin(np.isfinite(numbers)))
        rows = "" if terms is None else _rows_without_value(to_numpy(terms)[first])
        raise EvaluationError(
            f"the log joint of the {self.model} is {float(numbers[first])} at {self._place(first)}{rows}: it "
            f"has to be finite{_OF_A_MODEL}",
            self._table[first],
            no_value=True,
        )

    def watched(self) -> Any:
        """The draws, with an error in the place of a gradient at them that is not finite.

        Raises
        ------
        EvaluationError
            From the computation of a gradient: it is not finite at a draw.
        """
        if isinstance(self.theta, dict):
            return {name: self._watched(draws) for name, draws in self.theta.items()}
        return self._watched(self.theta)

    def _watched(self, draws: Any) -> Any:
        if not draws.requires_grad:
            return draws
        own = draws.view_as(draws)
        own.register_hook(self._require_finite_slopes)
        return own

    def _require_finite_slopes(self, slopes: Any) -> None:
        try:
            finite = bool(slopes.isfinite().all())
        except RuntimeError:  # torch computes gradients of several objectives at once: no truth value
            return
        if finite:
            return
        rows = to_numpy(slopes).reshape(len(slopes), -1)
        first = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise EvaluationError(
            f"the gradient of the log joint of the {self.model} is not finite at {self._place(first)}: it "
            f"has to be{_OF_A_MODEL}",
            self._table[first],
            no_value=True,
        )

    @property
    def _first(self) -> Any:
        """One of the tensors of draws (L, ...)."""
        return next(iter(self.theta.values())) if isinstance(self.theta, dict) else self.theta

    @property
    def _table(self) -> np.ndarray:
        """The draws (L, P)."""
        parts = self.theta.values() if isinstance(self.theta, dict) else [self.theta]
        return np.concatenate([to_numpy(part).reshape(len(part), -1) for part in parts], axis=1)

    def _places(self) -> str:
        count = len(self._first)
        return (f", at one of {count} draws, the first of which is " if count > 1 else ", at ") + self._place(
            0
        )

    def _place(self, draw: int) -> str:
        parts = self.theta if isinstance(self.theta, dict) else {}
        names = VectorLayout({name: tuple(part.shape[1:]) for name, part in parts.items()}).names
        return named_point(names, self._table[draw])


def _rows_without_value(terms: np.ndarray) -> str:
    """Which data of a mini-batch have terms (S,) that are not finite, in words; "" where none has."""
    rows = np.flatnonzero(~np.isfinite(terms))
    if not len(rows):
        return ""
    shown = ", ".join(str(row) for row in rows[:_SHOWN]) + (", ..." if len(rows) > _SHOWN else "")
    return f", where the terms of {len(rows)} of {len(terms)} data are not finite (rows {shown} of the batch)"
