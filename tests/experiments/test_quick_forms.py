"""Every experiment in its quick form: rows of each case, figures, tables and claims.

`.ci/run` computes the quick form of every experiment and then runs

    pytest tests/experiments/test_quick_forms.py --results FOLDER

on what that left. Without a folder, as in the test suite, the quickest experiment of each theme is computed.
"""

import pytest
from quick_runs import looked_at, table

from experiments.harness import registry, report, results
from experiments.harness.experiment import Experiment, MissingResourceError, Resources

OF_EACH_THEME = (
    "domain", "vi-against-mcmc", "models-embeddings", "amortised-signal", "amortised-discrete",
    "amortised-choices", "quadrature-nodes", "bq-one-shot",
)  # fmt: skip
"""Of mini-batches, Gaussian processes, VBMC and bounds, tests of their own compute a quick form."""

CLAIMS = {"minibatch-scaling": 0, "vi-against-mcmc": 2, "amortised-discrete": 3, "amortised-choices": 4}
"""How many claims there must be at least; that on scaling is about N that the quick form has not."""


def pytest_generate_tests(metafunc):
    folder = metafunc.config.getoption("--results")
    alone = [name for name in registry.EXPERIMENTS if not registry.load(name).needs] if folder else []
    if "quick" in metafunc.fixturenames:
        metafunc.parametrize("quick", alone or OF_EACH_THEME)


def computed(name, folder):
    """The rows of an experiment's quick form: those of the folder, or computed here."""
    if folder is None:
        return table(registry.load(name))
    found = results.read(folder, name)
    assert found is not None, f"{name} was not run"
    assert found.manifest.quick
    assert not found.missing
    assert set(found.frame["case"]) == {case.name for case in found.manifest.cases}
    return found.frame


def test_runs_and_draws(quick, pytestconfig):
    experiment = registry.load(quick)
    found = computed(quick, pytestconfig.getoption("--results"))
    if {"iteration", "elbo"} <= set(found):
        assert not found[["iteration", "elbo"]].isna().any().any()
    looked_at(experiment, found)
    for shown in experiment.tables(found):
        assert len(report.grid(shown).rows) > 0
    claims = experiment.claims(found)
    assert len(claims) >= CLAIMS.get(quick, 1)
    for claim in claims:
        assert claim.verdict
        assert all(check.numbers and "nan" not in check.numbers for check in claim.checks)


@pytest.mark.parametrize("name", [name for name in registry.EXPERIMENTS if registry.load(name).needs])
def test_what_needs_a_folder_says_so(name):
    with pytest.raises(MissingResourceError, match=f"{name} needs --{registry.load(name).needs[0]} DIR"):
        registry.load(name).checked_cases(True, Resources())


@pytest.mark.parametrize("name", registry.EXPERIMENTS)
def test_no_experiment_is_without_a_claim(name):
    assert registry.load(name).claims is not Experiment.__dataclass_fields__["claims"].default


@pytest.mark.parametrize("theme", ["thesis", "models"])
def test_a_theme_has_ten_seeds_by_default(theme):
    names = [name for name, module in registry.EXPERIMENTS.items() if f".{theme}." in module]
    assert {name for name in names if registry.load(name).seeds < 10} == set()
