"""Pointwise acquisition functions: a criterion of the moments of f at a point, bound to a posterior."""

from acquisition.pointwise.acquisition import Acquisition, bind
from acquisition.pointwise.criterion import Criterion, Moments, Partials
from acquisition.pointwise.uncertainty import (
    LinearisedWarpedUncertainty,
    MatchedWarpedUncertainty,
    UncertaintySampling,
    UpperConfidenceBound,
)
from acquisition.pointwise.variance_reduction import (
    IntegralVarianceReduction,
    MutualInformation,
)

__all__ = [
    "Acquisition", "Criterion", "IntegralVarianceReduction", "LinearisedWarpedUncertainty",
    "MatchedWarpedUncertainty", "Moments", "MutualInformation", "Partials", "UncertaintySampling",
    "UpperConfidenceBound", "bind",
]  # fmt: skip
