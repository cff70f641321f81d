"""The problems of the comparison: log joints and ELBOs by other formulas, runs and claims in a few cells."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from quick_runs import looked_at, table
from scipy import stats

from bqvi.families import Gaussian
from experiments.harness import registry
from experiments.harness.experiment import Resources
from experiments.problems.data import CENTRES
from experiments.thesis import comparison_problems as problems
from experiments.thesis.softmax_mixture import SoftmaxMixture


def test_the_mixture_of_rows_is_the_one_with_z_summed_out():
    posed = problems.PROBLEMS["mixture"](0)
    theta = torch.tensor(posed.start.mean + np.random.default_rng(0).standard_normal((5, 29)))
    whole = SoftmaxMixture(posed.data, 10, 1.0, concentration=1e-3).summed_out().log_prior(theta)
    terms = posed.model.log_likelihood_terms(theta, posed.model.check(posed.data))
    assert_allclose(posed.model.log_prior(theta) + terms.sum(1), whole, rtol=1e-10)


def test_the_log_likelihood_error_is_zero_where_q_is_a_point_at_the_truth():
    posed = problems.PROBLEMS["mixture"](0)
    # the last logit is 0: its component is to have no weight
    mean = np.concatenate([np.full(7, 40.0), np.zeros(2), CENTRES.ravel(), np.zeros(6)])
    q = Gaussian(mean, 1e-12 * np.eye(29))
    assert abs(posed.metrics["log_likelihood_error"](q)) < 1e-4
    assert posed.metrics["components"](q) == 7.0


def test_the_poisson_regression_is_that_of_scipy_and_its_elbo_that_of_draws():
    posed = problems.PROBLEMS["Poisson"](0)
    data = posed.model.check(posed.data)
    q = Gaussian(np.full(6, 0.1), 0.01 * np.eye(6))
    theta = q.mean + 0.1 * np.random.default_rng(1).standard_normal((4000, 6))
    terms = posed.model.log_likelihood_terms(torch.tensor(theta), data).numpy()
    x, y = posed.data
    assert_allclose(terms[:3], stats.poisson.logpmf(y, np.exp(theta[:3] @ x.T)), rtol=1e-9)
    values = terms.sum(1) + stats.norm.logpdf(theta).sum(1) + float(q.entropy)
    error = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - posed.model.elbo(q, data)) < 4.0 * error  # false alarms 6e-5


def test_every_estimator_is_run_with_four_data_and_every_choice_with_two_estimators():
    random = {problems.FULL, "without replacement", "reshuffled", "balanced"}
    for estimator in problems.ESTIMATORS:
        chosen = {data for name, data in problems.CELLS if name == estimator}
        few = estimator.startswith("BQ, ") or estimator.endswith(problems.ADAM)
        assert chosen >= ({problems.FULL} if few else random)
    for estimator in ("pathwise", "BQ"):
        assert {data for name, data in problems.CELLS if name == estimator} == {problems.FULL, *problems.DATA}


@pytest.mark.filterwarnings("ignore:The run has not converged|q still moves")
def test_some_cells_are_run_drawn_and_judged():
    experiment = registry.load("thesis-comparison")
    cases = [c for c in experiment.checked_cases(True, Resources()) if c.settings["kind"] != "untuned"]
    found = table(experiment, cases=cases)
    assert not found[["iteration", "elbo"]].isna().any().any()
    made = looked_at(experiment, found)
    assert set(made) == {"costs", "errors"}
    for claim in experiment.claims(found):
        assert claim.verdict
        assert all(check.numbers and "nan" not in check.numbers for check in claim.checks)
