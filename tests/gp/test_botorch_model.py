"""Posteriors as BoTorch models: against the posterior, BoTorch's own models, and differences."""

import numpy as np
import pytest
import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    PosteriorMean,
    PosteriorStandardDeviation,
    UpperConfidenceBound,
    qLogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler

import gp
from gp.kernels import (
    SquaredExponential,
)

pytestmark = pytest.mark.usefixtures("peers_draw_as_they_like")

BOUNDS = torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=torch.float64)
MC_POINTS = torch.quasirandom.SobolEngine(2, scramble=True, seed=5).draw(64).double() * 2 - 1


def f(x):
    return np.sin(3 * x[:, 0]) + (x[:, 1] - 0.2) ** 2


def conditioned(kernel=None, noise=0.01, n=12, seed=0):
    x = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    kernel = SquaredExponential(np.array([0.5, 0.8]), 1.3) if kernel is None else kernel
    process = gp.GaussianProcess(kernel, gp.means.Constant(0.3), noise=noise)
    return process.condition(torch.from_numpy(x), torch.from_numpy(f(x)))


def points(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (*shape, 2)))


@pytest.fixture(scope="module")
def posterior():
    return conditioned()


@pytest.fixture(scope="module")
def model(posterior):
    return gp.as_botorch_model(posterior)


@pytest.fixture(scope="module")
def peer():
    """The same process as a BoTorch model, and as ours taken from it."""
    x = points(12, seed=0)
    y = torch.from_numpy(f(x.numpy()))[:, None]
    theirs = SingleTaskGP(x, y, input_transform=Normalize(d=2)).eval()
    return theirs, gp.as_botorch_model(gp.from_botorch(theirs))


# distributions


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("q", [1, 4])
def test_moments_are_those_of_the_posterior(posterior, model, batch, q):
    x = points(*batch, q)
    joint = model.posterior(x)
    assert joint.mean.shape == joint.variance.shape == (*batch, q, 1)
    flat = x.reshape(-1, q, 2)
    mean = torch.stack([posterior.mean(part) for part in flat]).reshape(*batch, q, 1)
    matrix = torch.stack([posterior.covariance(part) for part in flat]).reshape(*batch, q, q)
    # the same sums in another order, of numbers of order 1
    torch.testing.assert_close(joint.mean, mean, rtol=0, atol=1e-12)
    torch.testing.assert_close(joint.distribution.covariance_matrix, matrix, rtol=0, atol=1e-12)
    diagonal = torch.diagonal(matrix, dim1=-2, dim2=-1)[..., None]
    torch.testing.assert_close(joint.variance, diagonal, rtol=0, atol=1e-12)


def test_observation_noise():
    noise = np.linspace(0.01, 0.1, 12)
    for given_noise, added in ((0.04, 0.04), (torch.from_numpy(noise), noise.mean()), (None, 0.0)):
        model = gp.as_botorch_model(conditioned(noise=given_noise))
        quiet, noisy = model.posterior(MC_POINTS), model.posterior(MC_POINTS, None, True)
        difference = noisy.variance - quiet.variance
        torch.testing.assert_close(difference, torch.full_like(difference, added), rtol=0, atol=1e-14)
    own = torch.full((4, 1), 0.5, dtype=torch.float64)
    joint = model.posterior(points(4), observation_noise=own)
    quiet = model.posterior(points(4))
    difference = joint.distribution.covariance_matrix - quiet.distribution.covariance_matrix
    torch.testing.assert_close(difference, torch.eye(4).double() * 0.5, rtol=0, atol=1e-12)


def test_derivatives_and_integrals_may_have_been_observed():
    x = np.random.default_rng(0).uniform(-1, 1, (4, 2))
    integrals = gp.Integrals((gp.measures.Uniform([-1.0, -1.0], [1.0, 1.0]),))
    blocks = [gp.Values(x), gp.Gradients(x, (1,)), integrals]
    y = [f(x), 2 * (x[:, 1] - 0.2), np.array([1 / 3 + 0.04])]
    posterior = gp.GaussianProcess(SquaredExponential(0.6)).condition(blocks, y)
    joint = gp.as_botorch_model(posterior).posterior(points(3, 2))
    for i, part in enumerate(points(3, 2).numpy()):
        np.testing.assert_allclose(joint.mean[i, :, 0], posterior.mean(part), rtol=0, atol=1e-11)
        np.testing.assert_allclose(
            joint.distribution.covariance_matrix[i], posterior.covariance(part), rtol=0, atol=1e-11
        )


# acquisition functions


def acquisitions(model):
    def sampler(n=16):
        return SobolQMCNormalSampler(torch.Size([n]), seed=7)

    return {
        "sd": (PosteriorStandardDeviation(model), 1),
        "mean": (PosteriorMean(model), 1),
        "ucb": (UpperConfidenceBound(model, beta=2.0), 1),
        "log ei": (LogExpectedImprovement(model, best_f=1.0), 1),
        "q ucb": (qUpperConfidenceBound(model, beta=2.0, sampler=sampler()), 2),
        "q log ei": (qLogExpectedImprovement(model, best_f=1.0, sampler=sampler()), 2),
        "q log nei": (
            qLogNoisyExpectedImprovement(
                model, model.train_inputs[0][:5], sampler=sampler(), cache_root=False
            ),
            2,
        ),
    }


NAMES = ("sd", "mean", "ucb", "log ei", "q ucb", "q log ei", "q log nei")


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_botorchs_own_model(peer, name):
    theirs, ours = peer
    x = points(6, acquisitions(ours)[name][1], seed=4)
    if name == "q log nei":
        baseline = ours.train_inputs[0][:5]
        sampler = [SobolQMCNormalSampler(torch.Size([16]), seed=7) for _ in range(2)]
        pair = [
            qLogNoisyExpectedImprovement(model, baseline, sampler=s, prune_baseline=False, cache_root=False)
            for model, s in zip((ours, theirs), sampler, strict=True)
        ]
    else:
        pair = [acquisitions(model)[name][0] for model in (ours, theirs)]
    with torch.no_grad():
        # samples go through the Cholesky factor of a joint covariance whose smallest eigenvalues
        # are of order 1e-4: half the digits that are lost there
        torch.testing.assert_close(pair[0](x), pair[1](x), rtol=1e-7, atol=1e-8)


# kinds, dtypes, devices


def check_kind(dtype, device):
    x = points(8).to(dtype=dtype, device=device)
    posterior = gp.GaussianProcess(SquaredExponential(0.6), noise=0.1).condition(x, x.sum(dim=1))
    model = gp.as_botorch_model(posterior)
    at = points(3, 2, seed=2).to(dtype=dtype, device=device).requires_grad_()
    joint = model.posterior(at)
    drawn = joint.rsample(torch.Size([4]))
    acquisition = qUpperConfidenceBound(model, 2.0, SobolQMCNormalSampler(torch.Size([4]), seed=0))
    (gradient,) = torch.autograd.grad(acquisition(at).sum(), at)
    for part in (joint.mean, joint.variance, drawn, gradient):
        assert part.dtype == dtype
        assert part.device == at.device
    assert joint.dtype == dtype
    assert joint.device == at.device
    bounds = BOUNDS.to(dtype=dtype, device=device)
    single = PosteriorStandardDeviation(model)
    candidate, _ = optimize_acqf(single, bounds, q=1, num_restarts=2, raw_samples=16)
    assert candidate.dtype == dtype
    assert candidate.device == at.device
    return joint


def test_float32_stays():
    torch.manual_seed(0)
    single, double = check_kind(torch.float32, "cpu"), check_kind(torch.float64, "cpu")
    # single precision, of numbers of order 1, times a condition number of order 10^2
    torch.testing.assert_close(single.mean.double(), double.mean, rtol=0, atol=1e-4)
    torch.testing.assert_close(single.variance.double(), double.variance, rtol=0, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cuda_stays(dtype):
    device, host = check_kind(dtype, "cuda"), check_kind(dtype, "cpu")
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(device.mean.cpu(), host.mean, rtol=0, atol=tolerance)


def test_data_are_constants():
    x = points(5).requires_grad_()
    lengthscale = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    posterior = gp.GaussianProcess(SquaredExponential(lengthscale)).condition(x, x.sum(dim=1))
    acquisition = UpperConfidenceBound(gp.as_botorch_model(posterior), beta=1.0)
    at, step = points(2, 1, seed=2).requires_grad_(), 1e-6
    with torch.no_grad():
        ends = [acquisition(at + sign * step * torch.eye(2)[0]) for sign in (1.0, -1.0)]
    for _ in range(2):  # a graph that went through the data would be gone the second time
        (gradient,) = torch.autograd.grad(acquisition(at).sum(), at)
        torch.testing.assert_close(gradient[:, 0, 0], (ends[0] - ends[1]) / (2 * step), rtol=0, atol=1e-7)
    assert x.grad is None
    assert lengthscale.grad is None


# inputs that are refused


def test_bad_input_is_refused(model):
    with pytest.raises(ValueError, match=r"X has shape \(3, 3\)"):
        model.posterior(torch.zeros(3, 3).double())
    with pytest.raises(TypeError, match=r"float32.*same dtype"):
        model.posterior(torch.zeros(3, 2))
    with pytest.raises(ValueError, match=r"output indices = \[1\]"):
        model.posterior(points(3), output_indices=[1])
    assert model.subset_output([0]) is model
    assert model.num_outputs == 1
    with pytest.raises(TypeError, match="posterior is a PosteriorModel"):
        gp.as_botorch_model(model)
