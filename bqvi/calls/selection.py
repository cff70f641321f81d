"""The choice of the evaluations that a run begins with among many that the user gave.

A surrogate of ten thousand rows would take minutes a step, and most rows of a chain are redundant. With
depths d_j, nats below the highest row, and points u_j in units of the shallow rows' moments, rows are chosen
one after the other by the variance that those before leave, weighted by the tempered density,

    argmax_j  v_j exp(-d_j / D),     v_j = Var f(u_j) given those chosen, lengthscale sqrt(D),

by the rank-one updates of :mod:`acquisition.conditioned`: O(k^2 N) time and O(k N) memory for k of N rows.
Few rows are chosen from a cluster, and few that are far below the highest. Failed rows, by which a surrogate
avoids infeasible regions, are chosen from the nearest in the same way. Of rows at one point the first is
kept, unless values are noisy. Some of the remaining rows that are not far below the highest can be held out:
the surrogate's predictions there are a check without further evaluations.
"""

from __future__ import annotations

import numpy as np

from acquisition.conditioned import ConditionedPool, greedy
from bqvi.calls.evaluations import Evaluations
from bqvi.calls.settings import SELECTION
from gp.arrays import Array
from gp.measures import AffineMap
from gp.triangular import cholesky

JITTER = 1e-6
"""The variance added to that of each row, and to those of standardised coordinates."""


def selected(
    made: Evaluations,
    budget: int | None = None,
    noisy: bool = False,
    log_density: np.ndarray | None = None,
    reserved: int = 0,
) -> Evaluations:
    """The evaluations that a run begins with; all of them where they are few.

    Parameters
    ----------
    made : the n evaluations that the user gave.
    budget : the budget, in which the chosen evaluations count; None for no limit.
    noisy : whether the noise of the values is unknown; values whose noise variance is given count as noisy in
        any case.
    log_density : the log density (n,) of the rows up to a constant; by default their values.
    reserved : evaluations of the budget that the run makes besides, in its first design.
    """
    density = made.values if log_density is None else log_density
    rows = np.arange(len(made))
    width = 1 if made.gradients is None else 1 + made.points.shape[1]
    most = min(SELECTION.rows, SELECTION.numbers // width)
    if len(made) > most:
        rows = _chosen(made, _distinct(made, noisy), density, most)
    if budget is not None and len(rows) + reserved > budget:
        taken = "" if len(rows) == len(made) else f", of which {len(rows)} are taken"
        design = f"; the first design of {reserved} is evaluated besides" if reserved else ""
        raise ValueError(
            f"budget is {budget}, and evaluations has {len(made)}{taken}, which count in it{design}: raise "
            "the budget"
        )
    return made if len(rows) == len(made) else made[rows]


def held_out(made: Evaluations, taken: Evaluations, noisy: bool = False) -> Evaluations | None:
    """Rows with values that were not chosen, evenly spaced in their order; None where there are none.

    Parameters
    ----------
    made : the n evaluations of a log density that the user gave.
    taken : the evaluations that :func:`selected` chose. noisy : as in :func:`selected`.
    """
    if len(taken) == len(made):
        return None
    rows = _distinct(made, noisy)
    rows = rows[~made.failed[rows]]
    depth = made.values[rows].max(initial=-np.inf) - made.values[rows]
    rows = rows[depth < SELECTION.shallow * made.points.shape[1]]
    known = {point.tobytes() for point in taken.points}
    rows = rows[[made.points[i].tobytes() not in known for i in rows]]
    count = min(len(rows), SELECTION.held_out)
    return made[rows[np.linspace(0, len(rows) - 1, count).astype(int)]] if count else None


def _distinct(made: Evaluations, noisy: bool) -> np.ndarray:
    """The first row of each different point; all rows where values are noisy."""
    if noisy or made.noise_variance is not None:
        return np.arange(len(made))
    return np.sort(np.unique(made.points, axis=0, return_index=True)[1])


def _chosen(made: Evaluations, rows: np.ndarray, density: np.ndarray, most: int) -> np.ndarray:
    """At most ``most`` of the rows, chosen by the rule of the module, in their order."""
    good, failed = rows[made.good[rows]], rows[~made.good[rows]]
    count = min(len(failed), max(int(SELECTION.failed * most), most - len(good)))
    points, away = made.points[good], made.points[failed]
    units = _units(points, density[good]) if len(good) else _units(away)
    depth, u = density[good].max(initial=-np.inf) - density[good], units.to_standard(away)
    near = good[_spread(units.to_standard(points), depth, most - count)]
    return np.sort(np.concatenate([near, failed[_spread(u, 0.5 * np.square(u).sum(1), count)]]))


def _units(points: np.ndarray, density: np.ndarray | None = None) -> AffineMap:
    """The units of the shallow rows of points (n, D) with log densities (n,), by mean and covariance.

    Without densities they are those of all points.
    """
    d = points.shape[1]
    if density is not None:
        order = np.argsort(-density, kind="stable")
        depth = density[order[0]] - density[order]
        points = points[order[: max(int((depth < SELECTION.shallow * d).sum()), 10 * d)]]
    sds = points.std(0) + 1e-9 * (1.0 + np.abs(points).max(0))
    covariance = np.cov((points / sds).T, bias=True).reshape(d, d) + JITTER * np.eye(d)
    return AffineMap(points.mean(0), sds[:, None] * cholesky(covariance))


def _spread(whitened: np.ndarray, depth: np.ndarray, count: int) -> np.ndarray:
    """Indices of at most ``count`` points, ``whitened`` (n, D), at depths (n,) in nats."""
    n, d = whitened.shape
    if n <= count or not count:
        return np.arange(n) if count else np.zeros(0, int)
    u = whitened / np.sqrt(d)
    weight = np.exp(-np.minimum(depth / d, 600.0))

    def column(j: int) -> np.ndarray:
        return np.exp(-0.5 * np.square(u - u[j]).sum(1))

    def score(state: ConditionedPool) -> Array:
        return np.maximum(state.variance, JITTER) * weight

    state = ConditionedPool(column, np.ones(n), np.full(n, JITTER))
    return np.array(greedy(state, count, score), int)
