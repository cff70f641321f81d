"""Candidates timed in turns, in a process of their own, or by the difference of two runs; lines of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.setting import clock

Seconds = Sequence[float] | np.ndarray


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


def faster(what: str, ours: Seconds, theirs: Seconds, peer: str, bar: float) -> Line:
    """The line that compares seconds, round by round, with those of a peer.

    Parameters
    ----------
    what : is timed. ours, theirs : (rounds,). peer : its name. bar : how many times faster ours has to be.
    """
    mine, other = np.asarray(ours), np.asarray(theirs)
    ratio = float(np.median(other / mine))
    digits = 0 if np.median(mine) > 0.02 else 1 if np.median(mine) > 0.002 else 2
    each = f"{np.median(mine) * 1e3:.{digits}f} ms, {peer} {np.median(other) * 1e3:.{digits}f} ms"
    return Line(what, f"{ratio:.2f} times faster ({each})", f"at least {bar:g}", ratio >= bar)


def printed(lines: Iterable[Line]) -> int:
    """Print a table of lines as they come; return 1 if one is not held, else 0."""
    print("| what | measured | bar | held |\n|---|---|---|---|")
    held = True
    for line in lines:
        print(line, flush=True)
        held = held and line.held
    return 0 if held else 1


def alone(measure: Callable[..., Any], *arguments: Any) -> Any:
    """What ``measure`` returns in a process of its own, whose peak of memory is its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def seconds_each(work: Callable[[int], object], short: int, long: int) -> float:
    """Seconds of an iteration: the difference of two runs leaves out checks and starts."""
    times = []
    for steps in (short, long):
        began = clock()
        work(steps)
        times.append(clock() - began)
    return (times[1] - times[0]) / (long - short)


def missing(peer: str, packages: str, *modules: str) -> Line | None:
    """The line of a ``peer`` whose ``modules`` cannot be imported, with what to install; or None."""
    try:
        for module in modules:
            import_module(module)
    except ImportError as failure:
        return Line(peer, f"not installed ({failure})", f"pip install {packages}", False)
    return None
