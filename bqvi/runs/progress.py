"""The progress line: evaluations so far of the budget, the present estimate, and why the run stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bqvi.runs.engine import RunStatus


def _release_lock() -> None:
    """Release the lock of tqdm where an exception left this thread holding it."""
    from tqdm.auto import tqdm

    lock: Any = tqdm.get_lock()  # type: ignore[no-untyped-call]
    for each in getattr(lock, "locks", [lock]):
        with suppress(RuntimeError, AssertionError):  # raised where this thread does not hold it
            each.release()


class ProgressLine:
    """A line on standard error.

    Where standard error can no longer be written, as after a terminal was closed, the run continues without
    it.

    Parameters
    ----------
    status : the progress at the beginning.
    """

    def __init__(self, status: RunStatus) -> None:
        from tqdm.auto import tqdm

        self._bar: Any = None
        with self._write_errors_ignored():
            self._bar = tqdm(total=status.total, initial=status.done, unit=f" {status.unit}")
        self.show(status)

    def show(self, status: RunStatus) -> None:
        """Show the progress of the run."""
        if self._bar is not None:
            with self._write_errors_ignored():
                self._bar.set_postfix_str(status.estimate, refresh=False)
                self._bar.update(status.done - self._bar.n)

    def end(self, status: RunStatus, why: str) -> None:
        """Show why the run ended, and end the line."""
        if self._bar is not None:
            self._bar.n = status.done
            with self._write_errors_ignored():
                self._bar.set_postfix_str(f"{status.estimate}; {why}" if status.estimate else why)
                self._bar.close()
            self._bar = None

    @contextmanager
    def _write_errors_ignored(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            _release_lock()
            if not isinstance(error, OSError | ValueError):  # ValueError is raised for a closed file
                raise
            if self._bar is not None:
                self._bar.disable = True  # tqdm would write once more when the bar is collected
            self._bar = None
