"""Gaussian processes: kernels, posteriors, hyperparameters, measures and kernel embeddings."""

from gp import embeddings, kernels, means, measures
from gp.integrals import Integral, Integrals, JointIntegral
from gp.interop import as_botorch_model, from_botorch, from_gpytorch, from_gpytorch_kernel
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
    "as_botorch_model",
    "embeddings",
    "from_botorch",
    "from_gpytorch",
    "from_gpytorch_kernel",
    "kernels",
    "means",
    "measures",
]
