"""Evaluations that the user gives: their rows in the table, and the choice of those that a run begins with.

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

from dataclasses import replace

import numpy as np

from acquisition.conditioned import ConditionedPool, greedy
from bqvi.calls.caller import Caller, rows_of
from bqvi.calls.function import LARGEST
from bqvi.calls.returned import CallResult, noise_at, reasons_of, refused, weighted
from bqvi.calls.settings import SELECTION
from bqvi.calls.table import Evaluations
from gp.arrays import Array, shown
from gp.checks import positive_vector, require_finite, require_numbers
from gp.fixed_points.gram import MOST_PAIRED
from gp.matrices import cholesky
from gp.measures import AffineMap

JITTER = 1e-6
"""The variance added to that of each row, and to those of standardised coordinates."""


def evaluation_arrays(evaluations: object) -> tuple[np.ndarray | None, ...]:
    """The arrays of the argument ``evaluations``: theta and values, then gradients and noise sds if any."""
    if not isinstance(evaluations, tuple | list) or not 2 <= len(evaluations) <= 4:
        what = type(evaluations).__name__
        if isinstance(evaluations, tuple | list):
            what += f" of {len(evaluations)}"
        raise TypeError(
            f"evaluations is a {what}; it must be (theta (n, P), values (n,)), then gradients (n, P), or "
            "None, and noise sds (n,), if any"
        )
    titles = ("theta", "values", "gradients", "noise_sd")
    found = tuple(
        None if x is None else require_numbers(f"evaluations' {title}", x)
        for title, x in zip(titles, evaluations, strict=False)
    )
    theta = found[0]
    if theta is None or not theta.size:
        raise ValueError(f"evaluations has no points: theta is {shown(theta)}; leave evaluations out")
    require_finite("evaluations' theta", theta)
    return found


def given(
    caller: Caller, theta: Array, values: Array, gradients: Array = None, noise_sd: Array = None
) -> Evaluations:
    """The `Evaluations` of values that were computed before, in the user's units.

    Parameters
    ----------
    caller : the function, and its coordinates. theta : the parameters (n, P), inside the bounds.
    values : the log joint there (n,); -inf or NaN where it failed.
    gradients : its gradients (n, P), or None.
    noise_sd : the standard deviation of the values' noise, (n,) or a number; by default the function's.
    """
    theta, values = np.atleast_2d(np.asarray(theta, float)), np.atleast_1d(np.asarray(values, float))
    if values.shape != (len(theta),):
        raise ValueError(f"values has shape {values.shape}; it must be ({len(theta)},), one for each theta")
    if (values == np.inf).any():
        raise ValueError(f"values is inf in row {int(np.argmax(values))}; a log density is below inf")
    points = theta if caller.coordinates is None else caller.coordinates.from_user(theta)
    return _rows(caller, points, theta, values, gradients, noise_sd, "given")


def told(
    caller: Caller, points: np.ndarray, values: Array, gradients: Array = None, noise_sd: Array = None
) -> Evaluations:
    """The `Evaluations` of values that the user computed at points (n, D) that the engine proposed.

    Parameters
    ----------
    caller : the function, and its coordinates. points : (n, D).
    values : the values (n,), or (n, o) for a function of several outputs; -inf or NaN where it failed.
    gradients : the gradients (n, P), or (n, o, P); needed where the function has any.
    noise_sd : the standard deviation of the values' noise, (n,) or a number; by default the function's.
    """
    function, n, values = caller.function, len(points), np.atleast_1d(require_numbers("values", values))
    if len(values) != n or values.ndim > 1 + function.range.outputs:
        raise ValueError(f"values has shape {values.shape}; it must be ({n},), one for each theta")
    theta = caller.to_user(points)
    bad, what, must = refused(function, values.reshape(n, -1))
    if bad.any():
        raise ValueError(f"values, row {int(np.argmax(bad))}: {what}; {must}")
    if (gradients is None) != (function.gradient is None):
        raise ValueError(
            "gradients is None, and the function has gradients: give them too"
            if gradients is None
            else "gradients was given, and the run was begun without a gradient"
        )
    made = _rows(caller, points, theta, values, gradients, noise_sd, "told")
    if function.errors == "raise" and not made.good.all():
        raise ValueError(f"values or gradients, row {int(np.argmin(made.good))}: one is not finite")
    if function.log_weight is None:
        return made
    return replace(made, values=weighted(function, made.values, theta))


def _rows(
    caller: Caller,
    points: np.ndarray,
    theta: np.ndarray,
    values: np.ndarray,
    gradients: Array,
    noise_sd: Array,
    how: str,
) -> Evaluations:
    """The evaluations of values (n,) or (n, o), with the reasons of those without one.

    ``how`` says in these reasons how a value came; ``noise_sd`` is the function's where it is None.
    """
    function, n = caller.function, len(theta)
    sds = None if noise_sd is None else positive_vector("noise_sd", noise_sd, n)
    if noise_sd is None and callable(function.noise_sd):
        sds, finite = np.full(n, np.nan), np.isfinite(values).reshape(n, -1).all(axis=1)
        rows = np.flatnonzero(finite)
        for some in [rows] if function.vectorised else rows[:, None]:
            sds[some] = noise_at(function, theta[some])
    slopes, shape = None, (*values.shape, theta.shape[1])
    values = values.reshape(n, -1)
    reasons = np.array([one.replace("returned", f"was {how} as") for one in reasons_of(function, values)])
    failed = reasons != ""
    if gradients is not None:
        slopes = np.asarray(require_numbers("gradients", gradients))
        if slopes.shape not in (theta.shape, shape):
            raise ValueError(f"gradients has shape {slopes.shape}; it must be {shape}, or None for none")
        slopes = slopes.reshape(n, values.shape[1], theta.shape[1])
        fine = (np.abs(slopes) < LARGEST).all(axis=(1, 2))
        reasons = np.where((reasons == "") & ~fine, "the gradient is not finite", reasons)
        slopes = np.where(fine[:, None, None], slopes, np.nan)
    result = CallResult(values, failed, tuple(reasons.tolist()), np.ones(n, bool), sds, slopes)
    return rows_of(caller, points, theta, result, slopes is not None)


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

    Raises ValueError where the budget is too small, and where a point has two exact values.
    """
    if not noisy and made.noise_variance is None:
        _require_one_value(made.points, made.values.reshape(len(made), -1))
    density = made.values if log_density is None else log_density
    rows = np.arange(len(made))
    width = 1 if made.gradients is None else 1 + made.points.shape[1]
    most = min(MOST_PAIRED, SELECTION.numbers // width)
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


def _require_one_value(points: np.ndarray, values: np.ndarray) -> None:
    """Raise ValueError where rows of points (n, D) are equal, and those of values (n, o) are not."""
    order = np.lexsort(points.T)
    a, b = order[:-1], order[1:]
    same = np.isclose(values[a], values[b], 1e-6, 0.0, equal_nan=True).all(1)
    if (wrong := (points[a] == points[b]).all(1) & ~same).any():
        first, second = sorted(order[np.argmax(wrong) + np.arange(2)].tolist())
        raise ValueError(
            f"evaluations has two values, {values[first, 0]:.9g} and {values[second, 0]:.9g}, for one "
            f"point, in rows {first} and {second}: give the noise of values (noise_sd), or the right row"
        )


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
    count = min(len(rows), 200)  # the mean of so many squared errors is known to a tenth
    return made[rows[np.linspace(0, len(rows) - 1, count).astype(int)]] if count else None


def _distinct(made: Evaluations, noisy: bool) -> np.ndarray:
    """The first row of each different point; all rows where values are noisy."""
    if noisy or made.noise_variance is not None:
        return np.arange(len(made))
    return np.sort(np.unique(made.points, axis=0, return_index=True)[1])


def _chosen(made: Evaluations, rows: np.ndarray, density: np.ndarray, most: int) -> np.ndarray:
    """At most ``most`` of the rows, chosen by the rule of the module, in their order."""
    good, failed = rows[made.good[rows]], rows[~made.good[rows]]
    count = min(len(failed), max(most // 10, most - len(good)))
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
