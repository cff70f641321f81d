"""The Gaussian example in which Rainforth et al. (2018) and Tucker et al. (2019) state signal and noise.

    p(z) = N(mu, I),   p(x | z) = N(z, I),   q(z | x) = N(A x + b, 2/3 I),

with parameters off the optimum A = I/2, b = mu/2 by normal numbers of a small standard deviation. The
posterior has variance 1/2, so that q is never the posterior. The decoder has mu here, as p(z) of an
autoencoder is N(0, I): what is called z there is z - mu here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from bqvi.models import GaussianLikelihood, VariationalAutoencoder

__all__ = ["VARIANCE", "gaussian_example"]

_DIMENSION = 20
VARIANCE = 2.0 / 3.0
_AWAY = 0.01
"""Standard deviation of the parameters' distances from the optimum, as in both papers."""


class _Encoder(nn.Module):
    """Mean A x + b and the same variance for each x."""

    def __init__(self, a: np.ndarray, b: np.ndarray) -> None:
        super().__init__()
        self.a, self.b = (nn.Parameter(torch.as_tensor(value)) for value in (a, b))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x @ self.a.T + self.b
        return torch.cat([mean, torch.full_like(mean, 0.5 * math.log(VARIANCE))], 1)


class _Decoder(nn.Module):
    """Mean z + mu."""

    def __init__(self, mu: np.ndarray) -> None:
        super().__init__()
        self.mu = nn.Parameter(torch.as_tensor(mu))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z + self.mu


def gaussian_example(n: int, seed: int) -> tuple[VariationalAutoencoder, Any, np.ndarray]:
    """The model, q near its optimum, and ``n`` data of the model, (n, 20)."""
    rng = np.random.default_rng([seed, 2])
    mu = rng.standard_normal(_DIMENSION)
    x = mu + math.sqrt(2.0) * rng.standard_normal((n, _DIMENSION))
    a = 0.5 * np.eye(_DIMENSION) + _AWAY * rng.standard_normal((_DIMENSION, _DIMENSION))
    b = -0.5 * mu + _AWAY * rng.standard_normal(_DIMENSION)
    networks = _Encoder(a, b), _Decoder(mu + _AWAY * rng.standard_normal(_DIMENSION))
    model = VariationalAutoencoder(
        *networks, latent=_DIMENSION, likelihood=GaussianLikelihood(1.0), dtype=torch.float64
    )
    return model, model.initial(x, "k-means++", rng), x
