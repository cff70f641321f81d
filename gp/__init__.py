"""Gaussian processes: kernels, posteriors, hyperparameters, measures and kernel embeddings."""

from gp import embeddings, kernels, means, measures
from gp.integrals import Integral, Integrals, JointIntegral
from gp.linalg import NotPositiveDefiniteError
from gp.observations import Gradients, Values
from gp.paths import Path
from gp.posterior import GradientMoments, Posterior
from gp.process import GaussianProcess

__all__ = [
    "GaussianProcess",
    "GradientMoments",
    "Gradients",
    "Integral",
    "Integrals",
    "JointIntegral",
    "NotPositiveDefiniteError",
    "Path",
    "Posterior",
    "Values",
    "embeddings",
    "kernels",
    "means",
    "measures",
]
