"""Every experiment on quadrature runs and draws in its quick form; truths and estimates have oracles."""

import numpy as np
import pytest
import sklearn.datasets  # noqa: F401  # what it imports seeds the global generator, once
import statsmodels.datasets  # noqa: F401  # likewise
import torch
from quick_runs import POSTERIOR, folder_of_posteriors, looked_at, table

import bqvi
from experiments.harness import registry
from experiments.harness.experiment import Case, Resources
from experiments.problems import evidence_targets as quadrature_evidence_targets
from experiments.quadrature import evidence as quadrature_evidence
from experiments.quadrature import nodes as quadrature_nodes
from experiments.quadrature import posteriors as quadrature_posteriors
from experiments.quadrature.runs import (
    LABELS,
    against_truth,
    estimates,
    known,
    method_cases,
)

NAMES = [name for name in registry.EXPERIMENTS if name.startswith("quadrature-")]
ALONE = [name for name in NAMES if name != "quadrature-posteriors"]


@pytest.mark.parametrize("name", ALONE)
def test_every_full_case_is_named_and_suits_its_integrand(name):
    for case in registry.load(name).checked_cases(False, Resources()):
        if case.settings.get("key", "").startswith("wsabi") and case.settings["problem"] in known():
            assert known()[case.settings["problem"]].non_negative


def test_a_resumed_run_ends_where_one_run_of_all_budgets_does_for_sampling():
    problem = known()["probit 5"]
    for method in ("monte-carlo", "qmc"):
        rows = estimates(problem.function, problem.measure, method, (20, 40), 3)
        alone = bqvi.integrate(problem.function, problem.measure, 40, method, seed=3)
        assert rows["mean"].iloc[-1] == alone.mean
        assert rows["sd"].iloc[-1] == alone.sd


def test_the_last_estimate_is_from_all_evaluations():
    problem = known()["bump 1"]
    rows = estimates(problem.function, problem.measure, "bq", (10, 20), 1)
    assert list(rows["n"]) == [10, 20]
    assert rows["seconds"].is_monotonic_increasing
    assert abs(rows["mean"].iloc[-1] - problem.truth) < abs(rows["mean"].iloc[0] - problem.truth)


@pytest.mark.parametrize("method", ["sobol", "monte-carlo", "bq"])
def test_logarithms_and_values_give_one_estimate(method):
    # The same integrand in its own units and, 2000 nats lower, as its logarithm.
    problem = known()["bump 1"]
    plain = estimates(problem.function, problem.measure, method, (20,), 1)
    low = estimates(lambda x: np.log(problem.function(x)) - 2000, problem.measure, method, (20,), 1, log=True)
    # bq conditions on values in other units, and its optimiser stops within 1e-6 of the evidence
    tolerance = 1e-4 if method == "bq" else 1e-10
    assert low["log_mean"][0] + 2000 == pytest.approx(np.log(plain["mean"][0]), abs=tolerance)


def test_errors_are_signed_and_relative():
    (case,) = method_cases(["cosine 3"], ["sobol"], (20,))
    row = against_truth(case, 0).iloc[0]
    truth = known()["cosine 3"].truth
    assert row["error"] == row["mean"] - truth
    assert row["relative"] == pytest.approx(abs(row["error"] / truth))
    assert np.isnan(row["sd"])


@pytest.mark.parametrize("name", ["regression", "process"])
def test_brute_force_agrees_with_importance_sampling(name):
    target = quadrature_evidence_targets.TARGETS[name]()
    around, _ = quadrature_evidence.proposals(target.log_joint, np.zeros(target.prior.dimension))
    # both targets' posteriors are covered by prior and heavy tails; half the draws come from each
    wide, n = around["heavy tails"], 1500
    theta = np.concatenate([wide.sample(n, 1), target.prior.sample(n, 2)])
    proposed = np.logaddexp(wide.log_density(theta), target.prior.log_density(theta)) - np.log(2)
    weights = np.exp(target.log_joint(torch.as_tensor(theta)).numpy() - proposed - target.log_evidence)
    se = np.sqrt((weights[:n].var() + weights[n:].var()) / (4 * n))
    assert abs(weights.mean() - 1) < 4 * se  # false alarm: 6e-5
    assert se < 0.05


def test_evidence_grids_are_fine_enough(monkeypatch):
    # Halving all steps of both grids moves ln Z by less than a thousandth of the errors drawn.
    kept = {name: make().log_evidence for name, make in quadrature_evidence_targets.TARGETS.items()}
    linspace = np.linspace
    monkeypatch.setattr(np, "linspace", lambda low, high, count: linspace(low, high, 2 * count - 1))
    for name, make in quadrature_evidence_targets.TARGETS.items():
        assert make.__wrapped__().log_evidence == pytest.approx(kept[name], abs=1e-6)


def test_the_rule_of_the_nodes_integrates_the_surrogate():
    # the Gauss-Hermite rule against the closed form of the kernel's embedding
    for name, (integrand, _) in quadrature_nodes.problems().items():
        choice = quadrature_nodes.CHOICES["variance reduction"]
        x = integrand.measure.sample(10, 0)
        kernel = quadrature_nodes.fitted_kernel(name, False)
        made = quadrature_nodes.ModelledIntegrand.of(choice, kernel, x, integrand.function(x))
        points, weights = quadrature_nodes._rule(integrand.measure.dimension)
        exact = float(made.posterior.integral(integrand.measure).mean)
        assert float(weights @ made.mean(points)) == pytest.approx(exact, abs=1e-6)


def test_the_band_of_a_warped_surrogate_holds_its_samples():
    # 2.3e-2 of a normal variable is beyond two sd on either side; g^2 / 2 folds them, never more
    integrand, _ = quadrature_nodes.problems()["line"]
    choice = quadrature_nodes.CHOICES["WSABI-L"]
    x = np.linspace(-2, 2, 5)[:, None]
    made = quadrature_nodes.ModelledIntegrand.of(
        choice, quadrature_nodes.fitted_kernel("line", True), x, integrand.function(x)
    )
    at = np.array([[0.3], [1.5], [3.0]])
    g = made.posterior.sample(at, 4000, 0)
    f = made.alpha + g**2 / 2
    low, high = made.band(at)
    share = np.mean((f >= low) & (f <= high), axis=0)
    assert np.all(share > 0.954 - 4 * np.sqrt(0.954 * 0.046 / 4000))  # false alarm: 1e-4


def test_mutual_information_chooses_the_nodes_of_variance_reduction():
    found = {}
    for name in ("variance reduction", "mutual information"):
        case = Case(name, {"problem": "line", "acquisition": name, "nodes": 8})
        rows = quadrature_nodes.run(case, 0)
        found[name] = rows.loc[rows["part"] == "nodes", "x1"].to_numpy()
    # the same argmax; the searches stop within a thousandth of either score, flat to 0.05 in x
    np.testing.assert_allclose(found["variance reduction"], found["mutual information"], atol=0.05)


def test_posteriors_of_a_folder(tmp_path, monkeypatch):
    log_evidence = folder_of_posteriors(tmp_path)
    monkeypatch.setattr(quadrature_posteriors, "_NAMES", (POSTERIOR,))
    found = table(quadrature_posteriors.experiment, Resources(posteriors=tmp_path))
    looked_at(quadrature_posteriors.experiment, found)
    assert found["size"].max() < 0.3
    np.testing.assert_allclose(found["laplace"], log_evidence, atol=1e-6)


def test_labels_are_the_methods_and_the_baseline():
    assert set(LABELS) == {"sobol", *bqvi.quadrature.METHODS}
