"""Posteriors, measures and criteria that the tests share."""

import numpy as np

import gp
from acquisition import IntegralVarianceReduction, UncertaintySampling
from experiments.quadrature.criteria import (
    LinearisedWarpedUncertainty,
    MatchedWarpedUncertainty,
    MutualInformation,
    UpperConfidenceBound,
)
from gp.kernels import SquaredExponential
from gp.measures import Gaussian, GaussianMixture, Uniform

CRITERIA = {
    "uncertainty": UncertaintySampling(),
    "variance alone": UncertaintySampling(density_power=0.0),
    "variance reduction": IntegralVarianceReduction(),
    "information": MutualInformation(),
    "confidence bound": UpperConfidenceBound(0.7),
    "wsabi-l": LinearisedWarpedUncertainty(),
    "wsabi-m": MatchedWarpedUncertainty(),
}
MEASURES = {
    "gaussian": Gaussian(np.array([0.2, -0.3]), np.array([[1.0, 0.4], [0.4, 0.7]])),
    "mixture": GaussianMixture(
        np.array([0.3, 0.7]), np.array([[1.0, 0.0], [-1.0, 0.5]]), np.array([[0.5, 0.6], [1.0, 0.4]])
    ),
    "box": Uniform(np.array([-2.0, -1.5]), np.array([2.0, 2.5])),
}


def f(x):
    return np.exp(-0.5 * (x**2).sum(axis=1)) + 0.3 * x[:, 0] + 1.5


def posterior(n=12, dimension=2, *, noise=1e-3, seed=0, kernel=None, torch=None, slope=0.0):
    """A posterior given n values of f at normal points; in torch where the module is given."""
    x = np.random.default_rng(seed).normal(size=(n, dimension))
    kernel = SquaredExponential(np.linspace(0.8, 1.4, dimension), 1.3) if kernel is None else kernel
    process = gp.GaussianProcess(kernel, mean=gp.means.Linear(0.4, slope), noise=noise)
    if torch is not None:
        return process.condition(torch.tensor(x), torch.tensor(f(x)))
    return process.condition(x, f(x))
