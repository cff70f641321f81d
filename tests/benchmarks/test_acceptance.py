"""`benchmarks.acceptance`: its test, its reference, and what it measures."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, rankdata

from benchmarks.acceptance import command, tables
from benchmarks.acceptance.comparison import FALSE_ALARM, MARGINS, holm, rank_sum_test
from benchmarks.acceptance.meter import Meter, Watched, in_fork
from benchmarks.acceptance.record import (
    FIGURES,
    REFERENCE,
    SEED_BASE,
    SEEDS,
    AcceptanceRun,
    compared,
    made,
    reproduced,
)
from benchmarks.acceptance.tasks import Figures, Task, tasks


def record(values, seeds=SEEDS):
    return AcceptanceRun(
        "abc", "2026-11-22", {"processor": "any", "kernel_ms": 4.0}, tuple(range(seeds)), values
    )


def synthetic(rng, seeds, tasks=12, shift=()):
    """Log-normal errors, overheads and memory, Bernoulli coverage; ``shift`` multiplies what it names."""
    values = {}
    for index in range(tasks):
        columns = {
            "error": rng.lognormal(-3.0, 1.0, seeds),
            "within": (rng.random(seeds) < 0.95).astype(float),
            "evaluations": np.full(seeds, 60.0),
            "overhead": 5.0 * rng.lognormal(0.0, 0.1, seeds),
            "memory": 20.0 * rng.lognormal(0.0, 0.05, seeds),
            "distance": np.full(seeds, np.nan),
        }
        for figure, factor in shift:
            columns[figure] = columns[figure] * factor
        values[f"{'first' if index % 2 else 'second'}: task {index}"] = {
            k: list(v) for k, v in columns.items()
        }
    return record(values, seeds)


def test_p_is_the_exact_one():
    rng = np.random.default_rng(0)
    for sizes in ((4, 6), (5, 16), (8, 8)):
        run, reference = rng.normal(size=sizes[0]) + 0.8, rng.normal(size=sizes[1])
        exact = mannwhitneyu(run, reference, method="exact").pvalue
        assert rank_sum_test([(run, reference)])[0] == pytest.approx(exact, rel=1e-10)


def test_p_with_ties_and_strata_by_enumeration():
    strata = [([1.0, 1.0, 2.0], [0.0, 1.0, 0.0]), ([3.0, 5.0], [3.0, 2.0])]
    sums = []
    for run, reference in strata:
        ranks = rankdata([*run, *reference])
        sums.append((ranks[: len(run)].sum(), [sum(c) for c in itertools.combinations(ranks, len(run))]))
    observed = sum(first for first, _ in sums)
    totals = np.array([sum(pair) for pair in itertools.product(*(every for _, every in sums))])
    assert rank_sum_test(strata) == (pytest.approx(2 * np.mean(totals >= observed)), 1)


def test_infinite_errors_rank_last_and_missing_ones_are_left_out():
    p, direction = rank_sum_test([([np.inf] * 6, [1.0, 2.0, 3.0, np.nan, 4.0, 5.0, 6.0])])
    assert direction == 1
    assert p == pytest.approx(2 / math.comb(12, 6))
    assert rank_sum_test([([np.nan], [1.0, 2.0])]) == (1.0, 0)


def test_a_margin_is_not_looked_at():
    reference = np.linspace(1.0, 1.01, 12)
    assert rank_sum_test([(1.2 * reference, reference)], 1.25) == (1.0, 0)
    assert rank_sum_test([(reference / 1.2, reference)], 1.25) == (1.0, 0)
    assert rank_sum_test([(1.3 * reference, reference)], 1.25)[1] == 1
    assert rank_sum_test([(reference / 1.3, reference)], 1.25)[1] == -1


def test_holm_by_hand():
    assert holm([0.04, 0.01, 0.03], 0.05).tolist() == [False, True, False]
    assert holm([0.02, 0.01, 0.015], 0.05).tolist() == [True, True, True]


@pytest.mark.parametrize("seeds", [5, 16])
def test_false_alarms_of_a_whole_table(seeds):
    rng = np.random.default_rng(seeds)
    runs = 25
    alarms = sum(
        any(row.flagged for row in compared(synthetic(rng, seeds, 6), synthetic(rng, SEEDS, 6)))
        for _ in range(runs)
    )
    # 7 or more of 25 happen with probability 2e-4 at that rate
    assert alarms < 7
    assert FALSE_ALARM == 0.05


@pytest.mark.parametrize(
    ("figure", "factor", "verdict"),
    [("error", 20.0, "WORSE"), ("error", 0.05, "BETTER"), ("evaluations", 1.1, "WORSE"),
     ("within", 0.0, "WORSE"), ("overhead", 1.8, "WORSE"), ("memory", 0.5, "BETTER")],
)  # fmt: skip
def test_a_shift_is_flagged(figure, factor, verdict):
    rng = np.random.default_rng(3)
    rows = compared(synthetic(rng, 5, shift=[(figure, factor)]), synthetic(rng, SEEDS))
    moved = [row for row in rows if row.flagged]
    assert {(row.figure, row.verdict) for row in moved} == {(figure, verdict)}
    assert {"all"} < {row.task for row in moved}


def test_a_small_shift_of_all_tasks_is_flagged_for_the_door():
    rng = np.random.default_rng(4)
    rows = compared(synthetic(rng, 16, shift=[("error", 1.8)]), synthetic(rng, SEEDS))
    assert {(row.door, row.task) for row in rows if row.flagged} >= {("first", "all"), ("second", "all")}


def test_the_reference_has_the_tasks():
    reference = AcceptanceRun.load(REFERENCE)
    assert list(reference.values) == [task.key for task in tasks()]
    assert reference.seeds == tuple(range(SEED_BASE, SEED_BASE + SEEDS))
    assert {"processor", "cores", "python", "threads", "numpy", "torch"} <= set(reference.machine)
    for figures in reference.values.values():
        assert set(figures) == set(FIGURES)
        assert all(len(values) == SEEDS for values in figures.values())
        assert np.isfinite(figures["error"]).all()


def test_every_door_is_in_the_quick_form():
    assert {task.door for task in tasks()} == {task.door for task in tasks() if task.quick}


def test_one_task_runs_and_gives_the_reference_again(tmp_path):
    task = next(task for task in tasks() if task.door == "cavi")
    found = made([task], [SEED_BASE])
    found.save(tmp_path / "run.json")
    again = AcceptanceRun.load(tmp_path / "run.json")
    figures = again.values[task.key]
    assert figures["evaluations"][0] > 0
    assert figures["overhead"][0] > 0
    assert figures["memory"][0] > 0
    assert reproduced(again, again) == (1, 1)
    rows = compared(again, AcceptanceRun.load(REFERENCE))
    assert {row.figure for row in rows} == {"error", "within", "evaluations", "overhead", "memory"}
    assert not any(row.flagged for row in rows)  # one seed cannot be beyond noise
    assert len(list(tables.lines(rows))) == len(rows) + 2


def test_a_failing_run_is_the_worst(capfd):
    def fails(seed):
        raise ArithmeticError(f"at {seed}")

    values = made([Task("cavi", "fails", fails)], [1, 2]).values["cavi: fails"]
    assert values["error"] == [np.inf, np.inf]
    assert values["within"] == [0.0, 0.0]
    assert "ArithmeticError: at 2" in capfd.readouterr().err


def test_the_meter_counts_calls_and_memory():
    def run():
        function = Watched(lambda x: x.sum(-1))
        with Meter() as meter:
            function(np.zeros((7, 2)))
            function(np.zeros(2))
            held = np.ones(10_000_000)
        del held
        return function.points, meter.memory, meter.overhead(0.0, 8.0), meter.seconds, meter.kernel

    points, memory, overhead, seconds, kernel = in_fork(run)
    assert points == 8
    # 1e7 doubles are 76.3 MiB, more than an allocator ever takes from memory that was freed before
    assert 75.0 < memory < 90.0
    assert overhead == pytest.approx(1e3 * seconds / 8 * 4.0 / kernel)


def test_what_a_fork_raises_is_reported():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        in_fork(lambda: 1 / 0)


def test_the_table_keeps_a_row_for_each_commit_and_form(tmp_path):
    path = tmp_path / "table.md"
    rng = np.random.default_rng(5)
    tables.keep(synthetic(rng, 4), "full", path)
    tables.keep(synthetic(rng, 4), "quick", path)
    tables.keep(synthetic(rng, 4), "full", path)
    rows = [line for line in path.read_text().splitlines() if line.startswith("| 2026")]
    assert [row.split(" | ")[2] for row in rows] == ["quick", "full"]
    assert rows[0].count("|") == 6


@pytest.mark.parametrize(
    "arguments",
    [["--doors", "none"], ["--write-reference", "--quick"], ["--write-reference", "--seeds", "3"]],
)
def test_what_the_command_refuses(arguments, capsys):
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert "usage" in capsys.readouterr().err


def test_figures_are_named_in_the_docstring():
    import benchmarks.acceptance

    assert all(f"    {name}" in benchmarks.acceptance.__doc__ for name in Figures.__dataclass_fields__)
    assert set(MARGINS) <= set(FIGURES)
