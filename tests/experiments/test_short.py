"""The short studies run and are drawn, and two seeds decide nothing in their favour."""

import pytest
from quick_runs import looked_at, table

from experiments.harness import registry
from experiments.short import gradients, minibatches, quadrature, vbmc


@pytest.mark.parametrize("module", [gradients, minibatches, quadrature, vbmc])
def test_a_short_study_runs_and_two_seeds_decide_nothing_in_its_favour(module, monkeypatch):
    monkeypatch.setattr(vbmc, "_BUDGETS", (15,))
    experiment = module.experiment
    found = table(experiment, seeds=2)
    looked_at(experiment, found)
    for claim in experiment.claims(found):
        assert claim.verdict in ("undecided", "does not hold")
        assert all(check.seeds == 2 for check in claim.checks)


def test_short_studies_are_first_in_the_list():
    leading = [name for name in registry.EXPERIMENTS if name.startswith("short-")]
    assert leading == ["short-gradients", "short-minibatches", "short-quadrature", "short-vbmc"]
    assert list(registry.EXPERIMENTS)[:4] == leading
