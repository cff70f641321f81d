"""The schedules of `comparison`: for each estimator, choice of data and problem the best of a grid.

The best has the highest ELBO after all steps on a seed that is not reported; a run that diverged has the
lowest, and of several the shortest steps.

    python -m experiments.thesis.comparison_tuning [PROBLEM...]

fills `comparison.json`, in some minutes.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence

from experiments.thesis import comparison_problems as problems
from experiments.thesis.comparison_problems import GRID, PROBLEMS, SHORT, STEPS, TUNED, Schedule, fitted

__all__: list[str] = []

_SEED = 1000


def _schedules(problem: str, estimator: str) -> Sequence[Schedule]:
    """Those that are tried; on the mixture without the shortest, with which 80 steps do not arrive."""
    if estimator.startswith("score"):
        return (*GRID, *SHORT)
    return GRID[:-1] if problem == "mixture" else GRID


def _main(names: Sequence[str]) -> None:
    """Tune on each of the problems ``names`` and write the table."""
    for problem in names or PROBLEMS:
        posed, best = PROBLEMS[problem](_SEED), {}
        for estimator, data in problems.CELLS:
            found = []
            for schedule in _schedules(problem, estimator):
                table = fitted(posed, estimator, data, schedule, STEPS, [STEPS], _SEED)
                found.append((float(table["elbo"].iloc[-1]), -schedule[0], schedule))
            best[f"{estimator}, {data}"] = max(found)[2]
            print(problem, estimator, data, [f"{one[0]:.6g}" for one in found], flush=True)
        whole = json.loads(TUNED.read_text(encoding="utf-8")) if TUNED.exists() else {}
        TUNED.write_text(json.dumps({**whole, problem: best}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # runs that have not converged are what is compared
    _main(sys.argv[1:])
