"""The grid is computed once, whatever happens on the way."""

import concurrent.futures
import datetime
import json
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import toy_experiment
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from experiments.harness import execution, provenance, results, runner, store
from experiments.harness.experiment import (
    Case,
    Experiment,
    MissingResourceError,
    Resources,
)


@pytest.fixture
def calls(tmp_path):
    folder = tmp_path / "calls"
    folder.mkdir()
    return folder


@pytest.fixture
def root(tmp_path):
    return tmp_path / "results"


def go(experiment, root, n_jobs=1, **options):
    made = runner.plan(experiment, root, **options)
    store.write_text(store.manifest_path(root, experiment.name), made.manifest.to_json())
    return made, list(execution.execute(made.pending, n_jobs))


def rows(root, name="toy"):
    return results.read(root, name).frame


def count(folder):
    return len(list(folder.iterdir()))


def test_every_cell_is_computed_once_and_found_again(root, calls):
    experiment = toy_experiment.make(calls)
    _, outcomes = go(experiment, root)
    assert {(o.case, o.seed) for o in outcomes} == {(f"rate {r}", s) for r in (0.5, 0.9) for s in range(3)}
    frame = rows(root)
    for (_, seed), run in frame.groupby(["case", "seed"]):
        start = np.random.default_rng(seed).uniform(1, 2)
        rate = run["rate"].iloc[0]
        np.testing.assert_array_equal(run["error"], start * rate ** np.arange(8))
    made, outcomes = go(experiment, root)
    assert not made.pending
    assert not outcomes
    assert count(calls) == 6


class Interrupting:
    """`run`, with Ctrl-C pressed in the n-th call."""

    def __init__(self, after):
        self.left = after
        self.__module__ = toy_experiment.__name__

    def __call__(self, case, seed):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return toy_experiment.run(case, seed)


@pytest.mark.parametrize("after", [0, 1, 4])
def test_an_interrupted_run_resumes_to_identical_results(root, tmp_path, calls, after):
    whole = tmp_path / "whole"
    go(toy_experiment.make(), whole)
    with pytest.raises(KeyboardInterrupt):
        go(toy_experiment.make(calls, run=Interrupting(after)), root)
    assert count(calls) == after
    assert len(list(root.rglob("*.parquet"))) == after
    assert not list(root.rglob("*.tmp"))
    made, _ = go(toy_experiment.make(calls), root)
    assert len(made.pending) == 6 - after
    assert count(calls) == 6
    pd.testing.assert_frame_equal(rows(root), rows(whole))


def test_what_workers_have_returned_is_kept_where_the_interrupt_comes_before_it_is_collected(
    root, calls, monkeypatch
):
    def interrupted(futures):
        concurrent.futures.wait(futures)
        raise KeyboardInterrupt

    monkeypatch.setattr(execution, "returned", interrupted)
    experiment = toy_experiment.make(calls)
    with pytest.raises(KeyboardInterrupt):
        go(experiment, root, n_jobs=2)
    monkeypatch.undo()
    made, _ = go(experiment, root)
    assert not made.pending
    assert count(calls) == 6


def test_a_write_that_fails_leaves_nothing_behind(tmp_path):
    path = tmp_path / "folder" / "x.txt"
    store.write_text(path, "old")

    def fill_the_disk():
        with store.replacing(path) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fill_the_disk()
    assert [p.name for p in path.parent.iterdir()] == ["x.txt"]
    assert path.read_text() == "old"


def failing(case, seed):
    if seed == 1 and case.settings["rate"] == 0.9:
        raise ZeroDivisionError("the seed is one")
    return toy_experiment.run(case, seed)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_raising_job_loses_no_other_and_is_tried_again(root, calls, n_jobs):
    _, outcomes = go(toy_experiment.make(calls, run=failing), root, n_jobs)
    failed = [o for o in outcomes if o.error]
    assert [(o.case, o.seed) for o in failed] == [("rate 0.9", 1)]
    assert failed[0].error == "ZeroDivisionError: the seed is one"
    assert "in failing" in failed[0].log.read_text()
    found = results.read(root, "toy")
    assert len(found.records) == 5
    assert found.missing == (results.MissingRun("rate 0.9", 1, "ZeroDivisionError: the seed is one"),)
    made, _ = go(toy_experiment.make(calls), root)
    assert len(made.pending) == 1
    assert not list(root.rglob("*.error"))
    assert not results.read(root, "toy").missing


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([1.0], "TypeError: run must return a pandas DataFrame, got list"),
        (pd.DataFrame(), "ValueError: run returned a DataFrame without rows or columns"),
        (pd.DataFrame({"seed": [1]}), "ValueError: run returned the column 'seed'"),
    ],
)
def test_what_run_returns_is_checked(root, value, error):
    _, outcomes = go(toy_experiment.make(run=lambda case, seed: value), root, seeds=1)
    assert all(o.error.startswith(error) for o in outcomes)


def test_refresh_computes_again_what_other_code_computed(root, calls, monkeypatch):
    experiment = toy_experiment.make(calls)
    go(experiment, root, seeds=1)
    monkeypatch.setattr(provenance, "source_digest", lambda run: "changed")
    assert runner.plan(experiment, root, seeds=2).outdated == 2
    made, _ = go(experiment, root, seeds=2, refresh=True)
    assert made.outdated == 0
    assert count(calls) == 6  # 2, and then 4 of which 2 for the second time
    assert runner.plan(experiment, root, seeds=2).outdated == 0


def test_results_of_other_settings_are_never_mixed(root, calls):
    go(toy_experiment.make(calls), root, quick=True)
    assert set(rows(root)["steps"]) == {4}
    go(toy_experiment.make(calls), root)
    assert set(rows(root)["steps"]) == {8}
    go(toy_experiment.make(calls, rates=(0.9,)), root)
    assert count(calls) == 4 + 6  # the case that is left had been computed
    assert set(rows(root)["case"]) == {"rate 0.9"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
SETTINGS = st.dictionaries(st.text(max_size=3), JSON, max_size=3)


def canonical(value):
    return json.dumps(value, sort_keys=True)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(SETTINGS, SETTINGS)
def test_the_digest_changes_with_the_settings_and_only_with_them(one, two):
    a, b = (store.digest("toy", Case("c", s), "1") for s in (one, two))
    assert (a == b) == (canonical(one) == canonical(two))
    reordered = dict(reversed(one.items()))
    assert store.digest("toy", Case("c", reordered), "1") == a
    assert a not in {
        store.digest("toy", Case("d", one), "1"),
        store.digest("toy", Case("c", one), "2"),
        store.digest("you", Case("c", one), "1"),
    }


def test_names_that_look_alike_as_files_do_not_collide(root):
    planned = [
        store.PlannedCase(name, {}, store.digest("toy", Case(name), "1"))
        for name in ("S = 10", "S/10", "s 10", "∇", "∂")
    ]
    paths = {store.shard_path(root, "toy", case, 0) for case in planned}
    assert len(paths) == 5
    assert all(path.is_relative_to(root / "toy") for path in paths)


def test_a_file_holds_what_is_needed_to_repeat_it(root):
    made, _ = go(toy_experiment.make(), root, seeds=1)
    raw = json.loads(pq.read_schema(made.jobs[0].path).metadata[b"bqvi"])
    assert (raw["experiment"], raw["case"], raw["seed"]) == ("toy", "rate 0.5", 0)
    assert raw["settings"] == {"rate": 0.5, "steps": 8, "kind": "toy"}
    assert raw["packages"]["numpy"] == np.__version__
    assert raw["version"] == provenance.version()
    assert raw["seconds"] > 0
    assert datetime.datetime.fromisoformat(raw["started"]).utcoffset() == datetime.timedelta(0)
    frame, record = store.read_shard(made.jobs[0].path)
    again = toy_experiment.run(Case(record.case, record.settings), record.seed)
    pd.testing.assert_frame_equal(frame, again)


def test_the_combined_file_is_the_whole_table(root):
    go(toy_experiment.make(), root)
    path = results.combine(root, "toy")
    assert path == root / "toy.parquet"
    pd.testing.assert_frame_equal(pd.read_parquet(path), rows(root))
    assert results.combine(root, "absent") is None


def threads(case, seed):
    np.linalg.inv(np.eye(3))
    return pd.DataFrame({"n": [pool["num_threads"] for pool in threadpool_info()]})


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_job_has_one_thread_where_it_could_have_two(root, n_jobs, monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    with threadpool_limits(2):
        assert {pool["num_threads"] for pool in threadpool_info()} == {2}
        go(toy_experiment.make(run=threads), root, n_jobs, seeds=1)
    assert set(rows(root)["n"]) == {1}


def test_the_source_digest_sees_code_and_not_comments(tmp_path, monkeypatch):
    file = tmp_path / "digested_module.py"
    monkeypatch.syspath_prepend(tmp_path)

    def digest(text):
        file.write_text(text)
        os.utime(file, ns=(digest.clock, digest.clock))
        digest.clock += 10**9
        return provenance.source_digest(digested_module.run)

    digest.clock = 10**18
    file.write_text("def run(case, seed):\n    return 1\n")
    import digested_module

    first = digest("def run(case, seed):\n    return 1\n")
    assert digest('"""Words."""\ndef run(case, seed):  # why\n    "Doc."\n    return 1\n') == first
    assert digest("def run(case, seed):\n    return 2\n") != first


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Case(" "), "name must not be blank"),
        (lambda: Case("c", {"step": float("nan")}), r"settings\['step'\] = nan is not JSON"),
        (lambda: Case("c", {"f": len}), r"settings\['f'\] = <built-in function len> is not JSON"),
        (lambda: toy_experiment.make(name="Fig 6.1"), "lower-case letters.*'Fig 6.1'"),
        (lambda: toy_experiment.make(seeds=0), "must be at least 1, got 0 and 2"),
    ],
)
def test_unsound_records_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_unsound_plans_are_refused(root):
    twice = toy_experiment.make(rates=(0.5, 0.5))
    with pytest.raises(ValueError, match=r"several cases are named rate 0\.5"):
        runner.plan(twice, root)
    with pytest.raises(ValueError, match="returned no case"):
        runner.plan(toy_experiment.make(rates=()), root)
    with pytest.raises(ValueError, match="seeds must be at least 1, got 0"):
        runner.plan(toy_experiment.make(), root, seeds=0)
    with pytest.raises(ValueError, match="n_jobs must be at least 1, got 0"):
        next(execution.execute([], 0))
    assert not root.exists()


def test_a_needed_folder_reaches_the_cases(root, tmp_path):
    def from_folder(quick, resources):
        return [Case(path.stem, folder=path) for path in sorted(resources.data.iterdir())]

    (tmp_path / "data" / "one").mkdir(parents=True)
    needy: Experiment = replace(toy_experiment.make(), cases=from_folder, needs=("data",))
    with pytest.raises(MissingResourceError, match="needs --data DIR"):
        runner.plan(needy, root)
    made = runner.plan(needy, root, resources=Resources(data=tmp_path / "data"))
    assert made.jobs[0].case.folder == tmp_path / "data" / "one"
    assert made.manifest.command == "bqvi run toy --seeds 3 --data DIR"
