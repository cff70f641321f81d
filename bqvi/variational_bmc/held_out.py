"""A check of the surrogate by evaluations that the user gave and that were not used.

Of thousands of evaluations some hundreds are used (:mod:`bqvi.calls.given`). At some of the others, none
far below the highest, with values f_i and predictions N(m_i, v_i) of the surrogate,

    z_i = (f_i - m_i) / sqrt(v_i + s_i^2),

are standard normal if the surrogate is calibrated, with s_i the sd of a value's noise. The evaluations
contradict the surrogate where the mean of (f_i - m_i)^2 / (v_i + s_i^2 + t^2) reaches the limit for the
predictions of a run's own evaluations before convergence (:mod:`stopping`). Residuals below t, the tolerance
of the log evidence, have little influence, as they change the log evidence by less than t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.calls.coordinates import Coordinates
from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.settings import PREDICTIONS
from bqvi.variational_bmc.state import Estimate, State


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
