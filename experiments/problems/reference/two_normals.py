"""Mixture of two normals with ordered means, labels summed out.

mu_k ~ N(0, 2^2) on mu_1 < mu_2, sigma_k ~ N(0, 2^2) on the positive half, theta ~ Beta(5, 5);
u = (mu_1, ln(mu_2 - mu_1), ln sigma, logit theta).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from experiments.problems.reference.densities import log_logistic_jacobian, normal
from experiments.problems.reference.target import Target

__all__ = ["two_normals"]

_Tensor = torch.Tensor


def two_normals(data: Mapping[str, Any]) -> Target:
    """The density of N values."""
    values = torch.as_tensor(data["y"], dtype=torch.float64)
    beta_constant = math.lgamma(10.0) - 2.0 * math.lgamma(5.0)

    def constrain(u: _Tensor) -> _Tensor:
        second = u[:, 0] + torch.exp(u[:, 1])
        scales = torch.exp(u[:, 2:4])
        return torch.stack([u[:, 0], second, scales[:, 0], scales[:, 1], torch.sigmoid(u[:, 4])], 1)

    def log_density(u: _Tensor) -> _Tensor:
        parameters = constrain(u)
        means, scales = parameters[:, :2], parameters[:, 2:4]
        log_sigmoid = torch.nn.functional.logsigmoid
        log_weights = torch.stack([log_sigmoid(u[:, 4]), log_sigmoid(-u[:, 4])], 1)
        each = normal(values[:, None, None], means, scales)  # (N, L, 2)
        likelihood = torch.logsumexp(each + log_weights, 2).sum(0)
        prior = (normal(means, 0.0, 2.0) + normal(scales, 0.0, 2.0)).sum(-1)
        weight = 4.0 * log_weights.sum(-1) + beta_constant
        jacobian = u[:, 1:4].sum(-1) + log_logistic_jacobian(u[:, 4])
        return likelihood + prior + weight + jacobian

    names = ("mu[1]", "log(mu[2]-mu[1])", "log sigma[1]", "log sigma[2]", "logit theta")
    return Target("low_dim_gauss_mix", names, log_density, constrain)
