"""Covariances of observations at fixed points, with their pull-backs, for fits of hyperparameters."""

from gp.fixed_points.gram import Changes, Gram, gram_of, scaled
from gp.fixed_points.kernels import components_gram

__all__ = ["Changes", "Gram", "components_gram", "gram_of", "scaled"]
