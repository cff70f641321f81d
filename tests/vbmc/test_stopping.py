"""Each condition of convergence by itself: a record that meets all the others, on both sides of the
threshold.
"""

import math
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

from bqvi.importance import PARETO
from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc import stopping
from bqvi.variational_bmc.settings import COMPARISON, CONVERGENCE, WEIGHTS
from bqvi.variational_bmc.state import Row
from bqvi.variational_bmc.stopping import judge, needs_test, verifies

TOLERANCE = 0.05
LEAST = CONVERGENCE.steady + 2
"""Records without which nothing is judged."""
GOOD = replace(
    Row(**{one.name: 0.0 for one in fields(Row)}),
    elbo_sd=0.02,
    effective_share=0.5,
    pareto_k=0.5,
    explored=True,
    n_evaluations=50,
    tested=50,
)


def reasons(*last, count=10, tolerance=TOLERANCE):
    """Why ``count`` records, of which the ``last`` differ from good ones, have not converged.

    Each of the last is the claim that it tested, so that nothing moves it.
    """
    own = [{"n_evaluations": 60 + i, "tested": 60 + i, **changed} for i, changed in enumerate(last)]
    rows = (GOOD,) * (count - len(last)) + tuple(replace(GOOD, **changed) for changed in own)
    return judge(rows, tolerance)


def test_records_that_meet_every_condition_have_converged_once_there_are_enough():
    assert reasons(count=LEAST) == ()
    (message,) = reasons(count=LEAST - 1)
    assert message == f"only {LEAST - 1} steps have been made; at least {LEAST} are needed"


E = 1e-9
ALONE = [
    # what changes in the last record, within its threshold and beyond it, and what is said
    ("sd", {"elbo_sd": TOLERANCE - E}, {"elbo_sd": TOLERANCE + E}, "its sd is"),
    ("evidence", {"log_evidence": TOLERANCE - E}, {"log_evidence": TOLERANCE + E}, "still moves"),
    (
        "divergence",
        {"divergence": CONVERGENCE.divergence - E},
        {"divergence": CONVERGENCE.divergence + E},
        "successive posteriors still differ",
    ),
    (
        "beside what draws leave open",
        {"divergence": 0.2 + CONVERGENCE.divergence - E, "divergence_floor": 0.2},
        {"divergence": 0.2 + CONVERGENCE.divergence + E, "divergence_floor": 0.2},
        "successive posteriors still differ",
    ),
    (
        "effective share",
        {"effective_share": CONVERGENCE.effective + E},
        {"effective_share": CONVERGENCE.effective - E},
        "q does not cover the surrogate (Pareto",
    ),
    (
        "Pareto k",
        {"pareto_k": PARETO.unusable - E},
        {"pareto_k": PARETO.unusable + E},
        "q does not cover the surrogate (Pareto",
    ),
    (
        "Pareto k of weights that are nearly the same",
        {"pareto_k": 9.0, "effective_share": WEIGHTS.covered + E},
        {"pareto_k": 9.0, "effective_share": WEIGHTS.covered - E},
        "q does not cover the surrogate (Pareto",
    ),
    (
        "mass at draws",
        {"total_variation": COMPARISON.total_variation - E, "elbo_sd": 0.0},
        {"total_variation": COMPARISON.total_variation + E, "elbo_sd": 0.0},
        "the densities of surrogate and log joint differ",
    ),
    ("a test", {}, {"tested": 0, "total_variation": math.nan}, "at points that could refute the result"),
    ("exploration", {}, {"explored": False}, "has not been explored"),
    (
        "unseen modes",
        {"unseen": CONVERGENCE.unseen - E},
        {"unseen": CONVERGENCE.unseen + E},
        "there may be further modes",
    ),
]


@pytest.mark.parametrize(("within", "beyond", "says"), [c[1:] for c in ALONE], ids=[c[0] for c in ALONE])
def test_a_condition_that_alone_is_not_met_is_the_reason(within, beyond, says):
    assert reasons(within) == ()
    (message,) = reasons(beyond)
    assert says in message


@pytest.mark.parametrize("field", ["log_evidence", "divergence"])
def test_what_has_to_be_steady_is_asked_of_the_last_records_and_of_no_others(field):
    after = ({},) * (CONVERGENCE.steady - 1)
    assert len(reasons({field: 0.2}, *after)) == 1
    assert reasons({field: 0.2}, *after, {}) == ()


def test_the_evidence_may_move_by_two_of_its_sds():
    """With a tolerance of .01 and sds of .009 at the end, .05 before: the median counts."""
    wide = {"elbo_sd": 0.05}
    assert reasons(wide, wide, wide, {"log_evidence": 0.1 - E, "elbo_sd": 0.009}, tolerance=0.01) == ()
    (message,) = reasons(wide, wide, wide, {"log_evidence": 0.1 + E, "elbo_sd": 0.009}, tolerance=0.01)
    assert "still moves" in message


def test_what_unseen_modes_add_is_not_in_the_sd_that_is_judged():
    assert reasons({"unseen": 0.06, "log_evidence_sd": 2.0 * TOLERANCE}) == ()


MOVED = max(0.02, 0.5 * TOLERANCE)
"""What the log evidence of a claim with an sd of .02 may move when it is tested."""


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        ({"log_evidence": MOVED - E}, {"log_evidence": MOVED + E}),
        (
            {"elbo_sd": ENGINES.grown * MOVED - E},
            {"elbo_sd": ENGINES.grown * MOVED + E},
        ),
    ],
    ids=["the log evidence", "its sd"],
)
def test_a_claim_stands_where_its_test_moves_the_evidence_by_less_than_its_sd(within, beyond):
    """The claim is the first record with 50 evaluations."""

    def said(changed):
        after = replace(GOOD, n_evaluations=70, **changed)
        return judge((GOOD,) * 5 + (after,) * CONVERGENCE.steady, TOLERANCE)

    assert said(within) == ()
    (message,) = said(beyond)
    assert "have changed it" in message


def test_only_exploration_and_a_test_are_awaited_where_all_else_holds():
    open_ones = replace(GOOD, explored=False, tested=0, total_variation=math.nan)
    assert needs_test((open_ones,) * (LEAST - 1), TOLERANCE)
    assert not needs_test((replace(open_ones, elbo_sd=0.2),) * (LEAST - 1), TOLERANCE)
    assert not needs_test((open_ones,) * (LEAST - 2), TOLERANCE)


def test_the_thorough_estimate_is_made_again_after_a_tenth_more_evaluations():
    def due(*counts):
        rows = (replace(GOOD, n_evaluations=n, tested=n) for n in (1,) * (LEAST - 1) + counts)
        return verifies(tuple(rows), TOLERANCE)

    assert due(100)
    assert not due(100, 109)
    assert due(100, 111)
    assert not due(100, 111, 122)
    assert due(100, 111, 123)
    assert not verifies((replace(GOOD, effective_share=0.0),) * 10, TOLERANCE)


@pytest.mark.parametrize("ratio", [0.2, 0.5, 0.7, 0.9])
def test_the_highest_value_may_rise_as_a_geometric_series_does(ratio):
    """Rises of 800 (1 - r) and 800 (1 - r) r leave 800 r^2; those that do not decrease have no limit."""

    def rise(values):
        made = SimpleNamespace(values=values, failed=values < -1e4, points=np.zeros((len(values), 2)))
        return stopping._rise(SimpleNamespace(rows=[None]), SimpleNamespace(evaluations=made, given=False))

    values = -800.0 * np.repeat([1.0, ratio, ratio**2], [11, 10, 20])
    values[[3, 15, 30]] = -900.0
    expected = max(800.0 * ratio**2, 800.0 * ratio * (1.0 - ratio))
    assert rise(np.append(-1e5, values)) == pytest.approx(expected)
    assert rise(np.linspace(-5000.0, -4000.0, 41)) == np.inf
    assert rise(np.linspace(-5.0, -4.0, 41)) == pytest.approx(0.5)
