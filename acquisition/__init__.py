"""Where to evaluate next: points for quadrature, mini-batches of a data set.

For quadrature, a criterion (:mod:`acquisition.pointwise`) is the gain of evaluating f at a point,
and a search finds the best point:

    found = acquisition.ContinuousSearch().maximise(
        acquisition.bind(acquisition.IntegralVarianceReduction(), posterior, measure), seed=0
    )
    found.x                                    # (1, D)
"""

from typing import TYPE_CHECKING

from gp.names import attach

if TYPE_CHECKING:
    from acquisition import minibatch, pointwise
    from acquisition.pointwise import (
        Acquisition,
        IntegralVarianceReduction,
        UncertaintySampling,
        bind,
    )
    from acquisition.search import ContinuousSearch, Domain, SearchResult, domain_of
else:
    __getattr__, __dir__ = attach(__name__)

__all__ = [
    "Acquisition", "ContinuousSearch", "Domain", "IntegralVarianceReduction", "SearchResult",
    "UncertaintySampling", "bind", "domain_of", "minibatch", "pointwise",
]  # fmt: skip
