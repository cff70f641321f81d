"""Whether given gradients are those of the values: asked of evaluations that are made anyway.

Between two evaluations that are near each other the trapezoid rule says by how much the values differ,

    f(y) - f(x)  =  (grad f(x) + grad f(y)) . (y - x) / 2  +  O(|y - x|^3),

exactly where f is quadratic. A gradient with a wrong sign, a wrong factor or a missing term says something
else nearly everywhere. So does a right one where f bends much between x and y, as on a funnel. But by the
mean value theorem f(y) - f(x) is the slope along y - x at some point between them, which lies between the
slopes at both ends unless f bends both ways. Where it does so for nearly all pairs, the gradients are those
of f. Where it does so for so few that this would happen to a right gradient less than once in a hundred
thousand times, they are not, and the run stops before it reports anything that rests on them.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import bdtr

from bqvi.calls.errors import EvaluationError
from bqvi.calls.evaluations import Evaluations
from bqvi.calls.function import AUTODIFF, Function

_FEWEST = 6
"""Least number of pairs of which a median is taken; with fewer a single rough place could decide it."""
_CONSISTENT = 0.9
"""Share of the pairs whose difference lies between the slopes. It was .98 to 1 for the right gradients of
funnels, both forms of eight schools, a Rosenbrock function and a logistic regression, and .1 to .7 with a
wrong sign."""
_DOUBT = 1e-5
"""Chance at which a right gradient may have so few differences between its slopes, each being so with
`_CONSISTENT`."""
_LARGE = 0.1
"""Nats: smaller differences are not asked of before a run is stopped, as they may be a solver's errors."""
_EVERY, _LAST = 8, 72
"""Evaluations after which gradients are asked of, and until when."""
_DISAGREES = 0.3
"""Median relative disagreement of gradients and differences that is no matter of curvature."""
_ONE_MULTIPLE = 0.2
"""Interquartile range, relative to their median, of ratios that are one number."""


def disagreement(points: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> float:
    """Median of |a - b| / (|a| + |b|), a difference of values to the nearest neighbour, b its trapezoid.

    Parameters
    ----------
    points : (n, D). values : (n,). gradients : (n, D); all finite.

    Returns
    -------
    float
        Between 0 and 1; 0 also where fewer than six pairs tell, and where nearly all differences lie between
        the slopes at both ends.
    """
    if len(points) < _FEWEST:
        return 0.0
    a, b, slopes = _differences(points, values, gradients)
    size = np.abs(a) + np.abs(b)
    rounding = 1e-6 * (1.0 + np.abs(values).max())
    seen = size > rounding
    between = (slopes.min(0) - rounding <= a) & (a <= slopes.max(0) + rounding)
    if seen.sum() < _FEWEST or np.mean(between[seen]) >= _CONSISTENT:
        return 0.0
    return float(np.median(np.abs(a - b)[seen] / size[seen]))


def _differences(
    points: np.ndarray, values: np.ndarray, gradients: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Differences of values to nearest neighbours (k,), their trapezoids (k,), slopes at both ends (2, k)."""
    scale = np.maximum(points.std(axis=0), 1e-300)
    distances, nearest = cKDTree(points / scale).query(points / scale, k=2)
    apart = np.asarray(distances)[:, 1] > 0.0
    first, second = np.flatnonzero(apart), np.asarray(nearest)[apart, 1]
    a = values[second] - values[first]
    steps = points[second] - points[first]
    slopes = np.einsum("knd,nd->kn", gradients[np.stack([first, second])], steps)
    return a, slopes.mean(0), slopes


def require_consistent(function: Function, before: int, made: Evaluations | None) -> None:
    """EvaluationError where given gradients are not those of the values, beyond doubt.

    Asked each time that eight more evaluations have been made, and of exact values alone.

    Parameters
    ----------
    function : the user's; nothing is asked of derivatives by torch. before : evaluations at the last time.
    made : those there are now; None where they are not to be compared.
    """
    if made is None or made.gradients is None or function.gradient in (None, AUTODIFF):
        return
    n = len(made)
    if before // _EVERY == n // _EVERY or before >= _LAST or _noisy(made):
        return
    good = made[made.good]
    if not len(good):
        return
    values = good.values.reshape(len(good), -1)
    gradients = np.asarray(good.gradients).reshape(len(good), values.shape[1], -1)
    for column in range(values.shape[1]):
        told = _contradiction(good.points, values[:, column], gradients[:, column], function.range.density)
        if told:
            raise EvaluationError(told)


def _noisy(made: Evaluations) -> bool:
    return made.noise_variance is not None and bool(np.any(np.nan_to_num(made.noise_variance)))


def _contradiction(points: np.ndarray, values: np.ndarray, gradients: np.ndarray, nats: bool) -> str:
    """Why the gradients (n, D) are not those of the values (n,); "" where that can be doubted."""
    if len(points) < _FEWEST:
        return ""
    a, b, slopes = _differences(points, values, gradients)
    large = np.maximum(np.abs(a), np.abs(b)) > (_LARGE if nats else 0.05 * np.ptp(values))
    between = ((slopes.min(0) <= a) & (a <= slopes.max(0)))[large]
    if len(between) < _FEWEST or bdtr(between.sum(), len(between), _CONSISTENT) > _DOUBT:
        return ""
    why, multiple = "check its sign, and that it has every term", _multiple(points, values, gradients)
    if multiple is not None:
        of_sign = "change its sign" if abs(multiple + 1) < 0.1 else "look for a sign or a factor"
        why = f"it is {multiple:.3g} times that of the values; {of_sign}"
    return (
        f"the gradient is not that of the values: of {len(between)} differences between neighbouring "
        f"evaluations {int(between.sum())} lie between the slopes at both ends, where nearly all should. For "
        f"the gradient: {why}. If it is right, the values are noisy: give noise_sd; or do without, by "
        "gradient=None"
    )


def said(points: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> list[str]:
    """A sentence where gradients disagree with values.

    Parameters
    ----------
    points, values, gradients : as of `disagreement`.
    """
    found = disagreement(points, values, gradients)
    if found < _DISAGREES:
        return []
    multiple = _multiple(points, values, gradients)
    why = "check the gradient, its sign, and that it has every term of the log joint."
    if multiple is not None:
        of_sign = "change its sign" if abs(multiple + 1) < 0.1 else "look for a sign or a factor"
        why = f"the gradient is {multiple:.3g} times that of the values; {of_sign}."
    return [
        "The gradients disagree with differences of the values between neighbouring evaluations (by "
        f"{found:.0%}): {why}"
    ]


def _multiple(points: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> float | None:
    """The number that a given gradient is multiplied by, or ``None`` where it is no multiple."""
    a, b = _differences(points, values, gradients)[:2]
    ratios = b[np.abs(a) > 0] / a[np.abs(a) > 0]
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75)) if len(ratios) else (0.0, 0.0, 0.0)
    return float(middle) if high - low < _ONE_MULTIPLE * abs(middle) else None
