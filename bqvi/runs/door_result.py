"""What the results of all doors have."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bqvi import notebook
from bqvi.records import classes_in, flattened
from gp.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ANSWERED = (
    "Coordinates", "EstimateRow", "GaussianMixture", "ModelPosterior", "Posterior", "Row", "Trace",
    "TraceRow", "WeightedDraws",
)  # fmt: skip
"""The records that a result has without the function of its run."""


class DoorResult:
    """A result with ``n_evaluations``, ``n_failed``, ``warnings``, and the ``checkpoint`` of its run."""

    def save(self: Any, path: str | Path) -> None:
        """Write the run to an .npz file at ``path``.

        `bqvi.load` reads the result from it without the function; the door takes the path as ``resume``.
        """
        if self.checkpoint is None:
            raise ValueError("this result was put together by hand: it has no run to save")
        self.checkpoint.save(path, answer=self.answer())

    def answer(self: Any) -> dict[str, Any]:
        """What a file has of the result: numbers, text, arrays, draws and records, by name."""
        found = {"shown": (repr(self), str(self), self._rows())}
        for name in (name for name in dir(self) if not name.startswith("_")):
            with suppress(TypeError, AttributeError):  # methods, and what the result or a file has not
                value = self.posterior.recorded() if name == "posterior" else getattr(self, name)
                if set(classes_in(value)) <= set(ANSWERED):
                    flattened(value, [])
                    found[name] = value
        return found

    def plot_trace(self, ax: Axes | None = None, *, truth: Array = None) -> Axes:
        """Draw the estimate with bands of one and two standard deviations against the evaluations.

        Of bounds the log estimates of each replicate and the interval; of several problems the intervals.

        Parameters
        ----------
        ax : axes of matplotlib to draw in; by default new ones.
        truth : the value to draw beside them, where it is known.

        Returns
        -------
        The axes.

        Raises
        ------
        ImportError
            matplotlib is not installed: ``pip install "bqvi[plot]"``.
        ValueError
            Nothing was recorded.
        """
        from bqvi.canvas import shown_figure

        return self._draw(shown_figure(6.0, 3.6).add_subplot() if ax is None else ax, truth)

    def _draw(self, ax: Axes, truth: Array) -> Axes:
        raise NotImplementedError

    def _rows(self) -> dict[str, str]:
        """The result as a table: names -> values."""
        raise NotImplementedError

    @property
    def _counted(self: Any) -> str:
        """The number of evaluations, and of those that failed if there are any."""
        return f"{self.n_evaluations} evaluations" + (f" ({self.n_failed} failed)" if self.n_failed else "")

    def _repr_html_(self: Any) -> str:
        """The result as a table, for notebooks."""
        counted = {"evaluations": self._counted.replace(" evaluations", "")}
        rows = self._rows() | counted | ({"warnings": " ".join(self.warnings)} if self.warnings else {})
        return notebook.table(rows)


class CheckedResult(DoorResult):
    """A result with ``converged``, and with ``checks``: sentences on what its checks found."""

    @property
    def reasons(self: Any) -> tuple[str, ...]:
        """The reasons why it has not converged."""
        return () if self.converged else self.checks

    @property
    def _remark(self: Any) -> str:
        return "" if self.converged else ", not converged"
