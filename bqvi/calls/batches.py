"""Calls in order, or through an executor (:mod:`executors`); each result is entered as it returns."""

from __future__ import annotations

import concurrent.futures
import contextlib
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bqvi.calls.call import CallResult, no_values
from bqvi.calls.errors import EvaluationError
from bqvi.calls.executors import future_result, require_future, returned
from bqvi.calls.faults import LostError

Enter = Callable[[int, CallResult], None]
"""A function called with each result and its index; it may raise EvaluationError to end the batch."""


def collect(
    call: Callable[[np.ndarray], CallResult], points: np.ndarray, executor: Any, n_jobs: int, enter: Enter
) -> None:
    """Evaluate ``call`` at each of the points (n, P), and pass each result to ``enter`` as it returns.

    Raises
    ------
    EvaluationError
        The executor failed, or returned another number of results; or ``enter`` raised it.
    """
    rows = list(points)
    if executor is None and (n_jobs == 1 or len(rows) == 1):
        for i, row in enumerate(rows):
            enter(i, call(row))
        return
    try:
        if executor is None:
            _mapped(_of_joblib(call, rows, n_jobs), rows, enter)
        elif callable(getattr(executor, "submit", None)):
            _submitted(call, rows, executor, enter)
        else:
            # multiprocessing pools return from `map` only when all rows are done
            several = getattr(executor, "imap", None)
            _mapped((several if callable(several) else executor.map)(call, rows), rows, enter)
    except EvaluationError:
        raise
    # This is an error of the pool: exceptions of the user's function are returned in its results.
    except Exception as failure:
        raise executor_failed(failure) from failure


def executor_failed(failure: Exception) -> EvaluationError:
    """The error for a ``failure`` of the executor."""
    message = f"evaluating in parallel failed ({type(failure).__name__}: {failure})"
    if isinstance(failure, concurrent.futures.BrokenExecutor):
        return EvaluationError(f"{message}: a worker died, and the executor with it; resume with a new one")
    if isinstance(failure, pickle.PicklingError | AttributeError | TypeError):
        message += "; processes need functions that can be pickled, defined at the top of a module"
    return EvaluationError(message)


def _of_joblib(call: Callable[..., CallResult], rows: Sequence[np.ndarray], n_jobs: int) -> Any:
    import joblib

    parallel = joblib.Parallel(n_jobs=min(n_jobs, len(rows)), return_as="generator")
    return parallel(joblib.delayed(call)(row) for row in rows)


def _mapped(results: Any, rows: Sequence[np.ndarray], enter: Enter) -> None:
    """Enter the results of a `map` in order; raise an error unless each point has one result."""
    count, n = 0, len(rows)
    for result in results:
        if count < n:
            future = not isinstance(result, CallResult) and callable(getattr(result, "result", None))
            enter(count, call_result(result, rows[count]) if future else _checked(result))
        count += 1
    if count != n:
        raise EvaluationError(
            f"the executor's map returned {count} results for {n} points; it must return one for each"
        )


def call_result(future: object, row: np.ndarray) -> CallResult:
    """The result of the call at the point ``row`` (P,), which ``future`` returns."""
    try:
        return _checked(future_result(future))
    except LostError as lost:
        return no_values(row[None], lost)


def _checked(result: object) -> CallResult:
    if not isinstance(result, CallResult):
        raise EvaluationError(
            f"the executor returned {result!r:.80}; it must return what the function that it is given returns"
        )
    return result


def _submitted(
    call: Callable[..., CallResult], rows: Sequence[np.ndarray], executor: Any, enter: Enter
) -> None:
    """Enter results as they return. After a failure, calls under way are awaited and no others are begun."""
    futures: dict[Any, int] = {}
    try:
        for i, row in enumerate(rows):
            futures[require_future(executor.submit(call, row))] = i
        if len(futures) != len(rows):
            raise EvaluationError(
                f"the executor's submit returned {len(futures)} futures for {len(rows)} points; it must "
                "return another one for each"
            )
        while futures:
            for future in returned(list(futures)):
                i = futures.pop(future)
                enter(i, call_result(future, rows[i]))
    except Exception:
        _swept(futures, rows, enter, wait=True)
        raise
    except BaseException:
        _swept(futures, rows, enter, wait=False)
        raise


def _swept(futures: dict[Any, int], rows: Sequence[np.ndarray], enter: Enter, wait: bool) -> None:
    """Enter the results that have returned and, with ``wait``, those of the calls under way.

    Calls that have not begun are cancelled where the futures allow it, as those of concurrent.futures do.
    """
    begun = [
        future
        for future in futures
        if not (isinstance(future, concurrent.futures.Future) and future.cancel())
    ]
    for future in begun:
        done = getattr(future, "done", None)
        if wait or (callable(done) and done()):
            with contextlib.suppress(Exception):  # the first failure is the one that is reported
                enter(futures[future], call_result(future, rows[futures[future]]))
