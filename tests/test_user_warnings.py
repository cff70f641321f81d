"""Warnings point at the line of the user's own code that called, however deep they are raised."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import bqvi
import gp
from bqvi.models import LogJoint
from bqvi.sklearn import GaussianMixture
from gp.measures import Gaussian


def density(theta):
    return float(np.exp(-4.0 * (theta**2).sum()))


def vbmc_on_a_density():
    bqvi.vbmc(density, plausible_lower=[-3.0, -3.0], plausible_upper=[3.0, 3.0], budget=8)


def fit_of_an_improper_log_joint():
    bqvi.fit(LogJoint(lambda theta: -(theta[..., 0] ** 2), 2), method="bq", budget=40)


def states_of_a_fit():
    run = bqvi.fit.steps(LogJoint(lambda theta: -(theta[..., 0] ** 2), 2), method="bq", budget=40)
    for _ in run:
        pass
    run.result()


def process_with_repeated_rows():
    x = np.repeat(np.linspace(0.0, 1.0, 10), 2)[:, None]
    gp.fit(x, np.sin(x[:, 0]) + 0.1 * np.cos(40.0 * np.arange(20)), max_iterations=1)


def mixture_that_has_not_settled():
    GaussianMixture(3, max_iter=1, tol=1e-12).fit(np.random.default_rng(0).standard_normal((60, 2)))


@pytest.mark.parametrize(
    "call",
    [
        vbmc_on_a_density,
        fit_of_an_improper_log_joint,
        states_of_a_fit,
        process_with_repeated_rows,
        mixture_that_has_not_settled,
    ],
)
def test_a_warning_names_the_file_and_the_line_of_the_call(call):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    first = call.__code__.co_firstlineno
    last = max(line for _, _, line in call.__code__.co_lines() if line)
    assert any(one.filename == __file__ and first < one.lineno <= last for one in told)
    ours = [str(Path(package.__file__).parent) for package in (bqvi, gp)]
    assert not [one for one in told if any(folder in one.filename for folder in ours)]


def sometimes_raising(theta):
    if theta[0] > 0.5:
        raise ValueError("the solver did not converge")
    return -0.5 * float(theta @ theta)


BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}
NORMAL = Gaussian(np.zeros(2), np.eye(2))
ONE_BY_ONE = LogJoint(sometimes_raising, 2, vectorised=False, gradient=None)


@pytest.mark.parametrize(
    "door",
    [
        lambda: bqvi.vbmc(sometimes_raising, **BOX, budget=20),
        lambda: bqvi.fit(ONE_BY_ONE, method="bq", budget=30),
        lambda: bqvi.integrate(
            lambda x: np.exp([sometimes_raising(one) for one in x]),
            NORMAL,
            40,
            run=bqvi.Run(errors="infeasible"),
        ),
        lambda: bqvi.evidence_bounds(sometimes_raising, NORMAL, 400, vectorised=False, replicates=2),
    ],
    ids=["vbmc", "fit", "integrate", "evidence_bounds"],
)
def test_every_door_raises_the_warnings_of_its_result(door):
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        found = door()
        assert found.warnings
    assert set(found.warnings) <= {str(one.message) for one in raised}
    assert any("the solver did not converge" in one for one in found.warnings)
