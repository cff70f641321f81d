"""Gaussian processes: kernels, posteriors, hyperparameters, measures and kernel embeddings."""

from gp import kernels, means
from gp.linalg import NotPositiveDefiniteError
from gp.observations import Gradients, Values
from gp.paths import Path
from gp.posterior import GradientMoments, Posterior
from gp.process import GaussianProcess

__all__ = [
    "GaussianProcess",
    "GradientMoments",
    "Gradients",
    "NotPositiveDefiniteError",
    "Path",
    "Posterior",
    "Values",
    "kernels",
    "means",
]
