"""The process on a memory, from one step to the next.

A process is made in the units of the q of some step, its base (O(m^3): directions, doubts, kernel, factor).
It serves the steps after it, joined by what each of them evaluates (O(m^2 n)), until

    KL(q || base) > STILL,      hyperparameters are due, or there is no more room,

and is then made anew in the units of the q of now. Near the optimum q hardly moves; between two fits of
hyperparameters a step costs only its own rows. `GradientProcess.under` integrates against the q of now.
Processes of other kinds are made anew at each step.

What makes a process is in the memory: its base, and how many evaluations joined it at a time. A run that
is resumed makes the same one, to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bqvi.gradients.evaluations import Evaluations
from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.memory import Base, Memory
from bqvi.gradients.surrogates import Kind, Process
from bqvi.gradients.whitened import FORGOTTEN, Frame

STILL = 0.02
"""Nats that q may be from the q whose units a process has."""
_REFIT_GROWTH = 1.2
"""Hyperparameters are refitted when the memory has grown by this factor; 1.3 is too much for a few runs."""
_SURPRISE = 4.0
"""And when new evaluations miss by so much more than the process expected, in variances."""
_SPARE = 10
"""One in so many of the points is left out when a full process is made anew, to have room for the next."""


@dataclass(frozen=True)
class Recall:
    """Which evaluations a process is built on.

    Parameters
    ----------
    kind : of the process
    most : evaluations that it is built on
    keep : 'recent' or 'nearest', where there are more
    """

    kind: Kind
    most: int
    keep: str

    def before(self, frame: Frame, kept: Memory) -> tuple[Process | None, Memory]:
        """The process given the memory alone, under the q of ``frame``; and the memory with it."""
        if not len(kept):
            return None, kept
        if len(kept) >= _REFIT_GROWTH * kept.fitted_at:
            return self._made(frame, self._learnt(frame, kept), self.most)
        kept = self._as_it_was(kept)
        process = self._moved(frame, kept)
        return self._made(frame, kept, self.most) if process is None else (process, kept)

    def after(
        self, frame: Frame, before: Process | None, found: Evaluations, kept: Memory
    ) -> tuple[Process | None, Memory]:
        """The process given also what was ``found``, which ``kept`` ends with; None if nothing is known."""
        n, base = len(found.points), kept.base
        if not n:
            return before, kept
        if before is None:
            first = replace(self, most=max(self.most, n))  # a memory of 0 is of the step's own
            return first._made(frame, first._learnt(frame, kept), self.most)
        process = before.extended(*self._seen(base.frame if base.at else frame, kept, slice(-n, None)))
        if base.at:
            kept = replace(kept, process=process, base=replace(base, joined=np.append(base.joined, n)))
        if _surprise(before, process) > _SURPRISE:
            kept = replace(kept, fitted_at=1)  # due, from where they are
        return process, kept

    def _learnt(self, frame: Frame, kept: Memory) -> Memory:
        start = kept.hyperparameters if kept.fitted_at else None
        hyperparameters = self.kind.fit(*self._used(frame, kept, len(kept)), start)
        return replace(kept, hyperparameters=hyperparameters, fitted_at=len(kept))

    def _made(self, frame: Frame, kept: Memory, room: int) -> tuple[Process, Memory]:
        """Anew, in the units of ``frame``; to be kept if there is ``room``."""
        process = self.kind.process(*self._used(frame, kept, len(kept)), kept.hyperparameters)
        lasting = isinstance(process, GradientProcess) and len(process.points) <= room
        base = Base(frame.mean, frame.scale, len(kept) if lasting else 0)
        return process, replace(kept, process=process if lasting else None, base=base)

    def _moved(self, frame: Frame, kept: Memory) -> Process | None:
        """The process under the q of now, or None if it can serve no longer."""
        process = kept.process
        if not isinstance(process, GradientProcess) or len(process.points) > self.most:
            return None
        q = frame.seen_from(kept.base.frame)
        return process.under(q) if q.divergence <= STILL else None

    def _as_it_was(self, kept: Memory) -> Memory:
        """With the process that it had when it was saved: made as then, and joined as then."""
        base = kept.base
        if kept.process is not None or not base.at:
            return kept
        process = self.kind.process(*self._used(base.frame, kept, base.at), kept.hyperparameters)
        ends = base.at + np.cumsum(base.joined)
        for start, end in zip(ends - base.joined, ends, strict=True):
            process = process.extended(*self._seen(base.frame, kept, slice(start, end)))
        return replace(kept, process=process)

    def _seen(self, units: Frame, kept: Memory, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Points, whitened, and targets."""
        points = units.whiten(kept.points[rows])
        return points, self.kind.targets(units, points, kept.values[rows], kept.gradients[rows])

    def _used(self, units: Frame, kept: Memory, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The same of those among the first ``count`` that a process is built on."""
        points = units.whiten(kept.points[:count])
        chosen = self._chosen(points)
        points = points[chosen]
        return points, self.kind.targets(units, points, kept.values[chosen], kept.gradients[chosen])

    def _chosen(self, points: np.ndarray) -> Any:
        """Which of (m, D) points, in q's units."""
        squares = np.einsum("nd,nd->n", points, points)
        most = self.most - self.most // _SPARE if len(points) > self.most else len(points)
        if self.keep == "nearest" and len(points) > most:
            return np.sort(np.argpartition(squares, most)[:most])
        near = squares[len(points) - most :] < FORGOTTEN * points.shape[1]
        if near.sum() < 2:
            return np.arange(len(points) - most, len(points))
        return np.flatnonzero(near) + len(points) - most


def _surprise(before: Process, both: Process) -> float:
    """Mean square of what the new evaluations miss, each in the standard deviation that was expected."""
    old, new = before.targets.size, both.targets.size
    return (new * both.scale - old * before.scale) / ((new - old) * before.scale + 1e-300)
