"""Verdicts on synthetic results, and the changes that reverse them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from experiments.harness import evidence
from experiments.harness.claims import Check, Claim

INF = np.inf


def runs(**columns):
    """A table of runs: one list over seeds for each case."""
    return pd.DataFrame(
        [{"case": case, "seed": s, "y": v} for case, values in columns.items() for s, v in enumerate(values)]
    )


def trace(y, case="a", seed=0):
    t = np.arange(len(y))
    return pd.DataFrame(
        {"case": case, "seed": seed, "iteration": 2 * t, "seconds": 0.1 * t, "evaluations": 20 * t,
         "log_likelihood_error": y, "elbo": -np.asarray(y, float)}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "verdict", "conditions"),
    [
        ([True, True], "holds", ()),
        ([True, False], "holds only if", ("0",)),
        ([False, True], "holds only if", ("1",)),
        ([False, False], "does not hold", ()),
    ],
)
def test_the_verdict_follows_from_the_checks(found, verdict, conditions):
    claim = Claim("6", "s", "c", [Check(str(i), true, "") for i, true in enumerate(found)])
    assert claim.verdict == verdict
    assert claim.conditions == conditions


def test_what_is_undecided_is_neither_true_nor_false():
    yes, no, open_ = Check("y", True, "1"), Check("n", False, "2"), Check("o", False, "3", "nobody came")
    for checks, verdict in (
        ([open_, open_], "undecided"),
        ([open_, no], "does not hold"),
        ([open_, yes], "holds only if"),
    ):
        assert Claim("6", "s", "c", checks).verdict == verdict
    assert [check.answer for check in (yes, no, open_)] == ["yes", "no", "undecided (nobody came)"]
    assert (yes & open_).undecided == (open_ & yes).undecided == "nobody came"
    assert not (no & open_).undecided
    assert not (open_ & no).undecided
    with pytest.raises(ValueError, match="undecided is 'why'"):
        Check("y", True, "", "why")


def test_a_claim_without_checks_is_refused():
    with pytest.raises(ValueError, match="at least one check"):
        Claim("6", "s", "c", [])


@pytest.mark.parametrize(
    ("y", "iterations", "rise"),
    [
        ([90, 40, 30, 20], 2, 0),
        ([90, 40, 60, 20], 6, 20),  # a crossing that does not last is none
        ([90, 40, 30, 60], INF, 30),
        ([90, 80, 70, 60], INF, 0),
        ([10, 10], 0, 0),
        ([90, 20, INF], INF, INF),
    ],
)
def test_a_run_is_summed_up(y, iterations, rise):
    summed = evidence.runs(trace(y), level=50.0).iloc[0]
    assert summed["iterations_to"] == iterations
    assert summed["evaluations_to"] == 10 * iterations
    assert summed["seconds_to"] == pytest.approx(iterations / 20)
    assert summed["rise"] == rise
    assert summed["log_likelihood_error"] == y[-1]
    assert summed["ms_per_iteration"] == pytest.approx(50.0)


@given(st.lists(st.floats(-100, 1000), min_size=1, max_size=12), st.floats(-50, 500))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_the_level_is_kept_from_there_on_and_not_before(y, level):
    reached = evidence.runs(trace(y), level=level).iloc[0]["iterations_to"]
    kept = [all(v <= level for v in y[i:]) for i in range(len(y))]
    assert reached == (2 * kept.index(True) if any(kept) else INF)


@pytest.mark.parametrize(
    ("wins", "answer"),
    [
        (10, "yes"),
        (8, "yes"),
        (7, "undecided (true on 7 of 10 seeds, which does not decide)"),
        (5, "no"),
        (0, "no"),
    ],
)
def test_too_few_seeds_do_not_decide(wins, answer):
    table = runs(a=[1.0] * wins + [3.0] * (10 - wins), b=[2.0] * 10)
    assert evidence.better(table, "a", "b", "y", "").answer == answer
    few = evidence.better(runs(a=[1.0] * 4, b=[2.0] * 4), "a", "b", "y", "")
    assert few.answer == "undecided (true on 4 of 4 seeds, which does not decide)"


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_a_wrong_verdict_is_as_rare_as_stated(share):
    """A share of one half is called true, and of .8 false, with probability CHANCE at most: enumerated."""
    for seeds in range(1, 41):
        wins = np.arange(seeds + 1)
        wrong = [evidence._decided(int(w), seeds) is (share == 0.5) for w in wins]
        assert binom.pmf(wins, seeds, share)[wrong].sum() <= evidence.CHANCE + 1e-12


def test_the_interval_of_the_share_holds_it_as_often_as_stated():
    seeds, share = 10, 0.8
    wins = np.arange(seeds + 1)
    intervals = [Check("s", False, "", wins=int(w), seeds=seeds).interval for w in wins]
    holds = [low <= share <= high for low, high in intervals]
    assert binom.pmf(wins, seeds, share)[holds].sum() >= 0.95


def test_less_is_strict_and_uses_its_margin_and_factor():
    table = runs(a=[4.0] * 5, b=[10.0] * 5)
    assert evidence.better(table, "a", "b", "y", "", margin=5.9).true
    assert not evidence.better(table, "a", "b", "y", "", margin=6.0).true
    assert evidence.better(table, "a", "b", "y", "", factor=0.5).true
    assert not evidence.better(table, "a", "b", "y", "", factor=0.4).true
    assert not evidence.better(table, "b", "a", "y", "").true
    assert evidence.better(table, "b", "a", "y", "", margin=5.9, higher=True).true
    assert not evidence.better(table, "b", "a", "y", "", margin=6.0, higher=True).true


def test_seeds_on_which_neither_arrives_decide_nothing():
    table = runs(a=[1.0] * 5 + [INF] * 3, b=[2.0, INF, 2.0, 2.0, 2.0] + [INF] * 3)
    check = evidence.better(table, "a", "b", "y", "")
    assert check.true
    assert "(5/5)" in check.numbers
    assert (check.wins, check.seeds) == (5, 5)
    both = runs(a=[INF] * 9 + [1.0], b=[INF] * 9 + [2.0])
    assert not evidence.better(both, "a", "b", "y", "", margin=-1.0).true
    few = evidence.better(runs(a=[1.0, INF, INF], b=[2.0, INF, INF]), "a", "b", "y", "")
    assert not few.true
    assert few.undecided == "neither a nor b gets there on 2 of 3 seeds"
    none = runs(a=[INF] * 4, b=[INF] * 4, c=[1.0] * 4)
    assert "4 of 4" in evidence.better(none, "a", "b", "y", "").undecided
    assert evidence.better(none, "a", ["b", "c"], "y", "").answer == "no"  # false against c decides
    assert evidence.better(runs(a=[INF] * 4, b=[1.0] * 4), "a", "b", "y", "").answer == "no"


def test_a_mean_is_no_lower_than_another_by_a_margin():
    """Four differences -.1, .1, .1, .3 give .1 +- 3.182 (tables of Student's t) times .163 / 2."""
    mean, half = evidence.mean_interval([-0.1, 0.1, 0.1, 0.3])
    assert mean == pytest.approx(0.1)
    assert half == pytest.approx(3.182446 * 0.16329932 / 2)
    table = runs(a=[0.9, 1.1, 1.1, 1.3], b=[1.0] * 4)
    answers = [
        evidence.not_lower(table, "a", "b", "y", "", margin=margin).answer
        for margin in (0.2, 0.1, -0.3, -0.4)
    ]
    assert answers == [
        "yes",
        "undecided (the interval holds -0.1)",
        "undecided (the interval holds 0.3)",
        "no",
    ]
    assert evidence.not_lower(table[table["seed"] == 0], "a", "b", "y", "", margin=9.0).undecided
    apart = pd.concat([runs(a=[1.0]), runs(b=[1.0]).assign(seed=1)])
    assert "no seed in common" in evidence.not_lower(apart, "a", "b", "y", "", margin=1.0).undecided


@pytest.mark.parametrize(("n", "answer"), [(23, "undecided"), (500, "no")])
def test_shares_that_are_all_alike_are_not_known_exactly(n, answer):
    """All n trials hold: the lower end is the p with p^n = .025, .85 for 23 and .993 for 500."""
    found = evidence.share_within(np.ones(n), "", 0.9, 0.99)
    assert found.answer.startswith(answer)
    assert f"({0.025 ** (1.0 / n):.3f} to 1.000)" in found.numbers


def test_a_case_that_is_not_there_is_an_error():
    with pytest.raises(KeyError):
        evidence.better(runs(a=[1.0]), "a", "b", "y", "")
    assert not evidence.at_level(runs(a=[1.0]), "b", "y", 2.0, "").true


def test_the_gap_is_to_the_best_end_of_the_same_problem():
    table = pd.concat(
        [trace([5, 1]), trace([0, 3], case="b"), trace([9, 7], seed=1), trace([8, INF], case="b", seed=1)]
    )
    gap = evidence.with_gap(table)["elbo_gap"]
    np.testing.assert_array_equal(gap, [4, 0, -1, 2, 2, 0, 1, INF])
    lag = evidence.with_lag(table, table["case"] == "b")["behind"]
    np.testing.assert_array_equal(lag[:4], [2, -2, -3, 0])
