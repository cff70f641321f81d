"""Linear regressions: four of the reference posteriors are y ~ N(X beta, sigma^2 I) with other priors.

u = (beta, ln sigma), log Jacobian ln sigma.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from experiments.problems.reference.densities import cauchy, normal
from experiments.problems.reference.target import Target, indexed

__all__ = ["autoregression", "children_scores", "independent_coefficients", "mesquite"]

_Tensor = torch.Tensor


def children_scores(data: Mapping[str, Any]) -> Target:
    """Children's test scores on their mothers' schooling, IQ and the product; flat beta.

    sigma ~ Cauchy(0, 2.5) on sigma > 0. Raw scales, so beta is strongly correlated.
    """
    school, iq = _column(data["mom_hs"]), _column(data["mom_iq"])
    design = torch.stack([torch.ones_like(school), school, iq, school * iq], 1)
    return _regression(
        "kidscore_interaction",
        indexed("beta", 4),
        design,
        _column(data["kid_score"]),
        lambda beta, sigma: cauchy(sigma, 2.5),
    )


def mesquite(data: Mapping[str, Any]) -> Target:
    """Log leaf weight of mesquite bushes on logs of volume, area, shape, height, density; flat priors."""
    first, second = _column(data["diam1"]), _column(data["diam2"])
    columns = (
        torch.ones_like(first),
        torch.log(first * second * _column(data["canopy_height"])),
        torch.log(first * second),
        torch.log(first / second),
        torch.log(_column(data["total_height"])),
        torch.log(_column(data["density"])),
        _column(data["group"]),
    )
    return _regression(
        "logmesquite_logvas",
        indexed("beta", 7),
        torch.stack(columns, 1),
        torch.log(_column(data["weight"])),
        lambda beta, sigma: torch.zeros_like(sigma),
    )


def independent_coefficients(data: Mapping[str, Any]) -> Target:
    """beta_j ~ N(0, 10^2), sigma ~ N(0, 10^2) on sigma > 0, no intercept."""
    return _regression(
        "sblri_blr",
        indexed("beta", 5),
        torch.as_tensor(data["X"], dtype=torch.float64),
        _column(data["y"]),
        lambda beta, sigma: normal(beta, 0.0, 10.0).sum(-1) + normal(sigma, 0.0, 10.0),
    )


def autoregression(data: Mapping[str, Any]) -> Target:
    """y_t on its five predecessors; alpha, beta_k ~ N(0, 10^2), sigma ~ Cauchy(0, 2.5) on sigma > 0.

    The first five values are conditioned on.
    """
    series, order = _column(data["y"]), int(data["K"])
    lagged = [series[order - k : len(series) - k] for k in range(1, order + 1)]
    design = torch.stack([torch.ones(len(series) - order, dtype=torch.float64), *lagged], 1)
    return _regression(
        "arK",
        ("alpha", *indexed("beta", order)),
        design,
        series[order:],
        lambda beta, sigma: normal(beta, 0.0, 10.0).sum(-1) + cauchy(sigma, 2.5),
    )


def _column(values: Any) -> _Tensor:
    return torch.as_tensor(values, dtype=torch.float64)


def _regression(
    name: str,
    coefficients: tuple[str, ...],
    design: _Tensor,
    response: _Tensor,
    log_prior: Callable[[_Tensor, _Tensor], _Tensor],
) -> Target:
    def log_density(u: _Tensor) -> _Tensor:
        beta, log_sigma = u[:, :-1], u[:, -1]
        sigma = torch.exp(log_sigma)
        likelihood = normal(response, beta @ design.T, sigma[:, None]).sum(-1)
        return log_prior(beta, sigma) + likelihood + log_sigma

    def constrain(u: _Tensor) -> _Tensor:
        return torch.cat([u[:, :-1], torch.exp(u[:, -1:])], 1)

    return Target(name, (*coefficients, "log sigma"), log_density, constrain)
