"""Evaluations kept between steps, as the log joint stays the same while q moves, and the process on them.

All successful evaluations are kept. A surrogate is conditioned on the most *recent* ones, up to its limit.
With the nearest ones instead, the tails are not represented, and the gap increases with more data.

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

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bqvi.calls import EvaluationError, Evaluations
from bqvi.calls.faults import NONE_FAILED, Failures
from bqvi.calls.table import Products, below_a_cliff, joined_products
from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.settings import CACHE
from bqvi.gradients.surrogates import Kind, Observed, Process, over_scale
from bqvi.gradients.whitened import WhitenedFrame, near_q
from gp.threads import single_threaded

_GROWS: dict[str, Any] = {"grows": True}
"""Marks arrays whose first dimension grows, for `bqvi.runs.checkpoint`."""
_DERIVED: dict[str, Any] = {"derived": True}
"""Marks what is not saved."""


@dataclass(frozen=True, eq=False)
class Base:
    """The units of a process that is kept between steps, and how it was made."""

    mean: np.ndarray
    """The mean of the q in whose units the process is, (D,)."""
    scale: np.ndarray
    """The Cholesky factor L of that q's covariance, (D, D)."""
    at: int = 0
    """The number of evaluations when the process was made; 0 if none is kept."""
    joined: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int), metadata=_GROWS)
    """The numbers of evaluations by which it was extended since, in order."""

    @property
    def frame(self) -> WhitenedFrame:
        """The units of q."""
        return WhitenedFrame(self.mean, self.scale, False)


@dataclass(frozen=True, eq=False)
class Memory:
    """The evaluations and hyperparameters of an estimator, as arrays and numbers."""

    points: np.ndarray = field(metadata=_GROWS)
    """theta, (m, D), in order of evaluation."""
    values: np.ndarray = field(metadata=_GROWS)
    """f, (m,)."""
    gradients: np.ndarray = field(metadata=_GROWS)
    """grad f, (m, D); (m, 0) for a model without gradients."""
    hyperparameters: np.ndarray = field(metadata=_GROWS)
    """Logarithms of the hyperparameters of the last fit; (0,) before the first."""
    base: Base
    noise_variances: np.ndarray = field(metadata=_GROWS)
    """Variances of the noise of f and of the entries of grad f, (m, 1 + D) or (m, 1); 0 where exact."""
    failed: np.ndarray = field(metadata=_GROWS)
    """theta of evaluations that raised or were not finite, (k, D), for the designs' model of failures."""
    fitted_at: int = 0
    """m at the last fit of hyperparameters; 0 before the first."""
    failures: Failures = NONE_FAILED
    """The evaluations without a value, and the first exception."""
    failed_rounds: int = 0
    """The number of latest rounds in a row without a successful evaluation."""
    by_products: Products = ()
    """The dict returned with each evaluation, or None; () where there are none."""
    process: Any = field(default=None, metadata=_DERIVED)
    """The process that is kept, which the other fields determine."""
    cliff: Any = field(default=None, metadata=_DERIVED)
    """The values for which `below` was computed, and the result."""

    @classmethod
    def empty(cls, dimension: int, with_gradients: bool) -> Memory:
        """The memory of no evaluations."""
        width = dimension if with_gradients else 0
        base = Base(np.zeros(dimension), np.eye(dimension))
        return cls(
            np.empty((0, dimension)),
            np.empty(0),
            np.empty((0, width)),
            np.empty(0),
            base,
            np.empty((0, 1 + width)),
            np.empty((0, dimension)),
        )

    def __len__(self) -> int:
        return len(self.points)

    def earliest(self, count: int) -> Memory:
        """The memory of the ``count`` evaluations that were made first, without the process."""
        return self._part(np.arange(len(self)) < count)

    @property
    def below(self) -> np.ndarray:
        """Which evaluations (m,) lie below a cliff (`bqvi.calls.table`); known to copies."""
        if self.cliff is None or self.cliff[0] is not self.values:
            gradients = self.gradients if self.gradients.shape[1] else None
            rows = below_a_cliff(self.points, self.values, gradients, self.noise_variances[:, 0])
            object.__setattr__(self, "cliff", (self.values, rows))
        found: np.ndarray = self.cliff[1]
        return found

    @property
    def censored(self) -> Memory:
        """The memory with evaluations below a cliff among those that failed, without the process."""
        if not self.below.any():
            return self
        failed = np.concatenate([self.failed, self.points[self.below]])
        return replace(self._part(~self.below), failed=failed)

    def _part(self, rows: np.ndarray) -> Memory:
        """The memory of the evaluations that are marked in ``rows`` (m,) bool, without the process."""
        products = self.by_products and tuple(self.by_products[i] for i in np.flatnonzero(rows))
        return replace(
            self,
            points=self.points[rows],
            values=self.values[rows],
            gradients=self.gradients[rows],
            noise_variances=self.noise_variances[rows],
            by_products=products,
        ).without_process()

    def joined(self, found: Evaluations) -> Memory:
        """Return the memory with the evaluations of a round.

        Raises
        ------
        EvaluationError
            This is the last of five rounds in a row without a successful evaluation.
        """
        failed_rounds = 0 if found.good.any() else self.failed_rounds + 1
        if failed_rounds >= 5:
            reasons = "; ".join(dict.fromkeys(found.reasons))
            raise EvaluationError(
                f"the log joint had no finite value and gradient in 5 rounds in a "
                f"row, the last of {len(found)} points: it {reasons}. The {len(self)} good evaluations "
                "before are in state.memory. Start q where the log joint is finite, or guard it"
            )
        return self._extended(found, failed_rounds)

    def with_evaluations(self, found: Evaluations) -> Memory:
        """The memory with evaluations of a failed step, unless these lack gradients that the memory has."""
        if self.gradients.shape[1] and found.gradients is None:
            return self
        return self._extended(found, self.failed_rounds).without_process()

    def _extended(self, found: Evaluations, failed_rounds: int) -> Memory:
        good = found if found.good.all() else found[found.good]
        slopes = np.empty((len(good), 0)) if good.gradients is None else good.gradients
        return replace(
            self,
            points=np.concatenate([self.points, good.points]),
            values=np.concatenate([self.values, good.values]),
            gradients=np.concatenate([self.gradients, slopes]),
            noise_variances=np.concatenate([self.noise_variances, _noise_of(good, slopes)]),
            failures=self.failures.after(found),
            failed_rounds=failed_rounds,
            by_products=joined_products(self.by_products, len(self), good.by_products, len(good)),
            failed=self.failed if good is found else np.concatenate([self.failed, found.points[~found.good]]),
        )

    def without_process(self) -> Memory:
        """The memory without its process, for values that have changed."""
        return replace(self, process=None, base=replace(self.base, at=0))

    def require_signal(self) -> None:
        """Raise EvaluationError if the log joint is the same wherever it was evaluated."""
        enough = len(self) > 2 * self.points.shape[1]
        if enough and not np.ptp(self.values) > 0.0 and not self.gradients.any():
            raise EvaluationError(
                f"the log joint is {self.values[0]} at all {len(self)} points, with gradient zero: log_prob "
                "does not use its argument, or all lie where it has a floor: give start_from elsewhere"
            )


def _noise_of(good: Evaluations, slopes: np.ndarray) -> np.ndarray:
    """Variances of values and gradients, (n, 1 + D) or (n, 1)."""
    if good.noise_variance is None and good.gradient_noise_variance is None:
        return np.zeros((len(good), 1 + slopes.shape[1]))
    of_values = np.zeros(len(good)) if good.noise_variance is None else good.noise_variance
    of_slopes = good.gradient_noise_variance
    if of_slopes is None or not slopes.shape[1]:
        of_slopes = np.zeros_like(slopes)
    return np.nan_to_num(np.column_stack([of_values, of_slopes]))


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
        (old, scale), (now, grown) = ((one.given.targets.size, one.given.scale) for one in (before, process))
        # the mean squared error of the predictions of the new targets, each over its variance
        if (now * grown - old * scale) / ((now - old) * scale + 1e-300) > CACHE.refit_error:
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
        rows = above[self._chosen(points[above], self.most if most is None else most, known)]
        if not (np.abs(points[rows]) < _FARTHEST).all():
            raise FloatingPointError(
                f"evaluations lie more than {_FARTHEST:.0e} standard deviations of q from its mean"
            )
        return self._observed(units, memory, rows, points[rows])

    def _chosen(self, points: np.ndarray, most: int, known: Memory) -> np.ndarray:
        """Indices of the points among (m, D), in q's units, on which a process is conditioned."""
        full = len(points) > most
        most = most - most // 10 if full else len(points)
        first = len(points) - most
        return np.flatnonzero(near_q(points[first:], not known.gradients.shape[1])) + first
