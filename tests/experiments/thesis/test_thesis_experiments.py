"""Every experiment runs and draws in its quick form; claims follow their results."""

import numpy as np
import pandas as pd
import pytest

import bqvi
from bqvi.models import elbo
from experiments import fitting
from experiments.harness import registry, report, store
from experiments.harness.experiment import Resources
from experiments.thesis import domain, gd_schedules, vi_methods
from experiments.thesis import settings as thesis


def test_the_same_seed_gives_the_same_run_and_another_seed_other_data():
    case = thesis.case("SGD", "sgd", minibatch=10, steps=5)
    one, two, other = (thesis.run(case, seed)["elbo"].to_numpy() for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, two)
    assert not np.allclose(one, other)


def test_the_start_and_the_priors_are_the_thesis():
    model, clusters, start = thesis.problem(5)
    assert clusters.x.shape == (700, 2)
    np.testing.assert_array_equal(start["weights"].concentration, 10.0)
    assert np.abs(start["means"].mean - clusters.x.mean(axis=0)).max() <= 2.5
    np.testing.assert_array_equal(start["means"].covariance, np.tile(np.eye(2), (10, 1, 1)))
    np.testing.assert_array_equal(model.prior["weights"].concentration, 1e-3)
    np.testing.assert_array_equal(model.prior["means"].mean, 0.0)
    np.testing.assert_array_equal(model.prior["means"].covariance[0], np.eye(2))


def test_steps_shrink_with_the_data_so_that_paths_agree():
    # Seven hundred data, and the same ones three times over with a third of the step: the same path.
    model, clusters, start = thesis.problem(0)
    paths = []
    for copies in (1, 3):
        chosen = thesis.case("GD", "gd", n=copies * 700).settings
        choices = thesis.method_choices(chosen)
        x = np.tile(clusters.x, (copies, 1))
        fit = bqvi.fit(model, x, **choices, start_from=start, steps=1, tolerance=1e-9)
        paths.append(fit.q["means"].mean)
    # the prior is counted once in both, so that the paths differ a little
    np.testing.assert_allclose(paths[0], paths[1], rtol=1e-3)


def test_a_diverged_run_ends_at_infinity():
    found = thesis.run(thesis.case("GD", "gd", s=100.0, steps=60), 0)
    assert found["log_likelihood_error"].iloc[-1] == np.inf
    assert found["elbo"].iloc[-1] == -np.inf
    assert found["iteration"].is_monotonic_increasing


def test_other_failures_than_divergence_are_raised():
    model, clusters, start = thesis.problem(0)

    def broken(q):
        raise KeyError("a mistake in the experiment")

    with pytest.raises(bqvi.RunError, match="mistake"):
        fitting.frame(
            model, clusters.x, "cavi", metrics={"log_likelihood_error": broken},
            start_from=start, steps=3, record=1,
        )  # fmt: skip


def test_records_spread_over_all_iterations():
    for steps in (1, 7, 300, 3000):
        chosen = fitting.spread_records(steps)
        assert (chosen[0], chosen[-1]) == (0, steps)
        assert list(chosen) == sorted(set(chosen))
        assert len(chosen) <= 81


def test_raw_directions_are_derivatives_of_the_elbo():
    # Against central differences of the exact ELBO in (alpha, m, C), from the same q.
    model, clusters, start = thesis.problem(2)
    geometry = domain.Raw({"weights": 1.0, "means": 1.0})
    state = bqvi.fit(model, clusters.x, "cavi", start_from=start, steps=2).q
    fit = bqvi.fit(model, clusters.x, "cavi", start_from=state, steps=0)
    from bqvi.gradients import Batch, Conjugate

    gradient = Conjugate()(model, fit.q, Batch(clusters.x, 700), np.random.default_rng(0))
    direction = geometry.direction(fit.q, gradient)
    coordinates = geometry.coordinates(fit.q)
    rng = np.random.default_rng(1)
    for i, value in enumerate(coordinates):
        along = rng.standard_normal(value.shape)
        if i == 2:
            along = along + np.swapaxes(along, 1, 2)  # C is symmetric

        def moved(h, i=i, along=along):
            parts = [c + h * along if j == i else c for j, c in enumerate(coordinates)]
            return elbo(model, geometry.at(fit.q, tuple(parts)), clusters.x)

        h = 1e-6
        # 1e-5: differences of an ELBO of 4e3 nats at h = 1e-6 keep six digits of a slope of order 10
        numeric = (moved(h) - moved(-h)) / (2 * h)
        assert numeric == pytest.approx(float((direction[i] * along).sum()), rel=1e-5, abs=1e-3)


def made_up(experiment, **ends):
    """Results in which each case falls linearly from 5000 nats to its end (seconds: 1 an iteration)."""
    rows = []
    for case in experiment.checked_cases(False, Resources()):
        end, when = ends.get(case.name, (0.0, 10))
        for seed in range(10):
            for t, error in ((0, 5000.0), (when, end), (300, end)):
                rows.append(
                    {"case": case.name, "seed": seed, "iteration": t, "seconds": float(t), "evaluations": t,
                     "samples": 0, "elbo": -error, "log_likelihood_error": error, "components": 7.0,
                     **{k: v for k, v in case.settings.items() if k not in ("samples", "steps")}}
                )  # fmt: skip
    return pd.DataFrame(rows)


def verdicts(experiment, results):
    return {claim.statement: claim for claim in experiment.claims(results)}


def starting(found, words):
    (claim,) = [claim for statement, claim in found.items() if statement.startswith(words)]
    return claim


BOTH = ("", ", tuned")


def test_pathwise_is_worst_only_where_all_others_are_better():
    experiment, words = vi_methods.experiment, "Of CAVI"
    worst = {f"pathwise{tag}": (30.0, 100) for tag in BOTH}
    assert starting(verdicts(experiment, made_up(experiment, **worst)), words).verdict == "holds"
    some = made_up(experiment, **{"pathwise": (30.0, 100)})
    claim = starting(verdicts(experiment, some), words)
    assert claim.verdict == "holds only if"
    assert all(condition.endswith(", pathwise") for condition in claim.conditions)
    beaten = {**worst, "GD": (40.0, 120), "GD, tuned": (40.0, 120)}
    assert starting(verdicts(experiment, made_up(experiment, **beaten)), words).verdict == "does not hold"


def test_cavi_is_by_far_the_best_only_with_a_margin():
    experiment, words = vi_methods.experiment, "CAVI is by far"
    others = [f"{m}{tag}" for m in ("GD", "SGD", "pathwise") for tag in BOTH]
    for end, verdict in ((10.1, "holds"), (9.9, "does not hold")):
        found = made_up(experiment, **dict.fromkeys((*others, "SNGD"), (end, 10)))
        assert starting(verdicts(experiment, found), words).verdict == verdict
    claim = starting(verdicts(experiment, made_up(experiment, **dict.fromkeys(others, (11.0, 10)))), words)
    assert claim.verdict == "holds only if"
    assert not any("SNGD" in condition for condition in claim.conditions)


def test_the_score_function_is_judged_by_where_it_ends():
    experiment, words = vi_methods.experiment, "The score function"
    assert starting(verdicts(experiment, made_up(experiment)), words).verdict == "does not hold"
    plain = dict.fromkeys(("score, L = 10, no baseline", "score, L = 10, no baseline, s = 0.1"), (np.inf, 10))
    claim = starting(verdicts(experiment, made_up(experiment, **plain)), words)
    assert claim.verdict == "holds only if"
    assert claim.conditions == tuple(plain)


def test_larger_steps_are_judged_in_order():
    experiment, words = gd_schedules.experiment, "Larger steps"
    ordered = {f"s = {s:g}": (10.0 - s, round(100 / s)) for s in gd_schedules.SOUND}
    assert starting(verdicts(experiment, made_up(experiment, **ordered)), words).verdict == "holds"
    ordered["s = 5"] = (8.0, 20)
    claim = starting(verdicts(experiment, made_up(experiment, **ordered)), words)
    assert claim.verdict == "holds only if"
    assert claim.conditions[0].startswith("faster")
    wandering = made_up(experiment)
    assert starting(verdicts(experiment, wandering), "Large steps").verdict == "does not hold"
    rows = (wandering["case"] == "s = 10") & (wandering["iteration"] == 300)
    wandering.loc[rows, "log_likelihood_error"] = 11.0
    assert starting(verdicts(experiment, wandering), "Large steps").conditions == ("s = 10",)


def test_the_page_has_the_claims_with_their_verdicts(tmp_path):
    from experiments.harness import execution, runner

    experiment = registry.load("domain")
    plan = runner.plan(experiment, tmp_path, seeds=1, quick=True)
    store.write_text(store.manifest_path(tmp_path, experiment.name), plan.manifest.to_json())
    assert all(outcome.error is None for outcome in execution.execute(plan.pending))
    made = report.build([experiment], tmp_path)
    assert not made.broken
    assert 'id="claims"' in made.html
    assert "holds only if" in made.html
    assert "Quick form" in made.html
