"""Evaluations that gave no node count; the oracle is the integrand, which counts its points."""

import itertools

import numpy as np
import pytest

import bqvi
from gp.measures import Gaussian

MEASURE = Gaussian(np.zeros(2), np.eye(2))


class Counted:
    """A function of many points that raises on a batch in which one is beyond ``edge``."""

    def __init__(self, edge):
        self.edge, self.points = edge, 0

    def __call__(self, x):
        self.points += len(x)
        if (x[:, 0] > self.edge).any():
            raise ValueError("outside")
        return np.exp(-0.5 * (x**2).sum(axis=1))


@pytest.mark.parametrize("method", ["bq", "wsabi-l"])
@pytest.mark.parametrize("budget", [24, 40])
def test_a_batch_that_is_called_again_counts(method, budget):
    f = Counted(1.2)
    found = bqvi.integrate(
        f, MEASURE, budget=budget, method=method, run=bqvi.Run(errors="infeasible"), seed=0
    )
    assert f.points == found.n_evaluations <= budget
    assert len(found.nodes) < budget
    assert found.trace["n_evaluations"][-1] == found.n_evaluations


@pytest.mark.parametrize("method", ["bq", "qmc", "monte-carlo"])
def test_a_budget_that_a_failed_batch_spends_is_reported(method):
    f = Counted(-np.inf)
    with pytest.raises(bqvi.RunError, match=r"nodes have (values|been)") as failed:
        bqvi.integrate(
            f, MEASURE, budget=8 if method == "bq" else 16, method=method, run=bqvi.Run(errors="infeasible")
        )
    assert f.points == failed.value.n_evaluations
    assert f.points <= 16


def test_the_count_is_resumed(tmp_path):
    f, path = Counted(1.2), tmp_path / "run.npz"
    part = bqvi.integrate(f, MEASURE, budget=30, run=bqvi.Run(errors="infeasible"), seed=0)
    part.save(path)
    found = bqvi.integrate(f, MEASURE, budget=48, run=bqvi.Run(errors="infeasible"), seed=0, resume=path)
    assert f.points == found.n_evaluations <= 48


def bump(x):
    return float(np.exp(-0.5 * np.sum(x**2)))


def twice(x):
    return np.array([bump(x), bump(x)])


def at_calls(which, what, otherwise):
    """A function that does ``what`` at some calls, counted from 1, and returns ``otherwise(x)`` else."""
    calls = itertools.count(1)
    return lambda x: what() if next(calls) in which else otherwise(x)


def zero_division():
    raise ZeroDivisionError


def interrupt():
    raise KeyboardInterrupt


FAILING = [range(2, 15), range(9, 15), range(11, 15), range(1, 4)]


@pytest.mark.parametrize("which", FAILING)
def test_a_batch_that_fails_keeps_the_noise_of_the_others(which):
    """Where f fails, the result is that of a function that is zero there with the same noise."""
    options = {"budget": 14, "vectorised": False, "seed": 0, "noise_sd": lambda x: 0.1}
    found = bqvi.integrate(
        at_calls(which, zero_division, bump), MEASURE, run=bqvi.Run(errors="infeasible"), **options
    )
    expected = bqvi.integrate(at_calls(which, lambda: 0.0, bump), MEASURE, **options)
    assert (found.mean, found.sd) == (expected.mean, expected.sd)


@pytest.mark.parametrize("method", ["bq", "qmc", "monte-carlo"])
@pytest.mark.parametrize("which", FAILING)
def test_batches_that_fail_have_as_many_outputs_as_the_others(method, which):
    """The result is that of a function that is zero there; also where a run is resumed after an interrupt at
    its third call.
    """
    options = {
        "budget": 14,
        "method": method,
        "run": bqvi.Run(errors="infeasible"),
        "vectorised": False,
        "seed": 0,
    }
    zeros = bqvi.integrate(at_calls(which, lambda: np.zeros(2), twice), MEASURE, **options)
    found = bqvi.integrate(at_calls(which, zero_division, twice), MEASURE, **options)
    np.testing.assert_array_equal(found.mean, zeros.mean)
    with pytest.raises(bqvi.RunInterrupted) as caught:
        bqvi.integrate(at_calls([3], interrupt, at_calls(which, zero_division, twice)), MEASURE, **options)
    rest = bqvi.integrate(twice, MEASURE, resume=caught.value, **options)
    assert rest.n_evaluations == 14
    assert np.shape(rest.mean) == (2,)


@pytest.mark.parametrize("method", ["bq", "qmc"])
@pytest.mark.parametrize("at", [2, 9, 11])
def test_another_number_of_outputs_is_an_error_with_the_evaluations(method, at):
    options = {"budget": 14, "method": method, "vectorised": False, "seed": 0}
    with pytest.raises(bqvi.RunError, match=r"returned 1 numbers at .*and 2 elsewhere") as caught:
        bqvi.integrate(at_calls(range(at, 15), lambda: 1.0, twice), MEASURE, **options)
    assert caught.value.n_evaluations == at - 1
    with pytest.raises(bqvi.RunError, match="returned 3 numbers for a point, and 2 before") as again:
        bqvi.integrate(lambda x: np.ones(3), MEASURE, resume=caught.value, **options)
    assert again.value.n_evaluations == at - 1
