"""Gaussian process regression in its quick form, and the layout of a folder of sets."""

from pathlib import Path

import numpy as np
import pytest
from quick_runs import looked_at, table

from experiments.gp import regression
from experiments.problems import regression_sets
from experiments.problems.array_files import DataFolderError
from experiments.problems.regression_sets import RegressionSet, RegressionSetError


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 2))
    mask = np.arange(40)[:, None] % 4 == np.arange(4)
    np.savez(tmp_path / "wave.npz", X=x, y=np.sin(x[:, 0]), test_mask=mask.astype(np.uint8))
    np.savez(tmp_path / "pictures.npz", images=np.zeros((3, 8, 8)))
    return tmp_path


def test_samples_follow_the_posterior_at_the_observations():
    results = table(regression.experiment)
    looked_at(regression.experiment, results)
    observed = results[results["part"] == "observations"]
    posterior = results[results["part"] == "posterior"]
    mean = np.interp(observed["x"], posterior["x"], posterior["mean"])
    # linear interpolation over a step h = 0.1 errs by h^2 max|f''| / 8 < 0.01 for a unit lengthscale
    np.testing.assert_allclose(mean, np.sin(observed["x"]), atol=0.01)
    assert results.loc[results["part"] == "prior", "sd"].eq(1.0).all()


def test_sets_are_found_one_level_below(folder):
    assert [path.name for path in regression_sets.find(folder)] == ["wave.npz"]
    below = folder / "more"
    below.mkdir()
    (folder / "wave.npz").rename(below / "wave.npz")
    assert regression_sets.find(folder) == [below / "wave.npz"]


def test_splits_part_the_rows(folder):
    data = regression_sets.read(folder / "wave.npz")
    splits = [data.split(i) for i in range(4)]
    assert sorted(np.concatenate([s.y_test for s in splits])) == sorted(data.y)
    for split in splits:
        assert len(split.y) + len(split.y_test) == 40
        assert not set(split.y) & set(split.y_test)
    assert len(data.split(0, rows=7).y) == 7
    with pytest.raises(RegressionSetError, match=r"4 splits.*--seeds 4"):
        data.split(4)


def test_diabetes_tests_each_row_once():
    data = regression_sets.diabetes()
    assert data.x.shape == (442, 10)
    assert np.all(data.test_mask.sum(axis=1) == 1)


GOOD = {"X": np.zeros((4, 2)), "y": np.arange(4.0), "test_mask": np.eye(4)[:, :2]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": np.zeros(4)}, r"X \(4,\).*allowed are \(N, D\)"),
        ({"X": np.zeros((5, 2))}, "the same N"),
        ({"y": np.zeros((4, 1))}, "allowed are"),
        ({"y": np.array([0, 1, np.nan, 2])}, "finite"),
        ({"y": np.array(list("abcd"))}, "real numbers"),
        ({"test_mask": np.eye(4)[:, 0]}, "allowed are"),
        ({"test_mask": np.zeros((4, 0))}, "S of 1 or more"),
        ({"test_mask": np.zeros((4, 2))}, "test rows"),
        ({"test_mask": np.ones((4, 2))}, "training rows"),
        ({"test_mask": 0.5 * np.ones((4, 2))}, "0 or 1"),
    ],
)
def test_sets_of_other_shapes_are_refused(tmp_path, changed, message):
    path = tmp_path / "set.npz"
    np.savez(path, **{**GOOD, **changed})
    with pytest.raises(RegressionSetError, match=message):
        regression_sets.read(path)


def test_missing_arrays_and_unreadable_files_are_named(tmp_path):
    np.savez(tmp_path / "half.npz", X=np.zeros((4, 2)))
    with pytest.raises(RegressionSetError, match=r"half\.npz lacks the arrays y, test_mask"):
        regression_sets.read(tmp_path / "half.npz")
    with pytest.raises(RegressionSetError, match=r"no \.npz file with the arrays X.*1 other"):
        regression_sets.find(tmp_path)
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(DataFolderError, match=r"text\.npz is not a readable"):
        regression_sets.find(tmp_path)
    with pytest.raises(DataFolderError, match="not a readable"):
        regression_sets.read(Path("nowhere.npz"))


def test_the_set_checks_itself():
    with pytest.raises(RegressionSetError, match="finite"):
        RegressionSet("bad", np.full((4, 1), np.inf), np.zeros(4), np.eye(4, dtype=bool)[:, :1])
