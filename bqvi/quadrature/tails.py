"""Heavy tails of an integrand.

*Shape.* Beyond a high threshold t, |f| under the measure is distributed nearly as a generalised Pareto
variable, P(|f| - t > y) = (1 + k y / sigma)^(-1/k). With k > 1/2 an average of draws has no variance, and it
is unreliable from k of about 0.7 on (Vehtari et al. 2024); `bqvi.pareto` estimates k.

*Exponent.* Polynomials and exp(a.u) grow too, more slowly farther out. Locally the exponent is

    beta(r) = E[f u.grad f] / E[f^2 |u|^2] over nodes at radius r:   constant for exp(beta |u|^2 / 2),
                                                                     |a| / r for exp(a.u), p / r^2 for |u|^p.
"""

from __future__ import annotations

import numpy as np

from bqvi.pareto import PARETO, pareto_shape
from bqvi.quadrature.settings import TAILS

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


def slows(u: np.ndarray, values: np.ndarray, slopes: np.ndarray) -> bool:
    """Whether f grows more slowly among the outermost quarter of nodes than among the quarter before.

    Parameters
    ----------
    u : nodes (n, D) in standard coordinates of a Gaussian. values : f, (n, o). slopes : df/du, (n, D, o).
    """
    squares = np.sum(u**2, axis=1)
    radial = np.einsum("nd,ndo,no->n", u, slopes, values)
    weights = squares * np.sum(values**2, axis=1)
    order, count = np.argsort(squares), max(len(u) // 4, 1)
    outer, before = order[-count:], order[-2 * count : -count]
    exponents = [radial[k].sum() / max(weights[k].sum(), 1e-300) for k in (before, outer)]
    return bool(exponents[1] < TAILS.slower * exponents[0])
