"""How a run is carried out: each field of `Run` is checked as it is made, whichever door takes it."""

import errno
import os
import tempfile

import numpy as np
import pytest

import bqvi
from bqvi.models import GaussianMixture, LogJoint


class Mapping:
    def map(self, function, items):
        return list(map(function, items))


class Submitting(Mapping):
    def submit(self, function, *arguments):
        raise AssertionError("nothing is called")


ARRAY = np.zeros((3, 2))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"executor": 3}, TypeError, "executor is 3; it must have a method submit"),
        ({"n_jobs": 0}, ValueError, "n_jobs is 0; it must be at least 1"),
        ({"n_jobs": "2"}, TypeError, "n_jobs is '2'; it must be an integer"),
        (
            {"n_jobs": 2, "executor": Mapping()},
            ValueError,
            "n_jobs is given, and executor is .*: give one of",
        ),
        ({"workers": 2}, ValueError, "workers is 2, which needs an executor with submit"),
        ({"workers": 2, "executor": Mapping()}, ValueError, "workers is 2, which needs an executor with"),
        ({"call_seconds": 1.0, "executor": Mapping()}, ValueError, "call_seconds is 1.0, which needs an"),
        ({"callback": 3}, TypeError, "callback is 3; it must be a function of a state"),
        ({"checkpoint": 3}, TypeError, "checkpoint is 3; it must be the path of a file"),
        ({"checkpoint": "."}, ValueError, "checkpoint is ., a folder"),
        ({"checkpoint": "no/such/folder/run.npz"}, ValueError, "in a folder that does not exist"),
    ],
)
def test_what_is_wrong_is_named(given, error, message):
    with pytest.raises(error, match=message):
        bqvi.Run(**given)


def test_it_shows_what_was_given():
    assert repr(bqvi.Run()) == "Run()"
    assert repr(bqvi.Run(verify=3, n_jobs=1)) == "Run(verify=3)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"executor": Mapping()}, "run.executor was given, but model is a GaussianMixture"),
        ({"n_jobs": 2}, "run.n_jobs was"),
        ({"errors": "raise"}, "run.errors was"),
    ],
)
def test_models_that_make_no_calls_refuse_what_makes_them(given, message):
    with pytest.raises(TypeError, match=message):
        bqvi.fit(GaussianMixture(2, "full"), ARRAY, run=bqvi.Run(**given))


@pytest.mark.parametrize(
    "begin",
    [
        lambda run: bqvi.fit.steps(LogJoint(len, 2), method="bq", starts=2, start_from="random", run=run),
        lambda run: bqvi.evidence_bounds.steps(len, bqvi.families.Gaussian(np.zeros(2), np.eye(2)), run=run),
    ],
)
def test_doors_without_workers_refuse_them_before_any_call(begin):
    with pytest.raises((TypeError, ValueError), match="workers"):
        begin(bqvi.Run(executor=Submitting(), workers=2))


def test_a_checkpoint_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    """A read-only disk is simulated: permissions do not restrict a superuser."""

    def refused(dir):
        assert dir == tmp_path
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    with pytest.raises(
        ValueError, match=r"checkpoint is .*run.npz, in a folder .* \(Read-only file system\)"
    ):
        bqvi.Run(checkpoint=tmp_path / "run.npz")


def test_a_checkpoint_does_not_take_the_place_of_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "run.npz")
    with pytest.raises(ValueError, match=r"checkpoint is .*run\.npz, which exists and is no file"):
        bqvi.Run(checkpoint=tmp_path / "run.npz")
