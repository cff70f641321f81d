"""Each condition of convergence by itself: a record that meets all the others, on both sides of the
threshold.
"""

import math
from dataclasses import fields, replace

import pytest

from bqvi.variational_bmc.settings import COMPARISON, CONVERGENCE
from bqvi.variational_bmc.state import Row
from bqvi.variational_bmc.stopping import judge, needs_draws, verifies

TOLERANCE = 0.05
LEAST = CONVERGENCE.steady + 2
"""Records without which nothing is judged."""
GOOD = replace(
    Row(**{one.name: 0.0 for one in fields(Row)}),
    log_evidence_sd=0.02,
    effective_share=0.5,
    pareto_k=0.5,
    covered=True,
    explored=True,
)


def reasons(*last, count=10, tolerance=TOLERANCE):
    """Why ``count`` records, of which the ``last`` differ from good ones, have not converged."""
    rows = (GOOD,) * (count - len(last)) + tuple(replace(GOOD, **changed) for changed in last)
    verdict = judge(rows, tolerance)
    assert verdict.converged == (not verdict.reasons)
    return verdict.reasons


def test_records_that_meet_every_condition_have_converged_once_there_are_enough():
    assert reasons(count=LEAST) == ()
    (message,) = reasons(count=LEAST - 1)
    assert message == f"only {LEAST - 1} steps have been made; at least {LEAST} are needed"


E = 1e-9
ALONE = [
    # what changes in the last record, within its threshold and beyond it, and what is said
    ("sd", {"log_evidence_sd": TOLERANCE - E}, {"log_evidence_sd": TOLERANCE + E}, "its sd is"),
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
        {"pareto_k": CONVERGENCE.shape - E},
        {"pareto_k": CONVERGENCE.shape + E},
        "q does not cover the surrogate (Pareto",
    ),
    (
        "Pareto k of weights that are nearly the same",
        {"pareto_k": 9.0, "effective_share": CONVERGENCE.uniform + E},
        {"pareto_k": 9.0, "effective_share": CONVERGENCE.uniform - E},
        "q does not cover the surrogate (Pareto",
    ),
    ("coverage", {"covered": True}, {"covered": False}, "evaluations show mass that q lacks"),
    (
        "predictions",
        {"prediction_error": CONVERGENCE.prediction_error - E, "missed": 1.0},
        {"prediction_error": CONVERGENCE.prediction_error + E, "missed": 1.0},
        "has prediction errors above its sds",
    ),
    (
        "predictions that are off by little",
        {"prediction_error": 1e3, "missed": CONVERGENCE.missed - E},
        {"prediction_error": 1e3, "missed": CONVERGENCE.missed + E},
        "has prediction errors above its sds",
    ),
    (
        "mass at draws",
        {"total_variation": COMPARISON.total_variation - E, "log_evidence_sd": 0.0},
        {"total_variation": COMPARISON.total_variation + E, "log_evidence_sd": 0.0},
        "the densities of surrogate and log joint differ",
    ),
    (
        "mass at draws of several modes",
        {"total_variation": max(COMPARISON.of_modes, TOLERANCE) - E, "compared": 6, "log_evidence_sd": 0.0},
        {"total_variation": max(COMPARISON.of_modes, TOLERANCE) + E, "compared": 6, "log_evidence_sd": 0.0},
        "the densities of surrogate and log joint differ",
    ),
    ("comparison", {}, {"total_variation": math.nan}, "has not been compared"),
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
    wide = {"log_evidence_sd": 0.05}
    assert (
        reasons(wide, wide, wide, {"log_evidence": 0.1 - E, "log_evidence_sd": 0.009}, tolerance=0.01) == ()
    )
    (message,) = reasons(
        wide, wide, wide, {"log_evidence": 0.1 + E, "log_evidence_sd": 0.009}, tolerance=0.01
    )
    assert "still moves" in message


def test_what_unseen_modes_and_the_total_variation_add_to_the_sd_is_not_counted_twice():
    parts = {"unseen": 0.06, "total_variation": 0.08}
    whole = math.sqrt(0.06**2 + 0.08**2 + TOLERANCE**2)
    assert reasons({**parts, "log_evidence_sd": whole - E}) == ()
    (message,) = reasons({**parts, "log_evidence_sd": whole + 1e-6})
    assert "its sd is" in message


def test_only_exploration_and_comparison_are_awaited_where_all_else_holds():
    open_ones = replace(GOOD, explored=False, total_variation=math.nan)
    assert needs_draws((open_ones,) * (LEAST - 1), TOLERANCE)
    assert not needs_draws((replace(open_ones, log_evidence_sd=0.2),) * (LEAST - 1), TOLERANCE)
    assert not needs_draws((open_ones,) * (LEAST - 2), TOLERANCE)


def test_the_thorough_estimate_is_made_again_after_a_tenth_more_evaluations():
    def due(*counts):
        return verifies(tuple(replace(GOOD, n_evaluations=n) for n in (0,) * (LEAST - 1) + counts), TOLERANCE)

    assert due(100)
    assert not due(100, 109)
    assert due(100, 111)
    assert not due(100, 111, 122)
    assert due(100, 111, 123)
    assert not verifies((replace(GOOD, covered=False),) * 10, TOLERANCE)
