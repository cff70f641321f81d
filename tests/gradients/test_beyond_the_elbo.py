"""Mixtures as q, and the importance-weighted bound, from a process: against autodiff and exact integrands."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from bqvi.families import Gaussian
from bqvi.gradients import BayesianQuadrature, DReG, ImportanceQuadrature
from bqvi.gradients.gradient import Batch
from bqvi.gradients.mixture_gradient import MixtureGradient, moment_matched
from bqvi.gradients.surrogates import Observed, OnFunction
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.models import LogJoint
from gp.measures import GaussianMixture

D = 2
PRECISION = np.array([[1.5, 0.4], [0.4, 0.9]])
CENTRE = np.array([0.5, -0.3])
Q = GaussianMixture(
    np.array([0.6, 0.4]),
    np.array([[0.0, 0.5], [1.0, -1.0]]),
    np.array([[[0.5, 0.1], [0.1, 0.4]], [[0.3, -0.1], [-0.1, 0.6]]]),
)


def quadratic(theta):
    gap = theta - CENTRE
    return 2.0 - 0.5 * np.einsum("nd,nd->n", gap @ PRECISION, gap)


def expected_quadratic(weights, means, covariances):
    gap = means - torch.tensor(CENTRE)
    p = torch.tensor(PRECISION)
    parts = 2.0 - 0.5 * (((gap @ p) * gap).sum(1) + (p * covariances).sum((1, 2)))
    return (weights * parts).sum()


@pytest.mark.parametrize("kind", [OnFunction(gradients=False), OnFunction(values=False), OnFunction()])
def test_mixtures_on_a_quadratic_are_exact(kind):
    """Nodes that determine a quadratic give E_q[f] and its gradients; values of f are exact to the jitter."""
    rng = np.random.default_rng(0)
    frame = WhitenedFrame.of(moment_matched(Q))
    nodes = rng.standard_normal((30, D))  # six coefficients; what is more averages the jitter
    theta = frame.points(nodes)
    targets = kind.targets(frame, nodes, quadratic(theta), -(theta - CENTRE) @ PRECISION)
    process = kind.process(Observed(nodes, targets), np.log([2.8, 10.0, 10.0]))
    found = MixtureGradient(process, frame, Q).expectation
    leaves = [torch.tensor(np.asarray(x), requires_grad=True) for x in Q.parameters()]
    value = expected_quadratic(*leaves)
    weights, means, covariances = (g.numpy() for g in torch.autograd.grad(value, leaves))
    assert_allclose(found.gradient.means, means, atol=2e-5)
    assert_allclose(found.gradient.covariances, 0.5 * (covariances + covariances.swapaxes(1, 2)), atol=2e-5)
    assert_allclose(np.diff(found.gradient.weights), np.diff(weights), atol=2e-5)
    if kind.values:
        assert_allclose(found.value, float(value.detach()), atol=2e-5)


@pytest.mark.parametrize("kind", [OnFunction(gradients=False), OnFunction(values=False), OnFunction()])
def test_mixture_gradients_are_those_of_the_value(kind):
    """Central differences of E_q of the process's own posterior mean, on a log joint that is no quadratic."""
    rng = np.random.default_rng(1)
    frame = WhitenedFrame.of(moment_matched(Q))
    nodes = rng.standard_normal((9, D))
    theta = frame.points(nodes)
    targets = kind.targets(frame, nodes, np.sin(theta).sum(1), np.cos(theta))
    process = kind.process(Observed(nodes, targets), np.log([1.5, 0.1, 0.1]))
    found = MixtureGradient(process, frame, Q).expectation
    parameters = [np.asarray(x).copy() for x in Q.parameters()]
    for part in range(3):
        direction = rng.standard_normal(parameters[part].shape)
        if part == 0:
            direction -= direction.mean()
        if part == 2:
            direction = direction + direction.swapaxes(1, 2)
        h, ends = 1e-4, []
        for sign in (1, -1):
            moved = [p + sign * h * direction if i == part else p for i, p in enumerate(parameters)]
            ends.append(MixtureGradient(process, frame, GaussianMixture(*moved)).expectation.value)
        slope = (ends[0] - ends[1]) / (2 * h)
        assert_allclose(np.vdot(found.gradient[part], direction), slope, rtol=1e-6, atol=1e-8)


BATCH = Batch(None, 0)
START = Gaussian(np.array([0.2, 0.1]), np.array([[0.9, 0.2], [0.2, 0.7]]))


def log_joint(theta):
    gap = theta - torch.tensor(CENTRE)
    return -0.5 * ((gap @ torch.tensor(PRECISION)) * gap).sum(1)


def test_importance_quadrature_agrees_with_dreg_where_the_process_is_exact():
    """On a quadratic both have one mean: z-scores of five coordinates below 4.5, false alarm 4e-5."""
    model, rng = LogJoint(log_joint, D), np.random.default_rng(0)
    plugged = ImportanceQuadrature(samples=4, groups=4000)(model, START, BATCH, rng)
    assert plugged.n_evaluations == 20
    assert plugged.surrogate is None

    def whitened(natural):
        moments = WhitenedFrame.of(START).moments(natural)
        return np.r_[moments.mean, moments.jacobian[np.tril_indices(D)]]

    sampled = np.array(
        [whitened(START.gradient_to_natural(DReG(4)(model, START, BATCH, rng).values)) for _ in range(500)]
    )
    repeated = np.array(
        [whitened(ImportanceQuadrature(4, groups=50)(model, START, BATCH, rng).values) for _ in range(40)]
    )
    gap = sampled.mean(0) - repeated.mean(0)
    error = np.sqrt(sampled.var(0, ddof=1) / 500 + repeated.var(0, ddof=1) / 40)
    assert np.abs(gap / error).max() < 4.5
    # 4000 groups are 80 times 50: the spread of the one estimate
    assert np.abs((whitened(plugged.values) - repeated.mean(0)) / repeated.std(0)).max() < 1.5


def test_one_draw_is_the_elbo():
    model = LogJoint(log_joint, D)
    settings = BayesianQuadrature(nodes=20, memory=0, process="derivative")
    elbo = settings(model, START, BATCH, np.random.default_rng(0)).values
    bound = ImportanceQuadrature(1, settings, groups=60_000)(model, START, BATCH, np.random.default_rng(0))
    for a, b in zip(bound.values, elbo, strict=True):
        assert_allclose(a, b, atol=0.05)  # sd of a mean of 60,000 terms of size 2


def test_a_separable_process_is_refused():
    with pytest.raises(TypeError, match="separable"):
        ImportanceQuadrature(4, BayesianQuadrature(10, process="separable"))(
            LogJoint(log_joint, D), START, BATCH, np.random.default_rng(0)
        )
