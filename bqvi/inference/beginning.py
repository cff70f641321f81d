"""The beginning of a run whose estimator keeps evaluations: where q starts, and how wide.

    nodes under q  ->  is q near the posterior?  -- yes -->  the first step
        ^                         | no
        |                         v
        '--- q by Laplace's approximation  <-  curvature at the end  <-  climb from the best evaluation

A Gaussian q is near the posterior if y(u) = L^T grad f(theta) + u, which is zero where q is the posterior, is
small at the first nodes (:mod:`bqvi.gradients.whitened`). The search is that of a plausible box
(:mod:`bqvi.calls.plausible_search`), in units of q, without its Sobol points. It is a step of the run whose
evaluations are kept and count; one that was cut short is made again and looks them up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bqvi.calls import Account, Evaluations
from bqvi.calls.plausible_search import PlausibleBoxSearch
from bqvi.calls.settings import FROM_Q
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients import BayesianQuadrature
from bqvi.gradients.evaluations import evaluate, is_as_stated
from bqvi.gradients.gradient import Batch
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.inference.settings import BEGINNING
from bqvi.inference.state import LoopProblem, LoopState
from gp.triangular import cholesky_inverse, symmetric_eigen

__all__ = ["begins", "begun"]


def begins(problem: LoopProblem, state: LoopState) -> bool:
    """Whether the next step is the first of a run of 'bq' on a `LogJoint` with exact values."""
    model = problem.model
    return (
        state.iteration == 0
        and isinstance(problem.estimator, BayesianQuadrature)
        and state.memory is not None
        and not len(state.memory)
        and not len(state.memory.failed)
        and isinstance(state.q, Gaussian | DiagonalGaussian)
        and is_as_stated(model)
        and model.function.noise_sd is None
    )


def begun(
    problem: LoopProblem, state: LoopState, account: Account, room: float
) -> tuple[LoopState, Evaluations | None]:
    """The state before the first step, and the evaluations of that step's nodes where its q was not moved.

    Parameters
    ----------
    problem : the problem of the loop. state : the state of a run that begins. account : the budget and the
        ledger. room : the most evaluations.
    """
    estimator, memory = problem.estimator, state.memory
    assert isinstance(estimator, BayesianQuadrature)  # by `begins`, as the next line
    assert memory is not None
    now = _At.nodes_of(problem, state.q, estimator.count(state.q.dimension, memory), state, account, True)
    first, rows = now.made, [now.made]
    while not now.near and (left := room - sum(map(len, rows)) - len(first)) > 0:
        q, search = _searched(problem, now, rows, account, left)
        if q is None:
            rows.extend(search)
            break
        moved = _At.nodes_of(problem, q, len(first), state, account)
        rows.extend([*search, moved.made])
        if not moved.elbo > now.elbo:
            break
        risen, now = moved.elbo - now.elbo, moved
        if risen < BEGINNING.rise:
            break
    if len(rows) == 1:
        return state, first
    for made in rows:
        memory = memory.with_evaluations(made)
    spent = sum(made.n_evaluations for made in rows)
    return replace(state, q=now.q, memory=memory, step_evaluations=state.step_evaluations + spent), None


@dataclass(frozen=True, eq=False)
class _At:
    """A Gaussian q with evaluations at nodes from it."""

    q: Any
    made: Evaluations

    @classmethod
    def nodes_of(
        cls, problem: LoopProblem, q: Any, n: int, state: LoopState, account: Account, first: bool = False
    ) -> _At:
        """q with evaluations at n nodes; of the ``first`` one has to return."""
        none = np.zeros((0, q.dimension))
        estimator = problem.estimator
        assert isinstance(estimator, BayesianQuadrature)  # by `begins`
        points, _ = estimator.asked(problem.model, q, n, state.rng, state.memory, none)
        return cls(q, evaluate(problem.model, q, Batch(None, 0, account=account), points, first))

    @property
    def frame(self) -> WhitenedFrame:
        return WhitenedFrame.of(self.q)

    @property
    def elbo(self) -> float:
        """The nodes' mean of the log joint and the entropy of q, up to a constant; -inf if any failed."""
        if not self.made.good.all():
            return -np.inf
        return float(self.made.values.mean() + np.log(np.diag(self.frame.scale)).sum())

    @property
    def near(self) -> bool:
        """Whether q is near the posterior.

        With gradients, by the median of |y|^2 over D and by the slope of y in u, which is 1 where the log
        joint is linear over q; from values alone, by the variance of f - ln q, which
        is constant where q is the posterior, over the D / 2 of ln q.
        """
        made = self.made
        if not made.good.all():
            return False
        u = self.frame.whiten(made.points)
        if made.gradients is None:
            varying = float(np.var(made.values + 0.5 * np.square(u).sum(1)))
            return varying < BEGINNING.near_of_values * 0.5 * u.shape[1]
        y = made.gradients @ self.frame.scale + u
        slope = np.vdot(y, u) / np.square(u).sum()
        return float(np.median(np.square(y).sum(1))) < BEGINNING.near * u.shape[1] and slope < BEGINNING.flat


def _unit(now: _At) -> float:
    """The width of the log joint's nonlinearity over that of q, at least one."""
    made = now.made
    if made.gradients is None or made.good.sum() < 2:
        return 1.0
    u, slopes = now.frame.whiten(made.points[made.good]), made.gradients[made.good] @ now.frame.scale
    best = int(np.argmax(made.values[made.good]))
    steps, falls = np.delete(u - u[best], best, 0), np.delete(slopes[best] - slopes, best, 0)
    curvature = float(np.max(np.einsum("nd,nd->n", steps, falls) / np.square(steps).sum(1)))
    return max(1.0, curvature**-0.5) if curvature > 0.0 else 1.0


def _searched(
    problem: LoopProblem, now: _At, rows: list[Evaluations], account: Account, room: float
) -> tuple[Any, list[Evaluations]]:
    """q by Laplace's approximation at the end of a climb in units of the present q, and the evaluations.

    q is None where the covariance is nearly singular.
    """
    frame = WhitenedFrame(now.frame.mean, _unit(now) * now.frame.scale, now.frame.diagonal)
    made = list[Evaluations]()

    def in_units(found: Evaluations) -> Evaluations:
        slopes = None if found.gradients is None else found.gradients @ frame.scale
        return replace(found, points=frame.whiten(found.points), gradients=slopes)

    known = in_units(rows[0])
    for found in rows[1:]:
        known = known.joined(in_units(found))

    def evaluated(u: np.ndarray) -> Evaluations | None:
        nonlocal known
        if sum(map(len, made)) + len(u) > room:
            return None
        found = evaluate(problem.model, now.q, Batch(None, 0, account=account), frame.points(u))
        made.append(found)
        known = known.joined(replace(in_units(found), points=u))
        return known

    best = known.points[np.argmax(np.where(known.good, known.values, -np.inf))]
    settings = replace(FROM_Q, gain=BEGINNING.gain * np.sqrt(0.5 * len(best)))
    mean, covariance = PlausibleBoxSearch(known, evaluated, best, 0, settings).laplace(room)
    mean = frame.points(mean[None])[0]
    covariance = frame.scale @ covariance @ frame.scale.T
    variances, _ = symmetric_eigen(covariance)
    if not variances[-1] < BEGINNING.most_elongated * variances[0]:
        return None, made
    # natural parameters are what a saved run has, to the last digit
    _, precision = cholesky_inverse(covariance)
    if isinstance(now.q, DiagonalGaussian):
        diagonal = np.diag(precision)
        return DiagonalGaussian.from_natural((diagonal * mean, -0.5 * diagonal)), made
    return Gaussian.from_natural((precision @ mean, -0.5 * precision)), made
