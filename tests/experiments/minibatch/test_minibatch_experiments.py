"""The study of mini-batches: its problems, its sums, and that each experiment runs and is drawn."""

import numpy as np
import pandas as pd
import pytest
from quick_runs import looked_at, table

from experiments.harness import registry
from experiments.harness.experiment import Case, Resources
from experiments.minibatch import runs as minibatch_runs
from experiments.minibatch import tuning as minibatch_tuning
from experiments.minibatch.problems import (
    FEATURED,
    PLAIN,
    PROBLEMS,
    UNBIASED,
)
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


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_the_same_for_a_seed(name):
    one, two = PROBLEMS[name](3), PROBLEMS[name](3)
    np.testing.assert_array_equal(one.representation, two.representation)
    np.testing.assert_array_equal(one.start.natural[0], two.start.natural[0])
    assert set(PLAIN) | set(FEATURED) > UNBIASED - {"probabilities by norm of row"}


def test_a_crossing_counts_only_if_it_is_kept():
    gaps = {"a": [9.0, 0.5, 2.0, 0.4], "b": [9.0, 0.5, 0.4, 2.0], "c": [9.0, np.inf, np.inf, np.inf]}
    rows = [
        {"problem": "p", "strategy": name, "seed": 0, "elbo_gap": gap, "evaluations": 10 * t, "seconds": t,
         "with_setup": t + 1}
        for name, values in gaps.items() for t, gap in enumerate(values)
    ]  # fmt: skip
    found = minibatch_runs.crossings(pd.DataFrame(rows), 1.0).set_index("strategy")
    assert found.loc["a", "evaluations_to"] == 30
    assert found.loc["a", "with_setup_to"] == 4
    assert not found.loc["b", "arrived"]
    assert found.loc["c", "evaluations_to"] == np.inf


def test_schedules_are_those_of_the_grids_and_a_slow_strategy_takes_that_of_another():
    for problem, found in minibatch_runs.tuned().items():
        assert set(found) <= set(minibatch_tuning.strategies(problem))
        for name in found:
            assert minibatch_runs.schedule_of(problem, name) in minibatch_tuning.GRIDS[problem]
    borrowed = minibatch_runs.schedule_of("mixture", minibatch_runs.SLOW_AS)
    assert minibatch_runs.schedule_of("mixture", "sequential BQ") == borrowed
    assert minibatch_runs.schedule_of("nowhere", "reshuffled") == minibatch_runs.UNTUNED


def test_of_two_schedules_the_one_that_arrives_sooner_has_the_lower_score():
    elbos = {"a, 0": [-9, -2, -0.5, 0], "a, 1": [-9, -0.9, -0.5, -0.1], "a, 2": [-9, -5, -4, -3],
             "a, 3": [-9, -8, -8, -7], "a, 4": [-9, np.nan, -np.inf, -np.inf]}  # fmt: skip
    rows = [
        {"problem": "p", "strategy": "a", "case": case, "seed": seed, "elbo": elbo - seed,
         "evaluations": 10 * t, "seconds": t, "with_setup": t}
        for case, values in elbos.items() for seed in (0, 1) for t, elbo in enumerate(values)
    ]  # fmt: skip
    found = minibatch_tuning.scores(pd.DataFrame(rows), (1.0,), 40)
    assert list(found.sort_values().index) == ["a, 1", "a, 0", "a, 2", "a, 3", "a, 4"]


def test_the_gradient_study_runs_and_claims():
    experiment = registry.load("minibatch-gradients")
    short = {"places": {"start": 0, "midway": 5, "late": 9}, "window": 3}
    cases = experiment.checked_cases(True, Resources())
    results = table(experiment, cases=[Case(case.name, {**case.settings, **short}) for case in cases])
    looked_at(experiment, results)
    assert len(experiment.claims(results)) >= 3
