"""The studies of one shot, of posteriors of a folder and of dimensions: oracles."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets  # noqa: F401  # what it imports seeds the global generator, once
import torch
from numpy.testing import assert_allclose
from quick_runs import folder_of_posteriors, looked_at, table

from bqvi.families import Gaussian
from bqvi.gradients import Pathwise
from bqvi.gradients.gradient import Batch
from bqvi.gradients.whitened import WhitenedFrame, WhitenedMoments
from bqvi.models import LogJoint
from experiments.gradients import dimensions as bq_dimensions
from experiments.gradients import inference as bq_inference
from experiments.gradients import one_shot as bq_one_shot
from experiments.gradients import posteriors as bq_posteriors
from experiments.gradients import references as bq_references
from experiments.gradients import runs as bq_runs
from experiments.harness.experiment import Resources
from experiments.problems import gradient_targets as targets


@pytest.mark.parametrize("name", list(bq_one_shot.CHOICES))
def test_each_estimator_is_given_n_evaluations(name):
    seen = []

    def counted(theta):
        seen.append(len(theta))
        return targets.banana().log_density(theta)

    target = replace(targets.banana(), log_density=counted)
    truth = bq_references.reference("banana", "midway", 2**10)
    q, rng = bq_references.place("banana", "midway"), np.random.default_rng(0)
    error, covered = bq_one_shot._errors(bq_one_shot.CHOICES[name], target, q, truth, 11, rng)
    assert sum(seen) == 11
    assert np.isfinite(error).all()
    assert np.isnan(covered) == name.startswith(("STL, Sobol", "STL, antithetic"))


def test_students_intervals_hold_as_often_as_stated():
    """On a quadratic, E[y] = L^T P (a - m) and E[dy/du] = I - L^T P L.

    With 100 draws means are normal to O(1 / 100). The sd of the mean share of 150 estimates, of 9 coordinates
    that depend on one another, is .008 (from the shares); three of it are allowed.
    """
    rng = np.random.default_rng(0)
    root = np.tril(rng.standard_normal((3, 3))) + 2.0 * np.eye(3)
    precision, mode = 0.1 * root @ root.T, np.array([1.0, -2.0, 0.5])
    q = Gaussian(np.array([0.3, 0.1, -0.2]), np.linalg.inv(root.T @ root) * 4.0)
    scale = WhitenedFrame.of(q).scale
    jacobian = np.eye(3) - scale.T @ precision @ scale
    truth = bq_references.flat(WhitenedMoments(scale.T @ precision @ (mode - q.mean), jacobian))

    def log_density(theta):
        offset = theta - torch.from_numpy(mode)
        return -0.5 * ((offset @ torch.from_numpy(precision)) * offset).sum(1)

    model, estimator = LogJoint(log_density, 3), Pathwise(100, "sticking-the-landing", errors=True)
    batch = Batch(None, 0)
    shares = [bq_one_shot._covered(q, estimator(model, q, batch, rng), truth) for _ in range(150)]
    assert np.mean(shares) == pytest.approx(0.95, abs=0.024)


def test_a_vector_of_moments_comes_apart_again():
    numbers = np.arange(1.0, 10.0)
    assert_allclose(bq_references.flat(bq_one_shot.unflat(numbers, 3)), numbers)
    jacobian = bq_one_shot.unflat(numbers, 3).jacobian
    assert_allclose(jacobian, jacobian.T)


def test_typical_gains_are_geometric_means():
    parts = pd.DataFrame(
        [
            {"target": target, "place": "p", "estimator": "e", "n": n, "gain": gain}
            for target, n, gain in (("a", 5, 2.0), ("b", 5, 8.0), ("a", 10, 3.0))
        ]
    )
    frame = bq_one_shot._typical(parts).frame
    assert frame.loc[0, 5] == "4"
    assert frame.loc[0, 10] == "3 (of 1)"


def test_records_nearest_to_the_budgets_are_marked():
    found = bq_runs.at_budgets(pd.DataFrame({"evaluations": [9, 21, 48, 52]}), [20, 51])
    assert_allclose(found["budget"], [np.nan, 20, np.nan, 51])


def test_a_claim_on_a_budget_counts_no_evaluation_beyond_it():
    found = pd.DataFrame({"evaluations": [35, 76, 168, 227], "budget": [np.nan, 50, np.nan, 200]})
    last = bq_inference.within_budgets(found).groupby("budget").tail(1)
    assert_allclose(last[["evaluations", "budget"]], [[35, 50], [168, 200]])


def test_sizes_below_a_grid_are_tried_while_they_are_better():
    assert bq_runs._descended(lambda size, samples: abs(np.log(size / 0.01)), 0.09, 2) == [0.01, 2]
    assert bq_runs._descended(lambda size, samples: np.inf, 0.09, 2) == [0.09, 2]


def test_the_elbo_of_a_regression_is_the_average_of_draws_and_its_optimum_an_optimum():
    """500 000 draws, 5 standard errors; then the best Gaussian against others with other means and
    covariances.
    """
    posed, rng = bq_dimensions.regression(5), np.random.default_rng(0)
    root = np.tril(0.2 * rng.standard_normal((5, 5))) + 0.5 * np.eye(5)
    q = Gaussian(rng.standard_normal(5), root @ root.T)
    draws = q.mean + rng.standard_normal((500_000, 5)) @ root.T
    log_joint = posed.target.log_density(torch.from_numpy(draws)).numpy()
    constants = 2.5 + 0.5 * np.linalg.slogdet(q.covariance)[1]  # the entropy, less that of N(0, I), and D / 2
    error = log_joint.std() / np.sqrt(len(draws))
    assert abs(log_joint.mean() + constants - posed.elbo(q)) < 5.0 * error

    best = posed.best()
    assert abs(posed.gap(best)) < 1e-10
    for change in (np.eye(5), np.diag([1.0, -1.0, 1.0, -1.0, 1.0])):
        turned = np.eye(5) + 1e-3 * change
        assert posed.gap(Gaussian(best.mean, turned @ best.covariance @ turned)) > 1e-7
        assert posed.gap(Gaussian(best.mean + 1e-3 * np.diagonal(change), best.covariance)) > 1e-7


def test_regressions_of_any_dimension_are_run():
    found = table(bq_dimensions.experiment, Resources(), seeds=3)
    assert looked_at(bq_dimensions.experiment, found)
    last = found[found["budget"] == 50].groupby("method")["elbo_gap"].median()
    assert last["BQ, 2 nodes"] < 1e-3 < last["natural gradient, STL"]
    ends = found[found["method"] == bq_dimensions.LAPLACE]
    # L-BFGS stops some 1e-5 nats below the mode's log density
    assert ends["elbo_gap"].tolist() == pytest.approx([_gap_of_laplace()] * len(ends), abs=1e-4)
    assert (ends["evaluations"] > 2 * 5).all()


def _gap_of_laplace():
    """Newton's method with Hessians of autograd."""
    posed = bq_dimensions.regression(5)
    theta = torch.zeros(5, dtype=torch.float64)
    for _ in range(20):
        at = theta.clone().requires_grad_()
        (slope,) = torch.autograd.grad(posed.target.log_density(at[None]).sum(), at)
        hessian = torch.autograd.functional.hessian(lambda x: posed.target.log_density(x[None]).sum(), theta)
        theta = theta - torch.linalg.solve(hessian, slope)
    return posed.gap(Gaussian(theta.numpy(), np.linalg.inv(-hessian.numpy())))


def test_posteriors_of_a_folder(tmp_path):
    log_evidence = folder_of_posteriors(tmp_path)
    found = table(bq_posteriors.experiment, Resources(posteriors=tmp_path))
    shown = looked_at(bq_posteriors.experiment, found)
    assert len(shown["gaps"]) == 8
    ours = found[found["method"].isin(bq_posteriors.GRADIENTS) & (found["budget"] == 50)]
    assert ours["elbo_gap"].max() < 0.01
    # each form's ELBO is below ln Z, of which Laplace's error is O(1/n)
    best = bq_posteriors.problem(tmp_path, bq_posteriors.QUICK, 0).best
    assert -0.3 < best - log_evidence < 0.1
