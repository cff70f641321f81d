"""Predator and prey (Lotka and Volterra): an ordinary differential equation seen with lognormal errors.

    du/dt = (alpha - beta v) u,   dv/dt = (-gamma + delta u) v,   (u, v)(0) = z

alpha, gamma ~ N(1, 0.5^2), beta, delta ~ N(0.05, 0.05^2), all positive; sigma_k ~ LogNormal(-1, 1),
z_k ~ LogNormal(ln 10, 1); the start and N later times are observed with LogNormal errors sigma_k.
The unconstrained coordinates are the logarithms of all eight. Solved in (ln u, ln v) by the classical
Runge-Kutta method with fixed steps, which autodiff goes through; its error in the log density is about 1e-6
near the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from experiments.problems.reference.densities import log_normal, normal
from experiments.problems.reference.target import Target, indexed

__all__ = ["predator_prey", "simulate"]

_Tensor = torch.Tensor

_STEPS_PER_UNIT = 40
_CENTRES = (1.0, 0.05, 1.0, 0.05)
_SCALES = (0.5, 0.05, 0.5, 0.05)


def predator_prey(data: Mapping[str, Any], steps_per_unit: int = _STEPS_PER_UNIT) -> Target:
    """The density given ``ts`` (N,), ``y_init`` (2,) and ``y`` (N, 2), prey first."""
    times = np.concatenate([[0.0], np.asarray(data["ts"], float)])
    initial = torch.as_tensor(data["y_init"], dtype=torch.float64)
    later = torch.as_tensor(data["y"], dtype=torch.float64)
    centres = torch.tensor(_CENTRES, dtype=torch.float64)
    scales = torch.tensor(_SCALES, dtype=torch.float64)

    def log_density(u: _Tensor) -> _Tensor:
        rates, start, sd = torch.exp(u[:, :4]), u[:, 4:6], torch.exp(u[:, 6:])
        path = _log_trajectory(rates, start, times, steps_per_unit)
        seen = log_normal(later[:, None, :], path, sd).sum((0, 2)) + log_normal(initial, start, sd).sum(-1)
        prior = normal(rates, centres, scales).sum(-1)
        prior = prior + log_normal(torch.exp(start), math.log(10.0), 1.0).sum(-1)
        prior = prior + log_normal(sd, -1.0, 1.0).sum(-1)
        return prior + seen + u.sum(-1)

    names = ("log theta", "log z_init", "log sigma")
    parameters = indexed(names[0], 4) + indexed(names[1], 2) + indexed(names[2], 2)
    return Target("lotka_volterra", parameters, log_density, torch.exp)


def _log_trajectory(rates: _Tensor, start: _Tensor, times: np.ndarray, steps_per_unit: int) -> _Tensor:
    """ln (u, v) at ``times``[1:]: (N, L, 2), from ``start`` (L, 2) at ``times``[0]; rates (L, 4)."""
    growth = torch.stack([rates[:, 0], -rates[:, 2]], 1)
    coupling = torch.stack([-rates[:, 1], rates[:, 3]], 1)

    def slope(state: _Tensor) -> _Tensor:
        return growth + coupling * torch.exp(state).flip(1)

    state, found = start, []
    for gap in np.diff(times):
        steps = max(1, math.ceil(gap * steps_per_unit))
        h = float(gap) / steps
        for _ in range(steps):  # the solver's steps in time
            first = slope(state)
            second = slope(state + 0.5 * h * first)
            third = slope(state + 0.5 * h * second)
            fourth = slope(state + h * third)
            state = state + h / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)
        found.append(state)
    return torch.stack(found)


def simulate(seed: int, n: int = 20) -> dict[str, Any]:
    """Data simulated from the model: n yearly observations after the start, from a seed."""
    rng = np.random.default_rng(seed)
    rates = torch.tensor([[0.55, 0.028, 0.80, 0.024]], dtype=torch.float64)
    start = torch.log(torch.tensor([[33.0, 6.0]], dtype=torch.float64))
    times = np.arange(n + 1.0)
    path = torch.exp(_log_trajectory(rates, start, times, _STEPS_PER_UNIT))[:, 0].numpy()
    errors = np.exp(0.25 * rng.standard_normal((n + 1, 2)))
    return {"ts": times[1:].tolist(), "y_init": (np.array([33.0, 6.0]) * errors[0]).tolist(),
            "y": (path * errors[1:]).tolist()}  # fmt: skip
