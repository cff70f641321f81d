"""Old evaluations that a surrogate was not fitted to: predicted, and reported where they contradict it."""

import numpy as np
import pytest

import bqvi
from bqvi.calls import given
from bqvi.calls.table import Evaluations
from bqvi.variational_bmc.result import HeldOut

BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}
FEW = 40


def log_joint(theta):
    """A Student t of seven degrees of freedom."""
    return -4.5 * np.log1p(np.square(theta).sum(-1) / 7.0)


def rows(seed=0, count=600):
    theta = np.random.default_rng(seed).uniform(-4.0, 4.0, (count, 2))
    return theta, log_joint(theta)


def record(theta, values):
    failed = ~np.isfinite(values)
    return Evaluations(theta, values, None, None, failed, ("",) * len(theta))


def test_rows_held_out_are_others_than_those_taken_and_not_far_below_the_highest(monkeypatch):
    monkeypatch.setattr(given, "MOST_PAIRED", FEW)
    theta, values = rows()
    values[::7] = -np.inf
    theta[1], values[1] = theta[0], values[0]
    made = record(theta, values)
    taken = given.selected(made)
    apart = given.held_out(made, taken)
    both = np.concatenate([taken.points, apart.points])
    assert len(apart) == 200
    assert len(np.unique(both, axis=0)) == len(both)
    assert (values[np.isfinite(values)].max() - apart.values < 2 * given.SELECTION.shallow).all()
    assert given.held_out(taken, taken) is None


def test_rows_of_the_same_log_joint_agree_with_the_surrogate(monkeypatch, tmp_path):
    monkeypatch.setattr(given, "MOST_PAIRED", FEW)
    found = bqvi.vbmc(lambda theta: float(log_joint(theta)), **BOX, evaluations=rows(), budget=45)
    held = found.held_out
    np.testing.assert_allclose(
        held.residuals, log_joint(held.theta) - found.surrogate_mean(held.theta), atol=1e-9
    )
    assert not held.contradicts(0.05)
    assert not any("contradict" in reason for reason in found.reasons)
    # calibrated: 200 correlated residuals, whose mean square a sound surrogate puts between .05 and 5
    assert 0.05 < np.square(held.standardised).mean() < 5.0
    found.save(tmp_path / "run.npz")
    again = bqvi.vbmc(log_joint, **BOX, budget=45, resume=tmp_path / "run.npz")
    np.testing.assert_array_equal(again.held_out.residuals, held.residuals)


def test_rows_that_contradict_the_surrogate_are_reported_and_nothing_converges(monkeypatch):
    """The rows left out are those of a log joint with a further factor, exp(theta_0 / 2)."""
    monkeypatch.setattr(given, "MOST_PAIRED", FEW)
    theta, values = rows()
    taken = given.selected(record(theta, values)).points
    left = ~(theta[:, None] == taken).all(-1).any(1)
    # the shift lowers these values, so that the same rows are taken
    values[left] += 0.5 * theta[left, 0] - 4.0
    found = bqvi.vbmc(lambda theta: float(log_joint(theta)), **BOX, evaluations=(theta, values), budget=60)
    assert not found.converged
    assert any("contradict the surrogate" in warning for warning in found.warnings)
    assert any("contradict the surrogate" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("residual", "sd", "contradicts"), [(0.1, 1e-6, False), (0.2, 0.02, True), (2, 1, False)]
)
def test_residuals_below_the_tolerance_or_their_sds_contradict_nothing(residual, sd, contradicts):
    held = HeldOut(np.zeros((5, 1)), np.full(5, residual), np.full(5, sd))
    assert held.contradicts(0.05) == contradicts
    assert "contradict" not in str(held)  # the message is that of the run, with its tolerance
