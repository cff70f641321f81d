"""The mixture whose E step is part of its log joint: a bound, tight at points, and a memory of its
evaluations.
"""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import bqvi
from bqvi.families import Gaussian
from bqvi.gradients import BayesianQuadrature
from bqvi.gradients.evaluations import evaluate
from bqvi.gradients.gradient import Batch
from bqvi.gradients.whitened import WhitenedFrame
from experiments.thesis.softmax_mixture import SoftmaxMixture

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.standard_normal((25, 2)) - 2.0, RNG.standard_normal((15, 2)) + 1.5])
MODEL = SoftmaxMixture(X, 2)
START = Gaussian(np.array([0.2, -1.5, -1.0, 1.0, 1.2]), 0.04 * np.eye(5))


def test_it_bounds_the_log_joint_with_z_summed_out():
    theta = torch.tensor(START.mean + RNG.standard_normal((50, 5)))
    bound, whole = MODEL.at(START).log_prior(theta), MODEL.summed_out().log_prior(theta)
    assert (bound <= whole + 1e-9).all()


def test_the_prior_of_the_weights_integrates_to_one():
    """The density of the logit of two components, by a sum over a grid."""
    model = SoftmaxMixture(X, 2, concentration=0.3)
    logits = np.linspace(-120.0, 120.0, 20001)
    theta = torch.tensor(np.column_stack([logits, np.zeros((len(logits), 4))]))
    log_prior = model._log_prior(*model._parts(theta)).numpy()
    at_zero = -4.0 * (np.log(3.0) + 0.5 * np.log(2.0 * np.pi))
    assert np.trapezoid(np.exp(log_prior - at_zero), logits) == pytest.approx(1.0, rel=1e-6)


def test_it_is_tight_where_q_is_a_point():
    point = Gaussian(START.mean, 1e-14 * np.eye(5))
    theta = torch.tensor(START.mean[None])
    assert_allclose(MODEL.at(point).log_prior(theta), MODEL.summed_out().log_prior(theta), rtol=1e-9)


def elbo(q):
    """E_q[f_r] + H[q] by a fixed set of points, with the r that is best for q."""
    noise = np.random.default_rng(1).standard_normal((4000, 5))
    noise = np.concatenate([noise, -noise])
    theta = torch.tensor(q.mean + noise @ np.linalg.cholesky(q.covariance).T)
    return float(MODEL.at(q).log_prior(theta).mean()) + float(q.entropy)


def test_r_is_the_best_and_may_be_held_fixed():
    """E_q[f_r] with r of a neighbouring q is lower, to second order in the step."""
    noise = np.random.default_rng(1).standard_normal((4000, 5))
    theta = torch.tensor(START.mean + 0.2 * np.concatenate([noise, -noise]))
    best = float(MODEL.at(START).log_prior(theta).mean())
    drops = []
    for h in (0.1, 0.05):
        near = Gaussian(START.mean + h * np.ones(5), START.covariance)
        drops.append(best - float(MODEL.at(near).log_prior(theta).mean()))
    assert drops[1] > 0.0
    assert drops[0] / drops[1] == pytest.approx(4.0, rel=0.2)  # a parabola, less its cubic part


def test_memory_holds_the_values_of_the_log_joint_of_now():
    estimator, batch, rng = BayesianQuadrature(nodes=6), Batch(None, 0), np.random.default_rng(0)
    memory = estimator.start(MODEL, START)
    memory = estimator(MODEL, START, batch, rng, memory).memory
    moved = Gaussian(START.mean + 0.3, START.covariance)
    found = estimator(MODEL, moved, batch, rng, memory)
    assert found.n_evaluations == 6
    expected = MODEL.at(moved).log_prior(torch.tensor(found.memory.points))
    assert_allclose(found.memory.values, expected, rtol=1e-12)
    assert np.abs(found.memory.values[:10] - memory.values).max() > 0.1  # the values have changed


def test_runs_with_memory_reach_the_optimum_of_many_natural_steps():
    fit = bqvi.fit(
        MODEL, method="bq", start_from=START, steps=30, seed=0, record=bqvi.Record(elbo_samples=32)
    )
    slow = bqvi.fit(
        MODEL, method=bqvi.gradients.Pathwise(20, "sticking-the-landing"), geometry=bqvi.Riemannian(),
        schedule=bqvi.Cosine(0.5, 100), start_from=START, steps=100, seed=0,
        record=bqvi.Record(elbo_samples=32),
    )  # fmt: skip
    assert elbo(fit.q) > elbo(slow.q) - 1e-2
    assert float(fit.q.kl(slow.q)) < 0.02


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (X[:, 0], ValueError, r"x has shape \(40,\); it must be \(N, d\)"),
        (X[:0], ValueError, r"x has shape \(0, 2\); it must be \(N, d\) with N >= 1"),
        (np.where(np.arange(40)[:, None] == 7, np.nan, X), ValueError, "x is nan in row 7"),
        ([["a"]], TypeError, "x is a list of other things"),
    ],
)
def test_bad_data_are_named(x, error, message):
    with pytest.raises(error, match=message):
        SoftmaxMixture(x, 2)


def test_there_is_no_log_joint_without_q():
    with pytest.raises(TypeError, match="at\\(q\\)"):
        MODEL.log_prior(torch.zeros(1, 5))
    with pytest.raises(ValueError, match="n_components"):
        SoftmaxMixture(X, 1)


def test_the_process_is_of_the_log_joint_of_now():
    """Where q hardly moves a process is used again; the observations of this log joint differ at each q."""
    estimator, rng = BayesianQuadrature(), np.random.default_rng(0)
    memory, batch = estimator.start(MODEL, START), Batch(None, 0)
    for step in range(12):
        q = Gaussian(START.mean + 1e-3 * step, START.covariance)
        seen = estimator(MODEL, q, batch, rng, memory)
        memory = seen.memory
        found = evaluate(MODEL, q, batch, memory.points)
        frame = WhitenedFrame.of(q)
        expected = found.gradients @ frame.scale + frame.whiten(found.points)
        assert_allclose(seen.surrogate.given.targets, expected, rtol=1e-9, atol=1e-9)
