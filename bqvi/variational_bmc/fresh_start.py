"""A new start from values alone, where the surrogate fitted to gradients fails.

With gradients a run begins with a climb of the log joint. The density of a funnel or of a centred hierarchy
is highest at the end of a neck that contains hardly any mass, where all scales are orders of magnitude
smaller. A stationary kernel that is fitted to gradients there predicts the rest of the posterior badly. Such
a run is recognised by its prediction errors, and by a persistently small effective sample size of the draws,
unless the posterior hardly changes and the draws cover it. The run then starts again as a run without
gradients does: from a Sobol design of the plausible box, in the box's frame. Earlier evaluations are used
again where their values are no higher than those found since (`State.usable`), so that the neck is approached
from the region of the mass.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqvi.calls.climb import rows_of
from bqvi.variational_bmc.settings import FRESH_START
from bqvi.variational_bmc.state import State, begun, missed, prediction_error, settled

__all__ = ["FROM_VALUES", "restarted_from_values", "surrogate_failed"]

FROM_VALUES = (
    "The surrogate with gradients predicted badly, and the run was restarted from values alone: the scale of "
    "the log joint may change over the posterior (a funnel, a hierarchy). Reparametrise it if you can."
)


def surrogate_failed(state: State) -> bool:
    """Whether the surrogate that was fitted to gradients has failed."""
    if state.values_from or state.evaluations.gradients is None:
        return False
    own = len(state) - state.given  # those made before the run do not show how it proceeds
    if own < FRESH_START.each * state.evaluations.points.shape[1] or _covered(state):
        return False
    predictions = int(np.isfinite(state.predicted[:, 0]).sum())
    if predictions >= FRESH_START.predictions and prediction_error(state) > FRESH_START.wrong:
        return missed(state) > FRESH_START.missed
    last = state.rows[-FRESH_START.following :]
    return (
        len(last) == FRESH_START.following and max(row.effective_share for row in last) < FRESH_START.hardly
    )


def _covered(state: State) -> bool:
    """Whether the posterior hardly changes, and most draws of q carried weight in a recent record."""
    shares = [row.effective_share for row in state.rows[-FRESH_START.following :]]
    return settled(state) and max(shares) > FRESH_START.covered


def restarted_from_values(state: State, points: np.ndarray) -> State:
    """The state of a new start: of ``points`` (m, D), a design, those that are not evaluated yet are pending.

    Where exploration has evaluated all of them, nothing is pending. The next step must not go back to the
    state before the last record, which took the gradients.
    """
    fresh = points[rows_of(state.evaluations.points, points) < 0]
    first = begun(fresh, state.evaluations)
    return replace(
        first, rows=state.rows, before=state.before if len(fresh) else None, seconds=state.seconds,
        coordinates=state.coordinates, values_from=len(state), given=state.given, cheap=state.cheap,
    )  # fmt: skip
