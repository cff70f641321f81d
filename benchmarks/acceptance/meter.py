"""The cost of one run: CPU time in units of a calibration kernel, memory, calls of the user's function.

Times are CPU times of the process, divided by the CPU time of a fixed kernel measured immediately before and
after, so that a slower machine and other load have little effect. The kernel consists of typical operations
of the engines: small arrays, Cholesky factors, exponentials, and Python between them.

Memory is the peak of the resident set less its size at the start. Each run has a process of its own, forked
from one that has made one such run already, so that imports and the memory of earlier runs are not counted.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.peak import peak

STANDARD = 4.0
"""The CPU milliseconds of the kernel on the machine that defines the unit of time."""
_ROUNDS = 3


def kernel() -> float:
    """CPU milliseconds that the calibration kernel takes now: the least of a few rounds."""
    x = np.linspace(-1.0, 1.0, 400).reshape(80, 5)
    return min(_kernel_once(x) for _ in range(_ROUNDS))


def _kernel_once(x: np.ndarray) -> float:
    began = time.process_time()
    total = 0.0
    for step in range(12):
        squares = np.square(x[:, None] - x).sum(-1)
        gram = np.exp(-0.5 * squares / (1.0 + 0.1 * step)) + 1e-3 * np.eye(len(x))
        total += float(np.linalg.cholesky(gram)[-1, -1])
        for row in x[:10]:
            total += float(row @ row)
    return 1e3 * (time.process_time() - began)


class Watched:
    """A user's function, with the points it was called at and the CPU time it took."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.points = 0
        self.seconds = 0.0

    def __call__(self, x: Any) -> Any:
        """Value of the function at one point (D,) or at points (n, D)."""
        began = time.process_time()
        value = self.function(x)
        self.seconds += time.process_time() - began
        self.points += 1 if x.ndim == 1 else len(x)
        return value


class Meter:
    """Measures the block it encloses.

    Attributes
    ----------
    seconds : CPU seconds of the block.
    kernel : mean of the kernel's CPU milliseconds before and after it.
    memory : MiB by which the peak of the resident set exceeds its size at the start.
    """

    def __init__(self) -> None:
        self.seconds = self.kernel = self.memory = float("nan")

    def __enter__(self) -> Self:
        self._kernel = kernel()
        _forget_peak()
        self._resident = _resident()
        self._began = time.process_time()
        return self

    def __exit__(self, *exception: object) -> None:
        self.seconds = time.process_time() - self._began
        self.memory = max(0.0, peak() - self._resident)
        self.kernel = 0.5 * (self._kernel + kernel())

    def overhead(self, beyond: float, units: float) -> float:
        """Standard milliseconds for each of ``units`` of work, without ``beyond`` CPU seconds."""
        return 1e3 * (self.seconds - beyond) / units * STANDARD / self.kernel


def _forget_peak() -> None:
    """Reset the peak of the resident set to its present size, where Linux allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _resident() -> float:
    """MiB of the resident set now; the peak where the system has no such figure."""
    status = Path("/proc/self/status")
    if not status.exists():
        return peak()
    lines = status.read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) / 2**10


def in_fork(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what ``function`` returns in a forked process; None if that process is ended.

    Raises
    ------
    RuntimeError
        With the traceback of what the function raised.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    try:
        kind, value = ours.recv()
    except EOFError:
        kind, value = "died", None
    process.join()
    if kind == "raised":
        raise RuntimeError(value)
    return value


def _answer(connection: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        connection.send(("returned", function(*arguments)))
    except BaseException:
        connection.send(("raised", traceback.format_exc()))
