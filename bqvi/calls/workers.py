"""Evaluations under way through an executor; each is entered as it returns, in any order."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from bqvi.calls.assembly import CallBatch
from bqvi.calls.batches import call_result, executor_failed
from bqvi.calls.call import Call
from bqvi.calls.caller import Caller
from bqvi.calls.errors import EvaluationError
from bqvi.calls.executors import require_future, returned
from bqvi.calls.ledger import Ledger
from bqvi.checks import require_integer


class Workers:
    """A fixed number of evaluations under way at a time.

    Parameters
    ----------
    caller : the function, its coordinates and the executor, which must have ``submit``.
    count : the number W of evaluations under way.

    Raises
    ------
    TypeError, ValueError
        ``count`` is no positive integer, or there is no executor with ``submit``.
    """

    def __init__(self, caller: Caller, count: int) -> None:
        self.count = require_integer("workers", count, 1)
        if not callable(getattr(caller.executor, "submit", None)):
            raise ValueError(
                f"workers is {count}, which needs an executor with submit, such as "
                f"concurrent.futures.ProcessPoolExecutor({count}); executor is {caller.executor!r}"
            )
        self._caller = caller
        self._under_way: list[tuple[Any, np.ndarray, np.ndarray]] = []

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, points: np.ndarray) -> None:
        """Call the function at points (n, D)."""
        theta, call = self._caller.to_user(points), Call(self._caller.function, elsewhere=True)
        for point, row in zip(points, theta, strict=True):
            try:
                submitted = self._caller.executor.submit(call, row)  # type: ignore[union-attr]
            except Exception as failure:
                raise executor_failed(failure) from failure
            future = require_future(submitted)
            if any(future is other for other, _, _ in self._under_way):
                raise EvaluationError(
                    f"the executor's submit returned the same future for two points, the second "
                    f"{row.tolist()}; it must return another one for each"
                )
            self._under_way.append((future, point, row))

    def take(self, ledger: Ledger) -> None:
        """Enter in the ledger the evaluations that have returned; waits until at least one has.

        Raises
        ------
        EvaluationError
            As in :meth:`Caller.evaluate`; the evaluations that have returned are in the ledger.
        """
        done = set(map(id, returned([future for future, _, _ in self._under_way])))
        for entry in [entry for entry in self._under_way if id(entry[0]) in done]:
            self._under_way.remove(entry)
            self._enter(*entry, ledger)

    def end(self, ledger: Ledger, wait: bool) -> None:
        """Enter the evaluations that have returned and, with ``wait``, those under way; begin no others."""
        under_way, self._under_way = self._under_way, []
        for entry in under_way:
            future = entry[0]
            done = callable(getattr(future, "done", None)) and future.done()
            cancelled = not done and callable(getattr(future, "cancel", None)) and future.cancel()
            if done or (wait and not cancelled):
                with contextlib.suppress(Exception):  # the first failure is the one that is reported
                    self._enter(*entry, ledger)

    def _enter(self, future: object, point: np.ndarray, row: np.ndarray, ledger: Ledger) -> None:
        caller = self._caller
        batch = CallBatch(caller.function, caller.coordinates, point[None], row[None], ledger)
        try:
            result = call_result(future, row)
        except EvaluationError:
            raise
        except Exception as failure:
            raise executor_failed(failure) from failure
        batch.enter(0, result)
        batch.finished(first=False)
