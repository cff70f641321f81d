"""Pointwise acquisition functions: a criterion of the moments of f at a point, bound to a posterior."""

from acquisition.pointwise.acquisition import Acquisition, bind
from acquisition.pointwise.criteria import IntegralVarianceReduction, UncertaintySampling
from acquisition.pointwise.criterion import Criterion, Moments, Partials

__all__ = [
    "Acquisition", "Criterion", "IntegralVarianceReduction", "Moments", "Partials", "UncertaintySampling",
    "bind",
]  # fmt: skip
