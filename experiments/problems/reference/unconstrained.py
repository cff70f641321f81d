"""Draws of a model's parameters, mapped to its unconstrained coordinates."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import least_squares

from experiments.problems.reference.folder import Reference

__all__ = ["unconstrained"]

_FOUND = 1e-5
"""Largest residual, in standard deviations of the parameters over the draws: these may be rounded, and of a
model that states more numbers than it has coordinates (p and 1 - p) rounded ones have no common point."""


def unconstrained(reference: Reference, draws: np.ndarray) -> np.ndarray:
    """The points u (n, D) that ``constrain`` of the target maps to ``draws`` (n, P), by least squares.

    Raises
    ------
    ValueError
        For one of the draws no such point was found.
    """
    scale = reference.draws.std(axis=0)
    return np.stack([_inverted(reference, draw, scale) for draw in draws])


def _inverted(reference: Reference, draw: np.ndarray, scale: np.ndarray) -> np.ndarray:
    def residual(u: np.ndarray) -> np.ndarray:
        stated = reference.target.constrain(torch.as_tensor(u)[None])[0].numpy()
        return (stated - draw) / scale

    units = np.sqrt(np.diag(reference.covariance))
    found = least_squares(residual, reference.mean, x_scale=units, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    worst = float(np.abs(found.fun).max())
    if worst > _FOUND:
        raise ValueError(
            f"{reference.target.name}: there is no point for the draw {draw} (off by {worst:.2g})"
        )
    return found.x
