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
from acquisition.batches import PointBatch, sequential_batch
from acquisition.joint import plan, refine_jointly
from acquisition.pointwise import (
    Acquisition,
    IntegralVarianceReduction,
    InterquantileRange,
    LinearisedWarpedUncertainty,
    MatchedWarpedUncertainty,
    MutualInformation,
    ProspectiveSampling,
    SquaredCorrelation,
    UncertaintySampling,
    UpperConfidenceBound,
    bind,
)
from acquisition.pool import Chosen, Pool
from acquisition.recombination import (
    Recombined,
    WeightedBatch,
    kernel_recombination,
    recombine,
)
from acquisition.search import THOROUGH, ContinuousSearch, Domain, SearchResult, domain_of

__all__ = [
    "THOROUGH",
    "Acquisition",
    "Chosen",
    "ContinuousSearch",
    "Domain",
    "IntegralVarianceReduction",
    "InterquantileRange",
    "LinearisedWarpedUncertainty",
    "MatchedWarpedUncertainty",
    "MutualInformation",
    "PointBatch",
    "Pool",
    "ProspectiveSampling",
    "Recombined",
    "SearchResult",
    "SquaredCorrelation",
    "UncertaintySampling",
    "UpperConfidenceBound",
    "WeightedBatch",
    "bind",
    "designs",
    "domain_of",
    "kernel_recombination",
    "minibatch",
    "plan",
    "pointwise",
    "recombine",
    "refine_jointly",
    "sequential_batch",
]
