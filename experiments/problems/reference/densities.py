"""Full log densities of the usual families, with all their constants."""

from __future__ import annotations

import math

import torch

Tensor = torch.Tensor
Number = float | torch.Tensor

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def _log(x: Number) -> Number:
    return torch.log(x) if isinstance(x, torch.Tensor) else math.log(x)


def normal(x: Tensor, mean: Number, sd: Number) -> Tensor:
    """ln N(x | mean, sd^2)."""
    return -0.5 * ((x - mean) / sd) ** 2 - _log(sd) - _HALF_LOG_2PI


def log_normal(x: Tensor, mean: Number, sd: Number) -> Tensor:
    """ln of the density of x > 0 whose logarithm is N(mean, sd^2)."""
    log_x = torch.log(x)
    return normal(log_x, mean, sd) - log_x


def cauchy(x: Tensor, scale: float) -> Tensor:
    """ln Cauchy(x | 0, scale)."""
    return -torch.log1p((x / scale) ** 2) - math.log(math.pi * scale)


def gamma(x: Tensor, shape: float, rate: float) -> Tensor:
    """ln Gamma(x | shape, rate)."""
    constant = shape * math.log(rate) - math.lgamma(shape)
    return (shape - 1.0) * torch.log(x) - rate * x + constant


def log_logistic_jacobian(u: Tensor) -> Tensor:
    """ln d sigmoid(u) / du."""
    return torch.nn.functional.logsigmoid(u) + torch.nn.functional.logsigmoid(-u)
