"""How a batch is evaluated: in order, by processes of joblib, or through an executor of another package.

    has `submit`                concurrent.futures, loky, MPIPoolExecutor, Parsl, submitit, `RayExecutor`
    has ``imap`` or `map` only  pools of multiprocessing, of Ray, of schwimmbad
    has ``get_executor``         a Dask client, whose own `map` gives futures and whose own `submit`
                                gives equal calls one result; its executor does neither

Each result is entered as it returns. An executor that has a `map` only gives its results in order: those
behind a slow point are entered after it. A future is any object with ``result()``. Futures of
concurrent.futures are waited for together; the ``done()`` of others is called in turn.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bqvi.calls.faults import EvaluationError, LostError
from bqvi.calls.returned import CallResult, no_values
from bqvi.calls.run import Run
from gp.names import needing

_LOST = (
    "TimeoutError",
    "CancelledError",
    "KilledWorker",  # Dask
    "WorkerCrashedError",  # Ray
    "RayActorError",
    "NodeDiedError",
    "OutOfMemoryError",
    "ObjectLostError",
    "TaskCancelledError",
    "UncompletedJobError",  # submitit
    "ManagerLost",  # Parsl
    "WorkerLost",
)
"""Names of the exceptions by which executors report that one call has no result while others may have one."""
_SHORTEST, _LONGEST = 0.001, 0.5
"""Seconds between two checks whether a future is done."""


class RayExecutor:
    """Tasks of Ray as futures, on the cluster that ``ray.init(address=...)`` joined.

    Parameters
    ----------
    options : the options of each task, as for Ray's ``options``: ``num_cpus``, ``max_retries``, ...

    Raises
    ------
    ImportError
        Ray is not installed.
    """

    def __init__(self, **options: Any) -> None:
        with needing():
            import ray

        self._ray, self._task = ray, ray.remote(_applied).options(**options)
        self._function: Any = None
        self._stored: Any = None

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A future of ``function(*arguments)``; each function is sent to the nodes once."""
        if self._stored is None or function != self._function:
            self._function, self._stored = function, self._ray.put(function)
        return self._task.remote(self._stored, *arguments).future()


def _applied(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def returned(futures: Sequence[Any], seconds: float | None = None) -> list[Any]:
    """The futures that are done, in their order; waits until at least one is, or for some ``seconds``."""
    if all(isinstance(future, concurrent.futures.Future) for future in futures):
        first = concurrent.futures.FIRST_COMPLETED
        done = concurrent.futures.wait(futures, seconds, first).done
        return [future for future in futures if future in done]
    if not all(callable(getattr(future, "done", None)) for future in futures):
        return list(futures[:1])
    pause, end = _SHORTEST, np.inf if seconds is None else time.monotonic() + seconds
    while not (found := [future for future in futures if future.done()]) and time.monotonic() < end:
        time.sleep(pause)
        pause = min(2.0 * pause, _LONGEST)
    return found


def future_result(future: Any) -> Any:
    """The result of the future's call.

    Raises
    ------
    LostError
        The executor reports that this call has no result; others may have one.
    Exception
        The executor failed.
    """
    try:
        return future.result()
    except Exception as failure:
        if isinstance(failure, concurrent.futures.BrokenExecutor):
            raise
        if any(kind.__name__ in _LOST for kind in type(failure).__mro__):
            raise LostError(f"{type(failure).__name__}: {failure}") from failure
        raise


Enter = Callable[[int, CallResult], None]
"""A function called with each result and its index; it may raise EvaluationError to end the batch."""


def collect(call: Callable[[np.ndarray], CallResult], points: np.ndarray, run: Run, enter: Enter) -> None:
    """Evaluate ``call`` at each of the points (n, P), and pass each result to ``enter`` as it returns.

    Raises
    ------
    EvaluationError
        The executor failed, or returned another number of results; or ``enter`` raised it.
    """
    executor: Any = run.executor
    rows = list(points)
    if executor is None and len(rows) == 1:
        for i, row in enumerate(rows):
            enter(i, call(row))
        return
    if run.submits:
        _submitted(call, rows, run, enter)
        return
    with _executor_failures():
        if executor is None:
            for i, result in _of_joblib(call, rows, run.n_jobs):
                enter(i, result)
        else:
            # multiprocessing pools return from `map` only when all rows are done
            several = getattr(executor, "imap", None)
            _mapped((several if callable(several) else executor.map)(call, rows), rows, enter)


@contextlib.contextmanager
def _executor_failures() -> Iterator[None]:
    """Turn exceptions, which are the executor's, into EvaluationErrors: those of functions are in results."""
    try:
        yield
    except EvaluationError:
        raise
    except Exception as failure:
        message = f"evaluating in parallel failed ({type(failure).__name__}: {failure})"
        if isinstance(failure, concurrent.futures.BrokenExecutor):
            message += ": a worker died, and the executor with it; resume with a new one"
        elif isinstance(failure, pickle.PicklingError | AttributeError | TypeError):
            message += "; processes need functions that can be pickled, defined at the top of a module"
        raise EvaluationError(message) from failure


def _of_joblib(
    call: Callable[..., CallResult], rows: Sequence[np.ndarray], n_jobs: int
) -> Iterator[tuple[int, CallResult]]:
    """Indices and results, as they return: joblib's own batches of calls would hold results back."""
    import joblib

    parallel = joblib.Parallel(n_jobs=min(n_jobs, len(rows)), batch_size=1, return_as="generator_unordered")
    found: Iterator[tuple[int, CallResult]] = parallel(
        joblib.delayed(_numbered)(call, i, row) for i, row in enumerate(rows)
    )
    return found


def _numbered(call: Callable[..., CallResult], index: int, row: np.ndarray) -> tuple[int, CallResult]:
    return index, call(row)


def _mapped(results: Any, rows: Sequence[np.ndarray], enter: Enter) -> None:
    """Enter the results of a `map` in order; raise an error unless each point has one result."""
    count, n = 0, len(rows)
    for result in results:
        if count < n:
            is_future = not isinstance(result, CallResult) and callable(getattr(result, "result", None))
            enter(count, _result(result, rows[count]) if is_future else _checked(result))
        count += 1
    if count != n:
        raise EvaluationError(
            f"the executor's map returned {count} results for {n} points; it must return one for each"
        )


def _result(future: Any, row: np.ndarray) -> CallResult:
    with _executor_failures():
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


class CallsUnderWay:
    """Calls through the ``submit`` of an executor, each with a key; results are entered as they return.

    Parameters
    ----------
    run : the executor, and the seconds after which calls are given up where none has returned.
    """

    def __init__(self, run: Run) -> None:
        self._executor: Any = run.executor
        self._seconds = run.longest_call
        self._under_way: dict[int, tuple[Any, Any, np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, call: Callable[..., CallResult], key: object, row: np.ndarray) -> None:
        """Begin the ``call`` at the point ``row`` (P,)."""
        with _executor_failures():
            future = self._executor.submit(call, row)
        if not callable(getattr(future, "result", None)):
            raise EvaluationError(
                f"the executor's submit returned {future!r:.80}; it must return a future, which has result()"
            )
        if id(future) in self._under_way:
            raise EvaluationError(
                f"the executor's submit returned the same future for two points, the second {row.tolist()}; "
                "it must return another one for each"
            )
        self._under_way[id(future)] = future, key, row

    def take(self, enter: Callable[[Any, CallResult], None]) -> None:
        """Call ``enter`` with the key and the result of calls that have returned; waits until one has.

        Where none has for so many seconds as the run allows, all are entered as calls without a result.
        """
        done = returned([future for future, _, _ in self._under_way.values()], self._seconds)
        for future in done:
            _, key, row = self._under_way.pop(id(future))
            enter(key, _result(future, row))
        while self._under_way and not done:
            future, key, row = self._under_way.pop(next(iter(self._under_way)))
            if callable(getattr(future, "cancel", None)):
                future.cancel()
            lost = LostError(f"TimeoutError: none of the calls has returned for {self._seconds:g} s")
            enter(key, no_values(row[None], lost))

    def end(self, enter: Callable[[Any, CallResult], None], wait: bool) -> None:
        """Enter the results that have returned and, with ``wait``, those of the calls under way.

        Calls that have not begun are cancelled where the futures allow it, as those of concurrent.futures do.
        """
        under_way, self._under_way = self._under_way, {}
        begun = [
            (future, key, row)
            for future, key, row in under_way.values()
            if not (isinstance(future, concurrent.futures.Future) and future.cancel())
        ]
        for future, key, row in begun:
            done = getattr(future, "done", None)
            wait = wait and bool(returned([future], self._seconds))
            if wait or (callable(done) and done()):
                with contextlib.suppress(Exception):  # the first failure is the one that is reported
                    enter(key, _result(future, row))


def _submitted(call: Callable[..., CallResult], rows: Sequence[np.ndarray], run: Run, enter: Enter) -> None:
    """Enter results as they return. After a failure, calls under way are awaited and no others are begun."""
    calls = CallsUnderWay(run)
    try:
        for i, row in enumerate(rows):
            calls.begin(call, i, row)
        while len(calls):
            calls.take(enter)
    except BaseException as error:
        calls.end(enter, wait=isinstance(error, Exception))
        raise
