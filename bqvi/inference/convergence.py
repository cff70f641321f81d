"""Whether a run has converged: of methods that keep their evaluations, and of those that sample.

A run that keeps its evaluations is judged whenever these have grown by a factor. It has converged where

- q stands still: its divergence from the q of the last judgement is a small share of the tolerance
- the ELBO is known: its standard deviation is below the tolerance. That contains the errors of predictions of
  the latest evaluations, and the difference between surrogate and log joint at all evaluations, by the mass
  of q where they lie (`bqvi.gradients.remembered`)
- no evaluation failed where q has mass, none outside of q shows mass that q lacks (`outside`), and none lies
  far above what all others predict; and all this holds after evaluations that could have refuted it.

These evaluations are draws of q, at which the surrogate may be wrong although nothing was evaluated there,
draws of Student's t distribution around q, where there may be mass, and the mean of the first q, near which
the user may know of mass that no draw meets. Designs place nodes where the surrogate's variance is large;
these evaluations do not depend on the surrogate. They are predicted from all earlier evaluations, join the
table and count in the budget. The claim stands if the ELBO moves by less than its standard deviation was.

*Curvature and slope.* At the optimum of a Gaussian q the expected curvature of the log joint is the precision
of q. In whitened coordinates u = L^-1 (theta - m) the slope of L^T grad f in u is therefore -1 on average
along each axis. Where it is 0 the log joint has no curvature over the width of q, and the ELBO still
increases as q widens, by the logarithm of the width, without end if the posterior is improper. For a q across
several modes the average curvature may also be 0, because of the minima between them; the log joint then
decreases outside of the modes, on one side at least. The expected slope is 0 at the optimum. Where the latest
evaluations have one, q is still moving, and without end if the log joint increases without end.

*What a further step would gain* is the test of methods that sample draws or data. At its optimum the gradient
of the ELBO is zero. A natural step of 1 leads from natural parameters eta of q to the optimum q' if the log
joint is quadratic, and gains

    gain = KL(q || q') ~ g^T F g / 2,      eta' = eta + g,

with the natural gradient g at q and the Fisher matrix F: half the squared Newton decrement. The gain
does not depend on the steps that were taken, so that neither small steps nor a slow drift are taken for
convergence. It is estimated at q itself, from groups of fresh gradients g_1, .., g_G as the mean of
g_i^T F g_j / 2 over pairs i /= j, which noise does not bias, times the ratio of KL(q || q') to g^T F g / 2 at
the mean gradient; its standard error is the jackknife's. Gradients are those by sticking-the-landing, or one
exact gradient of all the data.

The importance-weighted bound of L draws has another optimum than the ELBO, and its estimators are tested for
that one, by doubly reparameterised gradients. Near the posterior the bound is ln Z less the variance of the
weights over 2 L, which is the divergence over L: its curvature is F / L, a step to its optimum L g, and the
gain KL(q || q') / L.
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bqvi.arrays import add, inner
from bqvi.calls import Account, EvaluationError
from bqvi.calls.table import rows_of
from bqvi.gradients.evaluations import differentiable, evaluate
from bqvi.gradients.gradient import Batch
from bqvi.gradients.remembered import ElboEstimate, remembered_elbo
from bqvi.gradients.settings import EVIDENCE
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.importance import WIDENING
from bqvi.inference.loop import gradient_at
from bqvi.inference.settings import FLAT, GAIN, SETTLING
from bqvi.inference.state import LoopProblem, LoopState, with_unused
from bqvi.models.data import n_rows
from bqvi.runs.settings import ENGINES
from gp.arrays import to_numpy
from gp.linalg import least_squares, regression
from gp.low_discrepancy import normal_sobol
from gp.matrices import spectrum, symmetric_eigen


def settling_warnings(
    q: Any, points: np.ndarray, values: np.ndarray, gradients: np.ndarray | None
) -> list[str]:
    """A warning where the log joint has no curvature along an axis of a Gaussian q, or rises past its mean.

    Parameters
    ----------
    q : with mean (D,) and covariance (D, D). points : (n, D). values : (n,). gradients : (n, D) or ``None``.
    """
    mean, covariance = (np.asarray(to_numpy(part), dtype=float) for part in (q.mean, q.covariance))
    variances, axes = spectrum(covariance, 0.0)
    if not (np.isfinite(variances).all() and variances.min() > 0):
        return []
    if (np.sqrt(covariance.diagonal()) <= np.finfo(float).eps * np.abs(mean)).any():
        return [
            f"q has moved to {_named(mean)}, where its standard deviation is lost in rounding: the posterior "
            "is improper, or the scale of the parameters is far from 1: look at their prior."
        ]
    scale = axes * np.sqrt(variances)
    u = (points - mean) @ (axes / np.sqrt(variances))
    slopes = None if gradients is None else gradients @ scale
    known = np.isfinite(values) if slopes is None else np.isfinite(values) & np.isfinite(slopes).all(axis=1)
    u, values, slopes = u[known], values[known], None if slopes is None else slopes[known]
    widths = np.sqrt(variances)
    return _widens(axes, widths, u, values, slopes) or _moves(axes, widths, u, values, slopes)


def outside(q: Any, points: np.ndarray, values: np.ndarray) -> tuple[int, float] | None:
    """The evaluation with the highest value outside of a Gaussian q, if it is nearly the highest of all.

    Parameters
    ----------
    q : with mean (D,) and covariance (D, D).
    points : (n, D).
    values : (n,), less two standard deviations where they are noisy.

    Returns
    -------
    Its row, and its value less the highest one inside, at least ``-FLAT.outside[1]``; None where there is
    none.
    """
    squares = np.square(WhitenedFrame.of(q).whiten(points)).sum(axis=1)
    beyond, below = FLAT.outside
    far, known = squares > points.shape[1] + beyond, np.isfinite(values)
    if not (far & known).any() or not (~far & known).any():
        return None
    row = int(np.argmax(np.where(far & known, values, -np.inf)))
    difference = float(values[row] - values[~far & known].max())
    return (row, difference) if difference >= -below else None


def _widens(
    axes: np.ndarray, widths: np.ndarray, u: np.ndarray, values: np.ndarray, slopes: np.ndarray | None
) -> list[str]:
    """Where the log joint has no curvature along one of the axes."""
    near = (np.abs(u) < FLAT.near).all(axis=1)
    u, values, dimension = u[near], values[near], u.shape[1]
    if len(u) < 2 * (2 * dimension + 1):
        return []
    slopes = None if slopes is None else slopes[near]
    curvatures = _curvatures(u, values, slopes)
    flattest = int(np.argmin(curvatures))
    if curvatures[flattest] > FLAT.share:
        return []
    slope = _outwards(u, flattest, values, slopes)
    if slope < -FLAT.falls:
        return []
    where = f"along {_named(axes[:, flattest])} its standard deviation has reached {widths[flattest]:.3g}, "
    if slope > FLAT.falls:
        return [
            f"q still widens: {where}and the log joint rises on both sides of it, towards modes there or "
            "without end. More steps are needed, or the posterior is improper: look at the prior of these "
            "parameters."
        ]
    return [
        f"q diverges: {where}and the log joint has {max(curvatures[flattest], 0.0):.0%} of the curvature "
        "that an optimum requires. The posterior is improper, the log joint is a density and no logarithm, "
        "or more steps are needed: look at the prior of these parameters."
    ]


def _moves(
    axes: np.ndarray, widths: np.ndarray, u: np.ndarray, values: np.ndarray, slopes: np.ndarray | None
) -> list[str]:
    """Where the log joint rises past the mean, by the latest evaluations."""
    dimension = u.shape[1]
    by_dimension, beside = FLAT.latest
    latest = slice(-(by_dimension * dimension + beside), None)
    u, values = u[latest], values[latest]
    if slopes is not None and len(u) > 1:
        found = slopes[latest].mean(axis=0)
        errors = slopes[latest].std(axis=0, ddof=1) / np.sqrt(len(u))
    elif slopes is None and len(u) > dimension + 2:
        design = np.concatenate([np.ones((len(u), 1)), u], axis=1)
        found, errors = (part[1:] for part in regression(design, values))
    else:
        return []
    rises = np.abs(found) - ENGINES.sds * errors
    steepest = int(np.argmax(rises))
    if not rises[steepest] > FLAT.rises:
        return []
    axis = np.sign(found[steepest]) * axes[:, steepest]
    return [
        f"q still moves: along {_named(axis)} the log joint rises by {np.abs(found[steepest]):.3g} nats over "
        f"its standard deviation, {widths[steepest]:.3g}. More steps are needed, or the posterior is "
        "improper: look at the prior of these parameters."
    ]


def _named(axis: np.ndarray) -> str:
    return f"({', '.join(f'{entry:.2g}' for entry in axis)})"


def _curvatures(u: np.ndarray, values: np.ndarray, slopes: np.ndarray | None) -> np.ndarray:
    """Minus the curvature along each axis (D,); from values alone, plus `ENGINES.sds` standard errors."""
    ones = np.ones((len(u), 1))
    if slopes is not None:
        found = least_squares(np.concatenate([ones, u], axis=1), slopes)[0]
        return np.asarray(-found[1:].diagonal())
    found, errors = regression(np.concatenate([ones, u, u**2 / 2], axis=1), values)
    half = 1 + u.shape[1]
    return np.asarray(ENGINES.sds * errors[half:] - found[half:])


def _outwards(u: np.ndarray, axis: int, values: np.ndarray, slopes: np.ndarray | None) -> float:
    """The smaller of the log joint's outward slopes on the two sides of q, in the outer half of u, over |u|.

    `ENGINES.sds` standard errors are subtracted. It is -1 for a Gaussian posterior under its own q, 0 for a
    flat one, and -inf where there are too few evaluations.
    """
    along = u[:, axis]
    edge = np.median(np.abs(along))
    sides = np.column_stack([np.maximum(side * along - edge, 0.0) for side in (1.0, -1.0)])
    there = sides > 0.0
    if there.sum(axis=0).min() < FLAT.sides:
        return -np.inf
    if slopes is None:
        rest, middle = np.delete(u, axis, axis=1), np.clip(along, -edge, edge)
        within = np.column_stack([np.ones(len(u)), rest, rest**2 / 2, middle, middle**2 / 2])
        found, errors = (part[-2:] for part in regression(np.column_stack([within, sides]), values))
    else:
        parts = [side * slopes[there[:, i], axis] for i, side in enumerate((1.0, -1.0))]
        found = np.array([part.mean() for part in parts])
        errors = np.array([part.std() / np.sqrt(len(part)) for part in parts])
    lengths = edge + sides.sum(axis=0) / there.sum(axis=0)
    return float(np.min((found - ENGINES.sds * errors) / lengths))


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
    if not moved < max(claim.sd, SETTLING.still * tolerance):
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
    if found.failing:
        reasons.append(f"evaluations failed in a region with about {found.failing:.1%} of q")
    elif not found.sd < tolerance:
        reasons.append(f"the ELBO has a standard deviation of {found.sd:.2g}, not below {tolerance:.2g}")
    reasons += found.doubts
    sds = np.sqrt(memory.noise_variances[:, 0]) if memory.noise_variances.size else 0.0
    if outside(state.q, memory.points, memory.values - 2.0 * sds) is not None:
        reasons.append("an evaluation outside of q shows mass that q lacks, as of another mode")
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


def is_test_due(state: LoopState) -> bool:
    """Whether a run with a tolerance is tested before the next step: after 100, 200, 400, ... steps."""
    share = state.iteration / GAIN.first
    return share >= 1.0 and math.log2(share).is_integer() and state.tested != state.iteration


def evaluations_for(problem: LoopProblem, evaluations: int) -> int:
    """The number of evaluations of a test after so many ``evaluations`` of steps."""
    return n_rows(problem.data) if problem.estimator.samples == 0 else int(GAIN.share * evaluations)


def tested(
    problem: LoopProblem, state: LoopState, tolerance: float | None, account: Account, room: float, end: float
) -> LoopState:
    """The state with the reasons why q is not at its optimum within a tolerance, () if it is.

    Parameters
    ----------
    problem, state : of the loop. tolerance : nats; None for the default of warnings.
    account, room : of the evaluations, and the most of them.
    end : the time of `time.perf_counter` after which no evaluation begins.
    """
    within, sds = GAIN.tolerance, GAIN.warns
    if tolerance is not None:
        within, sds = GAIN.of_tolerance * tolerance, GAIN.claims
    before = 0 if account.budget is None else account.budget.spent
    try:
        gradients = _gradients(problem, state, account, room, end, tolerance is not None)
        gain, sd = _gain(state.q, gradients, _bound_draws(problem))
        reasons = _reasons_of_gain(gain, sd, within, sds)
    except (EvaluationError, ArithmeticError, np.linalg.LinAlgError) as error:
        reasons = (f"no gradient can be made at q ({error})",)
    spent = 0 if account.budget is None else account.budget.spent - before
    return replace(
        state, reasons=reasons, tested=state.iteration, record_evaluations=state.record_evaluations + spent
    )


def _reasons_of_gain(gain: float, sd: float, within: float, sds: float) -> tuple[str, ...]:
    """Why a gain is not below a tolerance by so many of its standard errors; () where it is."""
    if gain + sds * sd <= within:
        return ()
    stated = f"a natural step from q would gain {gain:.2g} +- {sd:.2g} nats"
    if gain - sds * sd > within:
        return (f"q is not at the bound's optimum: {stated}; make more steps, or give another schedule",)
    if math.isnan(gain):
        return (
            "whether q is at the bound's optimum is unknown: no evaluations or time were left for a test",
        )
    return (
        f"whether q is within {within:.2g} nats of the bound's optimum is not known: {stated}, as gradients "
        "are noisy; make more steps, or raise samples or the size of mini-batches",
    )


def _gradients(
    problem: LoopProblem, state: LoopState, account: Account, room: float, end: float, claims: bool
) -> list[Any]:
    """Natural gradients at q: means of groups of fresh ones, or one that is exact."""
    if problem.estimator.samples == 0:
        n = n_rows(problem.data)
        if room < n:
            return []
        whole = replace(problem, minibatch=None)
        with account.spending(n):
            return [gradient_at(whole, state.fork())[0].values]
    own = state.fork()
    problem = replace(problem, estimator=_estimator(problem, own.q.dimension))
    one = _cost(problem, own)
    least = ENGINES.groups * one * (own.q.dimension if claims and n_rows(problem.data) else 1)
    count = int(min(max(evaluations_for(problem, state.step_evaluations), least), room) // one)
    totals, made = list[Any](), 0
    while made < count // ENGINES.groups * ENGINES.groups and time.perf_counter() < end:
        values = gradient_at(problem, own, account)[0].values
        if made < ENGINES.groups:
            totals.append(values)
        else:
            totals[made % ENGINES.groups] = add(totals[made % ENGINES.groups], values)
        made += 1
    if made < ENGINES.groups:
        return []
    sizes = [len(range(group, made, ENGINES.groups)) for group in range(ENGINES.groups)]
    of_groups = zip(sizes, totals, strict=True)
    return [own.q.gradient_to_natural(tuple(part / n for part in total)) for n, total in of_groups]


def _estimator(problem: LoopProblem, dimension: int) -> Any:
    """The estimator of the ELBO's gradient with the least noise where q is the posterior."""
    if not differentiable(problem.model):
        return problem.estimator
    from bqvi.gradients.designs import AntitheticOrthogonal
    from bqvi.gradients.importance_weighted import DReG
    from bqvi.gradients.pathwise import Pathwise

    draws = _bound_draws(problem)
    if draws > 1:
        return DReG(draws)
    if n_rows(problem.data):  # whose noise is that of mini-batches
        return Pathwise(samples=1, entropy="sticking-the-landing")
    return Pathwise(2 * dimension, "sticking-the-landing", AntitheticOrthogonal())


def _bound_draws(problem: LoopProblem) -> int:
    """The number of draws of the bound that is ascended: 1 of the ELBO."""
    return problem.estimator.samples if getattr(problem.estimator, "importance_weighted", False) else 1


def _cost(problem: LoopProblem, state: LoopState) -> int:
    """The evaluations of one gradient."""
    rows = n_rows(problem.data) if problem.minibatch is None else problem.minibatch.size
    return max(rows, 1) * (problem.estimator.samples + (state.anchor is not None))


def _gain(q: Any, gradients: list[Any], draws: int) -> tuple[float, float]:
    """The gain of a bound of ``draws``, nats, and its standard error; NaN and infinity without gradients."""
    n = len(gradients)
    if not n:
        return math.nan, math.inf
    mean = tuple(sum(parts) / n for parts in zip(*gradients, strict=True))
    step = tuple(draws * part for part in mean)
    norm = 0.5 * draws * float(inner(mean, q.fisher_product(mean)))
    divergence = norm
    eta = add(q.natural, step)
    second = -2.0 * eta[1]
    if (second if second.ndim == 1 else symmetric_eigen(second)[0]).min() > 0.0:  # a precision
        divergence = float(q.kl(q.from_natural(eta))) / draws
    if n == 1:
        return divergence, 0.0
    products = [q.fisher_product(g) for g in gradients]
    gram = 0.5 * draws * np.array([[float(inner(a, b)) for b in products] for a in gradients])
    off = divergence / max(norm, 1e-300) * (gram - np.diag(np.diag(gram)))
    total, each = off.sum(), off.sum(1)
    left_out = (total - 2.0 * each) / ((n - 1) * (n - 2))
    return float(total / (n * (n - 1))), float(
        np.sqrt((n - 1) / n * np.square(left_out - left_out.mean()).sum())
    )
