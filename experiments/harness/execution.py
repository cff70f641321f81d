"""Cells in this process, in others of this machine, or on a cluster (`--backend dask|ray --address ADDRESS`).

A worker computes a cell and returns its rows; this process writes them, so that workers need no folder of
this machine's. The packages have to be installed on the workers, in the same versions. A worker that is lost
loses the cell that it computes, which the same command tries again. A pool of loky breaks with its worker: a
new one takes its place, and each cell that was under way is computed in a pool of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from typing import Any

from bqvi.calls import RayExecutor, Run
from bqvi.calls.executors import future_result, returned
from bqvi.calls.faults import LostError
from experiments.harness.runner import Computed, Job, Outcome, computed, written

__all__ = ["BACKENDS", "BackendError", "execute"]

BACKENDS = ("loky", "dask", "ray")
_LOST = "the worker was lost (the operating system ended it, mostly for want of memory: take fewer --jobs)"


class BackendError(ValueError):
    """A cluster that cannot be used: a package is not installed, or there is nothing at the address."""


def execute(
    jobs: Sequence[Job], n_jobs: int = 1, backend: str | None = None, address: str | None = None
) -> Iterator[Outcome]:
    """Compute the jobs, each on one thread, and yield their outcomes as they end.

    Parameters
    ----------
    jobs : sequence of Job
    n_jobs : int
        Workers on this machine, where no address is given.
    backend : str or None
        One of `BACKENDS`; None for this process where one worker suffices, and loky otherwise.
    address : str or None
        Of Dask's scheduler ("tcp://host:8786") or of Ray's head node ("host:6379", "auto").

    Raises
    ------
    ValueError
        If `n_jobs` < 1.
    BackendError
        The backend cannot be used.
    """
    if n_jobs < 1:
        raise ValueError(f"n_jobs must be at least 1, got {n_jobs}")
    if backend is None and (n_jobs == 1 or len(jobs) < 2):
        import torch  # noqa: F401  # a thread pool can be limited only once it is loaded

        yield from (written(job, computed(job)) for job in jobs)
        return
    left, backend = list(jobs), backend or BACKENDS[0]
    while True:
        broken = yield from _computed_on(backend, n_jobs, address, left)
        # a pool begins cells in their order, so that these were under way when it broke
        for job in broken[:n_jobs]:
            if (yield from _computed_on(backend, 1, address, [job])):
                yield written(job, Computed.failed(_LOST))
        left = broken[n_jobs:]
        if not left:
            return


def _computed_on(
    backend: str, n_jobs: int, address: str | None, jobs: Sequence[Job]
) -> Generator[Outcome, None, list[Job]]:
    """Yield outcomes of jobs on one executor; return the jobs that have none, as it broke, in their order."""
    broken = set()
    with _executor(backend, n_jobs, address) as executor:
        waiting = {_submitted(executor, job): job for job in jobs}
        try:
            while waiting:
                for future in returned(list(waiting)):
                    found, job = _result(future), waiting[future]
                    outcome = None if found is None else written(job, found)
                    del waiting[future]
                    if outcome is None:
                        broken.add(job.path)
                    else:
                        yield outcome
        except KeyboardInterrupt:
            for future, job in waiting.items():  # what has returned is kept
                if isinstance(future, Future) and future.done() and (found := _result(future)) is not None:
                    written(job, found)
            raise
    return [job for job in jobs if job.path in broken]


def _submitted(executor: Any, job: Job) -> Any:
    """The future of a job; of a pool that broke before, one that has failed."""
    try:
        return executor.submit(computed, job)
    except BrokenExecutor as error:
        failed: Future[Computed] = Future()
        failed.set_exception(error)
        return failed


def _result(future: Any) -> Computed | None:
    """What a job gave; None where the pool broke."""
    try:
        found: Computed = future_result(future)
    except LostError as lost:
        return Computed.failed(f"the worker was lost ({lost})")
    except BrokenExecutor:
        return None
    except Exception as error:  # an error of the cluster, such as a package that is missing there
        return Computed.failed(f"{type(error).__name__}: {error}")
    return found


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _executor(backend: str, n_jobs: int, address: str | None) -> Iterator[Any]:
    """An executor whose ``submit`` gives futures."""
    if backend not in BACKENDS:
        raise BackendError(f"backend is {backend!r}; it must be one of {', '.join(BACKENDS)}")
    try:
        if backend == "loky":
            if address is not None:
                raise BackendError(f"address is {address!r}: loky is for this machine; use dask or ray")
            from joblib.externals.loky import ProcessPoolExecutor

            one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            # Ctrl-C reaches the whole process group: a `run` that returns early when interrupted would
            # otherwise have a part of its results written as a finished run
            pool = ProcessPoolExecutor(n_jobs, initializer=_ignore_interrupts, env=one)
            try:
                yield pool
            finally:
                pool.shutdown(kill_workers=True)
        elif backend == "dask":
            import distributed

            local = {"n_workers": n_jobs, "threads_per_worker": 1, "dashboard_address": None}
            client = distributed.Client(address) if address else distributed.Client(**local)
            with client:
                yield Run(executor=client).executor
        else:
            import ray

            if address is None:
                # the folders in which modules are found
                path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
                ray.init(num_cpus=n_jobs, include_dashboard=False, runtime_env={"env_vars": path})
            else:
                ray.init(address=address)
            try:
                yield RayExecutor(num_cpus=1)
            finally:
                ray.shutdown()
    except ImportError as error:
        raise BackendError(f"--backend {backend} needs a package: pip install 'bqvi[{backend}]'") from error
    except (OSError, ConnectionError) as error:
        raise BackendError(f"--backend {backend} --address {address}: {error}") from error
