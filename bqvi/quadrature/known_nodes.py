"""Nodes of Bayesian quadrature that were evaluated before the run.

They are not part of the Sobol sequence by which a surrogate is judged, so the initial design is evaluated in
addition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bqvi.calls.selection import selected
from bqvi.quadrature.bayesian import initial_state, with_evaluations
from bqvi.quadrature.state import IntegrationProblem, IntegrationState
from gp.measures import Empirical

__all__ = ["with_known"]


def with_known(problem: IntegrationProblem, arrays: tuple[Any, ...]) -> IntegrationState:
    """The state before the first evaluation, with nodes and values that are known.

    Parameters
    ----------
    arrays : x (n, D), values as f returns them, then gradients and noise sds, where the run has them.

    Raises
    ------
    ValueError, TypeError
        The arrays have other shapes, points lie where the measure has no density, or the budget does not
        suffice for the initial design as well.
    """
    x = np.atleast_2d(arrays[0])
    if x.ndim != 2 or x.shape[1] != problem.measure.dimension:
        raise ValueError(f"evaluations' x has shape {x.shape}; it must be (n, {problem.measure.dimension})")
    if isinstance(problem.measure, Empirical):
        raise ValueError("evaluations is given with a finite measure, whose points are all that can be nodes")
    density = np.asarray(problem.measure.log_density(x), float)
    if not np.isfinite(density).all():
        i = int(np.argmin(np.isfinite(density)))
        raise ValueError(
            f"evaluations' x[{i}] is {x[i].tolist()}, where the measure has no density; leave it out"
        )
    made = problem.integrand.received(x, *arrays[1:])
    logarithmic = problem.integrand.function.logarithmic
    if logarithmic:
        density = density + made.values.reshape(len(x), -1)[:, 0]
    noisy = problem.noise_sd is not None
    made = selected(made, problem.budget, noisy, density, reserved=problem.initial)
    first = initial_state(problem)
    known = replace(
        first,
        pending=np.concatenate([made.points, first.pending]),
        pending_u=np.concatenate([problem.standard.map.to_standard(made.points), first.pending_u]),
        pending_sobol=np.append(np.zeros(len(made), bool), first.pending_sobol),
    )
    return with_evaluations(problem, known, made)
