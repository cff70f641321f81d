"""Heavy tails of an integrand, and peaks between its nodes.

*Shape.* Beyond a high threshold t, |f| under the measure is distributed nearly as a generalised Pareto
variable, P(|f| - t > y) = (1 + k y / sigma)^(-1/k). Moments of order 1/k and above are infinite, so with k >
1/2 an average of draws has no variance, and in practice its value and its standard deviation are unreliable
from k of about 0.7 on (Vehtari et al. 2024); `bqvi.pareto` estimates k.

*Mass beyond the nodes.* If f grows like a(u) = exp(beta |u|^2 / 2) beyond the radius R of the farthest node,
its integral there is g a, with g = f / a as large as at the outermost nodes:

    g (1 - beta)^(-D/2) P(chi^2_D > (1 - beta) R^2).

Where the evidence is for growth at all, that with beta = .9, near the fastest there is an integral for,
is added to the standard deviation.

*A peak between the nodes.* Where f falls by many orders of magnitude from node to node, its largest values
are the foot of a peak between the nodes. A Gaussian peak is fitted by least squares to the largest values of
|f - median|,

    ln |f - median| = a + b.u - u.C u / 2,      top at u* = C^-1 b,      integral about |I + C|^(-1/2) h,

with h its height. It has one width, C = c I, through 2 (D + 2) values, or any C, through D (D - 1) / 2 + D +
2 more, where this reduces the sum of squares to less than ``rounder``. The integral is the standard deviation
for a missed peak if n nodes can miss such a peak: its share of the measure |I + C|^(-1/2) is below 3 / n, and
u* is no farther from the largest value than nodes are from one another (the largest distance from a node to
its nearest neighbour, in coordinates in which the peak has one width).

Where the residuals of the logarithms are below ``exact``, the fitted height is used. Otherwise it is bounded.
The squared distance to the k-th nearest of evenly spread nodes grows as k^(2/D), so with s the mean step
between the logarithms of the largest six values, ln h is usually 5 s / (6^(2/D) - 1) above the largest, at
least s; at most ``most_rise`` times this is used. Integrals of exp(-r / .02) are then within two standard
deviations in 99 of 100 runs in D = 2 at n = 60; with a Pareto tail instead they were in 85.

The sampling methods add this standard deviation where the estimate is not credible. For peaks of sd .02 in a
square estimates from 60 draws are then within two standard deviations in 20 (quasi-Monte Carlo) and 19 of 20
seeds, and in 8 and 7 without it.

Where fewer values than a Gaussian has parameters are not zero, and differ by ``steep`` nats, the others have
underflowed and the height is not determined. The standard deviation is then infinite, as where all values are
zero.

The following shares of estimates are within two standard deviations at n = 60, in 20 runs for each problem
with seeds on which the rule was not chosen, each with its own place of the peak: under a Gaussian measure,
for peaks of sd .005 and .02 in D = 1, .02 in D = 2 and .03 in D = 3, which may lie far from all nodes, 95 to
100 of 100; in a square, for peaks of .01 x .1, .02 x .06 and .02, 95 to 100. The standard deviation was
infinite in 0 to 25 of 100.

*Exponent.* Polynomials and exp(a.u) grow too, more slowly farther out. Locally the exponent is

    beta(r) = E[f u.grad f] / E[f^2 |u|^2] over nodes at radius r:   constant for exp(beta |u|^2 / 2),
                                                                     |a| / r for exp(a.u), p / r^2 for |u|^p.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import chdtrc

from bqvi.pareto import PARETO, pareto_shape
from bqvi.quadrature.settings import PEAKS, TAILS
from gp.linalg import least_squares
from gp.triangular import cholesky, solve_lower

__all__ = [
    "ALL_THE_SAME",
    "NOTHING_SEEN",
    "beyond",
    "largest_share",
    "missed_peak",
    "peak_through",
    "slows",
    "underflowed",
    "verdict",
]


ALL_THE_SAME = (
    "All values are the same. If the integrand is a constant, that is the integral; the standard deviation "
    "is that of one further node at which it differs by as much as its size."
)
NOTHING_SEEN = (
    "All values are zero, which says nothing of the size of the integrand elsewhere: the standard deviation "
    "is infinite. If no value is larger than h in size, h / (n + 2) stands for it: one further node would "
    "be the first that is not zero."
)


def largest_share(values: np.ndarray) -> float:
    """Return the share of the largest of values (n,) in sum |f|."""
    sizes = np.abs(values)
    largest = float(sizes.max())
    return 1.0 / float((sizes / largest).sum()) if largest > 0 else 0.0


def verdict(values: np.ndarray, log_weights: np.ndarray | None = None) -> tuple[float, bool, str]:
    """Return k, whether an average of draws can be used, and a sentence if it is not.

    Parameters
    ----------
    values : (n, o), values of f at draws; the output with the heaviest tail decides.
    log_weights : (n,), logarithms of importance weights by which f has been multiplied; their tail is checked
        too.
    """
    columns = [np.abs(column) for column in np.transpose(values)]
    if log_weights is not None and np.max(log_weights) > -np.inf:
        columns.append(np.exp(log_weights - np.max(log_weights)))
    shape = max(pareto_shape(column) for column in columns)
    share = max(largest_share(column) for column in columns)
    if share > TAILS.most_of_one:
        return shape, False, (
            f"One of {len(values)} points carries {share:.0%} of the sum: the estimate and its standard "
            "deviation are those of the points that happened to be drawn. Draw from a measure nearer to "
            "where the integrand is large."
        )  # fmt: skip
    if shape > PARETO.unusable:
        return shape, False, (
            f"The largest values have a Pareto tail of shape {shape:.2f}, above {PARETO.unusable}: by "
            "these points the average has no variance, and the standard deviation is too small. Draw "
            "from a measure with heavier tails."
        )  # fmt: skip
    return shape, True, ""


def beyond(u: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the integral (o,) beyond the farthest node of a function with nearly the fastest finite growth.

    Parameters
    ----------
    u : nodes (n, D) in standard coordinates of a Gaussian. values : (n, o).
    """
    squares = np.sum(u**2, axis=1)
    outermost = np.argsort(squares)[-max(len(u) // TAILS.outermost, 1) :]
    g = values[outermost] * np.exp(-TAILS.fastest * squares[outermost] / 2)[:, None]
    size = np.sqrt(np.mean(g**2, axis=0))
    dimension, slower = u.shape[1], 1 - TAILS.fastest
    return size * slower ** (-dimension / 2) * float(chdtrc(dimension, slower * squares.max()))


def underflowed(values: np.ndarray) -> np.ndarray:
    """Whether just one value of f (n, o) is not zero, and tiny, (o,): the others have then underflowed."""
    tiny: np.ndarray = np.abs(values).max(axis=0) < PEAKS.single
    return tiny & (np.count_nonzero(values, axis=0) == 1)


def missed_peak(u: np.ndarray, values: np.ndarray, least_rise: float = 0.0) -> np.ndarray:
    """Return the integral (o,) of the peak whose foot the largest values are; 0 where they are none.

    Parameters
    ----------
    u : nodes (n, D) in standard coordinates. values : (n, o).
    least_rise : the smallest increase of ln |f| from the largest value to the top of a peak that counts.
    """
    sizes = np.abs(values - np.median(values, axis=0))
    return np.array([_missed_peak(u, column, least_rise) for column in sizes.T])


def _missed_peak(u: np.ndarray, sizes: np.ndarray, least_rise: float) -> float:
    n, dimension = u.shape
    order = np.argsort(-sizes)[: 3 * (dimension + 2) + dimension * (dimension - 1) // 2]
    order = order[sizes[order] > 0.0]
    logs = np.log(sizes[order])
    if len(order) < dimension + 2:
        return np.inf if len(order) > 1 and logs[0] - logs[-1] > PEAKS.steep else 0.0
    slope, curvatures, residual = peak_through(u[order] - u[order[0]], logs)
    whitening = _root(curvatures)
    if whitening is None:
        return 0.0
    share = 1.0 / float(np.prod(np.diag(cholesky(np.eye(dimension) + curvatures))))
    if share > PEAKS.missed_share / n:
        return 0.0
    to_top = solve_lower(whitening, slope)
    apart = cdist(u @ whitening, u @ whitening)
    np.fill_diagonal(apart, np.inf)
    away = min(float(np.linalg.norm(to_top)), float(apart.min(axis=1).max()))
    rise = away**2 / 2
    if residual > PEAKS.exact**2:
        last = min(PARETO.least_tail, len(logs) - 1)
        steps = float(logs[0] - logs[last]) / last
        usual = max(1.0, PARETO.least_tail / ((PARETO.least_tail + 1) ** (2 / dimension) - 1))
        rise = min(rise, PEAKS.most_rise * usual * steps)
    return share * float(np.exp(min(logs[0] + rise, 700.0))) if rise >= least_rise else 0.0


def peak_through(away: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return b (D,), C (D, D) of a + b.d - d.C d / 2 fitted to logarithms (k,) at d (k, D), and the residual.

    C is a number times the identity, unless a positive definite C has a much smaller residual. The residual
    is the sum of squares over the degrees of freedom; infinite where there are none.
    """
    dimension = away.shape[1]
    few = 2 * (dimension + 2)
    squares = np.sum(away**2, axis=1)
    round_columns = np.column_stack([np.ones(len(away)), away, -0.5 * squares])
    found, residual = _through(round_columns[:few], logs[:few])
    slope, curvatures = found[1:-1], found[-1] * np.eye(dimension)
    rows, columns = np.triu_indices(dimension)
    any_columns = np.column_stack([round_columns[:, :-1], -0.5 * away[:, rows] * away[:, columns]])
    if dimension > 1 and len(away) > any_columns.shape[1] + 1:
        found, of_any = _through(any_columns, logs)
        full = np.zeros((dimension, dimension))
        full[rows, columns] = 0.5 * found[dimension + 1 :]
        full = full + full.T
        if of_any < PEAKS.rounder * residual and _root(full) is not None:
            return found[1 : dimension + 1], full, of_any
    return slope, curvatures, residual


def _root(matrix: np.ndarray) -> np.ndarray | None:
    """The Cholesky factor of a matrix, None where it is not positive definite."""
    try:
        return cholesky(matrix)
    except np.linalg.LinAlgError:
        return None


def _through(columns: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, float]:
    """Return coefficients by least squares, and the sum of squares over the degrees of freedom."""
    found = least_squares(columns, logs[:, None])[0][:, 0]
    free = len(logs) - columns.shape[1]
    return found, float(np.sum((logs - columns @ found) ** 2)) / free if free > 0 else np.inf


def slows(u: np.ndarray, values: np.ndarray, slopes: np.ndarray) -> bool:
    """Whether f grows more slowly among the outermost quarter of nodes than among the quarter before.

    Parameters
    ----------
    u : (n, D), as in :func:`beyond`. values : f, (n, o). slopes : df/du, (n, D, o).
    """
    squares = np.sum(u**2, axis=1)
    radial = np.einsum("nd,ndo,no->n", u, slopes, values)
    weights = squares * np.sum(values**2, axis=1)
    order, count = np.argsort(squares), max(len(u) // TAILS.outermost, 1)
    outer, before = order[-count:], order[-2 * count : -count]
    exponents = [radial[k].sum() / max(weights[k].sum(), 1e-300) for k in (before, outer)]
    return bool(exponents[1] < TAILS.slower * exponents[0])
