"""Whether a run of 'bq' has converged, and the evaluations that could refute it.

A run that keeps its evaluations is judged whenever these have grown by a factor. It has converged where

- q stands still: its divergence from the q of the last judgement is a small share of the tolerance
- the ELBO is known: its standard deviation is below the tolerance. That contains the errors of predictions of
  the latest evaluations, and the difference between surrogate and log joint at all evaluations, by the mass
  of q where they lie (`bqvi.gradients.remembered_elbo`)
- no evaluation failed where q has mass, and none outside of q shows mass that q lacks (:mod:`flat`)
- and all this holds after evaluations that could have refuted it.

These evaluations are draws of q, at which the surrogate may be wrong although nothing was evaluated there,
draws of Student's t distribution around q, where there may be mass, and the mean of the first q, near which
the user may know of mass that no draw meets. Designs place nodes where the surrogate's variance is large;
these evaluations do not depend on the surrogate. They are predicted from all earlier evaluations, join the
table and count in the budget. The claim stands if the ELBO moves by less than its standard deviation was.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls import Account
from bqvi.calls.gradient_check import gradient_warnings
from bqvi.calls.table import rows_of
from bqvi.gradients import BayesianQuadrature
from bqvi.gradients.evaluations import evaluate
from bqvi.gradients.gradient import Batch
from bqvi.gradients.remembered_elbo import ElboEstimate, remembered_elbo
from bqvi.gradients.settings import EVIDENCE
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.inference import flat
from bqvi.inference.settings import SETTLING
from bqvi.inference.state import LoopProblem, LoopState, with_unused
from bqvi.models.data import n_rows
from bqvi.models.log_joint import is_moving
from bqvi.widened import WIDENING
from gp.low_discrepancy import normal_sobol


@dataclass(frozen=True, eq=False)
class Settled:
    """The q that was judged last, in the form of its units, with its ELBO."""

    mean: np.ndarray
    """(D,)."""
    scale: np.ndarray
    """L, (D, D)."""
    at: int
    """The number of evaluations kept when it was judged."""
    elbo: float = np.nan
    """Less ln h of the data."""
    sd: float = np.inf
    due: bool = False
    """Whether only evaluations that could refute the claim are missing."""
    stands: bool = False
    """Whether they were made and did not."""


def is_tested(problem: LoopProblem) -> bool:
    """Whether runs of the problem are judged here: they keep evaluations of one log joint.

    Parameters
    ----------
    problem : the problem of the loop.
    """
    estimator = problem.estimator
    return isinstance(estimator, BayesianQuadrature) and estimator.memory > 0 and not is_moving(problem.model)


def has_converged(state: LoopState, tolerance: float | None) -> bool:
    """Whether the claim about the state's q stands, for a ``tolerance`` in nats.

    Parameters
    ----------
    state : the state. tolerance : that of the run; None for none.
    """
    claim = state.claim
    if claim is None or tolerance is None or not claim.stands:
        return False
    return bool(claim.at == len(state.memory) and claim.sd < tolerance)


def judged(state: LoopState, tolerance: float, final: bool = False) -> LoopState:
    """The state with the reasons why it has not converged, if a judgement is due; no evaluation is made.

    Parameters
    ----------
    state : a state with a memory. tolerance : nats. final : whether the run ends: a judgement is then due,
        and that a claim was not tested is a reason too.
    """
    claim, known = state.claim, len(state.memory)
    if not final and known < (1 if claim is None else SETTLING.growth * claim.at):
        return state
    frame = WhitenedFrame.of(state.q)
    now = Settled(frame.mean, frame.scale, known)
    if claim is None:
        return replace(state, claim=now, reasons=("q has not been compared with an earlier one",))
    moved = frame.seen_from(WhitenedFrame(claim.mean, claim.scale, False)).divergence
    reasons = []
    if not moved < SETTLING.still * tolerance:
        reasons.append(f"q has moved by {moved:.2g} nats since {claim.at} evaluations")
    if final or not reasons:
        found = remembered_elbo(state.q, state.memory)
        reasons += _reasons(state, found, tolerance)
        if found is not None:
            now = replace(now, elbo=found.value, sd=found.sd, due=not reasons)
    if final:
        missing = "the evaluations that could refute a claim of convergence were not made: too few were left"
        return replace(state, reasons=tuple(reasons) or (missing,))
    return replace(state, claim=now, reasons=tuple(reasons))


def tried(
    problem: LoopProblem,
    state: LoopState,
    tolerance: float,
    account: Account,
    room: int | None,
    first: np.ndarray,
) -> LoopState:
    """The state after the evaluations that could refute a claim; the same state where none is due.

    Parameters
    ----------
    problem : the problem of the loop. state : a state that was `judged`. tolerance : nats.
    account : the budget, the ledger, and values that were told. room : the most evaluations; None for no
        limit.
    first : the mean (D,) of the run's first q.
    """
    claim = state.claim
    if claim is None or not claim.due or claim.at != len(state.memory):
        return state
    points = _points(state, first)
    told = points[:0] if state.unfinished is None else state.unfinished.points
    others = rows_of(points, np.concatenate([told, state.pending.reshape(-1, len(first))])) < 0
    if room is not None and room < (len(points) + others.sum()) * max(n_rows(problem.data), 1):
        return state
    batch = Batch(problem.data, n_rows(problem.data), account=account)
    made = evaluate(problem.model, state.q, batch, points)
    spent, memory = state.step_evaluations + made.n_evaluations, state.memory.with_evaluations(made)
    after = with_unused(replace(state, memory=memory, step_evaluations=spent), account)
    found, memory = remembered_elbo(after.q, after.memory), after.memory
    reasons = _reasons(after, found, tolerance)
    if found is None:
        return replace(after, claim=replace(claim, at=len(memory), due=False), reasons=tuple(reasons))
    moved = abs(found.value - claim.elbo)
    if not moved < max(claim.sd, SETTLING.moved * tolerance):
        reasons.append(
            f"the ELBO moved by {moved:.2g} nats, with a standard deviation of {claim.sd:.2g}, at "
            "evaluations that tested it"
        )
    now = replace(claim, at=len(memory), elbo=found.value, sd=found.sd, due=False, stands=not reasons)
    return replace(after, claim=now, reasons=tuple(reasons))


def _reasons(state: LoopState, found: ElboEstimate | None, tolerance: float) -> list[str]:
    """Why the ELBO ``found`` of the state's q may be wrong, or q not cover the posterior."""
    if found is None:
        return ["the ELBO of q is not known from so few evaluations near it"]
    reasons, memory = [], state.memory
    if found.failing > 1e-3:
        reasons.append(f"evaluations failed in a region with about {found.failing:.1%} of q")
    elif not found.sd < tolerance:
        reasons.append(f"the ELBO has a standard deviation of {found.sd:.2g}, not below {tolerance:.2g}")
    reasons += found.understated
    sds = np.sqrt(memory.noise_variances[:, 0]) if memory.noise_variances.size else 0.0
    if flat.outside(state.q, memory.points, memory.values - 2.0 * sds) is not None:
        reasons.append("an evaluation outside of q shows mass that q lacks, as of another mode")
    if memory.gradients.size and not memory.noise_variances.any():
        reasons += gradient_warnings(memory.points, memory.values, memory.gradients)
    return reasons


def _points(state: LoopState, first: np.ndarray) -> np.ndarray:
    """Draws (m, D) of q and of Student's t distribution, and the first q's mean (D,) unless it was evaluated.

    They follow from the state. No draw sees a narrow spike in the middle of where the user began.
    """
    rng = np.random.default_rng(copy.deepcopy(state.rng).integers(2**63))
    frame, wide = WhitenedFrame.of(state.q), slice(SETTLING.drawn, None)
    u = normal_sobol(len(frame.mean), SETTLING.drawn + EVIDENCE.tail_draws, rng)
    scales = rng.chisquare(WIDENING.freedom, EVIDENCE.tail_draws) / WIDENING.freedom
    u[wide] *= EVIDENCE.wider / np.sqrt(scales)[:, None]
    missing = rows_of(state.memory.points, first[None]) < 0
    return np.concatenate([frame.points(u), first[None][missing]])
