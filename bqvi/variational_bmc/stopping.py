"""When a run has converged, and the reasons where it has not.

Eight conditions on the last records, with the thresholds of `settings.ConvergenceSettings`, have to hold.

- *Is the posterior settled?* Successive posteriors differ by little more than equal ones would, as both are
  known from draws (:mod:`moments`).
- *Is the evidence constant?* The records of log Z lie within the tolerance, or their own sd, of each other.
- *Is the evidence known?* Its sd, which contains the surrogate's uncertainty, is below the tolerance.
- *Do the draws represent the surrogate?* By their effective share and Pareto k, or by the share alone where
  it is high: among weights that are nearly the same the largest have no tail.
- *Does q cover it?* Where evaluations show much mass that q lacks, the thorough estimate has draws there
  (:mod:`local_proposal`), but exploration only takes the modes of q into account.
- *Did the surrogate predict the latest evaluations?* By their mean squared standardised error; the sd was
  scaled by it.
- *Did it predict draws of the posterior?* By the share of the mass in which it and the log joint differ
  there (:mod:`comparison`). That share is in the sd too, and not counted above. Where values are noisy this
  condition is left out.
- *Has the plausible box been explored, and are few further modes to be expected?* See :mod:`exploration`,
  whose part of the sd is not counted above.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import numpy as np

from bqvi.variational_bmc.settings import COMPARISON, CONVERGENCE
from bqvi.variational_bmc.state import Row

UNCOMPARED = "the surrogate has not been compared with the log joint at draws of the posterior"
MISPLACED = "at draws of the posterior, the surrogate has mass in the wrong place"
UNEXPLORED = "the plausible box has not been explored for further modes"


@dataclass(frozen=True)
class Verdict:
    """Whether a run has converged; ``reasons`` why not."""

    converged: bool
    reasons: tuple[str, ...]

    @property
    def awaits_exploration(self) -> bool:
        """Whether nothing but exploration is missing."""
        return self.reasons == (UNEXPLORED,)


def awaits_draws(rows: tuple[Row, ...], tolerance: float) -> bool:
    """Whether only exploration, a comparison at draws and one more record like the latest are missing."""
    verdict = judge(rows, tolerance, CONVERGENCE.steady - 1)
    return all(reason.startswith((UNEXPLORED, UNCOMPARED, MISPLACED)) for reason in verdict.reasons)


def judge(rows: tuple[Row, ...], tolerance: float, steady: int = CONVERGENCE.steady) -> Verdict:
    """Answer the questions; the last row may be that of the final, thorough estimate.

    Parameters
    ----------
    rows : the records. tolerance : of the log evidence, nats.
    steady : records of which everything is asked.
    """
    asked = CONVERGENCE
    if len(rows) < steady + 2:
        return Verdict(False, (f"only {len(rows)} steps have been made; at least {steady + 2} are needed",))
    last = rows[-steady:]
    now = last[-1]
    sds = [row.known_sd for row in last]
    evidences = np.array([row.log_evidence for row in last])
    spread = float(np.ptp(evidences))
    allowed = max(tolerance, 2.0 * float(np.median(sds)))
    divergence = max(row.divergence - row.divergence_floor for row in last)
    reasons = []
    if not divergence < asked.divergence:
        reasons.append(
            f"successive posteriors still differ (divergence {divergence:.2g}, not {asked.divergence})"
        )
    if not spread < allowed:
        reasons.append(f"the log evidence still moves (by {spread:.2g} over the last {steady} steps)")
    if not sds[-1] < tolerance:
        reasons.append(f"its sd is {sds[-1]:.2g}, not below the tolerance {tolerance:.2g}")
    reasons += _about_coverage(now)
    if not (now.prediction_error < asked.prediction_error or now.missed < asked.missed):
        reasons.append(
            f"the surrogate predicts worse than it says (mean squared z {now.prediction_error:.1f})"
        )
    if isnan(now.misplaced):
        reasons.append(UNCOMPARED)
    elif not now.misplaced < max(tolerance, COMPARISON.misplaced):
        reasons.append(f"{MISPLACED} ({now.misplaced:.0%} of it)")
    if not now.explored:
        reasons.append(UNEXPLORED)
    elif not now.unseen < asked.unseen:
        reasons.append(f"there may be further modes (they would add {now.unseen:.2g} nats on average)")
    return Verdict(not reasons, tuple(reasons))


def _about_coverage(now: Row) -> list[str]:
    """What speaks against q covering the surrogate."""
    asked, said = CONVERGENCE, "q does not cover the surrogate"
    if not (now.effective > asked.effective and (now.shape < asked.shape or now.effective > asked.uniform)):
        return [f"{said} (Pareto k {now.shape:.2f}, effective share {now.effective:.2g})"]
    return [] if now.covered else [f"{said} (evaluations tell of mass that q lacks)"]


def verifies(rows: tuple[Row, ...], tolerance: float) -> bool:
    """Whether the thorough estimate is due: where the records have converged, and again as evaluations grow.

    The thorough estimate takes as long as some ten steps. After one that disagrees, the next step is unlikely
    to agree.
    """
    first = len(rows)
    while first and judge(rows[:first], tolerance).converged:
        first -= 1
    due = 0.0
    for row in rows[first:]:
        now = row.n_evaluations >= due
        if now:
            due = CONVERGENCE.again * row.n_evaluations
    return first < len(rows) and now
