"""The result of `bqvi.fit`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bqvi.calls.coordinates import place_of
from bqvi.calls.faults import gradient_warnings, left_out
from bqvi.calls.returned import unstated_noise
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.importance import PARETO
from bqvi.inference.convergence import outside, settling_warnings
from bqvi.inference.state import LoopProblem, LoopState, is_of_one_function, log_base_measure
from bqvi.models.data import n_rows
from bqvi.posterior import Posterior, of_model
from bqvi.runs import Checkpoint, Trace
from bqvi.runs.door_result import DoorResult
from gp.user_warnings import warn_user

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes

    from bqvi.gradients.memory import Memory
    from bqvi.gradients.remembered import EvidenceEstimate


@dataclass(frozen=True, repr=False)
class Fit(DoorResult):
    """The variational posterior that `fit` found, its ELBO, and the record of the run."""

    q: Any
    """The variational posterior. Where bounds, a plausible box or a model of another package were given, it
    is in the coordinates of the run; ``posterior`` is the same in the user's units."""
    elbo: float
    """Its ELBO, nats."""
    elbo_sd: float
    """Standard deviation of ``elbo``, of the surrogate or of the mean over draws: 0 where it is exact, and
    infinite where it is not known."""
    trace: Trace
    """Iterations, seconds, evaluations, samples, ELBO and metrics at each record."""
    stopped: str
    """Why it ended: 'tolerance', 'steps', 'budget', 'seconds', 'failed', 'interrupted' or 'unfinished'."""
    checkpoint: Checkpoint
    """The state of the run; pass the fit as ``resume`` to continue from it."""
    problem: LoopProblem
    """Model, data, estimator and the other choices of the run."""
    state: LoopState
    """The state with ``q``: that of the checkpoint, or of its best start."""
    start_elbos: tuple[float, ...] = ()
    """Final ELBO of each start, where there were several."""

    @cached_property
    def posterior(self) -> Posterior:
        """q as a distribution of the user's parameters, for q a Gaussian or a mixture of Gaussians.

        Raises
        ------
        TypeError
            q is another distribution.
        """
        model = self.problem.model
        target = getattr(model, "target", None)
        return of_model(Posterior.of(self.q, getattr(model, "coordinates", None), model=target))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings with advice: those of the run, and of a log evidence with Pareto k above .7.

        The first call estimates the log evidence, if it is available.
        """
        return self.warnings_of_the_run + self._of_estimate(self._evidence)

    @property
    def warnings_of_the_run(self) -> tuple[str, ...]:
        """A wrong gradient, an ELBO that is unknown or not settled, a q that diverges; raised at the end."""
        reasons = "; ".join(() if self.converged else (*self.state.reasons, *self._falls))
        return (*self._of_evaluations, *[f"The run has not converged: {reasons}."] * bool(reasons))

    @property
    def _falls(self) -> tuple[str, ...]:
        """That steps by the exact gradient of all data have led to a smaller ELBO; () otherwise."""
        exact = self.problem.estimator.samples == 0 and self.problem.minibatch is None
        fall = float(np.max(self.trace["elbo"], initial=-np.inf)) - self.elbo
        told = f"the ELBO has fallen by {fall:.3g} nats: scale the columns of the data, or take shorter steps"
        return (told,) if exact and fall > 1.0 else ()

    @property
    def _of_evaluations(self) -> tuple[str, ...]:
        memory, function = self._memory, getattr(self.problem.model, "function", None)
        if memory is None:
            made = None if self.converged else self.state.finite_latest
            if made is None or not isinstance(self.q, Gaussian | DiagonalGaussian):
                return self._of_no_step
            wrong = gradient_warnings(made.points, made.values, made.gradients)
            return tuple(wrong or settling_warnings(self.q, made.points, made.values, None))
        found = [*memory.failures.warnings(self.n_evaluations, self._place), *self._of_failures(memory)]
        if memory.noise_variances.size:
            found += unstated_noise(memory.noise_variances[:, 0])
        if not memory.noise_variances.any():  # noisy differences do not check the gradient
            found += gradient_warnings(memory.points, memory.values, memory.gradients)
        if not found and not self.converged and isinstance(self.q, Gaussian):
            known = memory.censored
            gradients = known.gradients if function is None or function.gradient is not None else None
            found = settling_warnings(self.q, known.points, known.values, gradients)
        return tuple(self._of_unknown(memory) + found + self._of_outside(memory))

    @property
    def _of_no_step(self) -> tuple[str, ...]:
        """A warning that the budget allowed no step, nor the ELBO of the first q."""
        if self.state.iteration or self.stopped != "budget" or not math.isnan(self.elbo):
            return ()
        return (
            "No step was taken, as one needs more evaluations than the budget has: q is where it began, and "
            "its ELBO is not known. Raise the budget, which counts rows where the model has data.",
        )

    def _of_failures(self, memory: Memory) -> list[str]:
        failed = len(memory.censored.failed)
        if not failed or self._evidence is None or not self._evidence.failing:
            return []
        return [
            f"{failed} of {self.n_evaluations} evaluations failed, in a region that holds about "
            f"{self._evidence.failing:.0%} of q. The log evidence leaves that region out; the ELBO and "
            "the posterior include it. State the feasible region by bounds if it is a box, or use bqvi.vbmc."
        ]

    def _of_outside(self, memory: Memory) -> list[str]:
        if not is_of_one_function(self.problem.model, self.q, memory) or not len(memory.points):
            return []
        sds = np.sqrt(memory.noise_variances[:, 0]) if memory.noise_variances.size else 0.0
        found = outside(self.q, memory.points, memory.values - 2.0 * sds)
        if found is None:
            return []
        row, difference = found
        side = "above" if difference > 0.0 else "below"
        return [
            f"The log joint at {self._place(memory.points[row])}, outside of q, is {abs(difference):.2g} "
            f"nats {side} its highest value in q: the posterior has mass there, as of another mode, which "
            "q, the ELBO and the log evidence lack. Begin there, by start_from or plausible bounds, and "
            "compare the ELBOs; or use bqvi.vbmc."
        ]

    def _place(self, point: np.ndarray) -> str:
        """The text by which messages name a point (D,) of the run's coordinates."""
        return place_of(getattr(self.problem.model, "coordinates", None), point)

    def _of_unknown(self, memory: Memory) -> list[str]:
        n = self.state.n_evaluations
        if not math.isnan(self.elbo):
            return []
        if n and not len(memory.points):
            return [
                f"None of {n} evaluations had a finite value: q is where it began. Begin "
                "where the log joint is finite, by plausible bounds or start_from."
            ]
        needed = memory.points.shape[1] + 2
        if n < needed:
            return [
                f"The ELBO of q is not known from {n} evaluations: a surrogate needs D + 2 = {needed}. Raise "
                "the budget."
            ]
        return [
            f"The ELBO of q is not known from {n} evaluations: too few of them lie near q, "
            "or the log joint changes too fast there. Raise the budget, or state plausible bounds nearer "
            "to the posterior."
        ]

    @property
    def settings(self) -> dict[str, str]:
        """The choices of the run, in words."""
        return dict(self.checkpoint.settings)

    @property
    def converged(self) -> bool:
        """Whether the run ended because q and its ELBO were found to be settled within the tolerance.

        False for a run without a tolerance, and for one that ended by another condition before.
        """
        return self.stopped == "tolerance"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why `converged` is False, sentences; () where it is True."""
        if self.converged:
            return ()
        unit = " of rows of the data" * (self.stopped == "budget" and n_rows(self.problem.data) > 0)
        ended = f"the run ended by '{self.stopped}'{unit}, and not because it had settled within a tolerance"
        return tuple(dict.fromkeys((*self.state.reasons, *self._falls, *self._of_evaluations))) or (ended,)

    @property
    def n_evaluations(self) -> int:
        """Evaluations in all, of every start, step and record: per datum, or of a log joint without data."""
        return self.checkpoint.n_evaluations

    @property
    def n_failed(self) -> int:
        """Those among them without a value; 0 for a method that keeps none, as a failure ends its runs."""
        return 0 if self._memory is None else len(self._memory.failed)

    @property
    def theta(self) -> np.ndarray | None:
        """The points (n, P), in the user's units, of the evaluations that returned a finite value.

        None where the method keeps no evaluations: all but ``method="bq"``.
        """
        if self._memory is None:
            return None
        coordinates, points = getattr(self.problem.model, "coordinates", None), self._memory.points
        return points if coordinates is None else coordinates.to_user(points)

    @property
    def values(self) -> np.ndarray | None:
        """The log joint (n,) at `theta`: (`theta`, `values`) may be ``evaluations`` of another run.

        None where `theta` is.
        """
        if self._memory is None:
            return None
        coordinates, values = getattr(self.problem.model, "coordinates", None), self._memory.values
        return values if coordinates is None else values - coordinates.log_jacobian(self._memory.points)

    @property
    def _memory(self) -> Memory | None:
        """The evaluations that the run kept; None where its method keeps none."""
        memory = getattr(self.state.memory, "known", self.state.memory)
        return memory if hasattr(memory, "gradients") else None

    @property
    def log_evidence(self) -> float:
        """The log evidence of the mode that q covers, nats: NaN where the run keeps no evaluations.

        Unlike the ELBO it does not contain the gap KL(q || p). No other mode is searched for or contained.
        It is available for ``method="bq"`` with a Gaussian q and takes no evaluation; the first call takes
        some seconds where D is 10 or more. See `bqvi.gradients.remembered`.
        """
        if self._evidence is None:
            return math.nan
        return self._evidence.value + log_base_measure(self.problem.model, self.problem.data)

    @property
    def log_evidence_sd(self) -> float:
        """Standard deviation of `log_evidence`; infinite where there is none.

        It contains the mass that q lacks where the log joint was evaluated, and heavy tails as evaluations
        that test convergence show them. Of factor models whose loadings are determined up to their sign the
        evidence of q's mode was right within .004 nats, at sds of .01, and the whole ln 2 larger; `bqvi.vbmc`
        looks for other modes before it has converged.
        """
        return math.inf if self._evidence is None else self._evidence.sd

    @property
    def pareto_k(self) -> float:
        """Pareto k of the importance weights in the log evidence, which is unreliable where k exceeds .7.

        The draws are as narrow as q: a small k does not show that the posterior has no heavier tails.
        """
        return math.nan if self._evidence is None else self._evidence.pareto_k

    @cached_property
    def _evidence(self) -> EvidenceEstimate | None:
        from bqvi.gradients.remembered import remembered_evidence

        if not is_of_one_function(self.problem.model, self.q, self.state.memory):
            return None
        found = remembered_evidence(self.q, self.state.memory)
        for message in self._of_estimate(found):
            warn_user(message)
        return found

    def _of_estimate(self, evidence: EvidenceEstimate | None) -> tuple[str, ...]:
        """Warnings of weights that are not to be averaged, and of a gradient that others contradict."""
        found: tuple[str, ...] = ()
        if evidence is not None and evidence.contradicted >= 0:
            memory = self.state.memory
            found = (left_out(1, len(memory), self._place(memory.points[evidence.contradicted])),)
        if evidence is None or not evidence.pareto_k > PARETO.unusable:
            return found
        k = f"{evidence.pareto_k:.2f}, above {PARETO.unusable}"
        return (
            *found,
            f"The log evidence is unreliable: q does not cover the posterior (Pareto k = {k}). Raise the "
            "budget where q still moves; otherwise use bqvi.vbmc, whose posterior is a mixture.",
        )

    def _draw(self, ax: Axes, truth: float | None) -> Axes:
        from bqvi.canvas import trace

        if len(self.trace) == 0:
            raise ValueError("the fit has no records: nothing to draw")
        n, elbo = self.trace["n_evaluations"], self.trace["elbo"]
        counted = bool(np.ptp(n)) or len(n) == 1
        sd = np.where(np.isfinite(self.trace["elbo_sd"]), self.trace["elbo_sd"], 0.0)
        half = elbo[len(elbo) // 2 :]
        half = half[np.isfinite(half)]
        # the scale of exact ELBOs is a twentieth of the range of the second half of the records
        least = float(np.ptp(half)) / 20 if len(half) else 0.0
        trace(ax, n if counted else self.trace["iteration"], {"ELBO": (elbo, sd)}, truth, least)
        ax.set(xlabel="evaluations" if counted else "steps", ylabel="ELBO (nats), with one and two sd")
        method = self.settings.get("estimator", "fit").partition("(")[0]
        error = f" $\\pm$ {sd[-1]:.2g}" if sd[-1] > 0 else ""
        ax.set_title(f"{method}: {elbo[-1]:.6g}{error} after {self.n_evaluations} evaluations", fontsize=10)
        return ax

    def __repr__(self) -> str:
        return (
            f"Fit(elbo={self.elbo:.6g}{self._error}, {type(self.q).__name__}, {self.state.iteration} steps, "
            f"{self._counted}, stopped: {self.stopped}"
            f"{f', warnings: {len(self.warnings)}' if self.warnings else ''})"
        )

    @property
    def _error(self) -> str:
        """The standard deviation of the ELBO, where it is known and not zero."""
        return f" +- {self.elbo_sd:.2g}" if 0.0 < self.elbo_sd < math.inf else ""

    def _rows(self) -> dict[str, str]:
        return {
            "ELBO": f"{self.elbo:.6g}{self._error.replace('+-', '±')}",
            "q": type(self.q).__name__,
            "steps": str(self.state.iteration),
            "stopped": self.stopped,
        }
