"""The table of evaluations that all engines use, the budget of a run, and the ledger of a step.

An evaluation is one point at which the user's function, its gradient or both are called; where a batch that
failed is called again point by point, each of its points counts again. A call that ended the run by an
exception or an interrupt is made again when the run is resumed, and counts once. The budget is checked before
each call, and never exceeded.

A ledger is the one mutable object that a driver passes down to where the user's function is called:

    driver                      engine                          calls
    ledger = Ledger(D)   -->    evaluate(..., ledger)    -->    entered as each evaluation returns
    state = step(state)
    ledger.take()               the step is whole: its evaluations are in the state, the ledger is emptied
    ---
    except BaseException:       Ctrl-C, SystemExit, an error of the function, a failure of the engine
        ledger.take()           what returned since the last `take`; the exception passes on as it is

A step that was cut short is repeated with the same random numbers, so that it proposes the same points, and
its `Unfinished` evaluations, which had returned, are used instead of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from bqvi.calls.settings import CLIFFS
from gp.threads import CallThreads

Products = tuple[Mapping[str, Any] | None, ...]
"""The by-products of each row, which are numbers, text and arrays that the log joint returned after its
value; None where a row has none, and () where no row has any."""


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Rows of points, values, gradients, noise and failures; NumPy arrays in float64 on the host.

    Attributes
    ----------
    points : the points (n, D), in the order in which they were requested.
    values : the values (n,), or (n, o) for a function of o outputs. A failed row has -inf for a log density,
        NaN for another function.
    gradients : the gradients (n, D) or (n, o, D), or None; a row is NaN where the function or its gradient
        failed.
    noise_variance : the variances (n,) of the values' noise, or None; NaN where it is not known, or the
        function failed.
    failed : which rows have no usable value, (n,) bool.
    reasons : for each row why it failed, or "".
    n_evaluations : the number of points at which the function was called to get these rows, more than n
        where a batch that failed was called again point by point.
    by_products : for each row the dict that was returned with the value, or None; () where there is none.
    gradient_noise_variance : the variances (n, D) of the noise of the gradients, or None where they are
        exact.
    """

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray | None
    noise_variance: np.ndarray | None
    failed: np.ndarray
    reasons: tuple[str, ...]
    n_evaluations: int = -1
    by_products: Products = ()
    gradient_noise_variance: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.n_evaluations < 0:
            object.__setattr__(self, "n_evaluations", len(self.points))

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        failed = f", {self.failed.sum()} of them failed" if self.failed.any() else ""
        return f"Evaluations({len(self)} points in {self.points.shape[-1]} dimensions{failed})"

    @classmethod
    def none(cls, dimension: int) -> Self:
        """An empty record for points (0, D), D being ``dimension``."""
        return cls(np.zeros((0, dimension)), np.zeros(0), None, None, np.zeros(0, bool), ())

    @cached_property
    def good(self) -> np.ndarray:
        """Which rows have a usable value, and a usable gradient where there are gradients, (n,) bool."""
        found: np.ndarray = ~self.failed
        if self.gradients is not None:
            found &= np.isfinite(self.gradients).all(axis=tuple(range(1, self.gradients.ndim)))
        return found

    @cached_property
    def censored(self) -> Evaluations:
        """Those of a log density, with rows below a cliff (:mod:`table`) as failed ones, for a surrogate.

        Which rows these are depends on all others, so that the table itself has the values as returned.
        """
        rows = np.flatnonzero(~self.failed)
        gradients, noise = _rows(self.gradients, rows), _rows(self.noise_variance, rows)
        rows = rows[below_a_cliff(self.points[rows], self.values[rows], gradients, noise)]
        if not len(rows):
            return self
        failed, reasons = self.failed.copy(), list(self.reasons)
        failed[rows] = True
        for i in rows:
            reasons[i] = f"returned {self.values[i]:.6g}, below a cliff"
        noise, gradients = self.noise_variance, self.gradients
        return replace(
            self,
            values=np.where(failed, -np.inf, self.values),
            gradients=None if gradients is None else np.where(failed[:, None], np.nan, gradients),
            noise_variance=None if noise is None else np.where(failed, np.nan, noise),
            failed=failed,
            reasons=tuple(reasons),
        )

    def __getitem__(self, rows: slice | np.ndarray | list[int]) -> Evaluations:
        """The evaluations ``rows``: a slice, indices, or n booleans; each counted as one evaluation."""
        index = np.arange(len(self))[rows]
        return Evaluations(
            self.points[index],
            self.values[index],
            _rows(self.gradients, index),
            _rows(self.noise_variance, index),
            self.failed[index],
            tuple(self.reasons[i] for i in index),
            by_products=tuple(self.by_products[i] for i in index) if self.by_products else (),
            gradient_noise_variance=_rows(self.gradient_noise_variance, index),
        )

    def joined(self, more: Evaluations) -> Evaluations:
        """These rows followed by those of ``more``, with NaN for a gradient or noise that one lacks."""
        if not (len(self) and len(more)):  # an empty record has no shapes to be kept
            found = self if len(self) else more
            return replace(found, n_evaluations=self.n_evaluations + more.n_evaluations)
        return Evaluations(
            np.concatenate([self.points, more.points]),
            np.concatenate([self.values, more.values]),
            joined_rows(self.gradients, len(self), more.gradients, len(more)),
            joined_rows(self.noise_variance, len(self), more.noise_variance, len(more)),
            np.concatenate([self.failed, more.failed]),
            self.reasons + more.reasons,
            self.n_evaluations + more.n_evaluations,
            joined_products(self.by_products, len(self), more.by_products, len(more)),
            joined_rows(self.gradient_noise_variance, len(self), more.gradient_noise_variance, len(more)),
        )


def _rows(array: np.ndarray | None, index: np.ndarray) -> np.ndarray | None:
    return None if array is None else array[index]


def joined_rows(a: np.ndarray | None, n: int, b: np.ndarray | None, m: int) -> np.ndarray | None:
    """The n rows of ``a`` followed by the m rows of ``b``, NaN for those of the one that is None."""
    if a is None:
        return None if b is None else np.concatenate([np.full((n, *b.shape[1:]), np.nan), b])
    return np.concatenate([a, np.full((m, *a.shape[1:]), np.nan) if b is None else b])


def joined_products(first: Products, n: int, second: Products, m: int) -> Products:
    """The by-products of n rows, followed by those of m rows.

    Parameters
    ----------
    first, second : the by-products of n and of m rows, () where there are none. n, m : the numbers of rows.
    """
    if not first and not second:
        return ()
    return (first or (None,) * n) + (second or (None,) * m)


def matched(pending: np.ndarray, points: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return for each of the points (n, D) its row in ``pending`` (m, D), and which rows remain, (m,).

    Points are compared to the last digit; of equal rows each is matched once. A point that is not pending
    has the row -1.
    """
    waiting: dict[bytes, list[int]] = {}
    for i, row in enumerate(pending):
        waiting.setdefault(row.tobytes(), []).append(i)
    found = [waiting.get(point.tobytes()) for point in points]
    rows = np.array([equal.pop(0) if equal else -1 for equal in found], dtype=int)
    remaining = np.ones(len(pending), dtype=bool)
    remaining[rows[rows >= 0]] = False
    return rows, remaining


def rows_of(points: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The row (m,) of each ``wanted`` point (m, D) among ``points`` (n, D), -1 where it is not there."""
    rows = {point.tobytes(): i for i, point in enumerate(points)}
    return np.array([rows.get(point.tobytes(), -1) for point in wanted], dtype=int)


class Budget:
    """The evaluations of a run, those of its records and diagnostics among them.

    Parameters
    ----------
    most : the total number of evaluations, at least 0; None for no limit.
    spent : the number of them made before, for instance by the run that this one resumes.
    """

    def __init__(self, most: int | None = None, spent: int = 0) -> None:
        self.most, self.spent = most, spent

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
        RuntimeError
            The budget has fewer left, an error of the engine, which is to ask for `room` first.
        """
        if self.room(count) < count:
            raise RuntimeError(f"{count} evaluations were asked for, and {self.left} of {self.most} are left")
        self.spent += count


class Ledger:
    """The evaluations that returned since the last `take`.

    Parameters
    ----------
    dimension : the dimension D of the points.
    on_return : a function that is called each time an evaluation of a batch has been entered, from the thread
        that drives the run; it may call `entries` (and save them), and an exception in it ends the batch.

    Attributes
    ----------
    outputs : the number of values that the function returns at a point; None before the first evaluation.
    threads : the number of threads of the function's calls in this process, as they are short or long.
    """

    def __init__(self, dimension: int, on_return: Callable[[], None] | None = None) -> None:
        self.dimension = dimension
        self.on_return = on_return
        self.outputs: int | None = None
        self.threads = CallThreads()
        self._held: tuple[tuple[Evaluations, ...], Callable[[], Evaluations] | None] = ((), None)
        """The completed batches, and a function that returns the rows of the batch under way. A batch moves
        from the second to the first in one assignment, so that at an interrupt it is in one of them only."""
        self._without_rows = 0
        self._none = Evaluations.none(dimension)

    def entries(self) -> Evaluations:
        """The evaluations that returned since the last `take`, including those of a batch under way."""
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
        """Enter ``made``, a batch that has returned completely."""
        whole, under_way = self._held
        self._held = ((*whole, made), under_way)

    def count(self, evaluations: int) -> None:
        """Count a number of ``evaluations`` that are not kept as rows."""
        self._without_rows += evaluations

    def begin(self, so_far: Callable[[], Evaluations]) -> None:
        """Begin a batch; ``so_far`` returns those of its rows that have returned."""
        self._held = (self._held[0], so_far)

    def returned(self) -> None:
        """Note that another evaluation of the batch under way has returned."""
        if self.on_return is not None:
            self.on_return()

    def end(self, made: Evaluations) -> None:
        """End the batch under way, whose evaluations are ``made``."""
        self._held = ((*self._held[0], made), None)


class Unfinished:
    """Evaluations of a step that was cut short, used when the step is made again.

    Parameters
    ----------
    rows : the evaluations that had returned. cost : the number of evaluations that one point counts for.
    """

    def __init__(self, rows: Evaluations, cost: int = 1) -> None:
        self._rows, self._cost = rows, cost
        self._unused = np.arange(len(rows))
        self._counted = 0

    def completed(self, points: np.ndarray, evaluate: Callable[[np.ndarray], Evaluations]) -> Evaluations:
        """Evaluations at the points (n, D): stored ones where there are any, the others made by ``evaluate``.

        Where all of them are stored, the step was not ended by a call: then those that failed are
        evaluated again, since the function may have been mended.
        """
        found, unused = matched(self._rows.points[self._unused], points)
        missing = found < 0
        if missing.all():
            return evaluate(points)
        found = np.where(missing, -1, self._unused[found])
        self._unused = self._unused[unused]
        paid = self._cost * int((~missing).sum())
        self._counted += paid
        if not missing.any():
            missing = ~self._rows.good[found]
        made = evaluate(points[missing]) if missing.any() else Evaluations.none(points.shape[1])
        place = {point.tobytes(): len(self._rows) + i for i, point in enumerate(made.points)}
        order = [
            place.get(point.tobytes(), i) if again else i
            for point, i, again in zip(points, found, missing, strict=True)
        ]
        rows = self._rows.joined(made)[[i for i in order if i >= 0]]
        return replace(rows, n_evaluations=paid + made.n_evaluations)

    def left(self) -> Evaluations:
        """The evaluations that the repeated step did not use, with the number spent and not yet counted."""
        return replace(self._rows[self._unused], n_evaluations=self._rows.n_evaluations - self._counted)


class AsksError(Exception):
    """The points (m, D) that are needed next, and that have no values yet."""

    def __init__(self, points: np.ndarray) -> None:
        super().__init__(f"{len(points)} points have no values yet")
        self.points = points


class Told(Unfinished):
    """Values that a run was told, for a step that asks for the others."""

    def completed(self, points: np.ndarray, evaluate: Callable[[np.ndarray], Evaluations]) -> Evaluations:
        """The evaluations at the points (n, D), failed ones as they are; AsksError for those not told.

        ``evaluate`` is not called.
        """
        found, unused = matched(self._rows.points[self._unused], points)
        if (found < 0).any():
            raise AsksError(points[found < 0])
        rows, self._unused = self._rows[self._unused[found]], self._unused[unused]
        self._counted += len(points)
        return replace(rows, n_evaluations=len(points))


class StepEvaluations:
    """The evaluations of a step, kept for checks where the estimator itself keeps none."""

    def __init__(self) -> None:
        self.made: Evaluations | None = None
        self.n_beside = 0
        """The number of evaluations of the step beside those at its draws."""

    def enter(self, made: Evaluations) -> None:
        """Enter evaluations ``made``, those of noisy values without gradients."""
        if made.noise_variance is not None and np.any(made.noise_variance > 0.0):
            made = replace(made, gradients=None)
        self.made = made if self.made is None else self.made.joined(made)


@dataclass(frozen=True, eq=False)
class Account:
    """The budget and the evaluations of one step.

    Attributes
    ----------
    ledger : the ledger in which evaluations are entered as they return; None where they are not kept.
    budget : the budget that is checked before each call; None for no limit.
    unfinished : the evaluations of an earlier attempt at the step that was cut short; None if there are none.
    given : evaluations given by the caller, which the step uses instead of calls; None where it makes calls.
    entered : a `StepEvaluations`, for an estimator that keeps no evaluations; None for others.
    first : whether no evaluation was made before this step.
    """

    ledger: Ledger | None = None
    budget: Budget | None = None
    unfinished: Unfinished | None = None
    given: Evaluations | None = None
    entered: StepEvaluations | None = None
    first: bool = False

    @contextmanager
    def spending(self, count: int) -> Iterator[None]:
        """A context in which ``count`` evaluations are made that have no rows: of a model's terms of data.

        They are entered in the budget before they are made, and in the ledger once they have returned, as
        `Caller.evaluate` does with evaluations that have rows.
        """
        if self.budget is not None:
            self.budget.spend(count)
        yield
        if self.ledger is not None:
            self.ledger.count(count)


def below_a_cliff(
    points: np.ndarray,
    values: np.ndarray,
    gradients: np.ndarray | None = None,
    noise: np.ndarray | None = None,
) -> np.ndarray:
    """Which evaluations (n,) of a log density lie below a cliff; none of fewer than three.

    A log joint may return -1e6, or another very low number, where it has no value. Such a number is no point
    of a smooth function, and a process that is fitted to it is wrong beside it. A log joint that merely is
    low far from its mode falls gradually. The two are told apart by the radius

        R_i = sqrt(D + 2 s(d_i)),     s(d) = d for d <= r,  r (1 + log(d / r)) beyond,     r = 15 + D / 2,

    with d_i the depth below the highest value, in nats. For a Gaussian R grows with the distance from the
    mode at about the same rate everywhere, and for an exponential at a falling one. With

        J_ij = |R_i - R_j| / max(|x_i - x_j|, h),   h the median distance of a high point from the nearest,

    a level d > r is a cliff where max J_ij over pairs on either side of it is several times as large as over
    all pairs on the same side: the function falls across it, between near points, much faster than anywhere
    above or below. What lies below has no value ("at most this"), as where the log joint is -inf. s is the
    shape that the surrogate of `vbmc` gives low values, and r its least threshold: what is nearer to the top
    is never a cliff. Four values or more are above a cliff, or two or three where all others are about equal.
    Of noisy values a difference counts by what exceeds one standard deviation of it. Where there are
    gradients, the slopes of R at the points below count as slopes there: a floor has none, and a steep wall
    has one.

    Parameters
    ----------
    points : points (n, D), in any units. values : the values there, (n,), all finite.
    gradients : their gradients (n, D), NaN where there is none; or None.
    noise : the variances (n,) of the values' noise; None, or NaN, where it is zero or not known.
    """
    n, dimension = points.shape
    found, threshold = np.zeros(n, bool), CLIFFS.shallowest + 0.5 * dimension
    order = np.argsort(-values, kind="stable")
    depth = values.max(initial=-np.inf) - values[order]
    flat = depth.max(initial=0.0) - depth < 0.01 * depth  # of a level's value and all lower ones
    rows = np.arange(n)
    levels = (depth > threshold) & ((rows >= CLIFFS.above) | ((rows >= CLIFFS.above_a_floor) & flat))
    if not levels.any():
        return found
    excess = np.maximum(depth / threshold, 1.0)
    shaped = np.where(depth > threshold, threshold * (1.0 + np.log(excess)), depth)
    radius = np.sqrt(dimension + 2.0 * shaped)
    high = order[: max(n // 3, CLIFFS.above)]
    spread = points[high].std(0)
    spread = np.where(spread > 0.0, spread, 1.0)
    sds = np.zeros(n) if noise is None else np.sqrt(np.nan_to_num(noise[order]))
    own = np.zeros(n)
    if gradients is not None:
        own = np.linalg.norm(np.nan_to_num(gradients[order]) * spread, axis=1) / (excess * radius)
    nearest = np.asarray(cKDTree(points[high] / spread).query(points[high] / spread, 2)[0])[:, 1]
    shortest = max(float(np.median(nearest)), 1e-300)
    level, ratio = _steepest(points[order] / spread, radius, sds, own, levels, shortest)
    if ratio > CLIFFS.steeper:
        found[order[level:]] = True
    return found


def nothing_above(values: np.ndarray, failed: int, rounding: float = 1e-9) -> tuple[str, ...]:
    """The reason that equal values are no knowledge of a log joint, as they may be those of a floor; or ().

    Parameters
    ----------
    values : (n,), in the user's units. failed : the number of others. rounding : of equal values, relative.
    """
    if failed or not len(values) or not np.ptp(values) <= rounding * np.abs(values).max():
        return ()
    return (
        f"all {len(values)} values are {values[0]:.6g}, as on a floor beside a region that no evaluation has "
        "met: the result is right only if the log joint is a constant",
    )


def _steepest(
    points: np.ndarray, radius: np.ndarray, sds: np.ndarray, own: np.ndarray, levels: np.ndarray, h: float
) -> tuple[int, float]:
    """The level across which the largest slope is the most times that on either side, and this ratio.

    Points (n, D), radii R, noise ``sds``, slopes at the points and ``levels`` (n,) are in decreasing order of
    the values. The pairs i < j are met in the order of i, so that few of them are in memory at a time.
    """
    n = len(points)
    above, below, across, to_higher = np.zeros((4, n))
    step = max(2**17 // n, 1)
    for first in range(0, n, step):
        rows = slice(first, first + step)
        upper, lower = radius[rows, None], radius[first:]
        slopes: np.ndarray = np.abs(upper - lower)
        if sds.any():
            noise = 2.0 * np.hypot(sds[rows, None], sds[first:])
            slopes = np.maximum(slopes - noise / (upper + lower), 0.0)
        slopes /= np.maximum(cdist(points[rows], points[first:]), h)
        square = slopes[:, : len(slopes)]
        square[np.tri(len(square), dtype=bool)] = 0.0
        below[rows] = slopes.max(1)
        above[first:] = np.maximum(above[first:], slopes.max(0))
        slopes[0] = np.maximum(slopes[0], to_higher[first:])
        np.maximum.accumulate(slopes, 0, out=slopes)  # [i, j]: from j to the first i + 1
        to_higher[first:] = slopes[-1]
        square[np.tri(len(square), dtype=bool)] = 0.0
        across[rows] = slopes.max(1)
    above, below = np.maximum.accumulate(above)[:-1], np.maximum.accumulate(below[::-1])[::-1][1:]
    own_below = np.maximum.accumulate(own[::-1])[::-1][1:]
    beside = np.maximum(np.maximum(above, below), np.maximum(own_below, 1e-300))
    ratios = np.where(levels[1:], across[:-1] / beside, 0.0)
    best = int(np.argmax(ratios))
    return 1 + best, float(ratios[best])
