"""The process on a memory, kept from one step to the next.

A process is made in the units of the q of some step, its base (O(m^3): directions, noise, kernel, factor).
At later steps it is extended by their evaluations (O(m^2 n)), until

    KL(q || base) > CACHE.divergence,      hyperparameters are due, or it is full,

and is then made anew in the units of the current q. Near the optimum q hardly moves, and between two fits of
hyperparameters a step adds only its own rows. `GradientProcess.under` integrates against the current q.
Processes of other kinds are made anew at each step.

The memory has the base, and the numbers of evaluations by which the process was extended, so that a resumed
run makes the same process, to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls import Evaluations
from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.memory import Base, Memory
from bqvi.gradients.settings import CACHE
from bqvi.gradients.surrogates import Kind, Observed, Process, over_scale
from bqvi.gradients.whitened import WhitenedFrame, near_q
from gp.threads import single_threaded

_FARTHEST = 1e60
"""The largest whitened coordinate: fourth powers of larger ones overflow, and q has collapsed."""


@dataclass(frozen=True)
class ProcessCache:
    """The choice of the evaluations on which a process is conditioned, and the process kept.

    Parameters
    ----------
    kind : the kind of the process
    most : the most evaluations on which it is conditioned, the latest where there are more
    """

    kind: Kind
    most: int

    @single_threaded()
    def before(self, frame: WhitenedFrame, memory: Memory) -> tuple[Process | None, Memory]:
        """The process given the memory alone, under the q of ``frame``; and the memory with it."""
        if not len(memory):
            return None, memory
        if len(memory) >= CACHE.refit_growth * memory.fitted_at:
            return self._refitted(frame, memory)
        memory = self._restored(memory)
        process = self._under(frame, memory)
        if process is None:
            return self._made(frame, memory, self._used(frame, memory, len(memory)))
        return process, memory

    @single_threaded()
    def after(
        self, frame: WhitenedFrame, before: Process | None, new: Evaluations, known: Memory
    ) -> tuple[Process | None, Memory]:
        """The process given also ``new`` evaluations, which join those ``known``; None if there are none."""
        memory, n, base = known.joined(new), int(new.good.sum()), known.base
        if not n:
            return before, memory
        if before is None or (known.below != memory.below[:-n]).any():
            # with memory=0, all evaluations of the step; otherwise other ones than before are below a cliff
            return self._refitted(frame, memory, max(self.most, n))
        units = base.frame if base.at else frame
        process = self._extended(before, units, memory, n)
        if base.at:
            memory = replace(memory, process=process, base=replace(base, joined=np.append(base.joined, n)))
        if _standardised_error(before, process) > CACHE.refit_error:
            memory = replace(memory, fitted_at=1)  # a refit is due, from the present hyperparameters
        return process, memory

    def _refitted(
        self, frame: WhitenedFrame, memory: Memory, most: int | None = None
    ) -> tuple[Process, Memory]:
        """A new process with new hyperparameters, of at most ``most`` points, by default ``self.most``."""
        start = memory.hyperparameters if memory.fitted_at else None
        used = self._used(frame, memory, len(memory), most)
        hyperparameters = self.kind.fit(used, start)
        fitted = replace(memory, hyperparameters=hyperparameters, fitted_at=len(memory))
        return self._made(frame, fitted, used)

    def _made(self, frame: WhitenedFrame, memory: Memory, used: Observed) -> tuple[Process, Memory]:
        """A new process in the units of ``frame``, which is kept if it has no more than ``most`` points."""
        process = self.kind.process(used, memory.hyperparameters)
        kept = isinstance(process, GradientProcess) and len(process.given.points) <= self.most
        base = Base(frame.mean, frame.scale, len(memory) if kept else 0)
        return process, replace(memory, process=process if kept else None, base=base)

    def _under(self, frame: WhitenedFrame, memory: Memory) -> Process | None:
        """The kept process for integrals under the current q, or None if it must be made anew."""
        process = memory.process
        if not isinstance(process, GradientProcess) or len(process.given.points) > self.most:
            return None
        q = frame.seen_from(memory.base.frame)
        return process.under(q) if q.divergence <= CACHE.divergence else None

    def _restored(self, memory: Memory) -> Memory:
        """The memory with its process before it was saved, made and extended by the same steps."""
        base = memory.base
        if memory.process is not None or not base.at:
            return memory
        used = self._used(base.frame, memory, base.at)
        process = self.kind.process(used, memory.hyperparameters)
        for n, end in zip(base.joined, base.at + np.cumsum(base.joined), strict=True):
            process = self._extended(process, base.frame, memory.earliest(end), n)
        return replace(memory, process=process)

    def _extended(self, process: Process, units: WhitenedFrame, memory: Memory, n: int) -> Process:
        """The process with those of the last ``n`` evaluations that are not below a cliff."""
        rows = len(memory) - n + np.flatnonzero(~memory.below[len(memory) - n :])
        if not len(rows):
            return process
        new = self._observed(units, memory, rows, units.whiten(memory.points[rows]))
        return process.extended(new.points, new.targets, over_scale(new.noise, memory.hyperparameters))

    def _observed(
        self, units: WhitenedFrame, memory: Memory, rows: np.ndarray, points: np.ndarray
    ) -> Observed:
        """The observations in some rows of the memory, whose whitened points are ``points``."""
        targets = self.kind.targets(units, points, memory.values[rows], memory.gradients[rows])
        return Observed(points, targets, self.kind.noise(units, memory.noise_variances[rows]))

    def _used(self, units: WhitenedFrame, memory: Memory, count: int, most: int | None = None) -> Observed:
        """Those of the first ``count`` evaluations on which a process is conditioned, none below a cliff."""
        known = memory if count == len(memory) else memory.earliest(count)
        above, points = np.flatnonzero(~known.below), units.whiten(known.points)
        rows = above[self._chosen(points[above], self.most if most is None else most)]
        if not (np.abs(points[rows]) < _FARTHEST).all():
            raise FloatingPointError(
                f"evaluations lie more than {_FARTHEST:.0e} standard deviations of q from its mean"
            )
        return self._observed(units, memory, rows, points[rows])

    def _chosen(self, points: np.ndarray, most: int) -> np.ndarray:
        """Indices of the points among (m, D), in q's units, on which a process is conditioned."""
        full = len(points) > most
        most = most - most // 10 if full else len(points)
        first = len(points) - most
        return np.flatnonzero(near_q(points[first:])) + first


def _standardised_error(before: Process, after: Process) -> float:
    """Mean squared error of the predictions of the new targets, each over its variance."""
    old, new = before.given.targets.size, after.given.targets.size
    scales = before.given.scale, after.given.scale
    return (new * scales[1] - old * scales[0]) / ((new - old) * scales[0] + 1e-300)
