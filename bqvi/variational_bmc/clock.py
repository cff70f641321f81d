"""The durations of the parts of a run, and a forecast whether another step would end in time.

A run may not take longer than its user allows, including calls of the log joint and the thorough estimate at
the end. The forecast of a step is the number of its calls times the duration of the latest ones, and the time
of the latest step without its calls. The forecast of the thorough estimate is the duration of the latest one
or, before there was one, ten times that of a step without its calls.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """The seconds that one process has spent on a run.

    Parameters
    ----------
    limit : the largest duration of the whole run, in seconds; None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._began: float | None = None
        self._before = self._begun_at = 0.0
        self._calls = self._each = 0.0
        self._own = self._thorough = 0.0

    def starts(self, seconds: float) -> None:
        """Begin a step, ``seconds`` after the beginning of the run."""
        self._began, self._before = time.perf_counter(), max(seconds, self._before)
        self._begun_at, self._calls = self._before, 0.0

    @property
    def runs(self) -> bool:
        """Whether a step is under way."""
        return self._began is not None

    def ends(self) -> float:
        """End a step; return the seconds since the run began."""
        spent = self.spent
        self._own = spent - self._begun_at - self._calls
        self._began, self._before = None, spent
        return spent

    @contextmanager
    def calls(self, count: int) -> Iterator[None]:
        """Measure ``count`` calls of the log joint."""
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            self._calls, self._each = self._calls + spent, spent / max(count, 1)

    @contextmanager
    def thorough(self) -> Iterator[None]:
        """Measure a thorough estimate."""
        began = time.perf_counter()
        yield
        self._thorough = time.perf_counter() - began
        if self._began is None:  # this is called between two steps
            self._before += self._thorough

    @property
    def spent(self) -> float:
        """The seconds since the run began, as far as they have been measured."""
        return self._before + (0.0 if self._began is None else time.perf_counter() - self._began)

    def allows(self, seconds: float, count: int) -> bool:
        """Whether a step and the thorough estimate would end in time.

        Parameters
        ----------
        seconds : the seconds since the run began, from its state.
        count : the number of calls of the log joint in the step.
        """
        if self._limit is None:
            return True
        # the thorough estimate took 6 to 12 times a step on posteriors of 2 to 10 dimensions
        forecast = count * self._each + self._own + (self._thorough or 10.0 * self._own)
        return max(seconds, self.spent) + forecast < self._limit

    @property
    def over(self) -> bool:
        """Whether the time has run out."""
        return self._limit is not None and self.spent >= self._limit
