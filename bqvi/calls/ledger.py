"""The evaluations that have returned since the last completed step.

A ledger is the one mutable object that a driver passes down to where the user's function is called:

    driver                      engine                          calls
    ledger = Ledger(D)   -->    evaluate(..., ledger)    -->    entered as each evaluation returns
    state = step(state)
    ledger.take()               the step is whole: its evaluations are in the state, the ledger is emptied
    ---
    except BaseException:       Ctrl-C, SystemExit, an error of the function, a failure of the engine
        ledger.take()           what returned since the last `take`; the exception passes on as it is

While a batch is under way its rows are assembled only when they are requested, so that entering an evaluation
takes no time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bqvi.calls.evaluations import Evaluations

__all__ = ["Ledger"]


class Ledger:
    """The evaluations that returned since the last `take`.

    Parameters
    ----------
    dimension : the dimension D of the points.
    on_return : a function that is called each time an evaluation of a batch has been entered, from the thread
        that drives the run; it may call `entries` (and save them), and an exception in it ends the batch.

    Attributes
    ----------
    outputs : the number of values that the function returns at a point; None before the first evaluation.
    """

    def __init__(self, dimension: int, on_return: Callable[[], None] | None = None) -> None:
        self.dimension = dimension
        self.on_return = on_return
        self.outputs: int | None = None
        self._held: tuple[tuple[Evaluations, ...], Callable[[], Evaluations] | None] = ((), None)
        """The completed batches, and a function that returns the rows of the batch under way. A batch moves
        from the second to the first in one assignment, so that at an interrupt it is in one of them only."""
        self._without_rows = 0
        self._none = Evaluations.none(dimension)

    def entries(self) -> Evaluations:
        """The evaluations that returned since the last `take`, including those of a batch under way."""
        whole, under_way = self._held
        parts = whole if under_way is None else (*whole, under_way())
        found = parts[0] if parts else self._none
        for part in parts[1:]:
            found = found.joined(part)
        if not self._without_rows:
            return found
        return replace(found, n_evaluations=found.n_evaluations + self._without_rows)

    def take(self) -> Evaluations:
        """Return the evaluations that returned, and empty the ledger."""
        found = self.entries()
        self._held, self._without_rows = ((), None), 0
        return found

    def enter(self, made: Evaluations) -> None:
        """Enter ``made``, a batch that has returned completely."""
        whole, under_way = self._held
        self._held = ((*whole, made), under_way)

    def count(self, evaluations: int) -> None:
        """Count a number of ``evaluations`` that are not kept as rows."""
        self._without_rows += evaluations

    def begin(self, so_far: Callable[[], Evaluations]) -> None:
        """Begin a batch; ``so_far`` returns those of its rows that have returned."""
        self._held = (self._held[0], so_far)

    def returned(self) -> None:
        """Note that another evaluation of the batch under way has returned."""
        if self.on_return is not None:
            self.on_return()

    def end(self, made: Evaluations) -> None:
        """End the batch under way, whose evaluations are ``made``."""
        self._held = ((*self._held[0], made), None)
