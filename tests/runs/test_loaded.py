"""`bqvi.load`: a result of each door, read from its file in a process that has no function of it."""

import copy
import json
import pickle

import numpy as np
import pytest
from matplotlib.figure import Figure

import bqvi
import gp
from bqvi.runs.door_result import ANSWERED

NORMAL = gp.measures.Gaussian(np.zeros(2), np.eye(2))
ROWS = np.random.default_rng(0).normal(size=(60, 2))


def log_joint(theta):
    return -0.5 * (np.asarray(theta) ** 2).sum(-1)


RESULTS = {
    "vbmc": lambda: bqvi.vbmc(log_joint, plausible_lower=[-2.0] * 2, plausible_upper=[2.0] * 2, budget=20),
    "integrate": lambda: bqvi.integrate(lambda x: np.exp(log_joint(x)), NORMAL, 20),
    "sampling": lambda: bqvi.integrate(lambda x: np.exp(log_joint(x)), NORMAL, 64, method="qmc"),
    "bq": lambda: bqvi.fit(bqvi.adapters.TargetModel(log_joint, 2), method="bq", budget=20),
    "cavi": lambda: bqvi.fit(bqvi.models.GaussianMixture(2, "full"), ROWS),
    "bounds": lambda: bqvi.evidence_bounds(log_joint, NORMAL, 400, replicates=2),
}


@pytest.fixture(scope="module", params=RESULTS)
def made(request):
    return RESULTS[request.param]()


@pytest.fixture
def pair(made, tmp_path):
    result = made
    result.save(tmp_path / "run.npz")
    return result, bqvi.load(tmp_path / "run.npz")


def test_a_loaded_result_shows_what_the_result_showed(pair):
    result, loaded = pair
    assert isinstance(loaded, type(result))
    assert (repr(loaded), str(loaded), loaded._repr_html_()) == (
        repr(result),
        str(result),
        result._repr_html_(),
    )
    lines, others = (each.plot_trace(Figure().add_subplot()).lines for each in (result, loaded))
    for line, other in zip(lines, others, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), other.get_xydata())


def test_all_numbers_and_sentences_of_a_result_are_in_its_file(pair):
    """Every public attribute that is made of numbers and text, as the class has it and not the file."""
    result, loaded = pair
    read = 0
    for name in (name for name in dir(result) if not name.startswith("_")):
        try:
            value = getattr(result, name)
        except TypeError:  # the posterior of a q that is no Gaussian
            continue
        if isinstance(value, float | int | str | tuple | np.ndarray) and name != "checkpoint":
            np.testing.assert_equal(getattr(loaded, name), value)
            read += 1
    assert read > 8


def test_a_loaded_result_says_what_it_has_not(pair, tmp_path):
    _, loaded = pair
    with pytest.raises(AttributeError, match=r"has no states, .* with the function and resume='.*run\.npz'"):
        _ = loaded.states
    with pytest.raises(ValueError, match=r"was loaded from .*run\.npz: copy that file"):
        loaded.save(tmp_path / "again.npz")


def test_a_loaded_result_is_pickled_and_does_not_need_its_file(pair, tmp_path):
    _, loaded = pair
    (tmp_path / "run.npz").unlink()
    for again in (pickle.loads(pickle.dumps(loaded)), copy.deepcopy(loaded)):
        assert (type(again).__name__, repr(again), str(again)) == (
            type(loaded).__name__,
            repr(loaded),
            str(loaded),
        )
        assert again.n_evaluations == loaded.n_evaluations


def test_the_checkpoint_of_a_run_that_came_to_its_end_is_loaded_and_resumed(tmp_path):
    path, box = tmp_path / "run.npz", {"plausible_lower": [-2.0] * 2, "plausible_upper": [2.0] * 2}
    result = bqvi.vbmc(log_joint, **box, budget=20, run=bqvi.Run(checkpoint=path))
    assert bqvi.load(path).log_evidence == result.log_evidence
    resumed = bqvi.vbmc(log_joint, **box, budget=25, resume=path)
    assert resumed.n_evaluations == 25
    loaded = bqvi.vbmc(log_joint, **box, budget=25, resume=bqvi.load(path))
    assert loaded.log_evidence == resumed.log_evidence
    with pytest.raises(ValueError, match=r"holds a run of bqvi.vbmc; this is bqvi.integrate"):
        bqvi.integrate(log_joint, NORMAL, 30, resume=bqvi.load(path))
    steps = bqvi.vbmc.steps(log_joint, **box, budget=20)
    next(steps)
    steps.save(path)
    with pytest.raises(
        ValueError, match=r"a run of bqvi.vbmc that has not ended, with \d+ evaluations: give it"
    ):
        bqvi.load(path)


def test_files_of_other_kinds_are_refused(tmp_path):
    other = tmp_path / "other.npz"
    other.write_bytes(pickle.dumps({}))
    with pytest.raises(ValueError, match=r"is no saved run: it is no \.npz file"):
        bqvi.load(other)
    np.savez(other, header=json.dumps({"program": "bqvi", "format": 0, "door": "vbmc"}))
    with pytest.raises(ValueError, match="format 0"):
        bqvi.load(other)


def test_the_records_of_an_answer_are_those_that_are_read():
    from bqvi import loading

    assert tuple(sorted(loading._RECORDS)) == ANSWERED
