"""Standard errors of the importance-weighted bound by quadrature: closed forms, refits, repeated nodes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gradient_cases import BATCH, SHOWN, TARGETS, drawn_process, without
from numpy.testing import assert_allclose

from bqvi.gradients import BayesianQuadrature, ImportanceQuadrature
from bqvi.gradients import importance_quadrature as plugged
from bqvi.gradients.designs import Independent
from bqvi.gradients.settings import IMPORTANCE
from bqvi.gradients.whitened import WhitenedFrame
from gp.conditioning.function_draws import FunctionAt, drawn

SHAPE = (1.6, 0.4, 0.3)


@pytest.mark.parametrize("shown", SHOWN)
def test_draws_have_the_mean_and_covariance_of_the_posterior(shown):
    """For gradients at three points, whose kernels are autodiff's. With 1600 draws and 40 sets of features,
    means are within 4.5 standard errors of six numbers, and covariances within an eighth.
    """
    process, rng = drawn_process(SHOWN[shown], SHAPE), np.random.default_rng(0)
    at = np.array([[0.2, -0.3], [1.0, 0.7], [-2.0, 1.5]])
    draws = (phi for _ in range(40) for phi in drawn(process, at, 40, rng, IMPORTANCE.features))
    sample = np.array([phi.gradients.reshape(-1) for phi in draws])
    mean = process.posterior_mean.gradient(at).reshape(-1)
    assert np.abs((sample.mean(0) - mean) / (sample.std(0) / np.sqrt(1600))).max() < 4.5
    # kernels between gradients at `at` and what is observed, from a process that observes everything
    every = np.concatenate([process.given.points, at])
    whole = full_kernel(shown, every)
    seen, wanted = observed_rows(shown, 5), gradient_rows(5, len(at))
    gram = whole[np.ix_(seen, seen)] + 1e-6 * np.eye(len(seen))
    cross = whole[np.ix_(seen, wanted)]
    posterior = whole[np.ix_(wanted, wanted)] - cross.T @ np.linalg.solve(gram, cross)
    if shown != "derivatives":  # a flat prior on the constant
        basis = (np.array(seen) % 3 == 0).astype(float)
        pulled = np.linalg.solve(gram, basis)
        posterior += np.outer(cross.T @ pulled, cross.T @ pulled) / (basis @ pulled)
    expected = process.given.scale * posterior
    assert_allclose(np.cov(sample.T), expected, atol=0.125 * np.diagonal(expected).max())


def full_kernel(shown, points):
    """The kernel of (phi, gradient) at each point, by autodiff of the kernel, / s^2."""
    height = 1.0 if shown == "values" else SHAPE[0] ** 2

    def kernel(x, y):
        inner = (x * y).sum()
        bump = height * torch.exp(-0.5 * (x - y).square().sum() / SHAPE[0] ** 2)
        return bump + SHAPE[1] * inner + 0.5 * SHAPE[2] * inner**2

    n = len(points)
    whole = np.empty((n, 3, n, 3))
    for i in range(n):
        for j in range(n):
            x, y = (torch.tensor(points[k], requires_grad=True) for k in (i, j))
            value = kernel(x, y)
            dx, dy = torch.autograd.grad(value, (x, y), create_graph=True)
            whole[i, 0, j, 0] = float(value.detach())
            whole[i, 1:, j, 0], whole[i, 0, j, 1:] = dx.detach().numpy(), dy.detach().numpy()
            for a in range(2):
                whole[i, 1 + a, j, 1:] = torch.autograd.grad(dx[a], y, retain_graph=True)[0].numpy()
    return whole.reshape(3 * n, 3 * n)


def observed_rows(shown, m):
    return [3 * i + k for i in range(m) for k in range(3)[SHOWN[shown].numbers]]


def gradient_rows(m, n):
    return [3 * i + k for i in range(m, m + n) for k in (1, 2)]


@pytest.mark.parametrize("shown", SHOWN)
def test_functions_without_a_node_are_those_of_refits(shown):
    process, at = drawn_process(SHOWN[shown], SHAPE), np.random.default_rng(1).standard_normal((4, 2))
    for i, phi in enumerate(process.without_each_node()):
        kept = np.delete(np.arange(5), i)
        refit = without(process, kept).posterior_mean
        assert_allclose(phi.gradient(at), refit.gradient(at), rtol=1e-6, atol=1e-8)
        assert_allclose(np.diff(phi(at)), np.diff(refit(at)), rtol=1e-6, atol=1e-8)  # up to a constant


def test_of_one_draw_a_group_errors_are_those_of_quadrature(monkeypatch):
    """At L = 1 the bound is the ELBO, linear in phi: the closed form, once groups have averaged out."""
    monkeypatch.setattr(plugged, "IMPORTANCE", replace(plugged.IMPORTANCE, draws=150))
    model, q = TARGETS["banana"]
    quadrature = BayesianQuadrature(10, Independent(), memory=0, process="derivative", errors=True)
    exact = quadrature(model, q, BATCH, np.random.default_rng(2))
    bound = ImportanceQuadrature(1, quadrature, groups=2000, errors=True)
    found = bound(model, q, BATCH, np.random.default_rng(2))
    # the variance by Monte Carlo: the spread of the estimate over groups
    rest = np.array(
        [
            np.concatenate([v.ravel() for v in replace(bound, errors=False)(*again).values])
            for again in [(model, q, BATCH, Same(2, seed)) for seed in range(40)]
        ]
    ).var(0)
    ours = np.square(np.concatenate([e.ravel() for e in found.standard_error]))
    theirs = np.square(np.concatenate([e.ravel() for e in exact.standard_error]))
    assert_allclose(np.sqrt(ours.sum()), np.sqrt((theirs + rest).sum()), rtol=0.15)


class Same:
    """A generator whose first normal draws, the nodes, are those of ``seed``; later draws are those of
    another.
    """

    def __init__(self, seed, then):
        self.first, self.rest = np.random.default_rng(seed), np.random.default_rng(100 + then)

    def standard_normal(self, size):
        chosen, self.first = self.first or self.rest, None
        return chosen.standard_normal(size)


class Psi:
    """The log joint of the target itself."""

    def __init__(self, model, frame):
        self.model, self.frame = model, frame

    def seen(self, u):
        theta = torch.tensor(self.frame.points(u), requires_grad=True)
        values = self.model.log_prior(theta)
        (slopes,) = torch.autograd.grad(values.sum(), theta)
        squares = 0.5 * np.square(u).sum(1)
        return FunctionAt(values.detach().numpy() + squares, slopes.numpy() @ self.frame.scale + u)


@pytest.mark.parametrize("process", ["derivative", "joint"])
def test_errors_hold_the_gradient_over_repeated_nodes(process):
    """12 repetitions at n = 12, L = 5: intervals, and the root mean square within a factor of three."""
    model, q = TARGETS["logistic"]
    frame, rng = WhitenedFrame.of(q), np.random.default_rng(3)
    truth = 0.0
    for _ in range(20):  # 1e5 groups: a twentieth of the errors
        noise = rng.standard_normal((5000, 5, 3))
        terms = plugged.weighted_slopes(Psi(model, frame).seen(noise.reshape(-1, 3)), noise)
        truth = truth + np.concatenate(frame.natural_gradient(plugged.moments_of(terms, noise))) / 20.0
    quadrature = BayesianQuadrature(12, Independent(), memory=0, process=process)
    estimator = ImportanceQuadrature(5, quadrature, groups=300, errors=True)
    found = [estimator(model, q, BATCH, rng) for _ in range(12)]
    errors = np.array([np.concatenate(g.standard_error) for g in found])
    missed = np.array([np.concatenate(g.values) for g in found]) - truth
    assert (np.abs(missed) <= 1.96 * errors).mean() >= 0.9
    ratio = np.sqrt(np.square(errors).mean() / np.square(missed).mean())
    assert 1.0 / 3.0 < ratio < 3.0


def test_errors_change_no_estimate_and_take_two_groups():
    model, q = TARGETS["logistic"]
    asked = ImportanceQuadrature(3, groups=50, errors=True)
    plain = replace(asked, errors=False)
    ours, theirs = (e(model, q, BATCH, np.random.default_rng(0)) for e in (asked, plain))
    assert theirs.standard_error is None
    for a, b in zip(ours.values, theirs.values, strict=True):
        assert_allclose(a, b, rtol=0)
    with pytest.raises(ValueError, match="groups"):
        ImportanceQuadrature(3, groups=1, errors=True)
