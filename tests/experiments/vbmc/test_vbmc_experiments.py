"""Every experiment on VBMC runs and draws in its quick form; what is recorded has oracles."""

import numpy as np
import pandas as pd
import sklearn.datasets  # noqa: F401  # what it imports seeds the global generator, once
from quick_runs import POSTERIOR, folder_of_posteriors, looked_at, table

from experiments.harness import registry
from experiments.harness.experiment import Resources
from experiments.harness.summaries import summary
from experiments.problems.known_posteriors import rosenbrock
from experiments.problems.reference import load_reference
from experiments.vbmc import hard as vbmc_hard
from experiments.vbmc import posteriors as vbmc_posteriors
from experiments.vbmc import runs as vbmc_runs
from experiments.vbmc import targets as vbmc_targets


def test_rows_of_the_targets_grow_and_are_finite():
    experiment = registry.load("vbmc-targets")
    found = table(experiment)
    looked_at(experiment, found)
    assert found.groupby("case")["n"].apply(lambda n: n.is_monotonic_increasing).all()
    assert np.isfinite(found[["error", "sd", "mmtv", "gskl", "seconds"]]).all(axis=None)


def test_distances_of_exact_draws_are_small():
    problem = rosenbrock(2)
    draws = problem.sample(vbmc_runs.DRAWS, 5)
    found = vbmc_runs.distances(problem, draws, draws.mean(axis=0), np.cov(draws.T))
    assert found["mmtv"] < 0.02
    assert found["gskl"] < 0.002
    off = vbmc_runs.distances(problem, draws + 1.0, draws.mean(axis=0) + 1.0, np.cov(draws.T))
    assert off["mmtv"] > 0.2
    assert off["gskl"] > 0.2


def test_our_runs_end_where_theirs_do():
    assert set(vbmc_targets.PEER_EVALUATIONS) == set(vbmc_runs.PROBLEMS)
    for case in registry.load("vbmc-targets").checked_cases(False, Resources()):
        if case.settings["method"] != vbmc_runs.NOISY:
            assert case.settings["budgets"][-1] == vbmc_targets.PEER_EVALUATIONS[case.settings["problem"]]


def test_errors_within_stated_sds_are_counted():
    rows = pd.DataFrame({"error": [0.5, -2.0, 4.0, 0.0], "sd": [1.0, 1.0, 1.0, 1.0]})
    table = summary(vbmc_runs.covered(rows.assign(m="m")), {"m": "m"}, {**vbmc_runs.SIZE, **vbmc_runs.WITHIN})
    assert list(table.loc[0]) == ["m", "1.2", "2 of 4", "3 of 4", "3 of 4"]


def test_posteriors_of_a_folder(tmp_path, monkeypatch):
    folder_of_posteriors(tmp_path)
    monkeypatch.setattr(vbmc_posteriors, "_QUICK", (POSTERIOR,))
    found = table(vbmc_posteriors.experiment, Resources(posteriors=tmp_path))
    assert len(looked_at(vbmc_posteriors.experiment, found)["ends"]) == 2
    with_gradients = found[found["method"] == vbmc_runs.GRADIENTS].iloc[0]
    assert abs(with_gradients["error"]) < 0.3
    assert with_gradients["mmtv"] < 0.15


def test_the_box_of_a_seed_holds_the_mean(tmp_path):
    folder_of_posteriors(tmp_path)
    reference = load_reference(tmp_path, POSTERIOR)
    for seed in range(5):
        box = vbmc_posteriors.box(reference, seed)
        assert (box["plausible_lower"] < reference.mean).all()
        assert (box["plausible_upper"] > reference.mean).all()


def test_what_is_asked_of_hard_posteriors():
    rows = pd.DataFrame(
        {"error": [0.05, -0.3, 0.3, 0.3], "sd": [0.01, 0.2, 0.2, 0.2], "converged": [True, False] * 2}
    )
    assert list(vbmc_hard.met(vbmc_hard.HARD["funnel 5, gradients"], rows)) == [True, True, False, True]
    assert list(vbmc_hard.met(vbmc_hard.HARD["ring"], rows)) == [True, False, False, False]
    assert not vbmc_hard.converged_wrongly(rows).any()
    assert list(vbmc_hard.converged_wrongly(rows.assign(sd=0.05))) == [False, False, True, False]


def test_few_seeds_leave_the_criteria_of_hard_posteriors_open():
    row = {"problem": "ring", "error": 0.01, "sd": 0.02, "converged": True, "excess": -1.0}
    for seeds, verdict in ((9, "undecided"), (10, "holds")):
        rows = pd.DataFrame([{**row, "seed": seed} for seed in range(seeds)])
        assert {claim.verdict for claim in vbmc_hard.claims(rows)} == {verdict}
