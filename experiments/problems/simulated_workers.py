"""Workers whose evaluations take simulated seconds, on a clock that takes no real time.

A call is made when it is submitted, and its value is returned once the simulated clock has reached its end.
When a finished evaluation is asked for and there is none, the clock moves to the end of the evaluation that
ends first. The order of the values follows from the seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["SimulatedFuture", "SimulatedWorkers"]


class SimulatedWorkers:
    """An executor of W workers, each with one evaluation at a time.

    Parameters
    ----------
    count : W. log_sd : standard deviation of the logarithm of an evaluation's seconds, whose median is 1.
    seed : seed of the durations.

    Attributes
    ----------
    clock : simulated seconds. busy : seconds of work, over all workers.
    """

    def __init__(self, count: int, log_sd: float, seed: int) -> None:
        self.clock, self.busy = 0.0, 0.0
        self._rng, self._log_sd = np.random.default_rng(seed), log_sd
        self._free_at = [0.0] * count
        self._waiting: list[SimulatedFuture] = []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> SimulatedFuture:
        """A future of the call, done when its simulated time has passed."""
        seconds = float(np.exp(self._log_sd * self._rng.standard_normal()))
        end = max(self.clock, heapq.heappop(self._free_at)) + seconds
        heapq.heappush(self._free_at, end)
        self.busy += seconds
        future = SimulatedFuture(self, end, function(*arguments))
        self._waiting.append(future)
        return future

    def advance_to(self, end: float) -> bool:
        """Whether ``end`` has passed. The clock moves to the first end if no value is ready."""
        first = min(future.end for future in self._waiting)
        self.clock = max(self.clock, first)
        return end <= self.clock

    def taken(self, future: SimulatedFuture) -> None:
        """Take a value; the clock is not before its end."""
        if future in self._waiting:
            self._waiting.remove(future)
        self.clock = max(self.clock, future.end)


class SimulatedFuture:
    """The future of one call, which ends at a time of the clock."""

    def __init__(self, workers: SimulatedWorkers, end: float, answer: Any) -> None:
        self.end = end
        self._workers, self._answer = workers, answer

    def done(self) -> bool:
        """Whether its time is over."""
        return self._workers.advance_to(self.end)

    def result(self) -> Any:
        """What the call returned."""
        self._workers.taken(self)
        return self._answer
