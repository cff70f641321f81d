"""The table of an ablation, from records whose comparison is known; every mechanism can be removed."""

import csv
from pathlib import Path

import pytest

from benchmarks import ablate

ENDED = {"converged": True, "cpu": 1.0}


def _records(factor, sd=1.0, evaluations=40):
    """Forty runs with errors .01 to .4, and the same runs without a mechanism."""
    found = []
    for seed in range(40):
        error = 0.01 * (seed + 1)
        about = {
            "door": "vbmc",
            "kind": "gaussian",
            "seed": seed,
            "truth": 1.0,
            "converged": True,
            "cpu": 1.0,
        }
        found.append(about | {"without": "", "estimate": 1.0 + error, "sd": 0.5, "evaluations": 40} | ENDED)
        other = {"estimate": 1.0 - factor * error, "sd": sd, "evaluations": evaluations}
        found.append(about | {"without": "it"} | other | ENDED)
    return found


def test_a_constant_factor_of_all_errors_is_their_ratio():
    errors, _, within, evaluations, _ = ablate.summary("it", _records(1.5))
    assert errors.measured == "1.500 [1.500, 1.500] of 40 runs"
    assert not errors.held
    assert within.held
    assert evaluations.held


def test_errors_of_moments_are_compared_where_they_are_known_and_are_not_tiny():
    known = [r | {"moments": 0.1 if r["without"] else 0.03} for r in _records(1.0) if r["seed"] < 20]
    tiny = [r | {"moments": 0.02 if r["without"] else 1e-6} for r in _records(1.0) if r["seed"] >= 20]
    moments = list(ablate.summary("it", known))[1]
    assert moments.measured.startswith("3.333 [3.333, 3.333]")
    assert not moments.held
    assert list(ablate.summary("it", tiny))[1].held
    assert list(ablate.summary("it", _records(1.0)))[1].held


def test_runs_with_small_sds_and_more_evaluations_are_told():
    errors, _, within, evaluations, _ = ablate.summary("it", _records(1.0, sd=0.1, evaluations=44))
    assert errors.held
    # errors .31 to .40 are beyond .3 and the slack of 1e-4
    assert within.measured == "0.750 from 1.000"
    assert not within.held
    assert evaluations.measured == "1.100"
    assert not evaluations.held


def test_equal_digits_are_runs_in_which_nothing_acted():
    kept = [r for r in _records(1.0) if not r["without"]]
    *_, other = ablate.summary("it", kept + [r | {"without": "it"} for r in kept])
    assert other.measured.startswith("acted in 0 ()")
    assert ablate.figures("it", [r for r in kept if r["without"]]) is None


def test_a_run_without_what_did_not_act_is_the_same_run_and_is_not_made_again(monkeypatch):
    task = ("vbmc", "gaussian", 3)
    whole = ablate.recorded(task, "")
    assert {"values left out after a map", "climbs from spikes"}.isdisjoint(whole["acted"])
    assert {"hyperparameters in the sd", "shape of the tail"} <= set(whole["acted"])
    made = ablate.recorded(task, "values left out after a map + climbs from spikes")
    assert (made["estimate"], made["sd"]) == (whole["estimate"], whole["sd"])
    monkeypatch.setattr(ablate, "recorded", lambda task, name: {"without": name, "again": True})
    assert ablate.removed(task, "values left out after a map", whole)["estimate"] == whole["estimate"]
    assert ablate.removed(task, "values left out after a map + shape of the tail", whole)["again"]


@pytest.mark.parametrize("name", list(ablate.mechanisms()))
def test_every_mechanism_is_where_the_table_says(name):
    """A function that was renamed would be patched nowhere, and removed without an effect."""
    for where, attribute, other in ablate.mechanisms()[name]:
        now = getattr(where, attribute)
        assert now is not other
        assert callable(other) == callable(now)


def test_the_table_that_is_stored_has_the_columns_that_are_measured():
    table = Path(__file__).parents[2] / "experiments" / "studies" / "ablation.csv"
    columns, *rows = list(csv.reader(table.read_text().splitlines()))
    measured = ablate.figures("it", _records(1.0))
    assert columns == [*measured, "lines", "verdict"]
    assert rows
    assert all(len(row) == len(columns) for row in rows)
