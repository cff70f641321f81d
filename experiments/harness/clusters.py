"""Cells on a cluster: `bqvi run ... --backend loky|dask|ray --address ADDRESS`.

A worker computes a cell and returns its rows; this process writes them, so that workers need no folder of
this machine's. The packages have to be installed on the workers, in the same versions. A worker that is lost
loses the cell that it computes, which the same command tries again. A pool of loky breaks with its worker: a
new one takes its place, and each cell that was under way is computed in a pool of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from typing import Any

from bqvi.calls import RayExecutor, Run
from bqvi.calls.executors import future_result, returned
from bqvi.calls.faults import LostError
from experiments.harness.runner import (
    BackendError,
    Computed,
    Job,
    Outcome,
    computed,
    written,
)

__all__ = ["BACKENDS", "execute"]

BACKENDS = ("loky", "dask", "ray")


def execute(jobs: Sequence[Job], n_jobs: int, backend: str, address: str | None = None) -> Iterator[Outcome]:
    """Compute the jobs on a cluster, each on one thread, and yield their outcomes as they end.

    Parameters
    ----------
    jobs : sequence of Job
    n_jobs : int
        Workers on this machine, where no address is given.
    backend : str
        One of `BACKENDS`.
    address : str or None
        Of Dask's scheduler ("tcp://host:8786") or of Ray's head node ("host:6379", "auto").

    Raises
    ------
    BackendError
        The backend cannot be used.
    """
    left = list(jobs)
    while True:
        broken = yield from _computed_on(backend, n_jobs, address, left)
        # a pool begins cells in their order, so that these were under way when it broke
        for job in broken[:n_jobs]:
            if (yield from _computed_on(backend, 1, address, [job])):
                yield written(job, Computed.failed("the worker was lost (the operating system ended it)"))
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
        while waiting:
            for future in returned(list(waiting)):
                job = waiting.pop(future)
                found = _result(future)
                if found is None:
                    broken.add(job.path)
                else:
                    yield written(job, found)
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

            with ProcessPoolExecutor(n_jobs) as pool:
                yield pool
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
