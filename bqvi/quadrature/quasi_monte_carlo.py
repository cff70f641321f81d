"""Scrambled Sobol points mapped to a measure, with a standard deviation from replicates.

Owen's scrambling makes every point uniform and keeps the net, so the average of f is unbiased; the
spread of the averages over R independent scramblings measures its error (Owen 1997):

    Z = (1/R) sum_r Z_r,   sd(Z)^2 = sum_r (Z_r - Z)^2 / (R (R - 1)).

This estimate has R - 1 degrees of freedom: with few replicates the variance is multiplied by
that of Student's t, (R - 1)/(R - 3), so that two standard deviations are about a 95 % interval.
"""

from __future__ import annotations

import numpy as np

from bqvi.quadrature.monte_carlo import SampleMean
from gp.low_discrepancy import scrambled_sobol, sobol
from gp.measures import Measure

__all__ = ["LEAST_REPLICATES", "over_replicates", "replicated", "shifted_sobol"]


LEAST_REPLICATES = 4
"""The smallest number of replicates, as fewer do not estimate their spread."""


def shifted_sobol(dimension: int, n: int, seed: int) -> np.ndarray:
    """Return the first n points of the Sobol sequence, shifted at random modulo 1, (n, D).

    They fill the cube as evenly as scrambled ones, in a tenth of the time, but give no estimate of an error.
    """
    shift = np.random.default_rng(seed).random(dimension)
    return (sobol(dimension, n) + shift) % 1.0


def replicated(measure: Measure, budget: int, replicates: int, seed: int) -> list[np.ndarray]:
    """Return R arrays of nodes of the measure, as even in size as ``budget`` allows."""
    sizes = [len(part) for part in np.array_split(np.arange(budget), replicates)]
    rng = np.random.default_rng(seed)
    return [measure.from_unit_cube(scrambled_sobol(measure.dimension, size, rng)) for size in sizes]


def over_replicates(averages: np.ndarray) -> SampleMean:
    """Return the mean of R replicates' averages (R, o), and its covariance."""
    count = len(averages)
    mean = averages.mean(axis=0)
    centred = averages - mean
    degrees = count - 1
    return SampleMean(mean, centred.T @ centred / (count * (degrees - 2)))
