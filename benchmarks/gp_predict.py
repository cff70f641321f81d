"""Condition and predict: mean and variance at m = 1000 points, at fixed hyperparameters, D = 5."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gp
from benchmarks.paired import Line, faster, paired
from benchmarks.setting import limit_torch

DIMENSION, POINTS = 5, 1000
LENGTHSCALE, VARIANCE, NOISE = np.full(DIMENSION, 1.5), 2.0, 0.01


def run() -> Iterator[Line]:
    """Against GPyTorch's exact GP, in the faster of its ways, and scikit-learn's."""
    limit_torch()
    for n in (50, 200, 1000, 2000):
        candidates = _candidates(n)
        times = paired(candidates, rounds=9 if n < 1000 else 5, calls=10 if n < 1000 else 1)
        ways = [name for name in candidates if name.startswith("GPyTorch")]
        best = min(ways, key=times.median)
        for peer, bar in ((best, 5.0 if n == 50 else 1.0), ("scikit-learn", 1.0)):
            what = f"condition and predict, n = {n}, m = {POINTS}"
            yield faster(what, times.seconds["ours"], times.seconds[peer], peer, bar)


def _candidates(n: int) -> dict[str, Callable[[], Any]]:
    """Return the packages; GPyTorch's ways as its users have them.

    Beyond n = 800 its default is conjugate gradients, which for variances costs seconds: users set
    `fast_pred_var`, or ask for Cholesky factors.
    """
    import gpytorch

    rng = np.random.default_rng(n)
    x, at = rng.standard_normal((n, DIMENSION)), rng.standard_normal((POINTS, DIMENSION))
    y = np.sin(x).sum(axis=1) + 0.1 * rng.standard_normal(n)

    def ours() -> Any:
        kernel = gp.kernels.SquaredExponential(LENGTHSCALE, VARIANCE)
        return gp.GaussianProcess(kernel, noise=NOISE).condition(x, y).mean_and_variance(at)

    def fast() -> Any:
        with gpytorch.settings.fast_pred_var():
            return _gpytorch(x, y, at)

    def cholesky() -> Any:
        with gpytorch.settings.max_cholesky_size(10_000):
            return _gpytorch(x, y, at)

    ways = {"GPyTorch (fast_pred_var)": fast, "GPyTorch (Cholesky)": cholesky}
    return {"ours": ours, **ways, "scikit-learn": lambda: _scikit_learn(x, y, at)}


def _gpytorch(x: Any, y: Any, at: Any) -> Any:
    import gpytorch
    import torch

    class Exact(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, *data: Any) -> None:
            super().__init__(*data)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.RBFKernel(ard_num_dims=DIMENSION)
            )

        def forward(self, z: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(z), self.covar_module(z))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(torch.from_numpy(x), torch.from_numpy(y), likelihood).double()
    model.covar_module.base_kernel.lengthscale = torch.from_numpy(LENGTHSCALE)
    model.covar_module.outputscale = VARIANCE
    likelihood.noise = NOISE
    model.eval()
    with torch.no_grad():
        found = model(torch.from_numpy(at))
        return found.mean, found.variance


def _scikit_learn(x: Any, y: Any, at: Any) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    kernel = ConstantKernel(VARIANCE) * RBF(LENGTHSCALE)
    model = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(x, y)
    return model.predict(at, return_std=True)
