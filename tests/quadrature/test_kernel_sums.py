"""The fast form of E_q against the general one: a process given values, or derivatives, in closed form."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import gp
from acquisition.functionals import Candidates, most_informative
from bqvi.quadrature.expectation import expectation
from bqvi.quadrature.kernel_sums import KernelSum, Quadratic
from gp.measures import Gaussian, GaussianMixture
from gp.observations import Gradients

RNG = np.random.default_rng(0)
D, N, LENGTH = 3, 7, 1.4
POINTS = RNG.standard_normal((N, D))
NOTHING = Quadratic(0.0, np.zeros(D), np.zeros((D, D)))


def spread(rng):
    root = rng.standard_normal((D, D))
    return root @ root.T / D + 0.2 * np.eye(D)


MIXTURE = GaussianMixture(
    np.array([0.5, 0.3, 0.2]), RNG.standard_normal((3, D)), np.array([spread(RNG) for _ in range(3)])
)


@pytest.fixture(params=["values", "derivatives"])
def both(request):
    """A posterior, and the same mean as a sum of kernels."""
    process = gp.GaussianProcess(gp.kernels.SquaredExponential(variance=1.7, lengthscale=LENGTH), noise=1e-6)
    if request.param == "values":
        posterior = process.condition(POINTS, RNG.standard_normal(N))
        return posterior, KernelSum(POINTS, LENGTH, 1.7, NOTHING, values=posterior.weights)
    posterior = process.condition(Gradients(POINTS), RNG.standard_normal(N * D))
    return posterior, KernelSum(POINTS, LENGTH, 1.7, NOTHING, slopes=posterior.weights.reshape(N, D))


def test_against_the_general_form(both):
    posterior, sums = both
    q = Gaussian(MIXTURE.means[0], MIXTURE.covariances[0])
    general, ours = expectation(posterior, q), sums.integrate(q.mean, q.covariance)
    assert_allclose(ours.value, general.mean, rtol=1e-10)
    assert_allclose(ours.mean, general.gradient.mean, rtol=1e-10, atol=1e-12)
    assert_allclose(ours.covariance, general.gradient.covariance, rtol=1e-10, atol=1e-12)


def test_mixtures_against_the_general_form(both):
    posterior, sums = both
    general = expectation(posterior, MIXTURE)
    value, gradient = sums.integrate_mixture(MIXTURE)
    assert_allclose(value, general.mean, rtol=1e-10)
    for ours, theirs in zip(gradient, general.gradient, strict=True):
        assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_values_slopes_and_trend_together_against_autodiff():
    """E by a product rule of 24 nodes an axis, its slopes by autodiff through the rule."""
    rng = np.random.default_rng(1)
    alpha, slopes, linear = rng.standard_normal(N), rng.standard_normal((N, D)), rng.standard_normal(D)
    curvature = spread(rng) - spread(rng)
    sums = KernelSum(POINTS, LENGTH, 0.8, Quadratic(0.3, linear, curvature), alpha, slopes)
    line, weight = np.polynomial.hermite_e.hermegauss(24)
    noise = torch.tensor(np.stack(np.meshgrid(line, line, line), -1).reshape(-1, D))
    share = torch.tensor(np.einsum("i,j,k->ijk", weight, weight, weight).ravel() / weight.sum() ** 3)
    m = torch.tensor(MIXTURE.means[1], requires_grad=True)
    s = torch.tensor(0.3 * MIXTURE.covariances[1], requires_grad=True)
    x = m + noise @ torch.linalg.cholesky(s).T
    gap = x[:, None] - torch.tensor(POINTS)
    bump = 0.8 * torch.exp(-0.5 * (gap**2).sum(-1) / LENGTH**2)
    psi = bump @ torch.tensor(alpha) + (bump * (gap * torch.tensor(slopes)).sum(-1)).sum(1) / LENGTH**2
    psi = psi + 0.3 + x @ torch.tensor(linear) + 0.5 * ((x @ torch.tensor(curvature)) * x).sum(1)
    at = x.detach().numpy()[::37]
    assert_allclose(sums(at), psi.detach().numpy()[::37], rtol=1e-10)
    (slope,) = torch.autograd.grad(psi.sum(), x, retain_graph=True)
    assert_allclose(sums.gradient(at), slope.numpy()[::37], rtol=1e-9, atol=1e-11)
    expected = share @ psi
    dm, ds = torch.autograd.grad(expected, (m, s))
    found = sums.integrate(m.detach().numpy(), s.detach().numpy())
    assert_allclose(found.value, float(expected.detach()), rtol=1e-8)
    assert_allclose(found.mean, dm.numpy(), rtol=1e-8, atol=1e-9)
    assert_allclose(found.covariance, 0.5 * (ds + ds.T).numpy(), rtol=1e-8, atol=1e-9)


def test_greedy_choice_is_what_conditioning_anew_would_choose():
    """Each choice against the variances left by solving with the chosen points from scratch."""
    rng = np.random.default_rng(2)
    root = rng.standard_normal((12, 15))
    joint = root @ root.T  # of 9 candidates and 3 functionals
    chosen = most_informative(Candidates.of(joint[:9, 9:], joint[:9, :9]), 3, 1e-6)

    def left(points):
        gram = joint[np.ix_(points, points)] + 1e-6 * np.eye(len(points))
        across = joint[np.ix_(points, [9, 10, 11])]
        return np.trace(joint[9:, 9:] - across.T @ np.linalg.solve(gram, across))

    for k in range(3):
        before = chosen[:k]
        best = min((j for j in range(9) if j not in before), key=lambda j: left([*before, j]))
        assert chosen[k] == best


def test_greedy_choice_of_blocks_is_that_of_conditioning_on_whole_blocks():
    rng = np.random.default_rng(3)
    root = rng.standard_normal((15, 20))
    joint = root @ root.T  # of 6 candidates of 2 numbers, and 3 functionals
    chosen = most_informative(Candidates.of(joint[:12, 12:], joint[:12, :12], 2), 3, 1e-6)

    def left(candidates):
        points = [2 * j + b for j in candidates for b in range(2)]
        gram = joint[np.ix_(points, points)] + 1e-6 * np.eye(len(points))
        across = joint[np.ix_(points, [12, 13, 14])]
        return np.trace(joint[12:, 12:] - across.T @ np.linalg.solve(gram, across))

    for k in range(3):
        before = chosen[:k]
        best = min((j for j in range(6) if j not in before), key=lambda j: left([*before, j]))
        assert chosen[k] == best
