"""Sobol's sequence in the unit cube, scrambled or not, from which designs and candidates start.

Owen's scrambling makes each point uniform and keeps the net: averages over the first 2^k points are unbiased
with an error near 1/n for smooth integrands (Owen 1995, 1997).

SciPy's generators live in ``scipy.stats``, a third of the time that importing this package would take: it is
imported when the first points are asked for.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtri

__all__ = ["normal_sobol", "scrambled_sobol", "sobol"]


def scrambled_sobol(dimension: int, n: int, seed: int | np.random.Generator) -> np.ndarray:
    """Return the first n points of a scrambled Sobol sequence in the unit cube, (n, D).

    Parameters
    ----------
    dimension : D.
    n : how many; they are the beginning of the next power of two, as SciPy warns of any other number.
    seed : of the scrambling, or a generator.
    """
    from scipy.stats import qmc

    sequence = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed))
    return np.asarray(sequence.random_base2(_exponent(n))[:n])


def normal_sobol(dimension: int, n: int, seed: int | np.random.Generator) -> np.ndarray:
    """Return `scrambled_sobol` points as standard normal quantiles, (n, D); arguments are the same."""
    # a scrambled point may round to 0 or 1, whose quantile is infinite
    return np.asarray(ndtri(np.clip(scrambled_sobol(dimension, n, seed), 1e-16, 1.0 - 1e-16)))


@lru_cache(maxsize=64)
def sobol(dimension: int, n: int) -> np.ndarray:
    """Return the first n points of the Sobol sequence itself in the unit cube, (n, D), not to be written to.

    Shift them at random modulo 1 before use: the first is the origin.

    Parameters
    ----------
    dimension : D.
    n : how many.
    """
    from scipy.stats import qmc

    points: np.ndarray = qmc.Sobol(dimension, scramble=False).random_base2(_exponent(n))[:n]
    points.flags.writeable = False
    return points


def _exponent(n: int) -> int:
    return max(n - 1, 0).bit_length()
