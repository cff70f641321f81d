"""The process on a memory, kept from one step to the next.

A process is made in the units of the q of some step, its base (O(m^3): directions, noise, kernel, factor).
It is used at the steps after it, extended by what each of them evaluates (O(m^2 n)), until

    KL(q || base) > CACHE.divergence,      hyperparameters are due, or it is full,

and is then made anew in the units of the current q. Near the optimum q hardly moves; between two fits of
hyperparameters a step costs only its own rows. `GradientProcess.under` integrates against the current q.
Processes of other kinds are made anew at each step.

What makes a process is in the memory: its base, and how many evaluations extended it at a time. A run that
is resumed makes the same one, to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bqvi.calls import Evaluations
from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.memory import Base, Memory
from bqvi.gradients.settings import CACHE
from bqvi.gradients.surrogates import Kind, Process, over_scale
from bqvi.gradients.whitened import Frame, within_reach


@dataclass(frozen=True)
class ProcessCache:
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

    def before(self, frame: Frame, memory: Memory) -> tuple[Process | None, Memory]:
        """The process given the memory alone, under the q of ``frame``; and the memory with it."""
        if not len(memory):
            return None, memory
        if len(memory) >= CACHE.refit_growth * memory.fitted_at:
            return self._made(frame, self._fitted(frame, memory), self.most)
        memory = self._restored(memory)
        process = self._under(frame, memory)
        return self._made(frame, memory, self.most) if process is None else (process, memory)

    def after(
        self, frame: Frame, before: Process | None, new: Evaluations, memory: Memory
    ) -> tuple[Process | None, Memory]:
        """The process given also ``new`` evaluations, the last in ``memory``; None if there are none."""
        n, base = int(new.good.sum()), memory.base
        if not n:
            return before, memory
        if before is None:
            first = replace(self, most=max(self.most, n))  # with memory=0, all of the step's own
            return first._made(frame, first._fitted(frame, memory), self.most)
        units = base.frame if base.at else frame
        process = self._extended(before, units, memory, slice(-n, None))
        if base.at:
            memory = replace(memory, process=process, base=replace(base, joined=np.append(base.joined, n)))
        if _standardised_error(before, process) > CACHE.refit_error:
            memory = replace(memory, fitted_at=1)  # due, from where they are
        return process, memory

    def _fitted(self, frame: Frame, memory: Memory) -> Memory:
        start = memory.hyperparameters if memory.fitted_at else None
        points, targets, noise = self._used(frame, memory, len(memory))
        hyperparameters = self.kind.fit(points, targets, start, noise)
        return replace(memory, hyperparameters=hyperparameters, fitted_at=len(memory))

    def _made(self, frame: Frame, memory: Memory, most: int) -> tuple[Process, Memory]:
        """Anew, in the units of ``frame``; to be kept if it has no more than ``most`` points."""
        process = self._process(frame, memory, len(memory))
        kept = isinstance(process, GradientProcess) and len(process.given.points) <= most
        base = Base(frame.mean, frame.scale, len(memory) if kept else 0)
        return process, replace(memory, process=process if kept else None, base=base)

    def _under(self, frame: Frame, memory: Memory) -> Process | None:
        """The process that is kept under the current q, or None if it must be made anew."""
        process = memory.process
        if not isinstance(process, GradientProcess) or len(process.given.points) > self.most:
            return None
        q = frame.seen_from(memory.base.frame)
        return process.under(q) if q.divergence <= CACHE.divergence else None

    def _restored(self, memory: Memory) -> Memory:
        """With the process that it had when it was saved: made as then, and extended as then."""
        base = memory.base
        if memory.process is not None or not base.at:
            return memory
        process = self._process(base.frame, memory, base.at)
        ends = base.at + np.cumsum(base.joined)
        for start, end in zip(ends - base.joined, ends, strict=True):
            process = self._extended(process, base.frame, memory, slice(start, end))
        return replace(memory, process=process)

    def _process(self, units: Frame, memory: Memory, count: int) -> Process:
        """Return the process given the first ``count`` evaluations."""
        points, targets, noise = self._used(units, memory, count)
        return self.kind.process(points, targets, memory.hyperparameters, noise)

    def _extended(self, process: Process, units: Frame, memory: Memory, rows: slice) -> Process:
        points, targets, noise = self._observed(units, memory, rows)
        return process.extended(points, targets, over_scale(noise, memory.hyperparameters))

    def _observed(
        self, units: Frame, memory: Memory, rows: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Points, whitened, targets, and the variances of their noise, if any."""
        points = units.whiten(memory.points[rows])
        targets = self.kind.targets(units, points, memory.values[rows], memory.gradients[rows])
        return points, targets, self.kind.noise(units, memory.noise[rows])

    def _used(
        self, units: Frame, memory: Memory, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The same of those among the first ``count`` that a process is built on."""
        return self._observed(units, memory, self._chosen(units.whiten(memory.points[:count])))

    def _chosen(self, points: np.ndarray) -> np.ndarray:
        """Which of (m, D) points, in q's units."""
        full = len(points) > self.most
        most = self.most - self.most // CACHE.spare if full else len(points)
        if self.keep == "nearest" and full:
            return np.sort(np.argpartition(np.einsum("nd,nd->n", points, points), most)[:most])
        first = len(points) - most
        return np.flatnonzero(within_reach(points[first:])) + first


def _standardised_error(before: Process, after: Process) -> float:
    """Mean squared error of the predictions of the new targets, each over its variance."""
    old, new = before.given.targets.size, after.given.targets.size
    scales = before.given.scale, after.given.scale
    return (new * scales[1] - old * scales[0]) / ((new - old) * scales[0] + 1e-300)
