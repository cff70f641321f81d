"""A run that is resumed with another function says so, and the same script in another process does not."""

import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pytest

import bqvi
from bqvi.calls.function import digest
from tests.runs.doors import CASES

DOORS = ("evidence_bounds", "fit bq", "fit bq from several starts", "integrate bq", "integrate qmc", "vbmc")
CHANGED = "the code of the function, or a number in it, is not that of the run to resume"


@pytest.mark.parametrize("name", DOORS)
def test_another_function_is_said_and_the_same_is_not(name, tmp_path):
    case, path = CASES[name], tmp_path / "run.npz"
    case.run(case.function, budget=case.least).save(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        case.steps(case.function, budget=case.least, resume=path)
    assert not [one for one in caught if CHANGED in str(one.message)]
    with pytest.warns(UserWarning, match=CHANGED):
        case.steps(lambda x: 1.5 * case.function(x), budget=case.least, resume=path)


SCRIPT = """
import sys, warnings
import numpy as np
import bqvi, gp

data = np.arange(6.0)
names = {"rate", "shape", "scale"}
calls = []
made = 0

def scaled(x):
    return np.tanh(data.mean() * x) if "rate" in {"rate", "shape"} else x

def f(x):
    global made
    made += len(x)
    calls.append(len(names))
    return scaled(x[:, 0]) ** 2

measure, path = gp.measures.Gaussian(np.zeros(1), np.eye(1)), sys.argv[1]
if sys.argv[2] == "begin":
    bqvi.integrate(f, measure, budget=12, seed=0).save(path)
else:
    warnings.simplefilter("error")
    bqvi.integrate.steps(f, measure, budget=16, seed=0, resume=path)
    data = 1.2 * data
    bqvi.integrate.steps(f, measure, budget=16, seed=0, resume=path)
"""


def test_the_same_script_in_another_process_is_the_same_and_other_data_are_not(tmp_path, monkeypatch):
    """Sets have another order in each process; what the function counts is no part of it."""
    path = str(tmp_path / "run.npz")
    monkeypatch.setattr(sys, "argv", ["", path, "begin"])
    exec(compile(SCRIPT, "<string>", "exec"), {"__name__": "__main__"})
    paths = {"PYTHONHASHSEED": "2", "PYTHONPATH": ":".join(sys.path)}
    other = subprocess.run([sys.executable, "-c", SCRIPT, path, "resume"], env=paths, capture_output=True,
                           text=True, check=False)  # fmt: skip
    assert CHANGED in other.stderr
    last = SCRIPT.splitlines().index("    data = 1.2 * data") + 2
    assert f"line {last}, in <module>" in other.stderr, other.stderr


class Model:
    """A model with data, which counts its calls."""

    def __init__(self, data):
        self.data, self.calls = data, 0

    def log_joint(self, theta):
        self.calls += 1
        return -float(np.sum((theta - self.data) ** 2))

    __call__ = log_joint


def times(factor, power=2):
    return lambda theta: -factor * float(theta @ theta) ** power


ONE, TWO = np.ones(2), 2.0 * np.ones(2)


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (times(1.0), times(1.0), times(2.0)),
        (lambda x: -abs(x), lambda y: -abs(y), lambda x: abs(x)),
        (lambda x: np.sin(x), lambda x: np.sin(x), lambda x: np.cos(x)),
        (lambda x, by=1: x * by, lambda x, by=1: x * by, lambda x, by=2: x * by),
        (lambda x, *, by=ONE: x * by, lambda x, *, by=1.0 * ONE: x * by, lambda x, *, by=TWO: x * by),
        (Model(ONE), Model(1.0 * ONE), Model(TWO)),
        (Model(ONE).log_joint, Model(1.0 * ONE).log_joint, Model(TWO).log_joint),
        (partial(times, power=1), partial(times, power=1), partial(times, power=3)),
        (lambda x: sum(x + y for y in x), lambda x: sum(x + y for y in x), lambda x: sum(x - y for y in x)),
    ],
)  # fmt: skip
def test_code_numbers_and_data_tell_functions_apart(one, same, other):
    assert digest(one) == digest(same) != digest(other)


def test_what_a_function_counts_does_not_change_it():
    model, trace = Model(ONE), []

    def traced(theta):
        trace.append(theta)
        return model(theta)

    before = digest(model.log_joint), digest(traced)
    traced(TWO)
    assert (digest(model.log_joint), digest(traced)) == before


def test_functions_of_compiled_code_count_as_one():
    assert digest(np.sin) == digest(np.cos)


def test_a_function_that_is_verified_may_have_other_code():
    case = CASES["vbmc"]
    first = case.run(case.function, budget=case.least)
    with pytest.warns(UserWarning, match="verify=3"):
        found = case.run(lambda x: 1.0 * case.function(x), resume=first, run=bqvi.Run(verify=1))
    assert found.n_evaluations == case.budget
