"""A test whether values that were declared exact are noisy, by one further evaluation.

The point of the highest value is evaluated again, displaced by far less than any posterior's width. Where the
two values differ by more than the slope on the way to much lower points allows, as of random noise or of a
function with a seed for each point, a noise is fitted from then on, as with ``noise_sd="unknown"``.

The evaluation is made once, when a third of the budget is spent or before convergence (and once more if the
slope there allowed any difference), and only where the log evidence does not decrease by a threshold with a
noise common to all values. A gain of evidence does not show noise: a surrogate with short lengthscales
explains noisy values as well, and a noise explains exact values that a stationary kernel fits badly. Stated
noise is judged by evidence alone (`understated`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from bqvi.calls import Evaluations
from bqvi.calls.returned import understated_noise
from bqvi.variational_bmc.settings import FITTING, NOISE
from bqvi.variational_bmc.surrogate import Surrogate, fit

_SAME = 1e-8  # the largest difference of coordinates of points that count as the same


def repeated(points: np.ndarray) -> np.ndarray:
    """The pairs of rows (k, 2) of evaluations at nearly the same point, each with the earlier one first.

    Parameters
    ----------
    points : (n, D), in coordinates in which the plausible box is [-1, 1]^D.
    """
    return np.asarray(cKDTree(points).query_pairs(_SAME, p=np.inf, output_type="ndarray"))


def distances(points: np.ndarray, row: int) -> np.ndarray:
    """The distances (n,) of points (n, D) to one of them; zero of those that count as the same."""
    steps = points - points[row]
    return np.where(np.abs(steps).max(1) > _SAME, np.linalg.norm(steps, axis=1), 0.0)


def differing(made: Evaluations) -> tuple[float, float] | None:
    """The two values at nearly the same point that differ most; None where none differ or noise is declared.

    Parameters
    ----------
    made : all evaluations, failed ones, too.
    """
    if made.noise_variance is not None:
        return None
    kept = made[~made.failed]
    pairs = repeated(kept.points)
    values = kept.values[pairs]
    gaps = np.abs(values[:, 1] - values[:, 0]) - _by_slope(kept, pairs)
    if not (gaps > 0.001).any():
        return None
    first, second = values[int(np.argmax(gaps))]
    return float(first), float(second)


def _by_slope(made: Evaluations, pairs: np.ndarray) -> np.ndarray:
    """The differences (k,) of values that slopes may cause between the points of ``pairs`` (k, 2), nats.

    A slope is the largest from the pair's earlier point to any point that does not count as the same.
    """
    found = np.zeros(len(pairs))
    for row, (first, second) in enumerate(pairs):
        away = distances(made.points, first)
        falls = np.abs(made.values - made.values[first])[away > 0.0] / away[away > 0.0]
        found[row] = falls.max(initial=0.0) * np.linalg.norm(made.points[second] - made.points[first])
    return found


def again(made: Evaluations, surrogate: Surrogate) -> np.ndarray:
    """The point (1, D) to be evaluated; none, (0, D), if noise is excluded, declared or was tested before.

    Parameters
    ----------
    made : all evaluations, in the coordinates. surrogate : the surrogate that was fitted to them.
    """
    none = made.points[:0]
    if made.noise_variance is not None or surrogate.data.noise_fitted:
        return none
    kept = made[~made.failed]
    if (_by_slope(kept, repeated(kept.points)) < 0.001).any():
        return none
    if _with_noise(surrogate)[0] < NOISE.excluded:
        return none
    best = int(np.argmax(np.where(made.failed, -np.inf, made.values)))
    # a slope of 1e6 changes the value by .001
    return made.points[[best]] + 1e-9


def understated(made: Evaluations, surrogate: Surrogate) -> tuple[str, ...]:
    """The reason that values vary by more than the noise that was stated, if the evidence shows it.

    Parameters
    ----------
    made : all evaluations. surrogate : the surrogate that was fitted to them.
    """
    if made.noise_variance is None or surrogate.data.noise_fitted:
        return ()
    gain, sd = _with_noise(surrogate)
    stated = float(np.sqrt(np.nanmedian(made.noise_variance)))
    return understated_noise(gain, float(np.hypot(1.0, sd / stated)), stated)


def _with_noise(surrogate: Surrogate) -> tuple[float, float]:
    """The gain of log evidence, nats, by a noise common to all values, and its standard deviation, nats."""
    data = surrogate.data.of_all_depths(FITTING.enough)
    start = np.append(surrogate.psi, np.log(0.1))
    psi, evidence = fit(replace(data, noise_fitted=True), start)[:2]
    return evidence - fit(data, surrogate.psi)[1], float(np.exp(0.5 * psi[-1]))
