"""``python -m benchmarks.walk``: the number of files in which functions run, for each front door.

Counted are the files of `bqvi`, `gp` and `acquisition` in which a function ran: between the call of the door
and the first call of the user's function, and in the third step, which evaluates, learns and chooses the next
points. Shared helpers (checks, arrays, threads, progress) are counted too, and what runs while a module is
imported is not. The log joint is that of a standard normal in two dimensions. The rows are those of the table
of ARCHITECTURE.md, which a test compares with them. Below the table stand the lines of the files in which
functions ran in whole runs of the first three doors, with and without gradients.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import acquisition
import bqvi
import gp

FOLDERS = tuple(str(Path(package.__path__[0])) for package in (bqvi, gp, acquisition))
STEP = 3
"""The step that is counted: the first evaluates a design, and the second may end a search or a pilot run."""


class _Walk:
    """The files in which a function ran while it was counted."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._importing = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count in this block."""
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        if frame.f_code.co_name == "<module>":
            self._importing += 1 if event == "call" else -1
        elif event == "call" and not self._importing:
            name = frame.f_code.co_filename
            if name.startswith(FOLDERS):
                self.files.add(name)


class _FirstCallError(Exception):
    """The user's function is called for the first time."""


def _log_joint(theta: np.ndarray) -> Any:
    """The log density of N(0, I) up to a constant, at (2,) or (n, 2)."""
    return -0.5 * np.square(theta).sum(-1)


def _density(x: np.ndarray) -> Any:
    return np.exp(_log_joint(x))


def _vbmc(function: Callable[..., Any], **given: Any) -> Any:
    box: dict[str, Any] = {"plausible_lower": [-2, -2], "plausible_upper": [2, 2]}
    return bqvi.vbmc.steps(function, **box, **given, budget=60, seed=0)


def _integrate(function: Callable[..., Any], **given: Any) -> Any:
    measure = gp.measures.Gaussian(np.zeros(2), np.ones(2))
    return bqvi.integrate.steps(function, measure, **given, budget=60, seed=0)


def _fit(function: Callable[..., Any], gradient: Any = None) -> Any:
    model = bqvi.models.LogJoint(function, 2, gradient=gradient)
    return bqvi.fit.steps(model, method="bq", budget=60, seed=0)


def _bounds(function: Callable[..., Any]) -> Any:
    return bqvi.evidence_bounds.steps(
        function, gp.measures.Gaussian(np.zeros(2), np.full(2, 4.0)), budget=4000, seed=0
    )


DOORS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "bqvi.vbmc": (_vbmc, _log_joint),
    "bqvi.integrate": (_integrate, _density),
    'bqvi.fit(method="bq")': (_fit, _log_joint),
    "bqvi.evidence_bounds": (_bounds, _log_joint),
}
"""Makes a run of the door, and the function that it is given."""


def before_first_call(begin: Callable[..., Any]) -> set[str]:
    """The files entered from the call of the door to the first call of the user's function."""
    walk = _Walk()

    def first(theta: np.ndarray) -> Any:
        sys.setprofile(None)
        raise _FirstCallError

    try:
        with walk.counted():
            next(iter(begin(first)))
    except (bqvi.RunStopped, bqvi.RunError):
        return walk.files
    raise AssertionError("the user's function was not called")


def in_one_step(begin: Callable[..., Any], function: Callable[..., Any]) -> set[str]:
    """The files entered in step `STEP`."""
    walk = _Walk()
    run = iter(begin(function))
    for _ in range(STEP - 1):
        next(run)
    with walk.counted():
        next(run)
    return walk.files


def in_whole_runs() -> dict[str, int]:
    """The files entered in runs of `vbmc`, `integrate` and `fit`, with their lines."""
    walk = _Walk()
    with walk.counted():
        for begin in (_vbmc, _integrate, _fit):
            function = _density if begin is _integrate else _log_joint
            slopes = (lambda x: -x * _density(x)[..., None]) if begin is _integrate else np.negative
            for run in (begin(function), begin(function, gradient=slopes)):
                run.finish()
    return {name: Path(name).read_text(encoding="utf-8").count("\n") for name in walk.files}


def main() -> None:
    """Print the two rows of the table, and the lines."""
    before = [len(before_first_call(begin)) for begin, _ in DOORS.values()]
    within = [len(in_one_step(begin, function)) for begin, function in DOORS.values()]
    print(f"| | {' | '.join(f'`{name}`' for name in DOORS)} |\n|{'---|' * (1 + len(DOORS))}")
    print(f"| files entered before the first call | {' | '.join(map(str, before))} |")
    print(f"| files entered in one turn | {' | '.join(map(str, within))} |")
    entered = in_whole_runs()
    print(f"\n{len(entered)} files with {sum(entered.values())} lines in whole runs of the first three")


if __name__ == "__main__":
    main()
