"""Runs: the common parts of the front doors.

A front door has an `Engine` with ``init``, ``step``, ``finished`` and ``result``. `Steps` drives it, keeps
its state in every exception that ends it, and writes checkpoints. `door` makes the function that users call,
with its ``steps``.
"""

from bqvi.runs.checkpoint import Checkpoint, resumed
from bqvi.runs.door_result import Trace
from bqvi.runs.driver import Door, Steps, door
from bqvi.runs.engine import Ended, Engine, RunError, RunExit, RunInterrupted, RunStatus, RunStopped

__all__ = [
    "Checkpoint", "Door", "Ended", "Engine", "RunError", "RunExit", "RunInterrupted", "RunStatus",
    "RunStopped", "Steps", "Trace", "door", "resumed",
]  # fmt: skip
