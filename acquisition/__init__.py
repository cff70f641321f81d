"""Where to evaluate next: points for quadrature, mini-batches of a data set.

For quadrature, a criterion is the gain of evaluating f at a point, and a search finds the best point:

    criterion = acquisition.IntegralVarianceReduction()
    found = acquisition.ContinuousSearch().maximise(
        acquisition.bind(criterion, posterior, measure), seed=0
    )
    found.x                                    # (1, D)

:mod:`acquisition.pointwise.criterion` describes how the parts work together.
"""

from acquisition import designs, minibatch, pointwise
from acquisition.pointwise import (
    Acquisition,
    IntegralVarianceReduction,
    LinearisedWarpedUncertainty,
    MatchedWarpedUncertainty,
    MutualInformation,
    UncertaintySampling,
    UpperConfidenceBound,
    bind,
)
from acquisition.search import ContinuousSearch, Domain, SearchResult, domain_of

__all__ = [
    "Acquisition",
    "ContinuousSearch",
    "Domain",
    "IntegralVarianceReduction",
    "LinearisedWarpedUncertainty",
    "MatchedWarpedUncertainty",
    "MutualInformation",
    "SearchResult",
    "UncertaintySampling",
    "UpperConfidenceBound",
    "bind",
    "designs",
    "domain_of",
    "minibatch",
    "pointwise",
]
