"""A run whose surrogate of gradients fails is restarted from values alone, and its estimates stay finite."""

from dataclasses import fields, replace

import numpy as np
import pytest

import bqvi
from bqvi.calls import Evaluations
from bqvi.variational_bmc.correction import bounded
from bqvi.variational_bmc.fresh_start import FROM_VALUES, restarted_from_values, surrogate_failed
from bqvi.variational_bmc.state import CheapModel, Row, begun
from bqvi.variational_bmc.stopping import judge
from experiments.problems import hard_posteriors, known_posteriors


def made(values, gradients=True):
    points = np.arange(2.0 * len(values)).reshape(-1, 2)
    values = np.array(values)
    failed = ~np.isfinite(values)
    reasons = tuple("x" if bad else "" for bad in failed)
    return Evaluations(points, values, np.zeros_like(points) if gradients else None, None, failed, reasons)


def record_of(count):
    values = dict.fromkeys((one.name for one in fields(Row)), 0.0)
    return Row(**{**values, "n_evaluations": count})


def test_a_fresh_start_leaves_out_what_is_higher_than_anything_since():
    state = restarted_from_values(
        begun(np.zeros((0, 2)), made([1.0, 9.0, 2.0])), np.array([[0.0, 1.0], [7.0, 7.0]])
    )
    np.testing.assert_array_equal(state.pending, [[7.0, 7.0]])  # the other pending point has been evaluated
    assert len(state.usable) == 3  # no further evaluation has become usable
    later = restarted_from_values(begun(np.zeros((0, 2)), made([1.0, 9.0, 2.0])), np.zeros((0, 2)))
    object.__setattr__(later, "evaluations", made([1.0, 9.0, 2.0, 3.0, -np.inf]))
    np.testing.assert_array_equal(later.usable.values, [1.0, 2.0, 3.0])
    assert later.usable.gradients is None
    known = CheapModel(made([1.0]), later.frame, None, True)
    assert restarted_from_values(replace(later, cheap=known), np.zeros((0, 2))).cheap is known
    assert not surrogate_failed(later)


def test_a_fresh_start_whose_design_has_been_evaluated_is_not_taken_back():
    """Nothing is pending then, and a step goes back to the state before the last record, if there is one."""
    state = replace(begun(np.zeros((0, 2)), made([1.0, 9.0, 2.0])), q=object())
    row = record_of(3)
    recorded = replace(state, rows=(row,), before=state.known)
    anew = restarted_from_values(recorded, state.evaluations.points)
    assert not len(anew.pending)
    assert anew.before_last_record().values_from == 3
    assert anew.before_last_record().q is None
    assert recorded.before_last_record().q is state.q


@pytest.mark.parametrize(
    ("divergence", "effective_share", "anew"), [(0.2, 0.8, False), (3.0, 0.8, True), (0.2, 0.1, True)]
)
def test_bad_predictions_restart_no_run_whose_posterior_is_settled(divergence, effective_share, anew):
    """Twelve predictions that were five nats off at a stated sd of one."""
    state = replace(
        begun(np.zeros((0, 2)), made([5.0] * 12)),
        given=0,
        predicted=np.array([[0.0, 1.0, np.nan]] * 12),
        rows=(replace(record_of(12), divergence=divergence, effective_share=effective_share),),
    )
    assert surrogate_failed(state) == anew


@pytest.mark.parametrize(("given", "anew"), [(0, True), (6, True), (7, False), (12, False)])
def test_evaluations_made_before_a_run_do_not_count_towards_a_restart(given, anew):
    """In five records hardly a draw had weight; in two dimensions six evaluations are made before that."""
    state = replace(begun(np.zeros((0, 2)), made([5.0] * 12)), rows=(record_of(12),) * 5, given=given)
    assert surrogate_failed(state) == anew
    assert begun(np.zeros((0, 2)), made([5.0] * 12)).given == 12
    assert restarted_from_values(state, np.zeros((0, 2))).given == given


def test_an_excess_above_the_evaluated_values_counts_by_its_variance():
    mean, variance = np.array([3.0, 8.0, 8.0, 805.0]), np.array([1e4, 0.5, 10.0, 1e3])
    np.testing.assert_allclose(bounded(mean, variance, 5.0), [3.0, 8.0, 5.3, 5.8])


def test_a_funnel_with_gradients_does_not_explode():
    """The climb ends 23 nats above the funnel's log evidence of 0, in a neck without mass."""
    problem = hard_posteriors.funnel(5)
    found = bqvi.vbmc(problem.log_joint, **problem.bounds(), gradient=problem.gradient, budget=60)
    assert abs(found.log_evidence) < 0.1
    assert np.abs(found.trace["log_evidence"]).max() < 30.0


def test_a_turned_funnel_with_gradients_is_restarted_from_values():
    """Its scales depend on no single coordinate, so that no map is found."""
    problem, turn = hard_posteriors.funnel(5), np.eye(5)
    turn[:2, :2] = np.sqrt(0.5) * np.array([[1.0, -1.0], [1.0, 1.0]])
    options = {
        "plausible_lower": np.full(5, -8.0), "plausible_upper": np.full(5, 8.0), "budget": 60,
        "gradient": lambda x: turn @ problem.gradient(turn.T @ x),
    }  # fmt: skip

    def log_joint(x):
        return problem.log_joint(turn.T @ x)

    found = bqvi.vbmc(log_joint, **options)
    assert FROM_VALUES in found.warnings
    assert not found.converged
    assert abs(found.log_evidence) < 3.0 * found.log_evidence_sd
    last = [found.state.values_from + 3]

    def interrupted(x):
        last[0] -= 1
        if last[0] < 0:
            raise KeyboardInterrupt
        return log_joint(x)

    with pytest.raises(bqvi.RunInterrupted) as stopped:
        bqvi.vbmc(interrupted, **options)
    again = bqvi.vbmc(log_joint, **options, resume=stopped.value)
    assert again.log_evidence == found.log_evidence


def test_a_posterior_that_is_fitted_well_with_gradients_keeps_them():
    problem = known_posteriors.rosenbrock(2)
    found = bqvi.vbmc(problem.log_joint, **problem.bounds(), gradient=problem.gradient, budget=25)
    assert found.state.values_from == 0
    assert FROM_VALUES not in found.warnings


def test_a_run_that_expects_further_modes_has_not_converged():
    steady = replace(
        record_of(50),
        effective_share=0.9,
        log_evidence_sd=0.5,
        explored=True,
        total_variation=0.0,
        tested=50,
        covered=True,
        unseen=0.5,
    )
    verdict = judge((steady,) * 8, 0.05)
    assert verdict.reasons == ("there may be further modes (they would add 0.5 nats on average)",)
    assert judge((replace(steady, unseen=0.02, log_evidence_sd=0.02),) * 8, 0.05).converged
