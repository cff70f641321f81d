"""A check that given gradients are those of the values, by the evaluations of the run.

Between two evaluations that are near each other the trapezoid rule gives the difference of the values,

    f(y) - f(x)  =  (grad f(x) + grad f(y)) . (y - x) / 2  +  O(|y - x|^3),

exactly where f is quadratic. A correct gradient violates this where the curvature of f changes much between x
and y. But by the mean value theorem f(y) - f(x) lies between the slopes at both ends unless f is convex on
one part of the segment and concave on another. Where so few pairs fulfil this that a correct gradient would
give as few with a probability below 1e-5, the run stops. A single one is left out, and said, by all doors.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import bdtr

from bqvi.calls.faults import EvaluationError
from bqvi.calls.function import AUTODIFF, Function
from bqvi.calls.settings import CHECK
from bqvi.calls.table import Evaluations
from gp.linalg import least_squares

CONTRADICTED = "the gradient was left out, as all other evaluations contradict it"
"""The reason of an evaluation whose value alone is used."""
_FEWEST = 6
"""The least number of pairs whose median is taken; with fewer, one pair could determine it."""
_ROUNDING = 1e-6
"""Differences below this share of the largest value, or of one, count as rounding."""
N_NEAR = 5
"""The number of `points_near`."""
_LEAVING = (
    ". A gradient by torch is wrong if the function leaves torch on the way (numpy, .item(), .detach())"
)


def left_out(count: int, of: int, place: str) -> str:
    """A warning of ``count`` gradients of ``of``, the first at a ``place``, that others contradict."""
    return f"{count} of {of} gradients: {CONTRADICTED}, or f has a kink; the first is at {place}."


def _differences(
    points: np.ndarray, values: np.ndarray, gradients: np.ndarray, scale: np.ndarray | float | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Differences of values to nearest neighbours (k,), their trapezoids (k,), slopes at both ends (2, k).

    Distances are in units of ``scale``, by default the points' sds. None is below the values' rounding.
    """
    scale = np.maximum(points.std(axis=0), 1e-300) if scale is None else scale
    distances, nearest = cKDTree(points / scale).query(points / scale, k=2)
    apart = np.asarray(distances)[:, 1] > 0.0
    first, second = np.flatnonzero(apart), np.asarray(nearest)[apart, 1]
    a, steps = values[second] - values[first], points[second] - points[first]
    slopes = np.einsum("knd,nd->kn", gradients[np.stack([first, second])], steps)
    least = 4.0 * np.finfo(float).eps * np.maximum(np.abs(values[first]), np.abs(values[second]))
    seen = np.maximum(np.abs(a), np.abs(slopes.mean(0))) > least
    return a[seen], slopes[:, seen].mean(0), slopes[:, seen]


def require_consistent(function: Function, before: int, made: Evaluations | None) -> None:
    """Raise EvaluationError where given gradients are not those of the values, by the test of the module.

    The check is made each time that eight more evaluations have been made, and only for exact values.

    Parameters
    ----------
    function : the user's function. Derivatives by torch are checked too, as it may leave torch on the way.
    before : the number of evaluations at the last check.
    made : all evaluations so far; None where they are not to be compared.
    """
    if made is None or made.gradients is None or function.gradient is None:
        return
    if before // CHECK.every == len(made) // CHECK.every or before >= CHECK.last:
        return
    if made.noise_variance is not None and np.any(np.nan_to_num(made.noise_variance)):
        return
    if function.range.density:
        made = made.censored  # differences across a cliff say nothing of slopes
    good = made[made.good]
    if not len(good):
        return
    values = good.values.reshape(len(good), -1)
    gradients = np.asarray(good.gradients).reshape(len(good), values.shape[1], -1)
    for column in range(values.shape[1]):
        message = _contradiction(good.points, values[:, column], gradients[:, column], function.range.density)
        if message:
            raise EvaluationError(message + (_LEAVING if function.gradient == AUTODIFF else ""))


def _contradiction(points: np.ndarray, values: np.ndarray, gradients: np.ndarray, nats: bool) -> str:
    """The message that gradients (n, D) are not those of the values (n,); "" where they may be."""
    if len(points) < _FEWEST:
        return ""
    # smaller differences may be errors of a solver
    least = 0.1 if nats else CHECK.large_share * np.ptp(values)
    # An outlier in one coordinate makes that coordinate's standard deviation large, and all other points
    # neighbours. Differences are therefore also compared in units of the run's plausible box (scale 1).
    both = [_between(_differences(points, values, gradients, one), least, nats) for one in (1.0, None)]
    if any(len(one) < _FEWEST or bdtr(one.sum(), len(one), CHECK.consistent) > CHECK.chance for one in both):
        return ""
    # of a function that jumps to a floor, differences on either side of the largest gap lie between slopes
    order = np.sort(values)
    above = values > order[np.argmax(np.diff(order))]
    sides = [rows for rows in (above, ~above) if rows.sum() > 1]
    alone = [_between(_differences(points[r], values[r], gradients[r], 1.0), least, nats) for r in sides]
    if len(beside := np.concatenate(alone)) < _FEWEST or beside.mean() >= CHECK.consistent:
        return ""
    return (
        f"the gradient is not that of the values: of {len(both[-1])} differences between neighbouring "
        f"evaluations {int(both[-1].sum())} lie between the slopes at both ends, where nearly all should: "
        f"{_advice(points, values, gradients)}. If it is right, the values are noisy: state their noise, by "
        "noise_sd or by a log joint that returns (value, sd); or do without, by gradient=None"
    )


def _between(differences: tuple[np.ndarray, np.ndarray, np.ndarray], least: float, nats: bool) -> np.ndarray:
    """Which of the k differences larger than ``least`` lie between the slopes at both ends, (k,) bool.

    Other functions than log densities, as bumps, turn from convex to concave: of these, differences of points
    with like slopes are to be about the trapezoid's.
    """
    a, b, slopes = differences
    large = np.maximum(np.abs(a), np.abs(b)) > least
    if not nats:
        like = np.abs(slopes[0] - slopes[1]) <= 0.5 * np.abs(slopes).sum(0)
        return (np.abs(a - b) <= 0.25 * (np.abs(a) + np.abs(b)))[large & like]
    rounding = _ROUNDING * np.abs(a)  # of a plane both slopes are the difference
    return ((slopes.min(0) - rounding <= a) & (a <= slopes.max(0) + rounding))[large]


def gradient_warnings(points: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> list[str]:
    """A warning where gradients, or single entries, disagree with values, in a list; otherwise an empty list.

    Parameters
    ----------
    points : the points (n, D). values : the values (n,), in nats. gradients : the gradients (n, D).
    """
    found, message = _of_entries(points, values, gradients), _contradiction(points, values, gradients, True)
    return found or ([f"T{message[1:]}."] if message else [])


def _of_entries(points: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> list[str]:
    """A warning of entries of the gradient that are multiples of those of the values, in a list."""
    n, d = points.shape
    if n < _FEWEST * d:
        return []
    scaled = points / np.maximum(points.std(axis=0), 1e-300)
    nearest = np.asarray(cKDTree(scaled).query(scaled, k=N_NEAR)[1])[:, 1:]
    pairs = np.stack([np.repeat(np.arange(n), nearest.shape[1]), nearest.ravel()])
    pairs = np.unique(np.sort(pairs, axis=0), axis=1)
    changes, left = _explained(points, values, gradients, pairs)
    wrong = np.flatnonzero(np.abs(changes) > CHECK.multiple)
    if left > CHECK.left or not len(wrong):
        return []
    factors, said = 1.0 / (1.0 + changes), "Gradients disagree with the values of"
    multiples = ", ".join(f"entry {i}, counted from 0, is {factors[i]:.2g} times that" for i in wrong)
    if len(wrong) == d and np.ptp(factors) < 0.2 * abs(factors.mean()):
        multiples = f"the gradient is {factors.mean():.2g} times that"
    return [f"{said} {n} evaluations: {multiples} of the values. Compare them with difference quotients."]


def may_be_wrong(made: Evaluations, row: int) -> bool:
    """Whether another gradient at one evaluation explains most residuals of trapezoids from it to others.

    Parameters
    ----------
    made : the evaluations of a log density, with gradients. row : the row of the evaluation.
    """
    assert made.gradients is not None
    others = np.flatnonzero(made.censored.good & (np.arange(len(made)) != row))
    pairs = np.stack([np.full(len(others), row), others])
    enough = len(others) >= _FEWEST * made.points.shape[1]
    return enough and _explained(made.points, made.values, made.gradients, pairs, True)[1] < 0.5


def _explained(
    points: np.ndarray, values: np.ndarray, gradients: np.ndarray, pairs: np.ndarray, terms: bool = False
) -> tuple[np.ndarray, float]:
    """The correction (D,) of gradients by a regression, and the share of squared residuals that remains.

    Differences of values between ``pairs`` (2, k) are regressed on the D parts of their trapezoids, whose
    coefficients are 1; or for ``terms`` on the steps, for a term that one gradient of all pairs lacks. The
    trapezoid is off by the change of the curvature, and pairs are weighted by the inverse change of the
    slopes. That error is no multiple of an entry, so that other coefficients hardly make the residuals less.
    """
    first, second = pairs
    steps = points[second] - points[first]
    change = np.abs((gradients[second] - gradients[first]) * steps).sum(1)
    sizes = np.abs(values[pairs]).max(0)  # those of the pair, as distant ones may be huge
    weights = 1.0 / (change + _ROUNDING * (1.0 + sizes))
    slopes = 0.5 * (gradients[first] + gradients[second]) * steps
    residuals = weights * (values[second] - values[first] - slopes.sum(1))
    parts = weights[:, None] * (0.5 * steps if terms else slopes)
    changes = least_squares(parts, residuals[:, None])[0][:, 0]
    left = np.square(residuals - parts @ changes).sum() / np.maximum(np.square(residuals).sum(), 1e-300)
    return changes, float(left)


def _advice(points: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> str:
    """What may be wrong: the factor between the gradients and those of the values where there is one."""
    a, b = _differences(points, values, gradients)[:2]
    ratios = b[np.abs(a) > 0] / a[np.abs(a) > 0]
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75)) if len(ratios) else (0.0, 0.0, 0.0)
    if not high - low < 0.2 * abs(middle):
        return "check the sign of the gradient, and that it has every term of the function"
    found = "change its sign" if abs(middle + 1) < 0.1 else "look for a sign or a factor"
    return f"the gradient is {middle:.3g} times that of the values; {found}"


def points_near(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points x, x - 2 d, x - d, x + d and x + 2 d, (5, D), and d (D,), a short step in no special direction.

    x is near ``point`` (D,), as a centre of symmetry has no slope that could be missed.
    """
    away, along = (1.0 + np.abs(point)) * np.random.default_rng(0).normal(size=(2, len(point)))
    step = 1e-4 * along
    return point + CHECK.away * away + np.array([0.0, -2.0, -1.0, 1.0, 2.0])[:, None] * step, step


def require_slope(values: np.ndarray, slope: float, who: str) -> None:
    """Raise EvaluationError where torch's derivative is not that of the values, whose function left torch.

    The difference quotients over d and over 2 d have to agree with each other more closely than with the
    derivative; where they do not, as at a kink or with noise, they say nothing.

    Parameters
    ----------
    values : (4,), at the last four of `points_near`. slope : the derivative along d, by torch.
    who : the function, in words.
    """
    near, far = (values[2] - values[1]) / 2.0, (values[3] - values[0]) / 4.0
    error = abs(near - far) + np.finfo(float).eps * np.abs(values).max()
    apart = abs(near - slope)
    if apart > CHECK.apart * error and apart > CHECK.rounding_of_slopes * (abs(near) + abs(slope)):
        raise EvaluationError(
            f"{who} leaves torch on the way (numpy, .item(), .detach(), torch.no_grad), and its gradient "
            f"lacks what was left out: along one direction it is {slope / near:.2g} times that of the "
            "values. Write it in torch throughout, or use its values only: gradient=None with 'bq' or 'score'"
        )
