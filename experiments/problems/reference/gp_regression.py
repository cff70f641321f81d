"""Hyperparameters of a GP regression: y ~ N(0, alpha^2 SE_rho + sigma I), sigma a noise *variance*.

rho ~ Gamma(25, 4), alpha ~ N(0, 2^2), sigma ~ N(0, 1), all on the positive half; u = their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from experiments.problems.reference.densities import gamma, normal
from experiments.problems.reference.target import Target

__all__ = ["gp_regression"]

_Tensor = torch.Tensor


def gp_regression(data: Mapping[str, Any]) -> Target:
    """The density for N points on a line."""
    x = torch.as_tensor(data["x"], dtype=torch.float64)
    y = torch.as_tensor(data["y"], dtype=torch.float64)
    squares = (x[:, None] - x[None, :]).square()
    identity = torch.eye(len(x), dtype=torch.float64)

    def log_density(u: _Tensor) -> _Tensor:
        rho, alpha, sigma = torch.exp(u).unbind(1)
        shape = torch.exp(-0.5 * squares / rho[:, None, None] ** 2)
        covariance = alpha[:, None, None] ** 2 * shape + sigma[:, None, None] * identity
        factor = torch.linalg.cholesky(covariance)
        columns = y.expand(len(u), -1)[..., None]
        whitened = torch.linalg.solve_triangular(factor, columns, upper=False)
        half_log_determinant = factor.diagonal(0, -2, -1).log().sum(-1)
        constant = 0.5 * len(x) * math.log(2.0 * math.pi)
        likelihood = -0.5 * whitened.square().sum((-2, -1)) - half_log_determinant - constant
        prior = gamma(rho, 25.0, 4.0) + normal(alpha, 0.0, 2.0) + normal(sigma, 0.0, 1.0)
        return prior + likelihood + u.sum(-1)

    return Target("gp_regr", ("log rho", "log alpha", "log sigma"), log_density, torch.exp)
