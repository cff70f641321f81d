"""Tests of which figures have changed by more than seed noise.

The null hypothesis for a figure of one task: the values of this run's seeds and those of the reference's
seeds are exchangeable. The test is Wilcoxon's rank sum with midranks for ties, and its distribution is exact:
all ways in which the ranks may fall to the two groups are counted. For a figure over all tasks of a door the
rank sums of the tasks are added (a stratified rank sum) and the exact distributions convolved, so that a
small shift that all tasks share is seen too.

Where the run's seeds are those of the reference, values of one seed are equal or correlated, and the test
flags less often than it states.

Times and memory may change for reasons other than the code: there the null hypothesis is that
the ratio of run to reference lies within `MARGINS`; the run is divided or multiplied by the margin before it
is ranked, whichever favours the null hypothesis.

Over the whole table Holm's method keeps the probability of any false flag at `FALSE_ALARM`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import rankdata

FALSE_ALARM = 0.05
"""The probability that a table of unchanged code has any flag."""
MARGINS = {"overhead": 1.25, "memory": 1.25}
"""The ratios to the reference within which times and memory of the same code vary with load and allocator."""
FLOORS = {"memory": 5.0, "distance": 1e-3}
"""The least value; smaller ones are replaced by this, as differences below it have no meaning. A peak of a
few MiB depends on which freed pages a process has when it begins: for coordinate ascent on 2,000 data, whose
arrays and objects take 4.5 MiB at their peak (by tracemalloc, at 3f583e4 and at 9d0b09d), the resident set
grew by 3.1, 3.9, 4.6 and 4.8 MiB, depending on what had been imported before."""
HIGHER_IS_BETTER = frozenset({"within"})

Pair = tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray]
"""The values of a run and of the reference, for one task."""


@dataclass(frozen=True)
class Comparison:
    """One figure of a task, or of all tasks of a door.

    Attributes
    ----------
    door, task, figure : names; ``task`` is "all" for the figure over all tasks of the door.
    run, reference : the values by seed; empty where ``task`` is "all".
    p : two-sided; 1 where there is nothing to compare.
    direction : +1 where the run's ranks are higher than the reference's, -1 where lower, else 0.
    flagged : whether it moved beyond seed noise.
    """

    door: str
    task: str
    figure: str
    run: tuple[float, ...]
    reference: tuple[float, ...]
    p: float
    direction: int
    flagged: bool = False

    @property
    def verdict(self) -> str:
        """BETTER, WORSE, or nothing."""
        if not self.flagged:
            return ""
        return "BETTER" if (self.direction > 0) == (self.figure in HIGHER_IS_BETTER) else "WORSE"


def rank_sum_test(pairs: Sequence[Pair], margin: float = 1.0) -> tuple[float, int]:
    """Two-sided p of the stratified rank-sum test, and the direction in which the runs lie.

    Parameters
    ----------
    pairs : for each stratum the values of the run and of the reference; NaN are left out, infinities ranked.
    margin : ratio, at least 1, within which the null hypothesis holds.
    """
    kept = [_finite(pair) for pair in pairs]
    kept = [(run, reference) for run, reference in kept if len(run) and len(reference)]
    if not kept:
        return 1.0, 0
    higher = _tail([(run / margin, reference) for run, reference in kept])
    lower = _tail([(-run * margin, -reference) for run, reference in kept])
    if higher == lower:
        return 1.0, 0
    return min(1.0, 2.0 * min(higher, lower)), 1 if higher < lower else -1


def holm(p: Sequence[float], level: float = FALSE_ALARM) -> np.ndarray:
    """Which hypotheses (m,) Holm's method rejects at this family-wise level."""
    order = np.argsort(p)
    steps = np.asarray(p, float)[order] * np.arange(len(p), 0, -1)
    rejected = np.empty(len(p), dtype=bool)
    rejected[order] = np.maximum.accumulate(steps) <= level
    return rejected


def _finite(pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    run, reference = (np.asarray(values, float) for values in pair)
    return run[~np.isnan(run)], reference[~np.isnan(reference)]


def _tail(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """The probability, over all strata, of a rank sum of the runs at least as large as the observed one."""
    distribution, observed = np.ones(1), 0
    for run, reference in pairs:
        # twice the midranks, which are whole numbers
        ranks = np.rint(2.0 * rankdata(np.concatenate([run, reference]))).astype(int)
        distribution = np.convolve(distribution, _rank_sums(tuple(np.sort(ranks).tolist()), len(run)))
        observed += int(ranks[: len(run)].sum())
    return float(distribution[observed:].sum())


@lru_cache(maxsize=256)
def _rank_sums(ranks: tuple[int, ...], size: int) -> np.ndarray:
    """Probabilities of each sum of ``size`` of these ascending whole numbers, drawn without replacement."""
    counts = np.zeros((size + 1, sum(ranks[-size:]) + 1))
    counts[0, 0] = 1.0
    for rank in ranks:
        counts[1:, rank:] += counts[:-1, : counts.shape[1] - rank].copy()
    return counts[size] / counts[size].sum()
