"""The result of `bqvi.vbmc`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bqvi import notebook
from bqvi.calls import Evaluations
from bqvi.posterior import Posterior
from bqvi.runs import Checkpoint, Trace
from bqvi.runs.door_result import DoorResult
from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.settings import PREDICTIONS
from bqvi.variational_bmc.state import Estimate, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        return float(np.minimum(squares, PREDICTIONS.largest_error).mean()) >= PREDICTIONS.contradicted

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
        (:class:`bqvi.variational_bmc.thorough.HeldOut`); None where there are none.
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
            "log evidence": f"{self.log_evidence:.4f} ± {self.log_evidence_sd:.4f}",
            "ELBO": f"{self.elbo:.4f} ± {self.elbo_sd:.4f}",
            "converged": notebook.yes_or_no(self.converged, "; ".join(self.reasons)),
        }

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
        given = np.asarray(theta, float)
        if given.ndim != 2 or given.shape[1] != coordinates.n_parameters:
            raise ValueError(f"theta has shape {given.shape}; it must be (n, {coordinates.n_parameters})")
        coordinates.require_inside("theta", given)
        points = coordinates.from_user(given)
        u = self.frame.into(points)
        found = self.estimate.surrogate.mean(u) - self.frame.log_stretch(u)
        return found - coordinates.log_jacobian(points)
