"""The search for the maximum of a smooth function of few variables, from several starting points.

It finds log hyperparameters psi, with a log evidence plus a log prior as the objective
(`gp.evidence.LogPosterior`). An objective returns its value, its gradient and, if it has one, a positive
semi-definite curvature:

    with a curvature     Newton steps of limited length, halved until the value rises: about three evaluations
                         from the optimum of an earlier fit. An entry at a bound beyond which the value rises
                         stays there
    without              L-BFGS-B (SciPy), projected onto the bounds

Climbs start from the best few of the starting points (`search`), or from the best point after rounds of short
climbs from all of them (`successive_halving`). An objective may raise ``LinAlgError`` where a covariance
matrix has no factor; such a point counts as lower than any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isnan, log
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize

from gp.matrices import lapack

_FIRST_ITERATIONS, _SHARE = 15, 3
"""Iterations of a climb in the first round of `successive_halving`, twice as many in the next, and so on; one
climb in so many is continued."""
FAILED = 1e25
"""Value of points without a finite objective, as the line search of L-BFGS-B needs a finite number."""
_LEAST_CURVATURE = 1e-3
"""The least decrease of the gradient along a step, over that by the curvature, for a correction."""
_STOPPED_BY_ROUNDING = 2
"""Status of SciPy's L-BFGS-B when its line search finds no lower value."""


@dataclass(frozen=True, eq=False)
class Expansion:
    """An objective at one point: its value, gradient (P,), and curvature (P, P) or ``None``.

    The curvature approximates minus the Hessian and is positive semi-definite. Gradient and curvature are
    computed by ``find_gradient`` and ``find_curvature`` when they are first read, and so not at points that a
    search rejects.
    """

    value: float
    find_gradient: Callable[[], np.ndarray]
    find_curvature: Callable[[], np.ndarray] | None = None

    @cached_property
    def gradient(self) -> np.ndarray:
        """The gradient, (P,)."""
        return self.find_gradient()

    @cached_property
    def curvature(self) -> np.ndarray:
        """The curvature, (P, P), where there is one."""
        assert self.find_curvature is not None  # callers check `find_curvature` first
        return self.find_curvature()


class Objective(Protocol):
    """A function of psi (P,) that is maximised. ``LinAlgError`` where it has no value."""

    def expanded(self, psi: np.ndarray) -> Expansion:
        """The value with its gradient and, if there is one, its curvature."""


@dataclass(frozen=True)
class Search:
    """Settings of a search.

    Attributes
    ----------
    climbs : the number of starting points, those of the highest values, from which climbs are made.
    iterations : the most iterations of a climb.
    value_tolerance : relative change of the value, and gradient_tolerance : the largest entry of the
        projected gradient, at which L-BFGS-B stops.
    tempered : nats below its first value from which on an objective is replaced by a logarithmic decrease. A
        first step may go as far as the bounds, where the value is 1e9 lower, and the cubic that L-BFGS-B fits
        to both ends of a step then has its maximum near the start.
    settled : a Newton step whose expected gain in nats is no more than this is not made.
    gained : a Newton step that gained less, in nats, is the last.
    longest : the largest change of an entry of psi in a Newton step. halvings : the most halvings of a Newton
        step.
    damping : added to the diagonal of the curvature, in nats. It shortens a Newton step along entries of psi
        on which the value hardly depends, so that these do not reduce the step in the other entries.
    renewed : whether the curvature is computed at the start of each Newton step. Otherwise the curvature of
        the first point is corrected by the change of the gradient along each step (BFGS), which is better
        where the curvature is far from exact or costs much.
    """

    climbs: int = 1
    iterations: int = 100
    value_tolerance: float = 1e-8
    gradient_tolerance: float = 1e-4
    tempered: float = inf
    settled: float = 1e-6
    gained: float = 1e-6
    longest: float = 1.0
    halvings: int = 5
    damping: float = 0.0
    renewed: bool = True


@dataclass(frozen=True, eq=False)
class Optimum:
    """The end of a search: psi (P,), the objective there, and how the search stopped."""

    psi: np.ndarray
    value: float
    converged: bool
    message: str
    n_evaluations: int


def search(
    objective: Objective,
    starts: Sequence[np.ndarray],
    bounds: tuple[np.ndarray, np.ndarray],
    settings: Search = Search(),
) -> Optimum:
    """Return the highest of the optima that climbs from the best starting points reach.

    Parameters
    ----------
    objective : what is maximised
    starts : points (P,) each, moved into the bounds
    bounds : lower and upper ends of psi, (P,) each
    settings : how many climbs, and when they stop
    """
    firsts = list[tuple[Any, Expansion]]()
    for start in (np.clip(each, *bounds) for each in starts):
        first = _expanded(objective, start)
        if first is not None:
            firsts = sorted([*firsts, (start, first)], key=lambda each: -each[1].value)[: settings.climbs]
    if not firsts:
        return Optimum(start, -inf, False, "the objective has no value at any start", len(starts))
    found = []
    for start, first in firsts:
        climb = _quasi_newton if first.find_curvature is None else _newton
        nothing = Optimum(start, first.value, True, "nothing to fit", 1)
        found.append(climb(objective, start, first, bounds, settings) if len(start) else nothing)
    best = max(found, key=lambda end: end.value)
    spent = len(starts) + sum(end.n_evaluations - 1 for end in found)
    return Optimum(best.psi, best.value, best.converged, best.message, spent)


def successive_halving(
    objective: Objective,
    starts: Sequence[np.ndarray],
    bounds: tuple[np.ndarray, np.ndarray],
    settings: Search,
) -> tuple[np.ndarray, int]:
    """Return the best place (P,) after rounds of short climbs, and the evaluations that they took.

    Parameters
    ----------
    objective, starts, bounds, settings : as of `search`; the objective may be a cheaper one.
    """
    remaining, iterations, spent = list(starts), _FIRST_ITERATIONS, 0
    while len(remaining) > 1:
        short = replace(settings, iterations=min(iterations, settings.iterations))
        ends = [search(objective, [start], bounds, short) for start in remaining]
        spent += sum(end.n_evaluations for end in ends)
        ends.sort(key=lambda end: end.value, reverse=True)
        remaining = [end.psi for end in ends[: max(1, len(ends) // _SHARE)]]
        iterations *= 2
    return remaining[0], spent


def _newton(
    objective: Objective,
    psi: np.ndarray,
    at: Expansion,
    bounds: tuple[np.ndarray, np.ndarray],
    settings: Search,
) -> Optimum:
    spent, message = 1, "the iterations are spent"
    damping, curvature = max(settings.damping, 1e-100) * np.eye(len(psi)), None  # also where nothing bends
    for _ in range(settings.iterations):
        if not np.isfinite(at.value):
            message = "the objective is not finite"
            break
        if curvature is None or settings.renewed:
            curvature = at.curvature + damping
        step = _newton_step(psi, at.gradient, curvature, bounds)
        if 0.5 * float(step @ at.gradient) < settings.settled:
            message = "a step would gain too little"
            break
        step *= min(1.0, settings.longest / float(np.abs(step).max()))
        for _ in range(settings.halvings):
            spent, there = spent + 1, np.clip(psi + step, *bounds)
            found = _expanded(objective, there)
            if found is not None and not settings.renewed:
                curvature = _corrected(curvature, there - psi, at.gradient - found.gradient)
            if found is not None and found.value > at.value:
                break
            step = 0.5 * step
        else:
            message = "no shorter step gains"
            break
        gained, psi, at = found.value - at.value, there, found
        if gained < settings.gained:
            message = "a step gained too little"
            break
    return Optimum(psi, at.value, message.startswith("a step"), message, spent)


def _expanded(objective: Objective, psi: np.ndarray) -> Expansion | None:
    """The objective there, or None where it has no value."""
    try:
        found = objective.expanded(psi)
    except np.linalg.LinAlgError:
        return None
    return None if isnan(found.value) else found


def _newton_step(
    psi: np.ndarray, gradient: np.ndarray, curvature: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return the step (P,) to the maximum of the expansion, of the entries that are free to move."""
    held = ((psi <= bounds[0]) & (gradient < 0)) | ((psi >= bounds[1]) & (gradient > 0))
    if not held.any():
        return _solved(curvature, gradient)
    step, free = np.zeros_like(psi), ~held
    if not free.any():  # LAPACK refuses a system without equations
        return step
    step[free] = _solved(curvature[np.ix_(free, free)], gradient[free])
    return step


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return M^-1 b by a call of LAPACK; `numpy.linalg.solve` takes 8 times as long for 4 equations."""
    *_, solution, failed = lapack("gesv", matrix.dtype)(matrix, right)
    if failed:
        raise np.linalg.LinAlgError("singular matrix")
    return solution


def _corrected(curvature: np.ndarray, step: np.ndarray, fall: np.ndarray) -> np.ndarray:
    """Return a curvature (P, P) by which the gradient decreases by ``fall`` along ``step`` (BFGS)."""
    product, along = curvature @ step, float(fall @ step)
    expected = float(step @ product)
    if not along > _LEAST_CURVATURE * expected > 0:
        return curvature
    return curvature - np.outer(product, product) / expected + np.outer(fall, fall) / along


def _quasi_newton(
    objective: Objective,
    start: np.ndarray,
    first: Expansion,
    bounds: tuple[np.ndarray, np.ndarray],
    settings: Search,
) -> Optimum:
    known = [first]

    def lowered(psi: np.ndarray) -> tuple[float, np.ndarray]:
        if known and np.array_equal(psi, start):
            found = known.pop()
        else:
            try:
                found = objective.expanded(psi)
            except np.linalg.LinAlgError:
                return FAILED, np.zeros_like(psi)
        if not np.isfinite(found.value):
            return FAILED, np.zeros_like(psi)
        excess = (first.value - found.value) / settings.tempered
        if excess <= 1:
            return -found.value, -found.gradient
        return -first.value + settings.tempered * (1 + log(excess)), -found.gradient / excess

    result: Any = minimize(
        lowered,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(*bounds, strict=True)),
        options={
            "maxiter": settings.iterations,
            "ftol": settings.value_tolerance,
            "gtol": settings.gradient_tolerance,
        },
    )
    converged = bool(result.success) or result.status == _STOPPED_BY_ROUNDING
    return Optimum(result.x, -float(result.fun), converged, str(result.message), int(result.nfev))
