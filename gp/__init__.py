"""Gaussian processes: kernels, posteriors, hyperparameters, measures and kernel embeddings."""

from gp import kernels, means
from gp.hyperparameters import Hyperparameters, fit
from gp.linalg import NotPositiveDefiniteError
from gp.marginal import MarginalPosterior, marginalise
from gp.observations import Gradients, Values
from gp.paths import Path
from gp.posterior import GradientMoments, Posterior
from gp.process import GaussianProcess

__all__ = [
    "GaussianProcess",
    "GradientMoments",
    "Gradients",
    "Hyperparameters",
    "MarginalPosterior",
    "NotPositiveDefiniteError",
    "Path",
    "Posterior",
    "Values",
    "fit",
    "kernels",
    "marginalise",
    "means",
]
