"""Points of a standard normal distribution, values of torch functions, and means of weights, as arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.special import ndtri

from gp.low_discrepancy import scrambled_sobol

__all__ = ["log_mean_weight", "normal_points", "values_of"]

_BLOCK = 8192
"""Points evaluated at once."""


def normal_points(dimension: int, n: int, seed: list[int]) -> np.ndarray:
    """Scrambled Sobol points (n, ``dimension``) at quantiles of N(0, 1)."""
    points = scrambled_sobol(dimension, n, np.random.default_rng(seed))
    return np.asarray(ndtri(np.clip(points, 1e-12, 1.0 - 1e-12)))


def values_of(f: Callable[[torch.Tensor], torch.Tensor], points: np.ndarray) -> np.ndarray:
    """Values (n,) of a torch function at ``points`` (n, D)."""
    parts = [f(torch.as_tensor(points[i : i + _BLOCK])) for i in range(0, len(points), _BLOCK)]
    return np.concatenate([np.asarray(part.numpy(), float) for part in parts])


def log_mean_weight(log_weights: np.ndarray) -> tuple[float, float]:
    """The logarithm of the mean of weights, given their logarithms (n,), and its standard error."""
    largest = log_weights.max()
    weights = np.exp(log_weights - largest)
    error = weights.std() / weights.mean() / np.sqrt(len(weights))
    return float(largest + np.log(weights.mean())), float(error)
