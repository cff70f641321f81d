"""Every evaluation that has returned, until a step takes it.

A ledger is the one mutable thing that goes down from a driver to where the user's function is called:

    driver                      engine                          calls
    ledger = Ledger(D)   -->    evaluate(..., ledger)    -->    entered as each evaluation returns
    state = step(state)
    ledger.take()               the step is whole: its evaluations are in the state, the ledger is emptied
    ---
    except BaseException:       Ctrl-C, SystemExit, an error of the function, a failure of the engine
        ledger.take()           what returned since the last `take`; the exception passes on as it is

While a batch is under way its rows are made only when they are asked for, so that entering one costs an
engine nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bqvi.calls.evaluations import Evaluations


class Ledger:
    """The evaluations that returned since the last `take`.

    Parameters
    ----------
    dimension : D, of the points.
    on_return : called each time that an evaluation of a batch has returned and is in the ledger, from the
        thread that drives the run; it may call `entries` (and save them), and what it raises ends the batch.

    Attributes
    ----------
    outputs : how many numbers the function gives at a point; None before it has given any.
    """

    def __init__(self, dimension: int, on_return: Callable[[], None] | None = None) -> None:
        self.dimension = dimension
        self.on_return = on_return
        self.outputs: int | None = None
        self._held: tuple[tuple[Evaluations, ...], Callable[[], Evaluations] | None] = ((), None)
        """Whole batches, and a function that returns the rows of the batch under way. A batch moves in one
        assignment, so that an interrupt finds its evaluations once."""
        self._without_rows = 0
        self._none = Evaluations.none(dimension)

    def entries(self) -> Evaluations:
        """The evaluations that returned since the last `take`, those of a batch under way among them."""
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
        """Enter a whole batch that has returned, ``made``."""
        whole, under_way = self._held
        self._held = ((*whole, made), under_way)

    def count(self, evaluations: int) -> None:
        """So many evaluations are made of which nothing is kept: they count, and have no rows."""
        self._without_rows += evaluations

    def begin(self, so_far: Callable[[], Evaluations]) -> None:
        """A batch is under way; ``so_far`` returns the rows of it that have returned."""
        self._held = (self._held[0], so_far)

    def returned(self) -> None:
        """Another evaluation of the batch under way has returned."""
        if self.on_return is not None:
            self.on_return()

    def end(self, made: Evaluations) -> None:
        """End the batch under way, whose evaluations ``made`` are."""
        self._held = ((*self._held[0], made), None)
