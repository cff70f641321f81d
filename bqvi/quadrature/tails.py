"""What no node has seen: heavy tails of an integrand.

*Shape.* Beyond a high threshold t, |f| under the measure is distributed nearly as a generalised Pareto
variable, P(|f| - t > y) = (1 + k y / sigma)^(-1/k). Moments of order 1/k and above are infinite, so with
k > 1/2 an average of draws has no variance, and in practice neither its value nor its standard deviation
can be used from k of about 0.7 on (Vehtari et al. 2024); `bqvi.pareto` estimates k.

*Mass beyond the nodes.* If f grows like a(u) = exp(beta |u|^2 / 2) beyond the radius R of the farthest node,
its integral there is g a, with g = f / a as large as at the outermost nodes:

    g (1 - beta)^(-D/2) P(chi^2_D > (1 - beta) R^2).

Where the evidence is for growth at all, that with beta = .9, near the fastest there is an integral for,
is added to the standard deviation.

*A peak between the nodes.* Where f falls by many orders of magnitude from node to node, its largest values
are the foot of a peak that no node is at. Through the 2 (D + 2) largest values of |f - median| goes, by least
squares, the peak of a Gaussian of one width,

    ln |f - median| = a + b.u - c |u|^2 / 2,      top at u* = b / c,      integral about (1 + c)^(-D/2) h,

h its height. That is a standard deviation for what was missed if the peak is one that n nodes can miss: its
share of the measure (1 + c)^(-D/2) is below 3 / n, and u* is no farther from the largest value than nodes are
from one another (the largest distance from a node to its nearest neighbour). The squared distance to the k-th
nearest of evenly spread nodes grows as k^(2/D), so with s the mean step between the logarithms of the largest
six values, ln h is usually 5 s / (6^(2/D) - 1) above the largest, at least s, and no more than ``most_rise``
times that is used. A peak of another shape is taken for a Gaussian: of those three times as long as wide,
sd .02 x .06, two standard deviations hold 88 in 100 in D = 2 at n = 60, and of those exp(-r / .02) 99, where
a Pareto tail held 86 and 85.

*Limits*, 20 runs each at n = 60: under a Gaussian measure, peaks of sd .005 in D = 1 and of sd .03 in D = 3,
which may lie far from all nodes, are within two standard deviations in 75 and 55 of 100 runs; peaks ten times
as long as wide (.01 x .1 in a box) in 80.

*Exponent.* Polynomials and exp(a.u) grow too, and more slowly the farther out. Locally the exponent is

    beta(r) = E[f u.grad f] / E[f^2 |u|^2] over nodes at radius r:   constant for exp(beta |u|^2 / 2),
                                                                     |a| / r for exp(a.u), p / r^2 for |u|^p.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import chdtrc

from bqvi.pareto import PARETO, pareto_shape
from bqvi.quadrature.settings import PEAKS, TAILS
from gp.linalg import least_squares

__all__ = [
    "NOTHING_SEEN",
    "beyond",
    "largest_share",
    "missed_peak",
    "slows",
    "verdict",
]


NOTHING_SEEN = (
    "All values are zero, which says nothing of the size of the integrand elsewhere: the standard deviation "
    "is infinite. If no value is larger than h in size, h / (n + 2) stands for it: one further node would "
    "be the first that is not zero."
)


def largest_share(values: Any) -> float:
    """Return the share of sum |f| that the largest of values (n,) carries."""
    sizes = np.abs(values)
    total = float(sizes.sum())
    return float(sizes.max()) / total if total > 0 else 0.0


def verdict(values: Any, log_weights: Any = None) -> tuple[float, bool, str]:
    """Return k, whether an average of draws can be used, and a sentence if it is not.

    Parameters
    ----------
    values : (n, o), of f at draws; the output with the heaviest tail decides.
    log_weights : (n,), of importance weights by which f has been multiplied: their own tail counts too.
    """
    columns = [np.abs(column) for column in np.transpose(values)]
    if log_weights is not None:
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
            f"The largest values have a Pareto tail of shape {shape:.2f}, above {PARETO.unusable}: so far as "
            "the points tell, the average has no variance, and the standard deviation is too small. Draw "
            "from a measure with heavier tails."
        )  # fmt: skip
    return shape, True, ""


def beyond(u: Any, values: Any) -> Any:
    """Return the integral (o,) beyond the farthest node of f that grows as fast as it can.

    Parameters
    ----------
    u : nodes (n, D) in standard coordinates of a Gaussian. values : (n, o).
    """
    squares = np.sum(u**2, axis=1)
    outermost = np.argsort(squares)[-max(len(u) // TAILS.outermost, 1) :]
    g = values[outermost] * np.exp(-TAILS.fastest * squares[outermost] / 2)[:, None]
    size = np.sqrt(np.mean(g**2, axis=0))
    dimension, left = u.shape[1], 1 - TAILS.fastest
    return size * left ** (-dimension / 2) * float(chdtrc(dimension, left * squares.max()))


def missed_peak(u: Any, values: Any, least_rise: float = 0.0) -> Any:
    """Return the integral (o,) of the peak whose foot the largest values are; 0 where they are none.

    Parameters
    ----------
    u : nodes (n, D) in standard coordinates. values : (n, o).
    least_rise : of ln |f| from the largest value to the top; a lower peak is none.
    """
    apart = cdist(u, u)
    np.fill_diagonal(apart, np.inf)
    farthest = float(apart.min(axis=1).max())
    sizes = np.abs(values - np.median(values, axis=0))
    return np.array([_missed_peak(u, column, farthest, least_rise) for column in sizes.T])


def _missed_peak(u: Any, sizes: Any, farthest: float, least_rise: float) -> float:
    n, dimension = u.shape
    order = np.argsort(-sizes)[: 2 * (dimension + 2)]
    order = order[sizes[order] > PEAKS.smallest * max(float(sizes[order[0]]), 1e-200)]
    if len(order) < max(dimension + 2, PARETO.least_tail + 1):
        return 0.0
    logs, from_largest = np.log(sizes[order]), u[order] - u[order[0]]
    squares = np.sum(from_largest**2, axis=1)
    columns = np.column_stack([np.ones(len(order)), from_largest, -0.5 * squares])
    found = least_squares(columns, logs[:, None])[0][:, 0]
    curvature = float(found[-1])
    share = (1 + max(curvature, 0.0)) ** (-dimension / 2)
    if share > PEAKS.missed_share / n:
        return 0.0
    away = min(float(np.linalg.norm(found[1:-1])) / curvature, farthest)
    steps = float(logs[0] - logs[PARETO.least_tail]) / PARETO.least_tail
    usual = max(1.0, PARETO.least_tail / ((PARETO.least_tail + 1) ** (2 / dimension) - 1))
    rise = min(curvature * away**2 / 2, PEAKS.most_rise * usual * steps)
    return share * float(np.exp(logs[0] + rise)) if rise >= least_rise else 0.0


def slows(u: Any, values: Any, slopes: Any) -> bool:
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
