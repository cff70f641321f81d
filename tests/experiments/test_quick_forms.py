"""Every experiment in its quick form: rows of each case, figures, tables and claims.

`.ci/run` computes the quick form of every experiment and then runs

    pytest tests/experiments/test_quick_forms.py --results FOLDER

on what that left. Without a folder, as in the test suite, the quickest experiment of each theme is computed.
"""

from quick_runs import looked_at, table

from experiments.harness import registry, report, results

OF_EACH_THEME = ("domain", "models-embeddings", "amortised-signal", "quadrature-nodes", "bq-one-shot")
"""Of mini-batches, Gaussian processes, VBMC and bounds, tests of their own compute a quick form."""

CLAIMS = {"minibatch-scaling": 0}
"""How many claims there must be at least; that on scaling is about N that the quick form has not."""


def pytest_generate_tests(metafunc):
    folder = metafunc.config.getoption("--results")
    alone = [name for name in registry.EXPERIMENTS if not registry.load(name).needs] if folder else []
    metafunc.parametrize("name", alone or OF_EACH_THEME)


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


def test_runs_and_draws(name, pytestconfig):
    experiment = registry.load(name)
    found = computed(name, pytestconfig.getoption("--results"))
    if {"iteration", "elbo"} <= set(found):
        assert not found[["iteration", "elbo"]].isna().any().any()
    looked_at(experiment, found)
    for shown in experiment.tables(found):
        assert len(report.grid(shown).rows) > 0
    claims = experiment.claims(found)
    assert len(claims) >= CLAIMS.get(name, 1)
    for claim in claims:
        assert claim.verdict
        assert all(check.numbers and "nan" not in check.numbers for check in claim.checks)
