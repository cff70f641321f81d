"""Failed evaluations: regression against a general optimiser; designs and runs avoid infeasible regions."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch
from numpy.testing import assert_allclose

import bqvi
from bqvi.families import Gaussian
from bqvi.gradients.designs import Informed, LogisticFeasibility, MomentVarianceReduction
from bqvi.gradients.gradient_process import GradientProcess, SeparableKernel
from bqvi.models import LogJoint
from experiments.gradients.uncertain_nodes import GradientUncertainty


def split(seed=0, d=3, m=40):
    """Points on both sides of a plane."""
    points = np.random.default_rng(seed).standard_normal((m, d))
    beyond = points[:, 0] > 0.8
    return points[~beyond], points[beyond]


def test_the_coefficients_are_the_mode_of_the_logistic_posterior():
    good, failed = split()
    points = np.concatenate([good, failed])
    features = np.column_stack([np.ones(40), points, np.square(points).mean(1)])
    signs = np.r_[np.ones(len(good)), -np.ones(len(failed))]

    def objective(b):
        return np.logaddexp(0.0, -signs * (features @ b)).sum() + 0.5 * b @ b / 4.0

    expected = scipy.optimize.minimize(objective, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).x
    assert_allclose(LogisticFeasibility(good, failed)._coefficients, expected, atol=1e-6)


def test_where_nothing_failed_all_is_feasible_and_beside_a_failure_nothing():
    good, failed = split()
    assert_allclose(LogisticFeasibility(good, failed[:0])(good), 1.0)
    inside = good[:1] + 1e-3  # a hole that no plane makes
    assert LogisticFeasibility(good, np.concatenate([failed, inside]))(inside + 1e-4)[0] == 0.0


@pytest.mark.parametrize("design", [MomentVarianceReduction(), GradientUncertainty()])
def test_designs_keep_to_where_evaluations_succeed(design):
    rng = np.random.default_rng(1)
    good, failed = split(m=120)
    process = GradientProcess.of(good, rng.standard_normal(good.shape), SeparableKernel(2.5, 0.1, 0.1))
    guarded = Informed(process, feasibility=LogisticFeasibility(good, failed))
    beyond = [
        np.mean([(design.nodes(4, 3, rng, known)[:, 0] > 0.8).mean() for _ in range(20)])
        for known in (Informed(process), guarded)
    ]
    assert beyond[0] > 0.2
    assert beyond[1] < 0.1  # the plane is known from 120 points


def test_runs_beside_an_edge_do_not_end():
    """A plane takes 16 % off the mass of q: without the failures in the designs each of these runs ends."""

    def log_prob(theta):
        value = -0.5 * theta.square().sum(1) - 0.1 * theta[:, 2] ** 4
        return torch.where(0.6 * theta[:, 0] - 0.8 * theta[:, 1] > 1.0, -torch.inf, value)

    for seed in range(3):
        fit = bqvi.fit(
            LogJoint(log_prob, 4),
            method="bq",
            start_from=Gaussian(np.zeros(4), np.eye(4)),
            budget=60,
            record=10**6,
            seed=seed,
        )
        memory = fit.state.memory
        assert len(memory.failed) == memory.failures.n_failed < 25
        assert_allclose(fit.q.mean, 0.0, atol=0.1)


@pytest.mark.parametrize("edge", [-2.0, -1.0, 0.0])
def test_the_log_evidence_is_that_of_the_half_space_where_evaluations_return(edge):
    """Against the normal distribution function; q is the whole normal density, whose evidence is 1.84."""

    def cut(theta):
        return np.where(theta[:, 0] < edge, -np.inf, -0.5 * np.square(theta).sum(1))

    plausible = {"plausible_lower": [-3.0] * 2, "plausible_upper": [3.0] * 2}
    with pytest.warns(UserWarning, match="evaluations failed, in a region that holds about"):
        found = bqvi.fit(LogJoint(cut, 2, gradient=np.negative, **plausible), method="bq", budget=60, seed=1)
    exact = np.log(2.0 * np.pi) + scipy.stats.norm.logsf(edge)
    assert abs(found.log_evidence - exact) < 2.0 * found.log_evidence_sd < 0.6


@pytest.mark.parametrize("method", ["bq", "pathwise"])
def test_an_error_of_the_code_at_draws_of_a_record_stops_the_run(method):
    """Evaluations after the end of a step are those of a record: the log joint fails from the first of these
    on.
    """
    calls = []

    def breaks(theta):
        calls.append(len(theta))
        if len(theta) == 20:  # a record's draws; a step has five
            return missing_name  # noqa: F821
        return -0.5 * theta.square().sum(1)

    choices = {"method": method, "samples": 5, "record": bqvi.Record(1, elbo_samples=20), "steps": 3}
    with pytest.raises(bqvi.RunError, match="missing_name") as message:
        bqvi.fit(LogJoint(breaks, 2), **choices)
    assert isinstance(message.value.__cause__, bqvi.EvaluationError)
    assert calls[-1] == 20


def test_numerical_failures_at_few_draws_of_a_record_are_left_out():
    def fails_far_out(theta):
        if theta[0] > 1.5:
            raise ArithmeticError("did not converge")
        return -0.5 * theta.square().sum()

    model = LogJoint(fails_far_out, 2, vectorised=False)
    start = Gaussian(np.zeros(2), 0.9 * np.eye(2))
    found = bqvi.fit(
        model, method="pathwise", start_from=start, steps=1, record=bqvi.Record([0], elbo_samples=100)
    )
    outside = scipy.stats.norm.sf(1.5 / np.sqrt(0.9))  # a share of 6 % of the draws
    assert 0.0 < outside < 0.1
    # entropy + E[log joint], of the draws that did not fail: truncated to the left of 1.5
    inside = scipy.stats.truncnorm(-np.inf, 1.5 / np.sqrt(0.9), scale=np.sqrt(0.9))
    log_q = -np.log(2 * np.pi * 0.9) - 0.5 * (inside.moment(2) / 0.9 + 1.0)
    exact = -0.5 * (inside.moment(2) + 0.9) - log_q
    # a false alarm at one of 16,000 seeds; the seed of the draws is that of all records
    assert abs(found.trace["elbo"][0] - exact) < 4.0 * found.trace["elbo_sd"][0]


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_budget_that_ends_before_any_finite_value_is_said(value):
    model = LogJoint(lambda theta: value, 2, gradient=None, vectorised=False)
    found = bqvi.fit(model, method="bq", budget=6)
    assert np.isnan(found.elbo)
    assert "None of 6 evaluations had a finite value" in found.warnings[0]


def test_an_elbo_that_is_not_known_is_said():
    model = LogJoint(lambda theta: -0.5e6 * np.sum((theta - 1.0) ** 2), 2, gradient=None, vectorised=False)
    found = bqvi.fit(model, method="bq", budget=10)
    assert np.isnan(found.elbo)
    assert "The ELBO of q is not known from 10 evaluations" in found.warnings[0]


@pytest.mark.parametrize("seed", [2, 4])
def test_no_claim_where_a_thirtieth_of_q_fails(seed):
    """The ELBO of every Gaussian is -inf; few evaluations beyond the edge, far from q, had left a claim."""
    slope = 0.3 * np.random.default_rng(seed).normal(size=5)

    def cut(theta):
        values = -0.5 * np.square(theta).sum(1) - 0.3 * np.logaddexp(0.0, theta @ slope)
        return np.where(theta[:, 0] < -1.8, -np.inf, values)

    with pytest.warns(UserWarning, match="evaluations failed in a region"):
        found = bqvi.fit(LogJoint(cut, 5, gradient=None), method="bq", budget=120, seed=seed)
    assert not found.converged


def test_the_elbo_of_a_q_that_reaches_where_evaluations_fail_is_not_known():
    """A Gaussian has mass where the log joint is -inf, or a floor: its ELBO is -inf, or far lower."""

    def half(theta):
        return np.where(theta[:, 0] < 0.3, -0.5 * np.square(theta).sum(1), -1e6)

    model = LogJoint(half, 2, gradient=None, lower=[-8.0, -8.0], upper=[8.0, 8.0])
    with pytest.warns(UserWarning, match="evaluations failed in a region"):
        found = bqvi.fit(model, method="bq", budget=80)
    assert found.elbo_sd == np.inf
    assert not found.converged
    whole = bqvi.fit(LogJoint(lambda t: -0.5 * np.square(t).sum(1), 2, gradient=None), method="bq", budget=80)
    assert whole.elbo_sd < 0.05
