"""How many threads linear algebra uses: one in the engines, the user's number in the user's functions.

On matrices of some hundreds of rows several threads of BLAS, OpenMP and torch are slower than one.
`single_threaded` limits them to one within a block; `users_threads` lifts the limit for code of the user
within it. Either may be nested in the other. After the outermost block every number is what it was before, or
what the user's function has set. Of a function that is called again and again `CallThreads` lifts the limit
only where its calls are long: several threads wait for one another after each product.

The numbers of OpenMP and torch belong to a thread; those of BLAS libraries belong, for the most part, to the
process. The first thread that enters a limited block sets the numbers of BLAS until it leaves its outermost
block; blocks of other threads leave BLAS unchanged in the meantime. Libraries are found by threadpoolctl, and
looked for again when modules have been imported since.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController

_FEW = 500
_LONG = 0.02
"""Seconds of processor time of a long call, in one thread."""
_CALLS = 3
"""The number of long calls in a row after which a function has the user's threads: first ones may compile."""


class _Libraries:
    """The libraries of this process that have threads."""

    def __init__(self) -> None:
        self._modules = -1
        self._found: list[Any] = []

    def limited(self, user_api: str | None) -> list[tuple[Any, int]]:
        """Set "openmp", "blas" or, with None, both to one thread; return libraries and their earlier numbers.

        The libraries are asked one by one, and set only where they have several threads: a
        `ThreadpoolController.limit` takes ten times as long, around each call of the user's function.
        """
        if self._modules != len(sys.modules):
            self._found = ThreadpoolController().lib_controllers
            self._modules = len(sys.modules)
        chosen = [library for library in self._found if user_api in (None, library.user_api)]
        before = [(library, library.get_num_threads()) for library in chosen]
        changed = [(library, count) for library, count in before if count != 1]
        for library, _ in changed:
            library.set_num_threads(1)
        return changed


class _Thread(threading.local):
    """The blocks that a thread is in, outermost first, and the numbers of threads to restore."""

    def __init__(self) -> None:
        self.blocks: list[bool] = []
        self.sets_blas = False
        self.limited: list[tuple[Any, int]] = []
        self.torch = 1

    def limit(self) -> None:
        """Set every library that this thread may set to one thread."""
        self.sets_blas = self.sets_blas or _BLAS.acquire(blocking=False)
        # Torch first, as it sets OpenMP's number of threads too, and those of libraries linked into it.
        torch = sys.modules.get("torch")
        self.torch = torch.get_num_threads() if hasattr(torch, "get_num_threads") else 1  # type: ignore[union-attr]
        if self.torch > 1:
            torch.set_num_threads(1)  # type: ignore[union-attr]
        self.limited = _LIBRARIES.limited(None if self.sets_blas else "openmp")

    def lift(self) -> None:
        """Restore the numbers from before `limit`."""
        for library, count in self.limited:
            library.set_num_threads(count)
        if self.torch > 1:
            sys.modules["torch"].set_num_threads(self.torch)

    def leave(self) -> None:
        """Let other threads set BLAS."""
        if self.sets_blas:
            self.sets_blas = False
            _BLAS.release()


class _Block(ContextDecorator):
    """A block that limits threads, or lifts the limit; it may be entered again, also by other threads."""

    def __init__(self, limits: bool) -> None:
        self._limits = limits

    def __enter__(self) -> None:
        limited = bool(_THREAD.blocks) and _THREAD.blocks[-1]
        _THREAD.blocks.append(self._limits)
        if self._limits and not limited:
            _THREAD.limit()
        elif limited and not self._limits:
            _THREAD.lift()

    def __exit__(self, *exception: object) -> None:
        left = _THREAD.blocks.pop()
        limited = bool(_THREAD.blocks) and _THREAD.blocks[-1]
        if left and not limited:
            _THREAD.lift()
        elif limited and not left:
            _THREAD.limit()
        if not _THREAD.blocks:
            _THREAD.leave()


_BLAS = threading.Lock()
"""Held by the thread that sets BLAS."""
_LIBRARIES = _Libraries()
_THREAD = _Thread()


def single_threaded() -> _Block:
    """Limit BLAS, OpenMP and torch to one thread: a context manager, and a decorator of functions.

    Entering and leaving take some tens of microseconds. It is not for a generator, whose caller would be
    limited as well.
    """
    return _Block(True)


def of_few(rows: int) -> AbstractContextManager[Any]:
    """`single_threaded` for matrices of so few ``rows`` that several threads are no faster."""
    return single_threaded() if rows <= _FEW else nullcontext()


def users_threads() -> _Block:
    """Lift the limit of `single_threaded` for a call of the user's function; without a limit, do nothing."""
    return _Block(False)


class CallThreads:
    """The threads of a function that is called again and again: one, or the user's where its calls are long.

    Calls are measured in processor time, which does not depend on other processes. A function without a
    limit from outside keeps the user's threads.
    """

    def __init__(self) -> None:
        self._long = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """A block for a call."""
        if self._long >= _CALLS:
            with users_threads():
                yield
            return
        began = time.thread_time()
        try:
            yield
        finally:
            self._long = self._long + 1 if time.thread_time() - began > _LONG else 0
