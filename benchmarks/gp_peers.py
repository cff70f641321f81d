"""One Gaussian process model in four packages: ARD squared exponential, constant mean, common noise.

`Fitted` holds a fit's hyperparameters in the units of the data, whatever the package scales inside,
so that one function (`log_evidence`) judges all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import gp

SMALLEST_NOISE = 1e-8
"""Bound on the noise variance, in units of the targets' variance, of the peers that fit without priors.

`gp.fit` and BoTorch's default keep their own bounds.
"""


@dataclass(frozen=True, eq=False)
class Fitted:
    """lengthscale (D,), variance, noise (a variance), constant; all in units of the data."""

    lengthscale: Any
    variance: float
    noise: float
    constant: float


def log_evidence(x: Any, y: Any, found: Fitted) -> float:
    """Return log N(y; constant, K + noise I) for x (n, D), y (n,), by NumPy alone."""
    root = np.linalg.cholesky(_covariance(x, found))
    white = np.linalg.solve(root, y - found.constant)
    return float(-0.5 * white @ white - np.sum(np.log(np.diag(root))) - 0.5 * len(y) * np.log(2 * np.pi))


def _covariance(x: Any, found: Fitted) -> Any:
    scaled = x / found.lengthscale
    squares = np.sum((scaled[:, None, :] - scaled[None, :, :]) ** 2, axis=-1)
    return found.variance * np.exp(-0.5 * squares) + found.noise * np.eye(len(x))


def _best_constant(x: Any, y: Any, found: Fitted) -> float:
    """Return the generalised least squares estimate of the constant."""
    solved = np.linalg.solve(_covariance(x, found), np.stack([np.ones(len(y)), y], axis=1))
    total = solved.sum(axis=0)
    return float(total[1] / total[0])


def ours(x: Any, y: Any) -> Fitted:
    """`gp.fit` with its defaults."""
    posterior = gp.fit(x, y)
    kernel, mean = posterior.kernel, posterior.mean_function
    assert isinstance(kernel, gp.kernels.SquaredExponential)
    assert isinstance(mean, gp.means.Constant)
    return Fitted(kernel.lengthscale, float(kernel.variance), float(posterior.noise), float(mean.value))


def scikit_learn(x: Any, y: Any, restarts: int = 0) -> Fitted:
    """`GaussianProcessRegressor` on standardised data, in wide bounds.

    It has no constant to fit: it is given the best one for the hyperparameters that it found.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    centre, unit, offset, scale = _standard(x, y)
    kernel = ConstantKernel(1.0, (1e-5, 1e6)) * RBF(np.ones(x.shape[1]), (1e-3, 1e5)) + WhiteKernel(
        0.1, (SMALLEST_NOISE, 1e2)
    )
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=restarts, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit((x - centre) / unit, (y - offset) / scale)
    found = model.kernel_
    without = Fitted(
        found.k1.k2.length_scale * unit,
        found.k1.k1.constant_value * scale**2,
        found.k2.noise_level * scale**2,
        0.0,
    )
    return replace(without, constant=_best_constant(x, y, without))


def scikit_learn_restarted(x: Any, y: Any) -> Fitted:
    """The same with three random restarts."""
    return scikit_learn(x, y, restarts=3)


def botorch(x: Any, y: Any) -> Fitted:
    """`SingleTaskGP` with its default priors on normalised data: its default model has variance 1."""
    from botorch.models import SingleTaskGP

    return _fit_botorch(x, y, np.ptp(x, axis=0), lambda tx, ty: SingleTaskGP(tx, ty, outcome_transform=None))


def botorch_likelihood(x: Any, y: Any) -> Fitted:
    """`SingleTaskGP` with a scaled ARD kernel without priors: maximum likelihood."""
    from botorch.models import SingleTaskGP
    from gpytorch.constraints import GreaterThan
    from gpytorch.kernels import RBFKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood

    def model(tx: Any, ty: Any) -> Any:
        return SingleTaskGP(
            tx, ty, outcome_transform=None,
            covar_module=ScaleKernel(RBFKernel(ard_num_dims=tx.shape[1])),
            likelihood=GaussianLikelihood(noise_constraint=GreaterThan(SMALLEST_NOISE)),
        )  # fmt: skip

    return _fit_botorch(x, y, np.std(x, axis=0), model)


def _fit_botorch(x: Any, y: Any, unit: Any, make: Callable[[Any, Any], Any]) -> Fitted:
    import torch
    from botorch.fit import fit_gpytorch_mll
    from gpytorch.mlls import ExactMarginalLogLikelihood

    _, _, offset, scale = _standard(x, y)
    unit = np.where(unit > 0, unit, 1.0)
    tx = torch.from_numpy((x - x.min(axis=0)) / unit)
    ty = torch.from_numpy((y - offset) / scale)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make(tx, ty)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    kernel = model.covar_module
    base = getattr(kernel, "base_kernel", kernel)
    variance = float(kernel.outputscale) if hasattr(kernel, "outputscale") else 1.0
    return Fitted(
        base.lengthscale.detach().numpy()[0] * unit,
        variance * scale**2,
        float(model.likelihood.noise) * scale**2,
        float(model.mean_module.constant) * scale + offset,
    )


def _standard(x: Any, y: Any) -> tuple[Any, Any, float, float]:
    unit = np.std(x, axis=0)
    return x.mean(axis=0), np.where(unit > 0, unit, 1.0), float(y.mean()), float(y.std())
