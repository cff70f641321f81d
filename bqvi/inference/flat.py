"""Whether q has settled: the curvature and the slope of the log joint at q, from the evaluations of the run.

At the optimum of a Gaussian q the expected curvature of the log joint is the precision of q. In whitened
coordinates u = L^-1 (theta - m) the slope of L^T grad f in u is therefore -1 on average along each axis.
Where it is 0 the log joint has no curvature over the width of q, and the ELBO still increases as q widens, by
the logarithm of the width, without end if the posterior is improper. For a q across several modes the average
curvature may also be 0, because of the minima between them; the log joint then decreases outside of the
modes, on one side at least.

The expected slope is 0 at the optimum. Where the latest evaluations have one, q is still moving, and without
end if the log joint increases without end.

A high value far outside of q belongs to mass that q lacks, such as another mode (`outside`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqvi.inference.settings import FLAT
from gp.arrays import to_numpy
from gp.laplace import spectrum
from gp.linalg import least_squares, regression


def settling_warnings(
    q: Any, points: np.ndarray, values: np.ndarray, gradients: np.ndarray | None
) -> list[str]:
    """A warning where the log joint has no curvature along an axis of a Gaussian q, or rises past its mean.

    Parameters
    ----------
    q : with mean (D,) and covariance (D, D). points : (n, D). values : (n,). gradients : (n, D) or ``None``.
    """
    mean, covariance = (np.asarray(to_numpy(part), dtype=float) for part in (q.mean, q.covariance))
    variances, axes = spectrum(covariance, 0.0)
    if not (np.isfinite(variances).all() and variances.min() > 0):
        return []
    scale = axes * np.sqrt(variances)
    u = (points - mean) @ (axes / np.sqrt(variances))
    slopes = None if gradients is None else gradients @ scale
    known = np.isfinite(values) if slopes is None else np.isfinite(values) & np.isfinite(slopes).all(axis=1)
    u, values, slopes = u[known], values[known], None if slopes is None else slopes[known]
    widths = np.sqrt(variances)
    return _widens(axes, widths, u, values, slopes) or _moves(axes, widths, u, values, slopes)


def outside(q: Any, points: np.ndarray, values: np.ndarray) -> tuple[int, float] | None:
    """The evaluation with the highest value outside of a Gaussian q, if it is nearly the highest of all.

    Parameters
    ----------
    q : with mean (D,) and covariance (D, D).
    points : (n, D).
    values : (n,), less two standard deviations where they are noisy.

    Returns
    -------
    Its row, and its value less the highest one inside, at least ``-FLAT.outside[1]``; None where there is
    none.
    """
    mean, covariance = (np.asarray(to_numpy(part), dtype=float) for part in (q.mean, q.covariance))
    variances, axes = spectrum(covariance, 0.0)
    if not (np.isfinite(variances).all() and variances.min() > 0):
        return None
    squares = np.square((points - mean) @ (axes / np.sqrt(variances))).sum(axis=1)
    beyond, below = FLAT.outside
    far, known = squares > points.shape[1] + beyond, np.isfinite(values)
    if not (far & known).any() or not (~far & known).any():
        return None
    row = int(np.argmax(np.where(far & known, values, -np.inf)))
    difference = float(values[row] - values[~far & known].max())
    return (row, difference) if difference >= -below else None


def _widens(
    axes: np.ndarray, widths: np.ndarray, u: np.ndarray, values: np.ndarray, slopes: np.ndarray | None
) -> list[str]:
    """Where the log joint has no curvature along one of the axes."""
    near = (np.abs(u) < FLAT.near).all(axis=1)
    u, values, dimension = u[near], values[near], u.shape[1]
    if len(u) < 2 * (2 * dimension + 1):
        return []
    slopes = None if slopes is None else slopes[near]
    curvatures = _curvatures(u, values, slopes)
    flattest = int(np.argmin(curvatures))
    if curvatures[flattest] > FLAT.share:
        return []
    slope = _outwards(u, flattest, values, slopes)
    if slope < -FLAT.falls:
        return []
    where = f"along {_named(axes[:, flattest])} its standard deviation has reached {widths[flattest]:.3g}, "
    if slope > FLAT.falls:
        return [
            f"q still widens: {where}and the log joint rises on both sides of it, towards modes there or "
            "without end. More steps are needed, or the posterior is improper: look at the prior of these "
            "parameters."
        ]
    return [
        f"q diverges: {where}and the log joint has {max(curvatures[flattest], 0.0):.0%} of the curvature "
        "that an optimum requires. The posterior is improper, or more steps are needed: look at the prior of "
        "these parameters."
    ]


def _moves(
    axes: np.ndarray, widths: np.ndarray, u: np.ndarray, values: np.ndarray, slopes: np.ndarray | None
) -> list[str]:
    """Where the log joint rises past the mean, by the latest evaluations."""
    dimension = u.shape[1]
    by_dimension, beside = FLAT.latest
    latest = slice(-(by_dimension * dimension + beside), None)
    u, values = u[latest], values[latest]
    if slopes is not None and len(u) > 1:
        found = slopes[latest].mean(axis=0)
        errors = slopes[latest].std(axis=0, ddof=1) / np.sqrt(len(u))
    elif slopes is None and len(u) > dimension + 2:
        design = np.concatenate([np.ones((len(u), 1)), u], axis=1)
        found, errors = (part[1:] for part in regression(design, values))
    else:
        return []
    rises = np.abs(found) - FLAT.errors * errors
    steepest = int(np.argmax(rises))
    if not rises[steepest] > FLAT.rises:
        return []
    axis = np.sign(found[steepest]) * axes[:, steepest]
    return [
        f"q still moves: along {_named(axis)} the log joint rises by {np.abs(found[steepest]):.3g} nats over "
        f"its standard deviation, {widths[steepest]:.3g}. More steps are needed, or the posterior is "
        "improper: look at the prior of these parameters."
    ]


def _named(axis: np.ndarray) -> str:
    return f"({', '.join(f'{entry:.2g}' for entry in axis)})"


def _curvatures(u: np.ndarray, values: np.ndarray, slopes: np.ndarray | None) -> np.ndarray:
    """Minus the curvature along each axis (D,); from values alone, plus `FLAT.errors` standard errors."""
    ones = np.ones((len(u), 1))
    if slopes is not None:
        found = least_squares(np.concatenate([ones, u], axis=1), slopes)[0]
        return np.asarray(-found[1:].diagonal())
    found, errors = regression(np.concatenate([ones, u, u**2 / 2], axis=1), values)
    half = 1 + u.shape[1]
    return np.asarray(FLAT.errors * errors[half:] - found[half:])


def _outwards(u: np.ndarray, axis: int, values: np.ndarray, slopes: np.ndarray | None) -> float:
    """The smaller of the log joint's outward slopes on the two sides of q, in the outer half of u, over |u|.

    `FLAT.errors` standard errors are subtracted. It is -1 for a Gaussian posterior under its own q, 0 for a
    flat one, and -inf where there are too few evaluations.
    """
    along = u[:, axis]
    edge = np.median(np.abs(along))
    sides = np.column_stack([np.maximum(side * along - edge, 0.0) for side in (1.0, -1.0)])
    there = sides > 0.0
    if there.sum(axis=0).min() < FLAT.sides:
        return -np.inf
    if slopes is None:
        rest, middle = np.delete(u, axis, axis=1), np.clip(along, -edge, edge)
        within = np.column_stack([np.ones(len(u)), rest, rest**2 / 2, middle, middle**2 / 2])
        found, errors = (part[-2:] for part in regression(np.column_stack([within, sides]), values))
    else:
        parts = [side * slopes[there[:, i], axis] for i, side in enumerate((1.0, -1.0))]
        found = np.array([part.mean() for part in parts])
        errors = np.array([part.std() / np.sqrt(len(part)) for part in parts])
    lengths = edge + sides.sum(axis=0) / there.sum(axis=0)
    return float(np.min((found - FLAT.errors * errors) / lengths))
