"""Covariances of observations at fixed points, with their pull-backs, for fits of hyperparameters."""

from gp.fixed_points import anova, quadratic, stationary  # noqa: F401  they register their kernels
from gp.fixed_points.gram import Gram, gram_of, slopes_at
from gp.fixed_points.pairs import Pairs

__all__ = ["Gram", "Pairs", "gram_of", "slopes_at"]
