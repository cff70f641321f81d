"""The thorough estimate, which is the result of a run: the last inference again, with more draws.

It starts from the state before the last record, so that the result does not depend on how often it is asked
for, and its record takes the place of the last one. The state of the run is not changed.

Of thousands of evaluations that the user gave some hundreds are used (:mod:`bqvi.calls.given`). At some of
the others, none far below the highest, with values f_i and predictions N(m_i, v_i) of the surrogate,

    z_i = (f_i - m_i) / sqrt(v_i + s_i^2),

are standard normal if the surrogate is calibrated, with s_i the sd of a value's noise. They contradict it
where the mean of (f_i - m_i)^2 / (v_i + s_i^2 + t^2) reaches the limit for the predictions of a run's own
evaluations before convergence (:mod:`stopping`). Residuals below t, the tolerance of the log evidence, change
it by less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bqvi.calls import require_good
from bqvi.calls.returned import doubts, unstated_noise
from bqvi.calls.table import nothing_above
from bqvi.posterior import Posterior, WeightedDraws
from bqvi.runs import Trace
from bqvi.variational_bmc.diagnostics import about_width, advice, contradicted
from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.result import VBMCResult
from bqvi.variational_bmc.scaling import UserUnits
from bqvi.variational_bmc.settings import EXPLORATION, PREDICTIONS, WEIGHTS
from bqvi.variational_bmc.state import Estimate, State
from bqvi.variational_bmc.stopping import differing, judge, record, understated
from bqvi.variational_bmc.variational import DiagonalMixture

if TYPE_CHECKING:
    from bqvi.variational_bmc.vbmc_run import VBMCRun


from bqvi.calls.coordinates import Coordinates
from bqvi.variational_bmc.result import HeldOut

CONTRADICTED = (
    "They contradict the surrogate. Look whether they are of the same log joint; if so, raise the budget."
)
"""The warning on residuals that contradict the surrogate."""


def predicted(state: State, estimate: Estimate, frame: Frame, coordinates: Coordinates) -> HeldOut | None:
    """The predictions of the surrogate, in its frame, at the held-out evaluations; None if there are none.

    Parameters
    ----------
    state : has the held-out evaluations. estimate : has the surrogate. frame : the frame of the surrogate.
    coordinates : from these points are mapped to the user's parameters.
    """
    made = state.held_out
    if made is None:
        return None
    u = frame.into(made.points)
    mean, variance = estimate.surrogate.moments(u)
    variance = variance + estimate.surrogate.fitted_noise
    if made.noise_variance is not None:
        variance = variance + made.noise_variance
    residuals = made.values - (mean - frame.log_stretch_at(made.points))
    return HeldOut(coordinates.to_user(made.points), residuals, np.sqrt(variance))


_UNUSED = (
    "The cheap model was not used: its posterior is far wider than the plausible box, as that of an improper "
    "density does. Give it bounds, or the prior of the log joint."
)
"""The warning on a cheap model that is improper."""


def thorough(run: VBMCRun, state: State) -> VBMCResult:
    """The result of a run that ends at ``state``; the reason for its end is not entered."""
    before = state.before_last_record()
    require_good(before.evaluations, 2, run.target.function.range.title)
    reached, estimate = run.learn(before, final=True)
    row, frame = record(before, reached, estimate), reached.frame
    rows = (*before.rows, row)
    found = estimate.found
    # above a Pareto k of 1 weights have no mean, unless they are nearly equal
    usable = found.pareto_k < 1.0 or found.effective_sample_size > 0.5 * len(found.u)
    corrected = usable and found.effective_sample_size > WEIGHTS.corrected
    posterior = _posterior(run, estimate, frame, corrected)
    held_out = predicted(state, estimate, frame, run.coordinates)
    unmet, reasons = judge(rows, run.tolerance), about_width(frame.measure(estimate.q), run.coordinates)
    if held_out is not None and held_out.contradicts(run.tolerance):
        reasons = (*reasons, f"{held_out}. {CONTRADICTED}")
    made, exact = reached.evaluations.censored, not run.settings_at(state).noise_unknown
    reasons = (*reasons, *understated(made, estimate.surrogate), *(contradicted(made) if exact else ()))
    values = (made.values - run.coordinates.log_jacobian(made.points))[~made.failed]
    reasons = (*reasons, *nothing_above(values, int(made.failed.sum())))
    located = row.divergence < PREDICTIONS.unsettled and row.log_evidence_sd < EXPLORATION.located
    shape = None if corrected else estimate.found.pareto_k
    return VBMCResult(
        posterior=posterior,
        elbo=row.elbo,
        elbo_sd=row.elbo_sd,
        log_evidence=row.log_evidence,
        log_evidence_sd=row.log_evidence_sd,
        converged=not (unmet or reasons),
        stopped="",
        reasons=(*unmet, *reasons),
        warnings=(
            *reasons,
            *_warnings_of_the_run(run, state, estimate),
            *advice(posterior, made, shape, located),
        ),
        n_evaluations=state.n_evaluations,
        evaluations=reached.evaluations,
        theta=run.coordinates.to_user(state.evaluations.points),
        trace=Trace(rows),
        checkpoint=run.checkpoint(state),
        estimate=estimate,
        frame=frame,
        held_out=held_out,
    )


def _posterior(run: VBMCRun, estimate: Estimate, frame: Frame, corrected: bool) -> Posterior:
    """The posterior by the weighted draws where it is ``corrected``, by q otherwise.

    In the user's units q is cut off by bounds and no mixture of Gaussians in the coordinates: where there are
    weighted draws, a mixture is fitted to these.
    """
    found, q = estimate.found, frame.measure(estimate.q)
    draws = WeightedDraws(frame.out(found.u), found.log_weights) if corrected else None
    if draws is not None and isinstance(frame.scaling, UserUnits):
        q = draws.mixture(_slabs(estimate.q, found.u, draws.weights))
    return Posterior(q, run.coordinates, draws, run.target.function.model)


def _slabs(q: DiagonalMixture, u: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Groups (n,) of draws u (n, D) with ``weights``: each component's, in slabs of its longest axis."""
    component = q.log_parts(u).argmax(0)
    groups = np.zeros(len(u), int)
    for k in range(q.count):
        rows = np.flatnonzero(component == k)
        rows = rows[np.argsort(u[rows, q.scales[k].argmax()])]
        before = np.cumsum(weights[rows]) - 0.5 * weights[rows]
        groups[rows] = groups.max() + 1 + (60 * before).astype(int)
    return np.unique(groups, return_inverse=True)[1]


def _warnings_of_the_run(run: VBMCRun, state: State, estimate: Estimate) -> tuple[str, ...]:
    """Warnings about the arguments of the run and its course."""
    pair = None if run.settings.noise_unknown else differing(state.evaluations.censored)
    noise, good, differ = state.evaluations.noise_variance, state.evaluations.good, ""
    log_joint = state.evaluations.values - run.coordinates.log_jacobian(state.evaluations.points)
    if pair is not None:
        differ = (
            f"The log joint was {pair[0]:.6g} and {pair[1]:.6g} at nearly the same point, although it was "
            "declared exact. A noise was therefore fitted, with a standard deviation of "
            f'{estimate.surrogate.fitted_noise**0.5:.2g}: give noise_sd (a number, a function or "unknown").'
        )
    return (
        *(() if noise is None else unstated_noise(noise[good])),
        *([differ] if differ else []),
        *doubts(run.target.function.range, log_joint, run.target.to_user(state.evaluations.points)),
        *((_UNUSED,) if state.cheap is not None and not state.cheap.used else ()),
    )
