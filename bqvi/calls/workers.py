"""Evaluations under way through an executor; each is entered as it returns, in any order."""

from __future__ import annotations

from functools import partial

import numpy as np

from bqvi.calls.caller import Call, CallBatch, Caller
from bqvi.calls.executors import CallsUnderWay
from bqvi.calls.returned import CallResult
from bqvi.calls.table import Ledger


class Workers:
    """A fixed number of evaluations under way at a time.

    Parameters
    ----------
    caller : the function, its coordinates and the executor. count : the number W of evaluations under way.
    """

    def __init__(self, caller: Caller, count: int) -> None:
        self.count = count
        self._caller = caller
        self._calls = CallsUnderWay(caller.run)

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, points: np.ndarray) -> None:
        """Call the function at points (n, D)."""
        theta, call = self._caller.to_user(points), Call(self._caller.function, elsewhere=True)
        for point, row in zip(points, theta, strict=True):
            self._calls.begin(call, (point, row), row)

    def take(self, ledger: Ledger) -> None:
        """Enter in the ledger the evaluations that have returned; waits until at least one has.

        Raises
        ------
        EvaluationError
            As in :meth:`Caller.evaluate`; the evaluations that have returned are in the ledger.
        """
        self._calls.take(partial(self._enter, ledger))

    def end(self, ledger: Ledger, wait: bool) -> None:
        """Enter the evaluations that have returned and, with ``wait``, those under way; begin no others."""
        self._calls.end(partial(self._enter, ledger), wait)

    def _enter(self, ledger: Ledger, place: tuple[np.ndarray, np.ndarray], result: CallResult) -> None:
        point, row = place
        batch = CallBatch(self._caller, point[None], row[None], ledger)
        batch.enter(0, result)
        batch.finished(first=False)
