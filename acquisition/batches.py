"""Several points at once, when evaluations run in parallel.

The points are chosen by sequential conditioning: after each point the posterior is conditioned on its own
mean there, and the next point is searched. Variances do not depend on values, so for criteria of variances
alone the last point is chosen as if all earlier values were known. In Bayesian optimisation this method is
called "kriging believer".

Two other functions choose all points together: :func:`acquisition.plan`, to reduce the variance of integrals,
and :func:`acquisition.kernel_recombination`, as a weighted approximation of the measure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.pointwise.acquisition import Acquisition
from acquisition.search import ContinuousSearch, Seed
from gp.arrays import Array, namespace
from gp.measures.checks import require_count

__all__ = ["PointBatch", "sequential_batch"]


@dataclass(frozen=True, eq=False)
class PointBatch:
    """Points that were chosen one after the other, each given those before it.

    Attributes
    ----------
    x : (q, D), in the order in which they were chosen.
    scores : (q,), of each when it was chosen.
    others : (m, D), the ends of the other ascents: starts for the next search.
    """

    x: Array
    scores: np.ndarray
    others: Array


def sequential_batch(
    acquisition: Acquisition,
    q: int,
    seed: Seed,
    *,
    search: ContinuousSearch | None = None,
    starts: Array | None = None,
) -> PointBatch:
    """Return q points, each the best given those before it.

    Parameters
    ----------
    acquisition : the function that each point maximises, given those before it.
    q : how many points.
    seed : seed of the searches.
    search : settings of the search of each point.
    starts : (m, D), points to score beside the candidates.

    Examples
    --------
    Where an integral under N(0, 1) becomes known best, given f at 0: on either side.

    >>> import acquisition
    >>> import gp
    >>> import numpy as np
    >>> process = gp.GaussianProcess(gp.kernels.SquaredExponential(1.0))
    >>> posterior = process.condition(np.zeros((1, 1)), np.ones(1))
    >>> criterion = acquisition.IntegralVarianceReduction()
    >>> measure = gp.measures.Gaussian(np.zeros(1), np.eye(1))
    >>> batch = acquisition.sequential_batch(acquisition.bind(criterion, posterior, measure), 2, seed=0)
    >>> bool(batch.x[0, 0] * batch.x[1, 0] < 0)
    True
    """
    require_count(q, "q")
    search = ContinuousSearch() if search is None else search
    rng = np.random.default_rng(seed)
    points, scores = [], []
    for remaining in reversed(range(q)):
        found = search.maximise(acquisition, rng, starts=starts)
        points.append(found.x)
        scores.append(found.score)
        starts = found.others
        if remaining:
            acquisition = acquisition.given(found.x)
    return PointBatch(namespace(*points).concat(points, axis=0), np.array(scores), found.others)
