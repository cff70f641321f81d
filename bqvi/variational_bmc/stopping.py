"""The conditions of convergence, and the reasons where a run has not converged.

Seven conditions on the last records, with the thresholds of `ConvergenceSettings`, have to hold.

- *Is the posterior settled?* Successive posteriors differ by little more than estimates of equal ones do.
- *Is the evidence constant?* The records of log Z lie within the tolerance, or their own sd, of each other.
- *Is the evidence known?* Its sd, which contains the surrogate's uncertainty, is below the tolerance.
- *Do the draws represent the surrogate?* By their effective share and Pareto k; nearly equal weights have no
  tail.
- *Has the claim been tested?* A record that meets the conditions above is a claim. With evaluations that
  could refute it (:mod:`refutation`) log Z moves by less than its sd, and the sd does not grow.
- *Did the surrogate predict draws of the posterior?* By the share of the mass in which it and the log joint
  differ at these. Noisy values leave it out.
- *Has the plausible box been explored, and are few further modes expected?* See :mod:`exploration`, whose
  part of the sd is not counted in the third condition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.pareto import PARETO
from bqvi.variational_bmc.settings import COMPARISON, CONVERGENCE, PREDICTIONS, WEIGHTS
from bqvi.variational_bmc.state import Row

_UNTESTED = "the log joint has not been evaluated at points that could refute the result"
_REFUTED = "evaluations that tested the result have changed it"
_DIFFERENT_MASS = "at draws of the posterior, the densities of surrogate and log joint differ"
_UNEXPLORED = "the plausible box has not been explored for further modes: raise budget, or give a smaller box"


@dataclass(frozen=True)
class Verdict:
    """Whether a run has converged, with the ``reasons`` if not."""

    converged: bool
    reasons: tuple[str, ...]

    @property
    def needs_exploration(self) -> bool:
        """Whether only exploration is missing."""
        return self.reasons == (_UNEXPLORED,)


def needs_test(rows: tuple[Row, ...], tolerance: float) -> bool:
    """Whether the latest record is a claim: only its test, exploration and one more record are missing."""
    verdict = judge(rows, tolerance, CONVERGENCE.steady - 1)
    return all(
        reason.startswith((_UNEXPLORED, _UNTESTED, _REFUTED, _DIFFERENT_MASS)) for reason in verdict.reasons
    )


def judge(rows: tuple[Row, ...], tolerance: float, steady: int = CONVERGENCE.steady) -> Verdict:
    """Test the conditions; the last record may be that of the final, thorough estimate.

    Parameters
    ----------
    rows : the records. tolerance : the tolerance of the log evidence, nats.
    steady : the number of latest records on which the conditions are tested.
    """
    if len(rows) < steady + 2:
        return Verdict(False, (f"only {len(rows)} steps have been made; at least {steady + 2} are needed",))
    last = rows[-steady:]
    reasons = [
        *_about_change(last, tolerance),
        *_about_coverage(last[-1]),
        *_about_test(rows, tolerance),
        *_about_exploration(last[-1]),
    ]
    return Verdict(not reasons, tuple(reasons))


def _about_change(last: tuple[Row, ...], tolerance: float) -> list[str]:
    """The reasons why posterior and log evidence may still change, from the latest records."""
    sds = [row.known_sd for row in last]
    evidences = np.array([row.log_evidence for row in last])
    spread = float(np.ptp(evidences))
    allowed = max(tolerance, 2.0 * float(np.median(sds)))
    divergence = max(row.divergence - row.divergence_floor for row in last)
    reasons = []
    if not divergence < CONVERGENCE.divergence:
        lost = "" if divergence < PREDICTIONS.unsettled else "the posterior has not been found: "
        differ = f"divergence {divergence:.2g}, not {CONVERGENCE.divergence}"
        reasons.append(f"{lost}successive posteriors still differ ({differ})")
    if not spread < allowed:
        reasons.append(f"the log evidence still moves (by {spread:.2g} over the last {len(last)} steps)")
    if not sds[-1] < tolerance:
        reasons.append(
            f"its sd is {sds[-1]:.2g} by the surrogate, without what unseen modes may add, and not below "
            f"tolerance={tolerance:.2g}"
        )
    return reasons


def _about_test(rows: tuple[Row, ...], tolerance: float) -> list[str]:
    """The reasons why the claim of an earlier record does not stand."""
    now = rows[-1]
    claim = next((row for row in rows if row.n_evaluations == now.tested), None)
    if claim is None:
        return [_UNTESTED]
    reasons = []
    if not now.total_variation < max(tolerance, COMPARISON.allowed(now.compared)):
        reasons.append(f"{_DIFFERENT_MASS} (by {now.total_variation:.0%} of the mass)")
    moved, sd = abs(now.log_evidence - claim.log_evidence), max(claim.known_sd, 0.5 * tolerance)
    if not (moved < sd and now.known_sd < COMPARISON.grown * sd):
        reasons.append(
            f"{_REFUTED} (the log evidence by {moved:.2g}, its sd from {sd:.2g} to {now.known_sd:.2g})"
        )
    return reasons


def _about_exploration(now: Row) -> list[str]:
    """The reason why there may be further modes."""
    if not now.explored:
        return [_UNEXPLORED]
    if not now.unseen < CONVERGENCE.unseen:
        return [f"there may be further modes (they would add {now.unseen:.2g} nats on average)"]
    return []


def _about_coverage(now: Row) -> list[str]:
    """The reason why q may not cover the surrogate."""
    share, k = now.effective_share, now.pareto_k
    if share > CONVERGENCE.effective and (k < PARETO.unusable or share > WEIGHTS.covered):
        return []
    return [f"q does not cover the surrogate (Pareto k {k:.2f}, effective share {share:.2g})"]


def verifies(rows: tuple[Row, ...], tolerance: float) -> bool:
    """Whether the thorough estimate is due: the records have converged, and evaluations have grown enough.

    The thorough estimate takes as long as about ten steps. After one that has not converged, the next one is
    made only when the evaluations have grown by a factor.
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
