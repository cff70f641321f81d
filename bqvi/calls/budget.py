"""The number of evaluations that a run may make; it is checked before each call and never exceeded.

An evaluation is one point at which the user's function, its gradient or both are called; where a batch that
failed is called again point by point, each of its points counts again. A call that ended the run by an
exception or an interrupt has returned no evaluation: it is made again when the run is resumed, and counts
once.
"""

from __future__ import annotations

from bqvi.checks import require_integer

__all__ = ["Budget", "BudgetError"]


class BudgetError(RuntimeError):
    """More evaluations were requested than a budget has left: an error of the engine, not of the user."""


class Budget:
    """The evaluations of a run, those of its records and diagnostics among them.

    Parameters
    ----------
    most : the total number of evaluations, at least 0; None for no limit.
    spent : the number of them made before, for instance by the run that this one resumes.
    """

    def __init__(self, most: int | None = None, spent: int = 0) -> None:
        self.most = None if most is None else require_integer("budget", most, 0)
        self.spent = spent

    @property
    def left(self) -> int | None:
        """The number of evaluations that may still be made; None for no limit."""
        return None if self.most is None else max(self.most - self.spent, 0)

    def room(self, wanted: int) -> int:
        """The number of evaluations, at most ``wanted``, that may be made."""
        return wanted if self.left is None else min(wanted, self.left)

    def require_enough(self) -> None:
        """Raise ValueError where the resumed run has made more evaluations than the budget allows."""
        if self.most is not None and self.spent > self.most:
            raise ValueError(f"budget is {self.most}; {self.spent} evaluations have been made: raise it")

    def spend(self, count: int) -> None:
        """Enter ``count`` evaluations, before they are made.

        Raises
        ------
        BudgetError
            The budget has fewer left; call `room` first.
        """
        if self.room(count) < count:
            raise BudgetError(f"{count} evaluations were asked for, and {self.left} of {self.most} are left")
        self.spent += count
