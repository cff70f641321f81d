"""The result of `bqvi.vbmc`: the last inference again, with more draws.

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

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bqvi import notebook
from bqvi.calls import Evaluations, require_good
from bqvi.calls.coordinates import Coordinates
from bqvi.calls.faults import gradient_warnings
from bqvi.calls.returned import unstated_noise
from bqvi.calls.table import nothing_above
from bqvi.posterior import Posterior, WeightedDraws
from bqvi.runs import Checkpoint, Trace
from bqvi.runs.door_result import DoorResult
from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc.diagnostics import about_rounding, about_width, advice
from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.scaling import UserUnits
from bqvi.variational_bmc.settings import PREDICTIONS, WEIGHTS
from bqvi.variational_bmc.state import Estimate, State
from bqvi.variational_bmc.stopping import differing, judge, record, understated
from bqvi.variational_bmc.variational import DiagonalMixture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bqvi.variational_bmc.vbmc_run import VBMCRun


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The surrogate's predictions at m held-out evaluations.

    Attributes
    ----------
    theta : the points (m, P), in the user's units.
    residuals : the values less their predictions (m,), nats.
    sds : the standard deviations (m,) of the residuals, by the surrogate and the noise of values.
    """

    theta: np.ndarray
    residuals: np.ndarray
    sds: np.ndarray

    @property
    def standardised(self) -> np.ndarray:
        """The residuals in units of their sds, (m,), with variance 1 where the surrogate is calibrated."""
        return self.residuals / self.sds

    def contradicts(self, tolerance: float) -> bool:
        """Whether the residuals are too large for their sds and a ``tolerance`` of the log evidence, nats."""
        squares = self.residuals**2 / (self.sds**2 + tolerance**2)
        return float(np.minimum(squares, PREDICTIONS.largest_error).mean()) >= ENGINES.sds**2

    def __str__(self) -> str:
        return (
            f"{len(self.residuals)} evaluations that were given and not taken: the surrogate's predictions "
            f"are off by {np.median(np.abs(self.residuals)):.2g} nats (median), "
            f"{np.median(np.abs(self.standardised)):.2g} of its sds"
        )


@dataclass(frozen=True, eq=False, repr=False)
class VBMCResult(DoorResult):
    """Posterior and evidence.

    Attributes
    ----------
    posterior : :class:`bqvi.posterior.Posterior`, in the user's units.
    elbo, elbo_sd : the ELBO of q under the surrogate, nats; the sd is the surrogate's uncertainty.
    log_evidence, log_evidence_sd : of the surrogate, nats, by importance weighting with q as the proposal.
        The sd contains the surrogate's uncertainty, scaled by its prediction errors, and that of the draws.
    converged : whether all conditions of :mod:`bqvi.variational_bmc.stopping` hold.
    stopped : 'converged', 'budget' or 'seconds'.
    reasons : why ``converged`` is False: the conditions of convergence that do not hold; () where it is True.
    warnings : findings about the result, each with advice.
    n_evaluations : the number of evaluations that were used, given ones included.
    evaluations : these evaluations, in unbounded coordinates. theta : (n, P), their points in the user's
        units.
    trace : one record for each step.
    checkpoint : the state of the run; ``resume`` takes the whole result.
    estimate, frame : the last surrogate, mixture and weights, and the frame of their coordinates.
    held_out : predictions of the surrogate at evaluations that were given and not used
        (:class:`bqvi.variational_bmc.result.HeldOut`); None where there are none.
    """

    posterior: Posterior
    elbo: float
    elbo_sd: float
    log_evidence: float
    log_evidence_sd: float
    converged: bool
    stopped: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    n_evaluations: int
    evaluations: Evaluations
    theta: np.ndarray
    trace: Trace
    checkpoint: Checkpoint
    estimate: Estimate
    frame: Frame
    held_out: HeldOut | None

    def __repr__(self) -> str:
        return (
            f"VBMCResult(log_evidence={self.log_evidence:.4f} +- {self.log_evidence_sd:.4f}, "
            f"elbo={self.elbo:.4f}, {self._counted}, "
            f"{'converged' if self.converged else 'not converged'})"
        )

    def _rows(self) -> dict[str, str]:
        return {
            "log evidence": f"{self.log_evidence:.4f} ± {self.log_evidence_sd:.2g}",
            "hidden modes": f"{self.hidden:.2g} nats on average",
            "ELBO": f"{self.elbo:.4f} ± {self.elbo_sd:.4f}",
            "converged": notebook.yes_or_no(self.converged, "; ".join(self.reasons)),
        }

    @property
    def hidden(self) -> float:
        """The nats that modes too narrow to be seen would add on average; ``log_evidence_sd`` is without."""
        return float(self.trace["hidden"][-1])

    @property
    def pareto_k(self) -> float:
        """Pareto k of the importance weights between the surrogate and q; above .7 they are not averaged."""
        return self.estimate.found.pareto_k

    @property
    def state(self) -> State:
        """The state of the run."""
        return self.checkpoint.state

    @property
    def values(self) -> np.ndarray:
        """Values of the log joint (n,): (`theta`, `values`) may be ``evaluations`` of another run."""
        return self.evaluations.values - self.posterior.coordinates.log_jacobian(self.evaluations.points)

    @property
    def n_failed(self) -> int:
        """The number of evaluations without a value."""
        return int(self.evaluations.failed.sum())

    @property
    def n_cheap_evaluations(self) -> int:
        """The number of evaluations of the cheap model, which do not count in the budget."""
        return self.state.n_cheap_evaluations

    @property
    def cheap_scale(self) -> tuple[float, float] | None:
        """Posterior mean and standard deviation of the cheap model's scale a; None without such a model.

        It is near 1 where the log joint resembles the cheap model, and near 0 where it does not.
        """
        return self.estimate.surrogate.cheap_scale

    def _draw(self, ax: Axes, truth: float | None) -> Axes:
        from bqvi.canvas import trace

        n, elbo = self.trace["n_evaluations"], self.trace["elbo"]
        evidence = self.trace["log_evidence"], self.trace["log_evidence_sd"]
        trace(ax, n, {"log evidence": evidence, "ELBO": (elbo, np.zeros(len(n)))}, truth)
        remark = "" if self.converged else ", not converged"
        value = f"{self.log_evidence:.5g} $\\pm$ {self.log_evidence_sd:.2g}"
        ax.set(xlabel="evaluations", ylabel="nats")
        ax.set_title(f"vbmc: {value} after {self.n_evaluations} evaluations{remark}", fontsize=10)
        return ax

    def surrogate_mean(self, theta: np.ndarray) -> np.ndarray:
        """The surrogate's mean of the log joint, (n,), at theta (n, P) inside the bounds.

        Raises ValueError where ``theta`` has another shape or lies outside the bounds.
        """
        coordinates = self.posterior.coordinates
        points = coordinates.from_user(theta)
        u = self.frame.into(points)
        found = self.estimate.surrogate.mean(u) - self.frame.log_stretch(u)
        return found - coordinates.log_jacobian(points)


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
    unmet = judge(rows, run.tolerance)
    reasons = about_width(frame.measure(estimate.q), run.coordinates, moving=bool(unmet))
    if held_out is not None and held_out.contradicts(run.tolerance):
        reasons = (*reasons, f"{held_out}. {CONTRADICTED}")
    made = reached.evaluations.censored
    good = made[~made.failed]
    exact = good.noise_variance is None and not run.settings_at(state).noise_unknown
    wrong = gradient_warnings(good.points, good.values, good.gradients) if exact else ()
    reasons = (*reasons, *understated(made, estimate.surrogate), *wrong)
    values = good.values - run.coordinates.log_jacobian(good.points)
    reasons = (*reasons, *nothing_above(values, int(made.failed.sum())), *about_rounding(posterior))
    located = row.divergence < ENGINES.counts and row.log_evidence_sd < ENGINES.counts
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
    if pair is not None:
        differ = (
            f"The log joint was {pair[0]:.6g} and {pair[1]:.6g} at nearly the same point, although it was "
            "declared exact. A noise was therefore fitted, with a standard deviation of "
            f'{estimate.surrogate.fitted_noise**0.5:.2g}: give noise_sd (a number, a function or "unknown").'
        )
    return (
        *(() if noise is None else unstated_noise(noise[good])),
        *([differ] if differ else []),
        *run.target.doubts(state.evaluations),
        *((_UNUSED,) if state.cheap is not None and not state.cheap.used else ()),
    )
