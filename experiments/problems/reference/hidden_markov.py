"""Two-state hidden Markov model with unit normal emissions, states summed out by the forward recursion.

Rows (p, 1 - p) and (q, 1 - q) of the transition matrix, flat in p and q; mu_1 ~ N(3, 1), mu_2 ~ N(10, 1) on
0 < mu_1 < mu_2; every start has weight one. u = (logit p, logit q, ln mu_1, ln(mu_2 - mu_1)).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from experiments.problems.reference.densities import log_logistic_jacobian, normal
from experiments.problems.reference.target import Target

__all__ = ["hidden_markov"]

_Tensor = torch.Tensor


def hidden_markov(data: Mapping[str, Any]) -> Target:
    """The density of a series of N values."""
    series = torch.as_tensor(data["y"], dtype=torch.float64)

    def means(u: _Tensor) -> _Tensor:
        first = torch.exp(u[:, 2])
        return torch.stack([first, first + torch.exp(u[:, 3])], 1)

    def log_density(u: _Tensor) -> _Tensor:
        log_sigmoid = torch.nn.functional.logsigmoid
        stay, leave = log_sigmoid(u[:, :2]), log_sigmoid(-u[:, :2])
        transition = torch.stack([stay, leave], 2)  # (L, from, to)
        emission = normal(series[:, None, None], means(u), 1.0)  # (N, L, state)
        forward = emission[0]
        for step in emission[1:]:  # the forward recursion, as long as the series
            forward = torch.logsumexp(forward[:, :, None] + transition, 1) + step
        centres = torch.tensor([3.0, 10.0], dtype=torch.float64)
        prior = normal(means(u), centres, 1.0).sum(-1)
        jacobian = log_logistic_jacobian(u[:, :2]).sum(-1) + u[:, 2:].sum(-1)
        return torch.logsumexp(forward, 1) + prior + jacobian

    def constrain(u: _Tensor) -> _Tensor:
        p = torch.sigmoid(u[:, :2])
        rows = torch.stack([p[:, 0], 1.0 - p[:, 0], p[:, 1], 1.0 - p[:, 1]], 1)
        return torch.cat([rows, means(u)], 1)

    names = ("logit theta1[1]", "logit theta2[1]", "log mu[1]", "log(mu[2]-mu[1])")
    return Target("hmm_example", names, log_density, constrain)
