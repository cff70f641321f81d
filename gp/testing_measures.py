"""Contract tests that anyone's new measure or kernel embedding can call.

A measure that passes :func:`check_measure` can be used everywhere in the package: what it samples,
what it carries from the unit cube, its moments, its density, its marginals and its standard
coordinates all describe one and the same probability measure. An embedding that passes
:func:`check_embedding` is the integral it says it is, with the derivatives it says it has.

The oracles share nothing with the formulas under test: averages over points that the measure itself
carries from a scrambled Sobol set (with the spread between independent scramblings as their error)
and finite differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gamma, pi
from typing import Any

import numpy as np
from scipy.stats import qmc

from gp.arrays import to_numpy
from gp.embeddings import Parameters, embed
from gp.kernels import Kernel
from gp.measures import Measure

SIGMAS = 5.5
"""Allowed deviation in standard errors: a false alarm in 1e-7 of independent normal comparisons,
about 1e-4 of a call with the heavier tails of sixteen replications; at a fixed seed, never."""

REPLICATIONS = 16
Statistic = Callable[[Any], Any]


def check_measure(measure: Measure, *, has_density: bool = True, seed: int = 0) -> None:
    """Raise AssertionError, saying what is wrong, unless ``measure`` keeps the measure contract.

    Parameters
    ----------
    measure : the measure, with NumPy parameters.
    has_density : whether :meth:`log_density` is checked; else it has to raise TypeError.
    seed : of the points it is tried with.
    """
    _check_shapes(measure)
    _check_moments(measure, seed)
    _check_sample(measure, seed)
    if has_density:
        _check_density(measure, seed)
    else:
        _check_no_density(measure)
    _check_marginals(measure)
    _check_standard(measure, seed)
