"""Convergence of 'bq': claims are true of posteriors in closed form, and refuted where they are false."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import bqvi
from bqvi.calls import Account, Evaluations, Ledger
from bqvi.families import Gaussian
from bqvi.gradients import BayesianQuadrature
from bqvi.inference.convergence import Settled, judged, tried
from bqvi.inference.loop import start
from bqvi.inference.state import LoopProblem
from bqvi.inference.steps import Constant, TrustRegion
from bqvi.models import LogJoint

CENTRE = np.array([0.3, -0.8, 1.1])
CORNER = np.array([-0.4, 0.1])
ROOT = np.array([[1.2, 0.0, 0.0], [-0.5, 0.7, 0.0], [0.2, 0.4, 0.9]])


def gaussian(theta):
    """Unnormalised, with ln Z = 1.5 ln 2 pi + ln |ROOT|."""
    return -0.5 * np.square(np.linalg.solve(ROOT, (theta - CENTRE).T)).sum(0)


@pytest.mark.parametrize("seed", range(3))
def test_a_gaussian_posterior_has_converged_long_before_the_budget(seed):
    log_z = 1.5 * math.log(2.0 * math.pi) + np.log(np.diag(ROOT)).sum()
    found = bqvi.fit(LogJoint(gaussian, 3, gradient=None), method="bq", budget=200, seed=seed)
    assert found.converged
    assert found.reasons == found.warnings == ()
    assert found.n_evaluations < 60
    assert found.elbo == pytest.approx(log_z, abs=0.01)
    assert found.elbo_sd < 0.05


@pytest.mark.parametrize("gradient", [None, "autodiff"])
@pytest.mark.parametrize("width", [0.01, 0.03])
def test_a_narrow_spike_at_the_mean_of_the_start_is_seen(width, gradient):
    """Half of the mass of each coordinate, and no q that misses it is claimed to have its ELBO."""

    def log_joint(theta):
        parts = (-0.5 * theta**2, -0.5 * (theta / width) ** 2 - math.log(width))
        return torch.logaddexp(*parts).sum(1) - 2.0 * math.log(2.0)

    def of_values(theta):
        return log_joint(torch.as_tensor(theta)).numpy()

    model = LogJoint(of_values if gradient is None else log_joint, 2, gradient=gradient)
    found = bqvi.fit(model, method="bq", budget=60, seed=1)
    draws = found.q.sample(4000, np.random.default_rng(0))
    terms = of_values(draws) - found.q.log_prob(draws)
    wrong = abs(terms.mean() - found.elbo) > 0.1 + 3.0 * terms.std() / 4000**0.5
    assert not (found.converged and wrong)


def test_the_tolerance_decides_when_a_run_ends():
    def of(tolerance):
        return bqvi.fit(LogJoint(sloping, 2, gradient=None), method="bq", budget=90, tolerance=tolerance)

    loose, tight, none = of(0.2), of(0.005), of(None)
    assert loose.converged
    assert tight.converged
    assert loose.n_evaluations < tight.n_evaluations < none.n_evaluations == 90
    assert tight.elbo_sd < 0.005
    assert not none.converged
    assert abs(tight.elbo - none.elbo) < 0.005 + 3.0 * (tight.elbo_sd + none.elbo_sd)
    impatient = bqvi.fit(LogJoint(sloping, 2, gradient=None), method="bq", budget=14)
    assert not impatient.converged
    assert impatient.reasons
    assert any("has not converged" in one for one in impatient.warnings)


def sloping(theta):
    """Two independent log gamma variables, of shapes 3 and 6."""
    return 3.0 * theta[:, 0] - np.exp(theta[:, 0]) + 6.0 * theta[:, 1] - np.exp(theta[:, 1])


@pytest.mark.parametrize("floor", [-300.0, -1e5, -1e12, -np.inf])
@pytest.mark.parametrize("seed", range(2))
def test_a_q_with_mass_where_the_log_joint_is_far_below_has_not_converged(floor, seed):
    """A half plane that cuts a sixth of the Gaussian's mass off: the ELBO of the best q is far below."""

    def cut(theta):
        return np.where(theta[:, 0] > CENTRE[0] + 1.2, floor, gaussian(theta))

    found = bqvi.fit(LogJoint(cut, 3, gradient=None), method="bq", budget=60, seed=seed)
    u = np.random.default_rng(9).standard_normal((4000, 3))
    draws = found.q.mean + u @ np.linalg.cholesky(found.q.covariance).T
    truth = cut(draws).mean() + float(found.q.entropy)
    assert not found.converged or abs(found.elbo - truth) < 0.1 + 4.0 * cut(draws).std() / 63.0


def standard(theta):
    return -0.5 * np.square(theta).sum(1)


def claimed(function):
    """A due claim of N(0, I), from 30 values of a Gaussian with theta_0 below .2, and its problem."""
    points = np.random.default_rng(4).standard_normal((200, 2))
    points = points[points[:, 0] < 0.2][:30]
    model = LogJoint(function, 2, gradient=None)
    problem = LoopProblem(model, None, BayesianQuadrature(), TrustRegion(), Constant(1.0))
    state = start(problem, Gaussian(np.zeros(2), np.eye(2)), np.random.default_rng(3))
    values = Evaluations(points, standard(points), None, None, np.zeros(30, bool), ("",) * 30)
    state = replace(state, memory=state.memory.joined(values))
    state = replace(state, claim=Settled(np.zeros(2), np.eye(2), 24))
    return problem, judged(state, 0.05)


def test_a_claim_stands_where_the_evaluations_that_could_refute_it_agree():
    problem, state = claimed(standard)
    assert state.claim.due
    assert state.reasons == ()
    after = tried(problem, state, 0.05, Account(Ledger(2)), 40, CORNER)
    assert after.has_converged(0.05)
    assert not after.has_converged(after.claim.sd)
    assert len(after.memory) - 30 == after.n_evaluations > 5
    assert (after.memory.points == CORNER).all(1).sum() == 1  # where the run began
    again = tried(problem, state, 0.05, Account(Ledger(2)), 40, CORNER)
    np.testing.assert_array_equal(after.memory.points, again.memory.points)


@pytest.mark.parametrize("depth", [0.5, 3.0, 1e4, np.inf])
def test_a_claim_falls_where_the_function_differs_beyond_the_earlier_evaluations(depth):
    def stepped(theta):
        return standard(theta) - np.where(theta[:, 0] > 0.5, depth, 0.0)

    problem, state = claimed(stepped)
    assert state.claim.due  # the earlier evaluations know nothing of the step
    after = tried(problem, state, 0.05, Account(Ledger(2)), 40, CORNER)
    assert not after.claim.due
    assert not after.has_converged(0.05)
    assert after.reasons


def test_no_evaluation_tests_a_claim_that_the_budget_has_no_room_for():
    problem, state = claimed(standard)
    assert tried(problem, state, 0.05, Account(Ledger(2)), 3, CORNER) is state
    (reason,) = judged(state, 0.05, final=True).reasons
    assert "too few were left" in reason
