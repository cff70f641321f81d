"""A contract test for front doors and their engines.

A door that passes :func:`check_engine` has runs that can be stepped, interrupted at any evaluation, saved to
a file and resumed from it without loss of an evaluation. The oracle is the uninterrupted run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from bqvi.records import flattened
from bqvi.runs.driver import Steps
from bqvi.runs.engine import Engine, RunStopped
from gp.testing import require
from gp.threads import single_threaded


class _Interruption(BaseException):
    pass


def check_engine(
    steps: Callable[[Path | None], Steps[Any, Any]],
    numbers: Callable[[Any], Any],
    at: Sequence[int] = (1, 2, 5),
) -> None:
    """Raise AssertionError, saying what is wrong, unless the door's engine keeps its contract.

    Parameters
    ----------
    steps : a function that returns a run, always with the same arguments and a new engine, of a function of
        one point in a call; it is given the path of the file from which the run is resumed, or None for a new
        run: ``lambda path: DOOR.steps(..., resume=path)``.
    numbers : a function of the result that returns numbers which interruptions must not change in any digit.
    at : evaluations at whose return the run is interrupted, each in a run of its own.
    """
    engine = steps(None).engine
    with single_threaded() if engine.small else nullcontext():  # with as many threads as the driver
        whole, total = _check_steps(engine, numbers)
    for count in at:
        if count <= total:
            _check_interrupted(steps, numbers, count, whole, total)


def _check_steps(engine: Engine[Any, Any], numbers: Callable[[Any], Any]) -> tuple[Any, int]:
    """Numbers of the uninterrupted run, and the number of its evaluations."""
    state = engine.init()
    before = engine.checkpoint(state).n_all_evaluations
    require(engine.ledger.entries().n_evaluations == 0, "init has to evaluate nothing")
    made = 0
    while (reason := engine.finished(state)) is None:
        held = _arrays(engine, state)
        reached = engine.step(state)
        require(reached is not state, "step has to return a new state")
        require(
            _arrays(engine, state) == held, "step has to leave the arrays of the state before it as they were"
        )
        made += engine.ledger.take().n_evaluations
        counted = engine.checkpoint(reached).n_all_evaluations - before
        require(counted == made, f"the state counts {counted} evaluations, the ledger had {made}")
        status = engine.status(reached)
        require(
            status.total is None or 0 <= status.done <= status.total,
            f"status has {status.done} of {status.total} {status.unit} done",
        )
        state = reached
    require(bool(reason), "finished has to say why there is no further step")
    found = numbers(engine.result(state, reason))
    require(
        numbers(engine.result(state, reason)) == found, "result of one state has to be the same each time"
    )
    return found, made


def _check_interrupted(
    steps: Callable[[Path | None], Steps[Any, Any]],
    numbers: Callable[[Any], Any],
    at: int,
    whole: object,
    total: int,
) -> None:
    """Check a run that is interrupted where evaluation ``at`` returns, and resumed from its file."""
    run, left = steps(None), at
    engine = run.engine
    before = engine.checkpoint(engine.init()).n_all_evaluations

    def interrupt() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise _Interruption

    engine.ledger.on_return = interrupt
    try:
        run.finish()
    except RunStopped as ended:
        checkpoint = ended.checkpoint
    else:
        raise AssertionError(f"an exception where evaluation {at} returns has to leave the run")
    kept = checkpoint.n_all_evaluations - before
    require(kept == at, f"of {at} evaluations that returned the state has {kept}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        checkpoint.save(path)
        resumed = steps(path)
    read = _count(resumed) - before
    require(read == at, f"of {at} evaluations that were saved the state from the file has {read}")
    found = numbers(resumed.finish())
    require(found == whole, f"interrupted at evaluation {at} and resumed, the result is {found}, not {whole}")
    spent = _count(resumed) - before
    require(
        spent == total, f"interrupted at evaluation {at}, the run counts {spent} evaluations, not {total}"
    )


def _count(run: Steps[Any, Any]) -> int:
    """The number of all evaluations of a run."""
    return run.engine.checkpoint(run.state).n_all_evaluations


def _arrays(engine: Engine[Any, Any], state: object) -> list[bytes]:
    """The saved arrays of a state, which must not change, without generators of random numbers."""
    arrays: list[np.ndarray] = []
    checkpoint = engine.checkpoint(state)
    flattened(state if checkpoint.records is None else checkpoint.records(state), arrays)
    return [array.tobytes() for array in arrays]
