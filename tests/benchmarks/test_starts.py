"""Regressions of the starts: known modes, and where each start lies."""

import numpy as np
import pytest
import torch

from benchmarks import starts
from benchmarks.claims_problems import laplace


@pytest.mark.parametrize("name", list(starts.REGRESSIONS))
def test_the_mode_is_near_the_coefficients_that_data_were_drawn_with(name):
    log_joint, truth = starts.REGRESSIONS[name](np.random.default_rng(3))
    mean, root = laplace(log_joint, truth)
    point = torch.tensor(mean, requires_grad=True)
    (slope,) = torch.autograd.grad(log_joint(point[None])[0], point)
    assert np.abs(root.T @ slope.numpy()).max() < 1e-4  # nats over a posterior sd
    if len(truth) < 14:  # with few data a coefficient, the prior pulls the mode to 0
        z = np.linalg.solve(root, mean - truth)
        assert z @ z < 45  # a chi squared with at most 13 degrees of freedom: exceeded with probability 2e-5


def test_starts_lie_where_their_names_say():
    mean, root = np.array([1.0, 2.0]), np.array([[0.5, 0.0], [0.2, 0.1]])
    of = starts.starts(mean, root, np.random.default_rng(0))
    assert tuple(of) == starts.STARTS
    z = np.linalg.solve(root, np.asarray(of["away"]["start_from"].mean) - mean)
    assert np.linalg.norm(z) == pytest.approx(10)
    ratio = np.asarray(of["wide"]["start_from"].covariance) / np.asarray(
        of["narrow"]["start_from"].covariance
    )
    assert ratio == pytest.approx(900.0**2 * np.ones((2, 2)))
