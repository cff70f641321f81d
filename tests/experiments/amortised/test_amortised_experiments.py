"""The experiments on autoencoders run, draw and tabulate."""

import numpy as np
import pytest
from quick_runs import looked_at, table

from experiments.amortised import few_data, signal, training
from experiments.harness import registry
from experiments.problems import images

pytest.importorskip("sklearn.datasets")
MODULES = (training, signal, few_data)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_runs_and_draws(module):
    experiment = registry.load(module.experiment.name)
    found = table(experiment)
    assert not found[["iteration", "elbo"]].isna().any().any()
    looked_at(experiment, found)
    for claim in experiment.claims(found):
        assert all(check.numbers for check in claim.checks)


def test_images_of_a_folder_are_binary_and_split(tmp_path):
    grey = np.random.default_rng(0).integers(0, 256, (4100, 28, 28)).astype(np.uint8)
    np.savez(tmp_path / images.FILE, images=grey)
    train, held = images.split("mnist", tmp_path)
    assert train.shape == (4000, 784)
    assert held.shape == (100, 784)
    assert set(np.unique(train)) == {0.0, 1.0}
    assert abs(train.mean() - grey.mean() / 255.0) < 0.001
