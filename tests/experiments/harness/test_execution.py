"""Cells in other processes and on clusters: rows are those of one process; a lost worker loses its cell."""

import os
import signal
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import contextmanager

import pandas as pd
import pytest
import toy_experiment
from test_harness_runner import go, rows

from experiments.harness import execution, runner, store


@pytest.fixture(autouse=True)
def global_state_is_left_alone():
    """The test of global generators is disabled here, as Dask draws from random's."""


def on(backend, root, **options):
    made = runner.plan(toy_experiment.make(), root, **options)
    store.write_text(store.manifest_path(root, "toy"), made.manifest.to_json())
    return made, list(execution.execute(made.pending, 1, backend))


@pytest.mark.parametrize("backend", execution.BACKENDS)
def test_rows_are_those_of_one_process(backend, tmp_path):
    if backend != "loky":
        pytest.importorskip({"dask": "distributed"}.get(backend, backend))
    go(toy_experiment.make(), tmp_path / "here", quick=True)
    made, outcomes = on(backend, tmp_path / "there", quick=True)
    assert [outcome.error for outcome in outcomes] == [None] * len(made.jobs)
    same = [c for c in rows(tmp_path / "here") if c not in ("seconds", "started")]
    pd.testing.assert_frame_equal(rows(tmp_path / "here")[same], rows(tmp_path / "there")[same])


class Losing:
    """Kills the worker of the second cell."""

    def __init__(self, pool):
        self.pool, self.count = pool, 0

    def submit(self, function, job):
        self.count += 1
        if self.count != 2:
            return self.pool.submit(function, job)
        lost = Future()
        lost.set_exception(type("KilledWorker", (Exception,), {})("a node died"))
        return lost


def test_a_lost_worker_loses_its_cell_only(tmp_path, monkeypatch):
    @contextmanager
    def losing(backend, n_jobs, address):
        with ThreadPoolExecutor(1) as pool:
            yield Losing(pool)

    with monkeypatch.context() as patch:
        patch.setattr(execution, "_executor", losing)
        made, outcomes = on("dask", tmp_path)
    failed = [outcome for outcome in outcomes if outcome.error]
    assert len(outcomes) == len(made.jobs)
    assert [outcome.error for outcome in failed] == ["the worker was lost (KilledWorker: a node died)"]
    assert "a node died" in failed[0].log.read_text()
    made, _ = go(toy_experiment.make(), tmp_path)  # the same command again
    assert [(job.case.name, job.seed) for job in made.pending] == [(failed[0].case, failed[0].seed)]


class Pool:
    """A pool of two workers that breaks with the cell of seed 1, while that of seed 2 is under way."""

    opened = 0

    def __init__(self):
        type(self).opened += 1
        self.broken = False

    def submit(self, function, job):
        if self.broken and job.seed > 2:
            raise BrokenExecutor("a worker was ended")
        self.broken = self.broken or job.seed == 1
        future = Future()
        if self.broken:
            future.set_exception(BrokenExecutor("a worker was ended"))
        else:
            future.set_result(function(job))
        return future


def test_a_cell_that_breaks_each_pool_is_the_only_one_lost(tmp_path, monkeypatch):
    @contextmanager
    def breaking(backend, n_jobs, address):
        yield Pool()

    monkeypatch.setattr(execution, "_executor", breaking)
    made = runner.plan(toy_experiment.make(rates=(0.5,)), tmp_path, seeds=5)
    store.write_text(store.manifest_path(tmp_path, "toy"), made.manifest.to_json())
    outcomes = list(execution.execute(made.pending, 2, "loky"))
    errors = {outcome.seed: outcome.error for outcome in outcomes}
    assert len(outcomes) == len(errors) == 5
    assert errors.pop(1) == execution._LOST
    assert set(errors.values()) == {None}
    assert [job.seed for job in made.jobs if not job.path.is_file()] == [1]
    assert Pool.opened == 4  # for all, for each of the two that were under way, for the rest


def test_what_cannot_be_used_is_named(tmp_path):
    with pytest.raises(execution.BackendError, match="one of loky, dask, ray"):
        list(execution.execute([], 1, "slurm"))
    with pytest.raises(execution.BackendError, match="loky is for this machine"):
        list(execution.execute([], 1, "loky", "tcp://host:1"))


class DyingOnce:
    """Ends its process in the cell of seed 1, the first time."""

    def __init__(self, mark):
        self.mark = mark

    def __call__(self, case, seed):
        if seed == 1 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return toy_experiment.run(case, seed)


def test_dask_computes_again_what_a_killed_worker_had(tmp_path):
    pytest.importorskip("distributed")
    made = runner.plan(
        toy_experiment.make(run=DyingOnce(tmp_path / "died"), rates=(0.5,)), tmp_path / "dask", seeds=3
    )
    outcomes = list(execution.execute(made.pending, 2, "dask"))
    assert (tmp_path / "died").exists()
    assert [outcome.error for outcome in outcomes] == [None] * 3


def test_a_cell_that_kills_each_of_dask_s_workers_ends_with_a_reason(tmp_path):
    """The command ends. Dask tries the cell once here, and 4 times by default."""
    pytest.importorskip("distributed")
    import dask

    class Dying(DyingOnce):
        def __call__(self, case, seed):
            os.kill(os.getpid(), signal.SIGKILL)

    made = runner.plan(toy_experiment.make(run=Dying(tmp_path), rates=(0.5,)), tmp_path / "dask", seeds=1)
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        (outcome,) = execution.execute(made.pending, 1, "dask")
    assert outcome.error.startswith("the worker was lost (KilledWorker")
