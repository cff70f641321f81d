"""Candidates timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from benchmarks.setting import clock


@dataclass(frozen=True)
class Paired:
    """Seconds of each candidate, round by round."""

    seconds: Mapping[str, np.ndarray]
    """Name -> (rounds,)."""

    def median(self, name: str) -> float:
        """Median seconds of ``name``."""
        return float(np.median(self.seconds[name]))

    def ratio(self, slow: str, fast: str) -> float:
        """Median over rounds of seconds(slow) / seconds(fast)."""
        return float(np.median(self.seconds[slow] / self.seconds[fast]))


def paired(
    candidates: Mapping[str, Callable[[], object]],
    rounds: int = 7,
    calls: int = 1,
    now: Callable[[], float] = clock,
) -> Paired:
    """Time each candidate in each round, after one call that is not counted.

    Parameters
    ----------
    candidates : name -> what to time
    rounds : turns each candidate takes
    calls : calls timed together in a turn; seconds are per call
    now : the clock; a device's work takes no time of the processor, so that it needs that of the wall
    """
    for candidate in candidates.values():
        candidate()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            began = now()
            for _ in range(calls):
                candidate()
            seconds[name].append((now() - began) / calls)
    return Paired({name: np.array(values) for name, values in seconds.items()})


@dataclass(frozen=True)
class Line:
    """A measured figure and the bound that it is compared with."""

    what: str
    measured: str
    bar: str
    held: bool

    def __str__(self) -> str:
        return f"| {self.what} | {self.measured} | {self.bar} | {'yes' if self.held else 'NO'} |"


def missing(peer: str, packages: str, *modules: str) -> Line | None:
    """The line of a ``peer`` whose ``modules`` cannot be imported, with what to install; or None."""
    try:
        for module in modules:
            import_module(module)
    except ImportError as failure:
        return Line(peer, f"not installed ({failure})", f"pip install {packages}", False)
    return None
