"""What a further step would gain: the test of convergence of methods that sample draws or data.

At its optimum the gradient of the ELBO is zero. A natural step of 1 leads from natural parameters eta of q
to the optimum q' if the log joint is quadratic, and gains

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

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from bqvi.arrays import add, inner
from bqvi.calls import Account, EvaluationError
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients.evaluations import differentiable
from bqvi.gradients.gradient import RememberingEstimator
from bqvi.inference.data_parallel import AllReduced
from bqvi.inference.loop import gradient_at
from bqvi.inference.settings import GAIN
from bqvi.inference.state import LoopProblem, LoopState
from bqvi.models.amortised import is_amortised
from bqvi.models.conjugate import is_conjugate
from bqvi.models.data import n_rows
from bqvi.models.log_joint import is_moving
from gp.triangular import symmetric_eigen


def gain_is_tested(problem: LoopProblem, q: Any) -> bool:
    """Whether runs of the problem are tested: a Gaussian q, of draws, or of mini-batches of data."""
    model, estimator = problem.model, problem.estimator
    if is_conjugate(model) or is_amortised(model) or is_moving(model):
        return False
    if isinstance(estimator, RememberingEstimator | AllReduced):
        return False
    sampled = estimator.samples > 0 or problem.minibatch is not None
    return sampled and isinstance(q, Gaussian | DiagonalGaussian) and np.ndim(q.mean) == 1


def is_test_due(state: LoopState) -> bool:
    """Whether a run with a tolerance is tested before the next step: after 100, 200, 400, ... steps."""
    share = state.iteration / GAIN.first
    return share >= 1.0 and math.log2(share).is_integer() and state.tested != state.iteration


def has_no_gain(state: LoopState) -> bool:
    """Whether the present q was tested, and found to be at its optimum."""
    return state.tested == state.iteration and not state.reasons


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
        reasons = _reasons(gain, sd, within, sds)
    except (EvaluationError, ArithmeticError, np.linalg.LinAlgError) as error:
        reasons = (f"no gradient can be made at q ({error})",)
    spent = 0 if account.budget is None else account.budget.spent - before
    return replace(
        state, reasons=reasons, tested=state.iteration, record_evaluations=state.record_evaluations + spent
    )


def _reasons(gain: float, sd: float, within: float, sds: float) -> tuple[str, ...]:
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
    least = GAIN.groups * one * (own.q.dimension if claims and n_rows(problem.data) else 1)
    count = int(min(max(evaluations_for(problem, state.step_evaluations), least), room) // one)
    totals, made = list[Any](), 0
    while made < count // GAIN.groups * GAIN.groups and time.perf_counter() < end:
        values = gradient_at(problem, own, account)[0].values
        if made < GAIN.groups:
            totals.append(values)
        else:
            totals[made % GAIN.groups] = add(totals[made % GAIN.groups], values)
        made += 1
    if made < GAIN.groups:
        return []
    sizes = [len(range(group, made, GAIN.groups)) for group in range(GAIN.groups)]
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
