"""Pointwise acquisition functions: a criterion of the moments of f at a point, bound to a posterior."""

from acquisition.pointwise.acquisition import Acquisition, bind
from acquisition.pointwise.confidence import UpperConfidenceBound
from acquisition.pointwise.criterion import Criterion, Informative, Moments, Partials
from acquisition.pointwise.quantile_range import InterquantileRange
from acquisition.pointwise.uncertainty import ProspectiveSampling, UncertaintySampling
from acquisition.pointwise.variance_reduction import (
    IntegralVarianceReduction,
    MutualInformation,
    SquaredCorrelation,
)
from acquisition.pointwise.warped import LinearisedWarpedUncertainty, MatchedWarpedUncertainty

__all__ = [
    "Acquisition",
    "Criterion",
    "Informative",
    "IntegralVarianceReduction",
    "InterquantileRange",
    "LinearisedWarpedUncertainty",
    "MatchedWarpedUncertainty",
    "Moments",
    "MutualInformation",
    "Partials",
    "ProspectiveSampling",
    "SquaredCorrelation",
    "UncertaintySampling",
    "UpperConfidenceBound",
    "bind",
]
