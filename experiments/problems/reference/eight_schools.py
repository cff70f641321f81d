"""Eight schools: theta_j = mu + tau z_j, y_j ~ N(theta_j, sigma_j^2) (Rubin 1981).

z_j ~ N(0, 1), mu ~ N(0, 5^2), tau ~ Cauchy(0, 5) on tau > 0; non-centred, u = (z, mu, ln tau).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from experiments.problems.reference.densities import cauchy, normal
from experiments.problems.reference.target import Target, indexed

__all__ = ["eight_schools"]

_Tensor = torch.Tensor


def eight_schools(data: Mapping[str, Any]) -> Target:
    """The non-centred form."""
    effects = torch.as_tensor(data["y"], dtype=torch.float64)
    errors = torch.as_tensor(data["sigma"], dtype=torch.float64)

    def schools(u: _Tensor) -> _Tensor:
        return u[:, -2, None] + torch.exp(u[:, -1, None]) * u[:, :-2]

    def log_density(u: _Tensor) -> _Tensor:
        log_tau = u[:, -1]
        prior = normal(u[:, :-2], 0.0, 1.0).sum(-1) + normal(u[:, -2], 0.0, 5.0)
        scale = cauchy(torch.exp(log_tau), 5.0) + log_tau
        return prior + scale + normal(effects, schools(u), errors).sum(-1)

    def constrain(u: _Tensor) -> _Tensor:
        return torch.cat([schools(u), u[:, -2:-1], torch.exp(u[:, -1:])], 1)

    names = (*indexed("z", len(effects)), "mu", "log tau")
    return Target("eight_schools_noncentered", names, log_density, constrain)
