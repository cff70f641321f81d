"""Full log densities of the usual families, with all their constants."""

from __future__ import annotations

import math

import torch

__all__ = ["cauchy", "gamma", "log_logistic_jacobian", "log_normal", "normal"]

_Tensor = torch.Tensor
_Number = float | torch.Tensor

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _log(x: _Number) -> _Number:
    return torch.log(x) if isinstance(x, torch.Tensor) else math.log(x)


def normal(x: _Tensor, mean: _Number, sd: _Number) -> _Tensor:
    """ln N(x | mean, sd^2)."""
    return -0.5 * ((x - mean) / sd) ** 2 - _log(sd) - _HALF_LOG_2PI


def log_normal(x: _Tensor, mean: _Number, sd: _Number) -> _Tensor:
    """ln of the density of x > 0 whose logarithm is N(mean, sd^2)."""
    log_x = torch.log(x)
    return normal(log_x, mean, sd) - log_x


def cauchy(x: _Tensor, scale: float) -> _Tensor:
    """ln Cauchy(x | 0, scale)."""
    return -torch.log1p((x / scale) ** 2) - math.log(math.pi * scale)


def gamma(x: _Tensor, shape: float, rate: float) -> _Tensor:
    """ln Gamma(x | shape, rate)."""
    constant = shape * math.log(rate) - math.lgamma(shape)
    return (shape - 1.0) * torch.log(x) - rate * x + constant


def log_logistic_jacobian(u: _Tensor) -> _Tensor:
    """ln d sigmoid(u) / du."""
    return torch.nn.functional.logsigmoid(u) + torch.nn.functional.logsigmoid(-u)
