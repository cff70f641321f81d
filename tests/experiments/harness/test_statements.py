"""Claims as tables: names, settings, levels and shares give the checks that counting by hand gives."""

from dataclasses import replace

import pandas as pd
import pytest

from experiments.harness import statements
from experiments.harness.statements import Statement, only


def results():
    """Ten seeds on two problems: BQ is lower on all seeds of the first, and on four of the second."""
    rows = []
    for problem, wins in (("first", 10), ("second", 4)):
        for seed in range(10):
            error = {"BQ": 1.0 if seed < wins else 3.0, "Sobol": 2.0, "never run on quick": 9.0}
            rows += [
                {"case": m, "problem": problem, "method": m, "seed": seed, "n": n, "error": e / n}
                for m, e in error.items() for n in (1, 2)
            ]  # fmt: skip
    return pd.DataFrame(rows)


def claimed(*, each="problem", frame=None, **settings):
    one = Statement("1", "A sentence.", "a criterion", "error", **settings)
    return statements.claims(results() if frame is None else frame, [one], by="method", each=each)


def test_a_mapping_compares_the_last_rows_seed_by_seed_on_each_problem():
    (claim,) = claimed(of={"BQ": ["Sobol", "absent"], "absent": ["Sobol"]})
    assert [(check.setting, check.wins, check.seeds) for check in claim.checks] == [
        ("first, BQ", 10, 10), ("second, BQ", 4, 10),
    ]  # fmt: skip
    assert claim.conditions == ("first, BQ",)
    assert "error 0.5 for BQ, against 1 for Sobol" in claim.checks[0].numbers
    (scaled,) = claimed(of={"BQ": ["Sobol"]}, factor=2.0)
    assert [(check.setting, check.wins) for check in scaled.checks] == [("first", 10), ("second", 10)]


def test_names_alone_are_held_against_a_level_and_rows_can_be_chosen():
    (claim,) = claimed(of=["BQ"], level=1.0)
    assert [check.wins for check in claim.checks] == [10, 4]
    (first,) = claimed(of=["BQ"], level=1.0, rows=only("n", 1))
    assert [check.wins for check in first.checks] == [10, 4]
    (all_names,) = claimed(level=1.0, each=())
    assert [check.setting for check in all_names.checks] == ["BQ", "Sobol", "never run on quick"]


@pytest.mark.parametrize(("low", "verdict"), [(0.4, "holds"), (0.7, "does not hold")])
def test_a_mean_over_seeds_lies_in_a_range(low, verdict):
    frame = results()
    frame["error"] = 0.5 + 0.01 * (frame["seed"] % 2)
    (claim,) = claimed(of=["BQ"], between=(low, low + 0.2), frame=frame)
    assert claim.verdict == verdict


def test_means_decide_where_seeds_are_not_counted():
    (claim,) = claimed(of={"BQ": ["Sobol"]}, statistic="mean")  # .5 and 1.1 on average, against 1
    assert [(check.true, check.seeds) for check in claim.checks] == [(True, 0), (False, 0)]
    (level,) = claimed(of=["BQ"], level=1.0, statistic="mean")
    assert [check.true for check in level.checks] == [True, False]
    (scaled,) = claimed(of={"BQ": ["Sobol"]}, factor=1.2, statistic="mean")
    assert scaled.verdict == "holds"


def test_higher_values_and_margins_are_asked_for():
    (above,) = claimed(of={"Sobol": ["BQ"]}, higher=True, margin=0.4, setting="by error")
    assert [(check.setting, check.wins) for check in above.checks] == [
        ("first, by error", 10),
        ("second, by error", 4),
    ]
    (level,) = claimed(of=["BQ"], higher=True, level=0.5)
    assert [check.wins for check in level.checks] == [10, 10]
    for margin, wins in ((0.4, [10, 4]), (0.6, [0, 0]), (-0.6, [10, 10])):
        (below,) = claimed(of={"BQ": ["Sobol"]}, margin=margin)
        assert [check.wins for check in below.checks] == wins


def test_statements_in_the_same_words_are_one_claim():
    one = Statement("1", "A sentence.", "a criterion", "error", {"BQ": ["Sobol"]}, setting="in error")
    two = replace(one, column="n", setting="in evaluations")
    (claim, other) = statements.claims(results(), [one, two, replace(two, statement="Another.")], by="method")
    assert [check.setting for check in claim.checks] == ["in error", "in evaluations"]
    assert [check.setting for check in other.checks] == ["in evaluations"]


def test_a_statement_without_results_makes_no_claim():
    assert not claimed(of={"absent": ["Sobol"]})
    assert not claimed(of={"BQ": ["absent"]})
