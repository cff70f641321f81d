"""Gaussian process regression by three packages, each called as its documentation recommends.

All three fit a squared exponential with one lengthscale per dimension, a constant mean and a common
noise variance; what differs is the prior, the search, and the scaling of the data that each
recommends or does by itself. A regressor takes a split and returns the predicted mean and standard
deviation of the *targets* (noise included) at the test points.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import gp
from experiments.problems.regression_sets import Split

__all__ = ["REGRESSORS", "Predictions"]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Mean and standard deviation of the targets at m test points, and what they cost.

    Attributes
    ----------
    mean, sd : (m,). fit_seconds : of the fit alone.
    """

    mean: Any
    sd: Any
    fit_seconds: float


def _ours(split: Split) -> Predictions:
    """`gp.fit` with its defaults."""
    began = time.perf_counter()
    posterior = gp.fit(split.x, split.y)
    seconds = time.perf_counter() - began
    mean, variance = posterior.mean_and_variance(split.x_test)
    return Predictions(mean, np.sqrt(variance + posterior.noise), seconds)


def _scikit_learn(split: Split) -> Predictions:
    """`GaussianProcessRegressor` on standardised inputs, normalize_y=True, no restarts (its default)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kernel = ConstantKernel() * RBF(np.ones(split.x.shape[1])) + WhiteKernel()
    model = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(split.x, split.y)
    seconds = time.perf_counter() - began
    mean, sd = model.predict(split.x_test, return_std=True)
    return Predictions(mean, sd, seconds)


def _botorch(split: Split) -> Predictions:
    """`SingleTaskGP` with its defaults and the input normalisation that it asks for."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x, y, at = (torch.from_numpy(array) for array in (split.x, split.y[:, None], split.x_test))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SingleTaskGP(x, y, input_transform=Normalize(x.shape[1]))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    seconds = time.perf_counter() - began
    with torch.no_grad():
        found = model.posterior(at, observation_noise=True)
        mean, sd = found.mean[:, 0].numpy(), found.variance[:, 0].sqrt().numpy()
    return Predictions(mean, sd, seconds)


REGRESSORS: Mapping[str, Callable[[Split], Predictions]] = {
    "gp.fit": _ours,
    "scikit-learn": _scikit_learn,
    "BoTorch": _botorch,
}
