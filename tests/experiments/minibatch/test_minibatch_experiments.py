"""The study of mini-batches: its problems, its sums, and that each experiment runs and is drawn."""

import numpy as np
import pandas as pd
import pytest
from quick_runs import looked_at, table

from experiments.harness import registry
from experiments.minibatch import expensive, problems
from experiments.problems.pharmacokinetics import (
    CENTRE,
    SD,
    TRUTH,
    Pharmacokinetics,
    log_concentrations,
    optimum,
    simulate,
    solved,
)

pytest.importorskip("sklearn.datasets")  # its first import draws from random's global generator


def test_the_two_solvers_agree_and_sensitivities_are_derivatives():
    patients, h = simulate(3, 0), 1e-5
    for theta in (TRUTH, CENTRE):
        for dose, weight in patients.covariates:
            at = np.array([[dose, weight]])
            values, jacobian = solved(theta, dose, weight)
            np.testing.assert_allclose(values, log_concentrations(theta[None], at, 200)[0, 0], atol=1e-5)
            moved = np.concatenate([theta + h * np.eye(5), theta - h * np.eye(5)])
            up, down = np.split(log_concentrations(moved, at, 200)[:, 0], 2)
            np.testing.assert_allclose(jacobian, ((up - down) / (2 * h)).T, atol=1e-4)


def test_terms_of_patients_sum_to_the_local_step():
    model, patients = Pharmacokinetics(), simulate(6, 1)
    data = (patients.covariates, patients.y)
    q = model.initial(data, "random", np.random.default_rng(0))
    weights = np.arange(1.0, 7.0)
    terms = model.local_terms(q, data)
    one = model.local_step(q, data, weights)
    np.testing.assert_allclose(one.statistics[0], weights @ terms.statistics[:, :5])
    left = data[1] - log_concentrations(q.mean[None], data[0], 200)[0]
    assert one.bound == pytest.approx(-0.5 * (weights @ left**2).sum() / SD**2, rel=1e-4)
    values = np.linalg.eigvalsh(one.statistics[1])
    assert values.max() < 1e-9 * -values.min()


def test_the_optimum_is_near_the_truth_and_no_step_leads_away():
    patients = simulate(400, 2)
    data, model = (patients.covariates, patients.y), Pharmacokinetics()
    q = optimum(data)
    assert np.abs((q.mean - TRUTH) / np.sqrt(np.diag(q.covariance))).max() < 5.0  # false alarm 3e-6
    target = [p + s for p, s in zip(model.prior.natural, model.local_step(q, data).statistics, strict=True)]
    again = np.linalg.solve(-2.0 * target[1], target[0])  # by the other solver, whose rounding is its own
    assert np.abs((again - q.mean) / np.sqrt(np.diag(q.covariance))).max() < 0.02
    best = model.elbo(q, data)
    for i in range(5):
        shift = 3 * np.sqrt(q.covariance[i, i]) * np.eye(5)[i]
        assert model.elbo(type(q)(q.mean + shift, q.covariance), data) < best


@pytest.mark.parametrize("made", [problems.logistic, problems.patients])
def test_a_problem_is_the_same_for_a_seed(made):
    one, two = made(3), made(3)
    np.testing.assert_array_equal(one.representation, two.representation)
    np.testing.assert_array_equal(one.start.natural[0], two.start.natural[0])


def test_where_a_datum_is_expensive_the_cost_to_a_gap_counts_the_set_up():
    """Two runs that arrive after 30 evaluations and never, with a second of set-up."""
    gaps = {"optimum": [0.0], "reshuffled": [9.0, 2.0, 9.0, 0.4], "balanced": [9.0, np.inf, np.inf, np.inf]}
    rows = [
        {"case": name, "seed": 0, "iteration": t, "elbo": -gap, "evaluations": 10 * t, "seconds": t,
         "with_setup": t + 1, "setup_seconds": 1.0, "minibatch_seconds": 0.0}
        for name, values in gaps.items() for t, gap in enumerate(values)
    ]  # fmt: skip
    found = expensive._costs(pd.DataFrame(rows)).set_index(["case", "gap"])
    assert found.loc[("reshuffled", 1.0), ["evaluations_to", "seconds_to"]].tolist() == [30, 4]
    assert found.loc[("balanced", 1.0), "seconds_to"] == np.inf


def test_the_expensive_study_runs_and_claims(monkeypatch):
    """On fewer patients, whose differential equations are what takes the time."""
    monkeypatch.setattr(expensive, "patients", lambda seed: problems.patients(seed, 200))
    experiment = registry.load("minibatch-expensive")
    results = table(experiment)
    looked_at(experiment, results)
    assert len(experiment.claims(results)) == 2  # no control variates in the quick form
