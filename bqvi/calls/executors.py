"""Executors of other packages, which make calls in parallel: each is used by its futures or by its `map`.

    has `submit`                concurrent.futures, loky, MPIPoolExecutor, Parsl, submitit, `RayExecutor`
    has ``imap`` or `map` only  pools of multiprocessing, of Ray, of schwimmbad
    has `get_executor`          a Dask client, whose own `map` gives futures and whose own `submit`
                                gives equal calls one result; its executor does neither

A future is any object with ``result()``. Futures of concurrent.futures are waited for together; the
``done()`` of others is called in turn.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from bqvi.calls.faults import LostError
from bqvi.checks import require_integer
from gp.arrays import shown
from gp.extras import needing

__all__ = ["Executor", "Maps", "RayExecutor", "Submits", "future_result", "require_workers", "returned"]

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


class Maps(Protocol):
    """An executor that has a `map`."""

    def map(self, function: Callable[[Any], Any], items: Any, /) -> Any:
        """``function`` of each of the ``items``, in order."""


class Submits(Protocol):
    """An executor that returns futures."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """A future of ``function(*arguments)``: an object with ``result()``."""


Executor = Submits | Maps
"""An object with a `submit`, or else a `map`; where it has both, `submit` is used."""


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
        with needing("ray"):
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


def require_workers(executor: Any, n_jobs: int) -> Any:
    """The executor to use, or None; TypeError or ValueError where an argument is not allowed."""
    if executor is not None and callable(getattr(executor, "get_executor", None)):
        # pure=False: two equal calls of a noisy function are two evaluations
        executor = executor.get_executor(pure=False)
    if executor is not None and not any(
        callable(getattr(executor, name, None)) for name in ("submit", "map")
    ):
        raise TypeError(
            f"executor is {shown(executor)}; it must have a method submit(function, item) or map(...)"
        )
    if require_integer("n_jobs", n_jobs, 1) > 1:
        if executor is not None:
            raise ValueError(f"n_jobs is {n_jobs} and executor is given; give one of the two")
        try:
            import joblib  # noqa: F401
        except ImportError:
            message = f"n_jobs is {n_jobs}, which needs joblib: pip install joblib, or give executor"
            raise ValueError(message) from None
    return executor


def returned(futures: Sequence[Any]) -> list[Any]:
    """The futures that are done, in their order; waits until at least one is."""
    if all(isinstance(future, concurrent.futures.Future) for future in futures):
        done = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_COMPLETED).done
        return [future for future in futures if future in done]
    if not all(callable(getattr(future, "done", None)) for future in futures):
        return list(futures[:1])
    pause = _SHORTEST
    while not (found := [future for future in futures if future.done()]):
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
