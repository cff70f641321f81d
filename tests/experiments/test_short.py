"""The studies in short run, are drawn, and say nothing from two seeds."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from quick_runs import looked_at, table

from experiments.harness import registry


@pytest.mark.parametrize("name", ["short-gradients", "short-quadrature"])
def test_a_short_study_runs_and_two_seeds_decide_nothing_in_its_favour(name):
    experiment = registry.load(name)
    found = table(experiment)
    looked_at(experiment, found)
    for claim in experiment.claims(found):
        assert claim.verdict in ("undecided", "does not hold")
        assert all(check.seeds == 2 for check in claim.checks)


def test_they_lead_the_list():
    leading = [name for name in registry.EXPERIMENTS if name.startswith("short-")]
    assert leading == ["short-gradients", "short-minibatches", "short-quadrature", "short-vbmc"]
    assert list(registry.EXPERIMENTS)[:4] == leading
