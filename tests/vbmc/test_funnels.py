"""A run whose surrogate of gradients fails says so, and its estimates stay finite."""

from dataclasses import fields, replace

import numpy as np

import bqvi
from bqvi.variational_bmc.correction import bounded
from bqvi.variational_bmc.state import Row
from bqvi.variational_bmc.stopping import judge
from experiments.problems import hard_posteriors


def record_of(count):
    values = dict.fromkeys((one.name for one in fields(Row)), 0.0)
    return Row(**{**values, "n_evaluations": count})


def test_an_excess_above_the_evaluated_values_counts_by_its_variance():
    mean, variance = np.array([3.0, 8.0, 8.0, 805.0]), np.array([1e4, 0.5, 10.0, 1e3])
    np.testing.assert_allclose(bounded(mean, variance, 5.0), [3.0, 8.0, 5.3, 5.8])


def test_a_turned_funnel_with_gradients_has_not_converged():
    """Its scales depend on no single coordinate, so that no map is found."""
    problem, turn = hard_posteriors.funnel(5), np.eye(5)
    turn[:2, :2] = np.sqrt(0.5) * np.array([[1.0, -1.0], [1.0, 1.0]])
    with np.errstate(over="ignore"):  # where scales are below the smallest number the density is zero
        found = bqvi.vbmc(
            lambda x: problem.log_joint(turn.T @ x), gradient=lambda x: turn @ problem.gradient(turn.T @ x),
            plausible_lower=np.full(5, -8.0), plausible_upper=np.full(5, 8.0), budget=60,
        )  # fmt: skip
    assert not found.converged
    assert any("successive posteriors still differ" in reason for reason in found.reasons)
    assert abs(found.log_evidence) < 3.0 * found.log_evidence_sd


def test_a_run_that_expects_further_modes_has_not_converged():
    steady = replace(
        record_of(50),
        effective_share=0.9,
        log_evidence_sd=0.5,
        explored=True,
        total_variation=0.0,
        tested=50,
        unseen=0.5,
    )
    assert judge((steady,) * 8, 0.05) == ("there may be further modes (they would add 0.5 nats on average)",)
    assert not judge((replace(steady, unseen=0.02, log_evidence_sd=0.02),) * 8, 0.05)
