"""The beginning of a sampling method on a model with data: q by Laplace's approximation, and an anchor.

    climb on a part of the data  ->  curvature there  ->  Newton steps, of all the data  ->  q, anchor

The part is large enough for the curvature, and the mode of all the data is some standard deviations from its
own: the slope of all the data and the curvature of the part give a step towards it, by a pass over the data,
until a step gains little. At the last point the slope of all the data is known, so that mini-batches need to
estimate only what differs from it (:class:`bqvi.gradients.gradient.Anchor`).

The beginning is a step of the run. Its evaluations count, and are made again where it was cut short.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bqvi.calls import Account, EvaluationError, Evaluations
from bqvi.calls.climb import Ends, climb
from bqvi.calls.faults import is_numerical
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.families.family import Distribution
from bqvi.gradients.evaluations import differentiable
from bqvi.gradients.gradient import Anchor, Batch
from bqvi.inference.remaining_gain import gain_is_tested
from bqvi.inference.settings import MODE
from bqvi.inference.state import LoopProblem, LoopState
from bqvi.models.data import n_rows, take
from gp.laplace import curvature, spectrum

__all__ = ["at_mode", "begins_at_mode"]


def begins_at_mode(problem: LoopProblem, q: Distribution) -> bool:
    """Whether a run of the problem can begin at a mode: draws of a Gaussian q, of a model with data."""
    return gain_is_tested(problem, q) and problem.estimator.samples > 0 and differentiable(problem.model)


def at_mode(problem: LoopProblem, state: LoopState, account: Account, room: float) -> LoopState:
    """The state with q at the mode, and with an anchor if there are mini-batches; its q without room.

    Parameters
    ----------
    problem : the problem of the loop. state : the state before the first step. account : the account of the
        evaluations. room : the most evaluations.
    """
    n, d = n_rows(problem.data), state.q.dimension
    part = _LogJoint.of_part(problem, state, account, room)
    rows = climb(
        part, np.array(state.q.mean, float), Ends(MODE.most + MODE.most_a_dimension * d, MODE.gain)
    ).rows
    best = max(rows, key=lambda row: part.made.values[row], default=None)
    if best is None or part.made.failed[best] or not part.has_room(2 * d):
        return replace(state, step_evaluations=state.step_evaluations + part.spent)
    place = part.made.points[best]
    values, vectors = spectrum(curvature(part.slopes, place, MODE.step), MODE.flat)
    scale = vectors / np.sqrt(values)
    account = replace(account, first=False)
    whole = _LogJoint(
        problem, state.q, Batch(problem.data, n, np.ones(n), account=account), room - part.spent
    )
    place, anchor = _newton(whole, place, scale)
    q: Any = Gaussian(place, scale @ scale.T)
    if isinstance(state.q, DiagonalGaussian):
        q = DiagonalGaussian(place, 1.0 / (np.square(vectors) @ values))
    anchored = problem.minibatch is not None and not problem.per_datum
    spent = state.step_evaluations + part.spent + whole.spent
    return replace(state, q=q, anchor=anchor if anchored else None, step_evaluations=spent)


def _newton(whole: _LogJoint, place: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, Anchor | None]:
    """The place after Newton steps with all data, and the anchor at the best place with a slope."""
    best, last, anchor = -math.inf, place, None
    for _ in range(MODE.passes):
        if not whole.evaluate(place[None]) or not whole.made.good[-1] or whole.made.values[-1] < best:
            return last, anchor
        best, last = float(whole.made.values[-1]), place
        slope = np.asarray(whole.made.gradients)[-1]
        anchor = whole.anchor(place, best, slope)
        step = scale @ (scale.T @ slope)
        place = place + step
        if 0.5 * step @ slope < MODE.gain:
            break
    return place, anchor


@dataclass(eq=False)
class _LogJoint:
    """The log joint of weighted rows, as a climb evaluates it; a point without a value is infeasible."""

    problem: LoopProblem
    q: Any
    batch: Batch
    room: float
    spent: int = 0
    made: Evaluations = field(init=False)

    def __post_init__(self) -> None:
        none = Evaluations.none(self.q.dimension)
        self.made = replace(none, gradients=none.points.copy())

    @classmethod
    def of_part(cls, problem: LoopProblem, state: LoopState, account: Account, room: float) -> _LogJoint:
        """The log joint of a part of the data, weighted as all of them."""
        n = n_rows(problem.data)
        size = min(n, MODE.rows + MODE.rows_a_dimension * state.q.dimension)
        chosen = (
            np.sort(np.random.default_rng(state.noise).permutation(n)[:size]) if size < n else slice(None)
        )
        batch = Batch(take(problem.data, chosen), size, np.full(size, n / size), account=account)
        return cls(problem, state.q, batch, room)

    def has_room(self, points: int) -> bool:
        """Whether a number of ``points`` may be evaluated."""
        budget, count = self.batch.account.budget, points * self.batch.size
        return self.spent + count <= self.room and (budget is None or budget.room(count) == count)

    def evaluate(self, points: np.ndarray) -> bool:
        """Evaluate at points (m, D); False without room."""
        if not self.has_room(len(points)):
            return False
        values, slopes = np.full(len(points), -np.inf), np.full(points.shape, np.nan)
        try:
            values, slopes = self.at(points)
        except EvaluationError as error:
            cause = error.__cause__
            if not (error.no_value or (isinstance(cause, Exception) and is_numerical(cause))):
                raise
        failed = ~np.isfinite(values)
        made = Evaluations(points, values, slopes, None, failed, ("",) * len(points))
        self.made = self.made.joined(made)
        return True

    def at(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (m,) and gradients (m, D) at points (m, D)."""
        from bqvi.gradients.black_box import log_joint_function, values_and_slopes

        self.spent += len(points) * self.batch.size
        log_joint = log_joint_function(self.problem.model, self.q, self.batch)
        # the first call is watched for leaving torch, and no other
        self.batch = replace(self.batch, account=replace(self.batch.account, first=False))
        return values_and_slopes(log_joint, points, self.problem.model, self.batch.rows)

    def slopes(self, points: np.ndarray) -> np.ndarray:
        """Gradients (m, D) at points (m, D)."""
        return self.at(points)[1]

    def anchor(self, place: np.ndarray, value: float, slope: np.ndarray) -> Anchor:
        """The anchor at a place (D,) with the value and the slope of the log joint of all data."""
        from bqvi.gradients.black_box import values_and_slopes

        model = self.problem.model
        prior, prior_slope = values_and_slopes(model.log_prior, place[None], model, self.batch.rows)
        return Anchor(place, float(value - prior[0]), slope - prior_slope[0])
