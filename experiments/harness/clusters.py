"""Cells on a cluster: `bqvi run ... --backend loky|dask|ray --address ADDRESS`.

A worker computes a cell and returns its rows; this process writes them, so that workers need no folder of
this machine's. The packages have to be installed on the workers, in the same versions. A worker that is lost
loses the cell that it computes, which the same command tries again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Any

from bqvi.calls import RayExecutor
from bqvi.calls.executors import answer, require_workers, returned
from bqvi.calls.faults import LostError
from experiments.harness.runner import (
    BackendError,
    Computed,
    Job,
    Outcome,
    WorkerDiedError,
    computed,
    written,
)

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
    WorkerDiedError
        A worker of loky was ended from outside; finished cells are kept.
    """
    with _executor(backend, n_jobs, address) as executor:
        waiting = {executor.submit(computed, job): job for job in jobs}
        while waiting:
            for future in returned(list(waiting)):
                job = waiting.pop(future)
                yield written(job, _result(future))


def _result(future: Any) -> Computed:
    try:
        found: Computed = answer(future)
    except LostError as lost:
        return Computed.failed(f"the worker was lost ({lost})")
    except BrokenExecutor as error:
        raise WorkerDiedError(
            "a worker process was ended by the operating system; finished runs are kept, and the same "
            "command goes on from there"
        ) from error
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
                yield require_workers(client, 1)
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
