"""Evaluations that gave no node count; the oracle is the integrand, which counts its points."""

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
    found = bqvi.integrate(f, MEASURE, budget=budget, method=method, errors="infeasible", seed=0)
    assert f.points == found.n_evaluations <= budget
    assert len(found.nodes) < budget
    assert found.trace["n_evaluations"][-1] == found.n_evaluations


@pytest.mark.parametrize("method", ["bq", "qmc", "monte-carlo"])
def test_a_budget_that_a_failed_batch_spends_is_told(method):
    f = Counted(-np.inf)
    with pytest.raises(bqvi.RunError, match=r"nodes have (values|been)") as failed:
        bqvi.integrate(f, MEASURE, budget=8 if method == "bq" else 16, method=method, errors="infeasible")
    assert f.points == failed.value.n_evaluations
    assert f.points <= 16


def test_the_count_is_resumed(tmp_path):
    f, path = Counted(1.2), tmp_path / "run.npz"
    part = bqvi.integrate(f, MEASURE, budget=30, errors="infeasible", seed=0)
    part.save(path)
    found = bqvi.integrate(f, MEASURE, budget=48, errors="infeasible", seed=0, resume=path)
    assert f.points == found.n_evaluations <= 48
