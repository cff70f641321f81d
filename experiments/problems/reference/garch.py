"""GARCH(1, 1): y_t ~ N(mu, h_t), h_t = alpha_0 + alpha_1 (y_{t-1} - mu)^2 + beta_1 h_{t-1}.

Flat on mu, alpha_0 > 0 and the triangle alpha_1, beta_1 > 0, alpha_1 + beta_1 < 1; h_1 is given.
u = (mu, ln alpha_0, logit alpha_1, logit(beta_1 / (1 - alpha_1))).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from experiments.problems.reference.densities import log_logistic_jacobian, normal
from experiments.problems.reference.target import Target

__all__ = ["garch"]

_Tensor = torch.Tensor


def garch(data: Mapping[str, Any]) -> Target:
    """The density of a series of T values."""
    series = torch.as_tensor(data["y"], dtype=torch.float64)
    first = float(data["sigma1"]) ** 2

    def constrain(u: _Tensor) -> _Tensor:
        alpha_1 = torch.sigmoid(u[:, 2])
        beta_1 = torch.sigmoid(u[:, 3]) * torch.sigmoid(-u[:, 2])
        return torch.stack([u[:, 0], torch.exp(u[:, 1]), alpha_1, beta_1], 1)

    def log_density(u: _Tensor) -> _Tensor:
        mu, alpha_0, alpha_1, beta_1 = constrain(u).unbind(1)
        gaps = series - mu[:, None]
        squares = gaps.square()
        variance = torch.full_like(mu, first)
        variances = [variance]
        for t in range(len(series) - 1):  # a recursion over time, as long as the series
            variance = alpha_0 + alpha_1 * squares[:, t] + beta_1 * variance
            variances.append(variance)
        likelihood = normal(gaps, 0.0, torch.stack(variances, 1).sqrt()).sum(-1)
        remainder = torch.nn.functional.logsigmoid(-u[:, 2])
        jacobian = u[:, 1] + log_logistic_jacobian(u[:, 2]) + log_logistic_jacobian(u[:, 3])
        return likelihood + jacobian + remainder

    names = ("mu", "log alpha0", "logit alpha1", "logit(beta1/(1-alpha1))")
    return Target("garch11", names, log_density, constrain)
