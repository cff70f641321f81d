"""The Gaussian process experiments in their quick form, and the layout of a folder of sets."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from experiments.gp import benchmarks as gp_benchmarks
from experiments.gp import mauna_loa
from experiments.gp.regressors import REGRESSORS, Predictions
from experiments.harness import drawing, registry
from experiments.harness.experiment import MissingResourceError, Resources
from experiments.problems import regression_sets
from experiments.problems.array_files import DataFolderError
from experiments.problems.regression_sets import RegressionSet, RegressionSetError, Split

NAMES = ("gp-regression", "mauna-loa")


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 2))
    mask = np.arange(40)[:, None] % 4 == np.arange(4)
    np.savez(tmp_path / "wave.npz", X=x, y=np.sin(x[:, 0]), test_mask=mask.astype(np.uint8))
    np.savez(tmp_path / "pictures.npz", images=np.zeros((3, 8, 8)))
    return tmp_path


def computed(name, resources):
    """Run the quick cases of one seed, with the columns that the harness adds."""
    experiment = registry.load(name)
    frames = []
    for case in experiment.checked_cases(True, resources):
        frame = experiment.run(case, 0)
        scalars = {k: v for k, v in case.settings.items() if k not in frame}
        frames.append(frame.assign(case=case.name, seed=0, **scalars))
    return experiment, pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return {name: computed(name, Resources()) for name in NAMES}


def test_samples_follow_the_posterior_at_the_observations(quick):
    _, results = quick["gp-regression"]
    observed = results[results["part"] == "observations"]
    posterior = results[results["part"] == "posterior"]
    mean = np.interp(observed["x"], posterior["x"], posterior["mean"])
    # linear interpolation over a step h = 0.1 errs by h^2 max|f''| / 8 < 0.01 for a unit lengthscale
    np.testing.assert_allclose(mean, np.sin(observed["x"]), atol=0.01)
    assert results.loc[results["part"] == "prior", "sd"].eq(1.0).all()


def test_components_of_mauna_loa_add_up_to_the_forecast(quick):
    _, results = quick["mauna-loa"]
    rows = results[results["case"] == "composite"]
    total = sum(rows.loc[rows["part"] == name, "mean"].to_numpy() for name in mauna_loa.TERMS)
    prediction = rows.loc[rows["part"] == mauna_loa.PREDICTIONS[0], "mean"].to_numpy()
    constant = prediction - total
    np.testing.assert_allclose(constant, constant.mean(), rtol=1e-9)  # of 340 ppm: rounding of sums
    shown = rows[rows["part"] == "hyperparameters"]
    period = shown.loc[shown["name"].str.endswith("period"), "value"].item()
    assert period == pytest.approx(1.0, abs=0.01)  # its standard error is 0.0004


def test_monthly_means_are_complete_and_in_order():
    time, y = mauna_loa.monthly_means()
    assert len(time) == 521  # 526 months less 5 without a measurement
    assert np.all(np.diff(time) > 0)
    assert np.all((y > 310) & (y < 375))


def test_scores_against_scipy():
    rng = np.random.default_rng(0)
    y_test, mean, sd = rng.normal(3, 2, 50), rng.normal(3, 2, 50), rng.uniform(1, 2, 50)
    split = Split(np.zeros((4, 1)), np.zeros(4), np.zeros((50, 1)), y_test)
    found = gp_benchmarks._errors(split, Predictions(mean, sd, 1.0), unit=2.0)
    density = norm(mean, sd).logpdf(y_test).mean()
    assert found["nlpd"] == pytest.approx(-density - np.log(2.0), rel=1e-12)
    lower, upper = norm(mean, sd).interval(0.95)
    assert found["coverage"] == pytest.approx(np.mean((lower < y_test) & (y_test < upper)))
    assert found["rmse"] == pytest.approx(np.linalg.norm(y_test - mean) / np.sqrt(50) / 2)


@pytest.mark.parametrize("method", REGRESSORS)
def test_regressors_predict_targets_with_their_noise(method):
    """Noise of sd 0.5 about a line: each package has to find both."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (200, 1))
    y = 10 + 3 * x[:, 0] + 0.5 * rng.standard_normal(200)
    at = np.linspace(-1.5, 1.5, 7)[:, None]
    found = REGRESSORS[method](Split(x, y, at, np.zeros(7)))
    # standard errors: mean 0.5 sqrt(p / n) with p of 3 parameters or so, sd 0.5 / sqrt(2 n) = 0.025
    np.testing.assert_allclose(found.mean, 10 + 3 * at[:, 0], atol=0.3)
    np.testing.assert_allclose(found.sd, 0.5, atol=0.1)


def test_without_data_only_the_diabetes_set_is_run():
    cases = registry.load("gp-benchmarks").checked_cases(False, Resources())
    assert {case.settings["set"] for case in cases} == {"diabetes"}
    with pytest.raises(MissingResourceError, match="--data"):
        registry.load("gp-benchmarks-folder").checked_cases(False, Resources())


def test_the_folder_is_run_and_drawn(folder):
    experiment, results = computed("gp-benchmarks-folder", Resources(data=folder))
    assert set(results["set"]) == {"wave"}
    assert (results["rmse"] < 0.5).all()  # a sine of one input from 30 noiseless points
    with drawing.style():
        assert experiment.draw(results)


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
