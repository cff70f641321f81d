"""Calls one after the other, or through an executor, each handed on as it returns.

An executor is anything with `submit` that gives futures (concurrent.futures, loky, MPI, Parsl, submitit), or
else with `map` (pools of multiprocessing, schwimmbad). A Dask client is asked for its ``get_executor()``.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from bqvi.calls.call import Answers
from bqvi.calls.errors import EvaluationError
from bqvi.checks import require_integer


class Executor(Protocol):
    """Whatever has a `map`, or a `submit` that gives futures: it is asked for the second first."""

    def map(self, function: Callable[[Any], Any], items: Any, /) -> Any:
        """``function`` of each of the ``items``, in order."""


def require_workers(executor: Any, n_jobs: int) -> Any:
    """The executor to use, or None; TypeError or ValueError where one is not what it must be."""
    if executor is not None and callable(getattr(executor, "get_executor", None)):
        executor = executor.get_executor()  # a Dask client, whose `map` gives futures
    if executor is not None and not any(
        callable(getattr(executor, name, None)) for name in ("submit", "map")
    ):
        raise TypeError(f"executor is {executor!r}; it must have a method submit(function, item) or map(...)")
    if require_integer("n_jobs", n_jobs, 1) > 1:
        if executor is not None:
            raise ValueError(f"n_jobs is {n_jobs} and executor is given; give one of the two")
        try:
            import joblib  # noqa: F401
        except ImportError:
            message = f"n_jobs is {n_jobs}, which needs joblib: pip install joblib, or give executor"
            raise ValueError(message) from None
    return executor


Enter = Callable[[int, Answers], None]
"""What is told of each answer and its index as it returns; it may raise EvaluationError to end the batch."""


def collect(
    call: Callable[[np.ndarray], Answers], points: np.ndarray, executor: Any, n_jobs: int, enter: Enter
) -> None:
    """Tell ``enter`` of ``call`` at each of the points (n, P).

    Raises
    ------
    EvaluationError
        The executor failed, or gave another number of results; or what ``enter`` raises.
    """
    rows = list(points)
    if executor is None and (n_jobs == 1 or len(rows) == 1):
        for i, row in enumerate(rows):
            enter(i, call(row))
        return
    try:
        if executor is None:
            _mapped(_of_joblib(call, rows, n_jobs), len(rows), enter)
        elif callable(getattr(executor, "submit", None)):
            _submitted(call, rows, executor, enter)
        else:
            several = getattr(executor, "imap", None)  # of pools whose `map` waits for the last
            _mapped((several if callable(several) else executor.map)(call, rows), len(rows), enter)
    except EvaluationError:
        raise
    except Exception as failure:  # not the user's function, whose exceptions are in its answers
        raise EvaluationError(
            f"evaluating in parallel failed ({type(failure).__name__}: {failure}); processes need functions "
            "that can be pickled, defined at the top of a module"
        ) from failure


def _of_joblib(call: Callable[..., Answers], rows: Sequence[np.ndarray], n_jobs: int) -> Any:
    import joblib

    parallel = joblib.Parallel(n_jobs=min(n_jobs, len(rows)), return_as="generator")
    return parallel(joblib.delayed(call)(row) for row in rows)


def _mapped(results: Any, n: int, enter: Enter) -> None:
    """Results of a `map`, in order: as many as points, and nothing but answers."""
    count = 0
    for result in results:
        if count < n:
            enter(count, _answers(result))
        count += 1
    if count != n:
        raise EvaluationError(
            f"the executor's map returned {count} results for {n} points; it must return one for each"
        )


def _answers(result: Any) -> Answers:
    if not isinstance(result, Answers) and callable(getattr(result, "result", None)):
        result = result.result()  # of a `map` that gives futures
    if not isinstance(result, Answers):
        raise EvaluationError(
            f"the executor returned {result!r:.80}; it must return what the function that it is given returns"
        )
    return result


def _submitted(call: Callable[..., Answers], rows: Sequence[np.ndarray], executor: Any, enter: Enter) -> None:
    """As they return. If a failure ends this, those under way are waited for, and no others are begun."""
    futures: dict[Any, int] = {}
    try:
        for i, row in enumerate(rows):
            futures[executor.submit(call, row)] = i
        for future in _in_order_of_return(futures):
            enter(futures.pop(future), _answers(future.result()))
    except Exception:
        _swept(futures, enter, wait=True)
        raise
    except BaseException:
        _swept(futures, enter, wait=False)
        raise


def _in_order_of_return(futures: dict[Any, int]) -> Iterator[Any]:
    if all(isinstance(future, concurrent.futures.Future) for future in futures):
        yield from concurrent.futures.as_completed(list(futures))
    else:
        yield from list(futures)


def _swept(futures: dict[Any, int], enter: Enter, wait: bool) -> None:
    """Enter what has returned, or returns if it is under way and there is time to ``wait``."""
    begun = [
        future for future in futures if not (callable(getattr(future, "cancel", None)) and future.cancel())
    ]
    for future in begun:
        if wait or future.done():
            with contextlib.suppress(Exception):  # the first failure is the one to tell of
                enter(futures[future], _answers(future.result()))
