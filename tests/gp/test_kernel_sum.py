"""E_q in closed form against kernel embeddings: given values, derivatives, or both, with any prior mean."""

import numpy as np
import pytest
import torch
from negative_quadratic import NegativeQuadratic
from numpy.testing import assert_allclose

import gp
from gp.expectation import KernelSum, Quadratic, expectation
from gp.means import Constant, Fixed, Linear, Zero
from gp.measures import Gaussian, GaussianMixture
from gp.observations import Gradients, Values
from gp.regression.expectation import mean_gradient
from gp.testing import central_difference

RNG = np.random.default_rng(0)
D, N, LENGTH = 3, 7, 1.4
POINTS = RNG.standard_normal((N, D))


def spread(rng):
    root = rng.standard_normal((D, D))
    return root @ root.T / D + 0.2 * np.eye(D)


MIXTURE = GaussianMixture(
    np.array([0.5, 0.3, 0.2]), RNG.standard_normal((3, D)), np.array([spread(RNG) for _ in range(3)])
)


GAUSSIAN = Gaussian(MIXTURE.means[0], MIXTURE.covariances[0])
MEANS = {
    "zero": Zero(),
    "constant": Constant(0.7),
    "linear": Linear(0.3, np.array([0.5, -0.2, 0.1])),
    "one slope": Linear(0.3, 0.2),
    "quadratic": NegativeQuadratic(0.4, 0.1, np.array([1.5, 2.0, 0.8])),
    "fixed": Fixed(NegativeQuadratic(0.4, np.array([0.1, 0.2, 0.0]), 1.1)),
}


def posterior(observed, mean="zero", lengthscale=LENGTH):
    process = gp.GaussianProcess(
        gp.kernels.SquaredExponential(variance=1.7, lengthscale=lengthscale), MEANS[mean], noise=1e-6
    )
    values, slopes = RNG.standard_normal(N), RNG.standard_normal(N * D)
    if observed == "values":
        return process.condition(POINTS, values)
    if observed == "derivatives":
        return process.condition(Gradients(POINTS), slopes)
    some = Gradients(POINTS[:4] + 0.1, dimensions=(2, 0))
    return process.condition([Values(POINTS), some, Gradients(POINTS[:1])], [values, slopes[:8], slopes[:D]])


@pytest.mark.parametrize("q", [GAUSSIAN, MIXTURE], ids=["gaussian", "mixture"])
@pytest.mark.parametrize("mean", list(MEANS))
@pytest.mark.parametrize("observed", ["values", "derivatives", "both"])
def test_against_the_embedding(observed, mean, q):
    given = posterior(observed, mean, LENGTH if mean == "zero" else np.array([0.8, 1.4, 2.0]))
    assert given.kernel_sum is not None
    found, general = expectation(given, q), given.integral(q)
    assert_allclose(found.mean, general.mean, rtol=1e-10)
    assert_allclose(found.variance, general.variance, rtol=1e-10)
    for ours, theirs in zip(found.gradient, mean_gradient(given, q), strict=True):
        assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)
    shifts = [0.1 * np.cos(1.0 + np.arange(part.size)).reshape(part.shape) for part in q.parameters()]
    shifts[-1] = shifts[-1] + shifts[-1].mT  # of covariances
    if q is MIXTURE:
        shifts[0] = shifts[0] - shifts[0].mean()  # of weights
    for index, (slope, shift) in enumerate(zip(found.variance_gradient, shifts, strict=True)):

        def variance(step, index=index, shift=shift):
            moved = list(q.parameters())
            moved[index] = moved[index] + step * shift
            return given.integral(q.with_parameters(moved)).variance

        assert_allclose(np.sum(slope * shift), central_difference(variance, np.zeros(()), ()), atol=1e-9)


def test_functions_of_polynomial_kernels_are_part_of_the_sum():
    line, bowl = gp.kernels.Linear(np.array([0.5, 1.0, 2.0]), 0.3), gp.kernels.QuadraticTrend(0.2, 0.1)
    kernel = gp.kernels.Constant(0.7) + gp.kernels.SquaredExponential(1.4, 1.7) + line + bowl
    process = gp.GaussianProcess(kernel, MEANS["linear"], noise=1e-6)
    given = process.condition([Values(POINTS), Gradients(POINTS[:2])], [POINTS[:, 0], POINTS[:2]])
    assert_allclose(given.kernel_sum(2 * POINTS), given.mean(2 * POINTS), rtol=1e-9)
    found = expectation(given, GAUSSIAN)
    assert_allclose(found.mean, given.integral(GAUSSIAN).mean, rtol=1e-10)
    for ours, theirs in zip(found.gradient, mean_gradient(given, GAUSSIAN), strict=True):
        assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


def test_other_posteriors_are_no_such_sums():
    rough = gp.GaussianProcess(gp.kernels.Matern52(1.0)).condition(POINTS, POINTS[:, 0])
    assert rough.kernel_sum is None
    tensors = gp.GaussianProcess(gp.kernels.SquaredExponential()).condition(
        torch.tensor(POINTS), torch.tensor(POINTS[:, 0])
    )
    assert tensors.kernel_sum is None


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
