"""Every front door: callbacks, long calls and the caller see the user's threads, short calls of a run one."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import torch
from threadpoolctl import ThreadpoolController, threadpool_limits

import acquisition
import bqvi
import gp
from acquisition import search
from bqvi.families import Gaussian
from bqvi.gradients import Batch, BayesianQuadrature, remembered
from bqvi.gradients.memory import Memory, ProcessCache
from bqvi.posterior import Posterior
from gp import linalg, threads
from gp.regression import hyperparameters, posterior

MANY = 3
SEEN: list[int] = []
CALLS: list[int] = []
"""The numbers of threads of functions that are evaluated, a row a call."""


def counts():
    return [*(pool["num_threads"] for pool in ThreadpoolController().info()), torch.get_num_threads()]


def log_joint(theta):
    CALLS.append(max(counts()))
    return -0.5 * (theta**2).sum(-1)


def slope(theta):
    return -theta


def look(*_):
    SEEN.extend(counts())
    return 0.0


def fit(**options):
    bqvi.fit(bqvi.models.LogJoint(log_joint, 2), record=bqvi.Record(metrics={"look": look}), **options)


def integrate():
    measure = gp.measures.Gaussian(np.zeros(2), np.eye(2))
    bqvi.integrate(log_joint, measure, budget=20, run=bqvi.Run(callback=look))


def vbmc(function=log_joint):
    box = {"plausible_lower": [-2, -2], "plausible_upper": [2, 2]}
    bqvi.vbmc(function, gradient=slope, budget=30, run=bqvi.Run(callback=look), **box)


def broken(theta):
    raise KeyboardInterrupt


DOORS = {
    "bq": lambda: fit(method="bq", steps=6, tolerance=None),
    "pathwise": lambda: fit(method="pathwise", steps=3),
    "integrate": integrate,
    "vbmc": vbmc,
}


@pytest.mark.skipif(
    tuple(map(int, re.findall(r"\d+", scipy.__version__)[:3])) < (1, 16, 3),
    reason="solve_triangular of these SciPy versions crashes where a process raises its number of threads",
)
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("door", DOORS)
def test_who_sees_the_users_threads(door, long, monkeypatch):
    """No call lasts less than no time, and none of these as long as an hour of processor time."""
    monkeypatch.setattr(threads, "_LONG", -1.0 if long else 3600.0)
    before = torch.get_num_threads()
    SEEN.clear()
    CALLS.clear()
    with threadpool_limits(MANY):
        torch.set_num_threads(MANY)
        DOORS[door]()
        assert set(counts()) == {MANY}
        with pytest.raises(KeyboardInterrupt):
            vbmc(broken)
        assert set(counts()) == {MANY}
    torch.set_num_threads(before)
    assert len(SEEN) >= 3
    assert set(SEEN) == {MANY}
    alone = 0 if door == "pathwise" else threads._CALLS if long else len(CALLS)
    assert set(CALLS[:alone]) <= {1}
    assert CALLS[-1] == (MANY if long or door == "pathwise" else 1)


def test_a_process_on_few_rows_is_fitted_with_one_thread_from_the_first_matrix_to_the_last(monkeypatch):
    x = np.random.default_rng(0).normal(size=(20, 2))
    for name in ("_problem", "screened", "posterior_at"):
        whole = getattr(hyperparameters, name)
        seen = lambda *given, whole=whole, **named: look() or whole(*given, **named)  # noqa: E731
        monkeypatch.setattr(hyperparameters, name, seen)
    before = torch.get_num_threads()
    SEEN.clear()
    with threadpool_limits(MANY):
        torch.set_num_threads(MANY)
        gp.fit(x, np.sin(x[:, 0]), n_starts=1)
        assert set(counts()) == {MANY}
    torch.set_num_threads(before)
    assert len(SEEN) == 3 * len(counts())
    assert set(SEEN) == {1}


Q = Gaussian(np.zeros(2), np.eye(2))


def estimated(rows=20):
    """A gradient by quadrature of values and slopes, from evaluations of its own."""
    model = bqvi.models.LogJoint(log_joint, 2, gradient=slope)
    return BayesianQuadrature(rows, memory=0)(model, Q, Batch(None, 0), np.random.default_rng(0))


def conditioned(rows=20):
    x = np.random.default_rng(0).normal(size=(rows, 2))
    return gp.GaussianProcess(gp.kernels.SquaredExponential(0.5), noise=0.1).condition(x, np.sin(x[:, 0]))


def from_memory(estimate=remembered.remembered_evidence):
    x = np.random.default_rng(0).normal(size=(20, 2))
    kept = replace(Memory.empty(2, True), points=x, values=log_joint(x), gradients=-x)
    return estimate(Q, replace(kept, noise_variances=np.zeros((20, 3))))


def maximised():
    measure = gp.measures.Gaussian(np.zeros(2), np.eye(2))
    bound = acquisition.bind(acquisition.IntegralVarianceReduction(), conditioned(), measure)
    return acquisition.ContinuousSearch(candidates=16, ascents=1).maximise(bound, seed=0)


BELOW = {
    "a gradient": (estimated, ProcessCache, "_refitted"),
    "an evidence": (from_memory, remembered, "process_near"),
    "an ELBO": (lambda: from_memory(remembered.remembered_elbo), remembered, "_process_near"),
    "a search": (maximised, search, "ascend"),
    "a mode": (lambda: Posterior.of(Q).mode(), Posterior, "_climbed"),
    "a process": (conditioned, posterior, "cholesky"),
    "draws": (lambda: conditioned().sample(np.zeros((9, 2)), 3), linalg, "cholesky"),
    "predictions": (lambda: conditioned().mean_and_variance(np.zeros((9, 2))), posterior, "_squares"),
}
"""What is called without a door, and the function that it spends its time in."""


@pytest.mark.parametrize("name", BELOW)
def test_below_the_doors_small_matrices_have_one_thread_and_the_users_functions_all(name, monkeypatch):
    call, where, attribute = BELOW[name]
    whole = getattr(where, attribute)
    monkeypatch.setattr(where, attribute, lambda *given, **named: look() or whole(*given, **named))
    before = torch.get_num_threads()
    SEEN.clear()
    CALLS.clear()
    with threadpool_limits(MANY):
        torch.set_num_threads(MANY)
        call()
        assert set(counts()) == {MANY}
        assert set(SEEN) == {1}
        SEEN.clear()
        if where is posterior and attribute == "cholesky":
            conditioned(threads._FEW + 1)
            assert set(SEEN) == {MANY}
    torch.set_num_threads(before)
    assert set(CALLS) <= {MANY}
