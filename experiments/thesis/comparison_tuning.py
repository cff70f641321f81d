"""The schedules of `comparison`: for each estimator, choice of data and problem the best of a grid.

The best has the highest ELBO after all steps on a seed that is not reported; a run that diverged has the
lowest, and of several the shortest steps. On the mixture, whose runs take longest, choices of data have the
schedule of their estimator with reshuffled data.

    python -m experiments.thesis.comparison_tuning [PROBLEM...]

fills `comparison.json` where it has gaps, in some minutes.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence

from experiments.thesis import comparison_problems as problems
from experiments.thesis.comparison_problems import (
    FULL,
    GRID,
    PROBLEMS,
    SHORT,
    STEPS,
    TUNED,
    UNTUNED,
    Schedule,
    fitted,
    possible,
)

__all__: list[str] = []

_SEED = 1000
_SHARED = "reshuffled"


def _schedules(problem: str, estimator: str) -> Sequence[Schedule]:
    """Those that are tried; on the mixture without the shortest, with which 80 steps do not arrive."""
    if estimator.endswith(problems.ADAM):
        return problems.RATES
    if estimator.startswith("score") or estimator == problems.INSIDE:
        return (*GRID, *SHORT)
    return GRID[:-1] if problem == "mixture" else GRID


def _main(names: Sequence[str]) -> None:
    """Tune on each of the problems ``names`` and write the table."""
    whole = json.loads(TUNED.read_text(encoding="utf-8")) if TUNED.exists() else {}
    for problem in names or PROBLEMS:
        posed, best = PROBLEMS[problem](_SEED), {}
        for estimator, data in problems.CELLS:
            known = f"{estimator}, {data}" in whole.get(problem, {}) or not possible(problem, estimator)
            if known or (problem == "mixture" and data not in (FULL, _SHARED)):
                continue
            found = []
            for schedule in _schedules(problem, estimator):
                table = fitted(posed, estimator, data, schedule, STEPS, [STEPS], _SEED)
                found.append((float(table["elbo"].iloc[-1]), -schedule[0], schedule))
            best[f"{estimator}, {data}"] = max(found)[2]
            print(problem, estimator, data, [f"{one[0]:.6g}" for one in found], flush=True)
        best |= whole.get(problem, {})
        for estimator, data in problems.CELLS:
            if possible(problem, estimator):
                best.setdefault(f"{estimator}, {data}", best.get(f"{estimator}, {_SHARED}", UNTUNED))
        whole[problem] = best
        TUNED.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # runs that have not converged are what is compared
    _main(sys.argv[1:])
