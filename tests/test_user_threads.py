"""Every front door: the user's functions, and the caller, see the numbers of threads that the user has."""

import re

import numpy as np
import pytest
import scipy.linalg
import torch
from threadpoolctl import ThreadpoolController, threadpool_limits

import bqvi
import gp
from gp import hyperparameters

MANY = 3
SEEN: list[int] = []


def counts():
    return [*(pool["num_threads"] for pool in ThreadpoolController().info()), torch.get_num_threads()]


def log_joint(theta):
    SEEN.extend(counts())
    return -0.5 * (theta**2).sum(-1)


def slope(theta):
    SEEN.extend(counts())
    return -theta


def look(*_):
    SEEN.extend(counts())
    return 0.0


def fit(**options):
    bqvi.fit(bqvi.models.LogJoint(log_joint, 2), metrics={"look": look}, **options)


def integrate():
    measure = gp.measures.Gaussian(np.zeros(2), np.eye(2))
    bqvi.integrate(log_joint, measure, budget=20, callback=look)


def vbmc(function=log_joint):
    box = {"plausible_lower": [-2, -2], "plausible_upper": [2, 2]}
    bqvi.vbmc(function, gradient=slope, budget=8, callback=look, **box)


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
@pytest.mark.parametrize("door", DOORS)
def test_user_functions_see_the_users_threads(door):
    before = torch.get_num_threads()
    SEEN.clear()
    with threadpool_limits(MANY):
        torch.set_num_threads(MANY)
        DOORS[door]()
        assert set(counts()) == {MANY}
        with pytest.raises(KeyboardInterrupt):
            vbmc(broken)
        assert set(counts()) == {MANY}
    torch.set_num_threads(before)
    assert len(SEEN) > 20
    assert set(SEEN) == {MANY}


def test_a_process_on_few_rows_is_fitted_with_one_thread_from_the_first_matrix_to_the_last(monkeypatch):
    x = np.random.default_rng(0).normal(size=(20, 2))
    for name in ("_problem", "_searched", "posterior_at"):
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
