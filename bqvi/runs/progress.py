"""The progress line: evaluations so far of the budget, the present estimate, and why the run stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from bqvi.runs.engine import Standing


class ProgressLine:
    """A line on standard error, or nothing where ``wanted`` is false; a context around the run.

    Where standard error can no longer be written, as after a terminal was closed, the run continues without
    it.

    Parameters
    ----------
    wanted : whether the line is shown. standing : the progress at the beginning.
    """

    def __init__(self, wanted: bool, standing: Standing) -> None:
        self._bar: Any = None
        if wanted:
            from tqdm.auto import tqdm

            with self._write_errors_ignored():
                self._bar = tqdm(total=standing.total, initial=standing.done, unit=f" {standing.unit}")
            self.show(standing)

    def show(self, standing: Standing) -> None:
        """Show the progress of the run."""
        if self._bar is not None:
            with self._write_errors_ignored():
                self._bar.set_postfix_str(standing.estimate, refresh=False)
                self._bar.update(standing.done - self._bar.n)

    def end(self, standing: Standing, why: str) -> None:
        """Show why the run ended, and end the line."""
        if self._bar is not None:
            self._bar.n = standing.done
            with self._write_errors_ignored():
                self._bar.set_postfix_str(f"{standing.estimate}; {why}" if standing.estimate else why)
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            with self._write_errors_ignored():
                self._bar.close()
            self._bar = None

    @contextmanager
    def _write_errors_ignored(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # ValueError is raised for a closed file
            if self._bar is not None:
                self._bar.disable = True  # tqdm would write once more when the bar is collected
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
