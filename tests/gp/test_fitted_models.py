"""Models fitted with BoTorch and GPyTorch as posteriors: against the models' own predictions."""

import warnings

import gpytorch
import gpytorch.kernels as gk
import numpy as np
import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models import ModelListGP, MultiTaskGP, SingleTaskGP
from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputStandardize,
    Log10,
    Normalize,
)
from botorch.models.transforms.outcome import Log, Standardize

import gp

LOWER, WIDTH = np.array([5.0, -2.0]), np.array([10.0, 0.1])
LIKELIHOOD = gpytorch.likelihoods.GaussianLikelihood


pytestmark = pytest.mark.usefixtures("peers_draw_as_they_like")


def outcome(x):
    u = (x - torch.tensor(LOWER, dtype=x.dtype)) / torch.tensor(WIDTH, dtype=x.dtype)
    return 100 + 7 * (torch.sin(5 * u[:, :1]) + 2 * u[:, -1:] ** 2)


def points(n, seed, dtype=torch.float64):
    u = np.random.default_rng(seed).random((n, 2))
    return torch.tensor(LOWER + WIDTH * u, dtype=dtype)


X, AT = points(20, 0), points(15, 1)
Y = outcome(X)


def varied(model, seed=3):
    """Move every hyperparameter of a model from where it starts."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            # upwards, as some have a lower bound just below where they start
            parameter += torch.tensor(rng.uniform(0.1, 0.6, parameter.shape)).to(parameter)
    return model


def affine_chain():
    return ChainedInputTransform(
        first=InputStandardize(d=2, indices=[0]), second=Normalize(d=2), third=reverse()
    )


def reverse():
    return Normalize(d=2, bounds=torch.tensor([[1.0, 2.0], [1.5, 4.0]]).double(), reverse=True)


def composite():
    matern = gk.ScaleKernel(gk.MaternKernel(nu=1.5, ard_num_dims=2))
    return matern + gk.PeriodicKernel(active_dims=[0]) * gk.LinearKernel(active_dims=[1])


MODELS = {
    "default": lambda: SingleTaskGP(X, Y, input_transform=Normalize(d=2)),
    "no input transform": lambda: SingleTaskGP(X, Y, covar_module=gk.RBFKernel(ard_num_dims=2)),
    "no transform": lambda: SingleTaskGP(X - 5, (Y - 100) / 7, outcome_transform=None),
    "matern, known noise": lambda: SingleTaskGP(
        X,
        Y,
        torch.linspace(0.1, 2, 20).double()[:, None],
        covar_module=gk.ScaleKernel(gk.MaternKernel(nu=2.5, ard_num_dims=2)),
        input_transform=InputStandardize(d=2),
    ),
    "some columns": lambda: SingleTaskGP(X, Y, input_transform=Normalize(d=2, indices=[1])),
    "chain, one reversed": lambda: SingleTaskGP(X, Y, input_transform=affine_chain()),
    "composite, linear mean": lambda: SingleTaskGP(
        X,
        Y,
        covar_module=composite(),
        mean_module=gpytorch.means.LinearMean(2),
        input_transform=Normalize(d=2),
    ),
    "zero mean": lambda: SingleTaskGP(
        X, Y, mean_module=gpytorch.means.ZeroMean(), input_transform=Normalize(d=2)
    ),
}


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize("name", MODELS)
def test_botorch_models_keep_their_predictions(name):
    model = varied(MODELS[name]())
    at = AT - 5 if name == "no transform" else AT
    ours = gp.from_botorch(model)
    with torch.no_grad():
        theirs = model.posterior(at)
        noisy = model.posterior(at, observation_noise=True)
    # the original's units: values of order 100; 1e-8 is what the package promises
    torch.testing.assert_close(ours.mean(at), theirs.mean[:, 0], rtol=0, atol=1e-8)
    covariance = theirs.distribution.covariance_matrix
    torch.testing.assert_close(ours.covariance(at), covariance, rtol=0, atol=1e-8)
    noise = torch.as_tensor(ours.noise, dtype=torch.float64).mean()
    added = (noisy.variance - theirs.variance)[0, 0]
    torch.testing.assert_close(noise, added, rtol=1e-8, atol=1e-10)
    assert ours.jitter == 0.0


def test_one_output_of_several():
    both = SingleTaskGP(X, torch.cat([Y, Y.cos()], dim=1), input_transform=Normalize(d=2))
    both = varied(both)
    with pytest.raises(ValueError, match=r"one output.*subset_output\(\[0\]\)"):
        gp.from_botorch(both)
    posterior = gp.from_botorch(both.subset_output([1]))
    with torch.no_grad():
        theirs = both.posterior(AT)
    torch.testing.assert_close(posterior.mean(AT), theirs.mean[:, 1], rtol=0, atol=1e-8)
    torch.testing.assert_close(posterior.variance(AT), theirs.variance[:, 1], rtol=0, atol=1e-8)


def test_float32_models_stay_in_float32():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputDataWarning)  # BoTorch would rather have float64
        model = SingleTaskGP(
            X.float(), Y.float(), torch.full_like(Y.float(), 4.0), input_transform=Normalize(d=2)
        )
        ours = gp.from_botorch(model)
        with torch.no_grad():
            theirs = model.posterior(AT.float())
    assert ours.mean(AT.float()).dtype == torch.float32
    # single precision of values of order 100, times a condition number of order 10^2
    torch.testing.assert_close(ours.mean(AT.float()), theirs.mean[:, 0], rtol=0, atol=5e-3)
    torch.testing.assert_close(ours.variance(AT.float()), theirs.variance[:, 0], rtol=0, atol=5e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_cuda_models_stay_on_their_device():
    model = SingleTaskGP(X.cuda(), Y.cuda(), input_transform=Normalize(d=2))
    ours = gp.from_botorch(model)
    with torch.no_grad():
        theirs = model.posterior(AT.cuda())
    assert ours.mean(AT.cuda()).is_cuda
    torch.testing.assert_close(ours.mean(AT.cuda()), theirs.mean[:, 0], rtol=0, atol=1e-8)
    measure = gp.measures.Uniform(LOWER, LOWER + WIDTH)
    host = gp.from_botorch(SingleTaskGP(X, Y, input_transform=Normalize(d=2))).integral(measure)
    torch.testing.assert_close(ours.integral(measure).mean.cpu(), host.mean, rtol=0, atol=1e-8)


# GPyTorch


class ExactGP(gpytorch.models.ExactGP):
    def __init__(self, x, y, mean, kernel, likelihood=None):
        super().__init__(x, y, likelihood or LIKELIHOOD())
        self.mean_module, self.covar_module = mean, kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def exact_gp(kind=ExactGP, **changes):
    parts = {
        "x": X,
        "y": Y[:, 0],
        "mean": gpytorch.means.ConstantMean(),
        "kernel": gk.ScaleKernel(gk.MaternKernel(nu=0.5, ard_num_dims=2)),
    }
    return varied(kind(**(parts | changes)).double())


def test_a_gpytorch_model_keeps_its_predictions():
    model = exact_gp()
    ours = gp.from_gpytorch(model)
    assert model.training
    model.eval()
    with torch.no_grad():
        theirs = model(AT)
    # its distances have an error of sqrt(eps) = 1.5e-8 near 0, where this kernel has a slope of about 1
    torch.testing.assert_close(ours.mean(AT), theirs.mean, rtol=0, atol=1e-7)
    torch.testing.assert_close(ours.covariance(AT), theirs.covariance_matrix, rtol=0, atol=1e-7)


# inputs that are refused


class Doubling(ExactGP):
    def forward(self, x):
        return super().forward(2 * x)


class Shifted(ExactGP):
    def forward(self, x):
        prior = super().forward(x)
        return gpytorch.distributions.MultivariateNormal(prior.mean + 1, prior.covariance_matrix)


def test_a_forward_of_its_own_is_refused():
    with pytest.raises(TypeError, match="another covariance"):
        gp.from_gpytorch(exact_gp(Doubling))
    with pytest.raises(TypeError, match="another mean"):
        gp.from_gpytorch(exact_gp(Shifted))


class Nameless(gpytorch.models.ExactGP):
    def __init__(self):
        super().__init__(X, Y[:, 0], LIKELIHOOD())


def tasks():
    x = torch.cat([X, (torch.arange(20) % 2).double()[:, None]], dim=1)
    return MultiTaskGP(x, Y, task_feature=2, outcome_transform=Standardize(m=1))


REFUSED = {
    "not exact": (lambda: torch.nn.Linear(2, 1), TypeError, "Linear: give an exact GP"),
    "list": (lambda: ModelListGP(SingleTaskGP(X, Y)), TypeError, "of a list of models"),
    "tasks": (tasks, TypeError, "no counterpart"),
    "outcome": (
        lambda: SingleTaskGP(X, Y, outcome_transform=Log()),
        TypeError,
        "outcome_transform is a Log: only Standardize",
    ),
    "input": (
        lambda: SingleTaskGP(X + 10, Y, input_transform=Log10(indices=[0])),
        TypeError,
        "input_transform is a Log10: only affine .*Normalize",
    ),
    "half switched off": (
        lambda: SingleTaskGP(X, Y, input_transform=Normalize(d=2, transform_on_train=False)),
        ValueError,
        "switched off",
    ),
    "kernel": (
        lambda: SingleTaskGP(X, Y, covar_module=gk.CosineKernel()),
        TypeError,
        "CosineKernel, which has no counterpart",
    ),
    "mean": (
        lambda: exact_gp(mean=gpytorch.means.LinearMeanGrad(2)),
        TypeError,
        "mean_module is a LinearMeanGrad.*ConstantMean",
    ),
    "likelihood": (
        lambda: exact_gp(likelihood=gpytorch.likelihoods.GaussianLikelihoodWithMissingObs()),
        TypeError,
        "GaussianLikelihoodWithMissingObs",
    ),
    "batch": (lambda: SingleTaskGP(X.expand(2, 20, 2), Y.expand(2, 20, 1)), ValueError, "batch"),
    "nameless": (Nameless, TypeError, "no `mean_module`"),
    "no data": (lambda: exact_gp(x=None, y=None), ValueError, "training data"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_taken_is_refused(name):
    model, error, message = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of BoTorch about these models
        made = model()
        with pytest.raises(error, match=message):
            gp.from_botorch(made)


def test_botorch_models_go_through_their_own_door():
    with pytest.raises(TypeError, match=r"outcome_transform.*from_botorch"):
        gp.from_gpytorch(MODELS["no input transform"]())
