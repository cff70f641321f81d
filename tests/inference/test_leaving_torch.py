"""A log joint that leaves torch on the way, or in part: refused where its gradient lacks a share."""

import numpy as np
import pytest
import torch

import bqvi
from bqvi.families import Gaussian
from bqvi.models import LogJoint

DIFFERENTIATING = ("pathwise", "iwae", "dreg", "bq")


def _squares(theta):
    return -0.5 * (theta**2).sum(1)


def _through_numpy(theta):
    return torch.as_tensor(-0.5 * (theta.detach().numpy() ** 2).sum(1))


def _half(theta):
    return _squares(theta[:, :1]) + _through_numpy(theta[:, 1:])


def _with_numbers(theta):
    return torch.stack([-0.5 * (row**2).sum() + 2.0 * row[1].item() for row in theta])


def _without_graph(theta):
    with torch.no_grad():
        part = _squares(theta[:, 1:])
    return _squares(theta[:, :1]) + part


def _stabilised(theta):
    """The sum of exponentials above a detached maximum, which is added again: the gradient is whole."""
    top = theta.detach().max(1, keepdim=True).values
    return _squares(theta) - top[:, 0] - (theta - top).exp().sum(1).log()


@pytest.mark.parametrize("log_prob", [_through_numpy, _half, _with_numbers, _without_graph])
@pytest.mark.parametrize("method", DIFFERENTIATING)
def test_a_gradient_that_lacks_a_share_is_refused_at_the_first_evaluations(log_prob, method):
    with pytest.raises(bqvi.RunError, match="leaves torch on the way") as caught:
        bqvi.fit(LogJoint(log_prob, 2), method=method, budget=100, seed=0)
    assert caught.value.checkpoint.n_evaluations <= 25


@pytest.mark.parametrize("log_prob", [_half, _without_graph])
def test_vbmc_refuses_it_where_the_part_has_no_slope(log_prob):
    """The first evaluation is at 0, a centre of symmetry of what was left out."""
    box = {"plausible_lower": [-1.0, -1.0], "plausible_upper": [1.0, 1.0]}
    with pytest.raises(bqvi.RunError, match="leaves torch on the way"):
        bqvi.vbmc(lambda x: log_prob(x[None])[0], gradient="autodiff", budget=30, **box)


@pytest.mark.parametrize("method", [*DIFFERENTIATING, "score"])
def test_what_is_detached_without_a_share_is_accepted_and_counted(method):
    calls = []

    def counted(theta):
        calls.append(len(theta))
        return _stabilised(theta)

    fit = bqvi.fit(LogJoint(counted, 2), method=method, budget=60, seed=0)
    assert sum(calls) == fit.n_evaluations <= 60
    assert np.isfinite(fit.elbo)


class _Regression:
    """A regression whose likelihood may be detached, with data."""

    def __init__(self, detached):
        self.detached = detached

    def check(self, data):
        return tuple(torch.as_tensor(part, dtype=torch.float64) for part in data)

    def initial(self, data, how, rng):
        return Gaussian(np.zeros(2), np.eye(2))

    def log_prior(self, theta):
        return _squares(theta)

    def log_likelihood_terms(self, theta, rows):
        weights = torch.cat([theta[:, :1], theta[:, 1:].detach()], 1) if self.detached else theta
        return -0.5 * (rows[1] - weights @ rows[0].T) ** 2


@pytest.mark.parametrize("minibatch", [None, 20])
@pytest.mark.parametrize("method", ["pathwise", "iwae", "dreg"])
def test_models_with_data_are_refused_too(minibatch, method):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(70, 2))
    data = (x, x @ (1.0, -2.0) + rng.normal(size=70))
    bqvi.fit(_Regression(False), data, method, minibatch=minibatch, steps=3, seed=0)
    with pytest.raises(bqvi.RunError, match="leaves torch on the way"):
        bqvi.fit(_Regression(True), data, method, minibatch=minibatch, steps=3, seed=0)


def test_bq_compares_the_gradients_that_it_keeps_of_a_model_with_data():
    x = np.random.default_rng(4).normal(size=(70, 2))
    bqvi.fit(_Regression(False), (x, x @ (1.0, -2.0)), "bq", budget=30 * 70, seed=0)
    with pytest.raises(bqvi.RunError, match="leaves torch on the way"):
        bqvi.fit(_Regression(True), (x, x @ (1.0, -2.0)), "bq", budget=30 * 70, seed=0)
