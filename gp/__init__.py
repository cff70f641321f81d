"""Gaussian processes: kernels, posteriors, hyperparameters, measures and kernel embeddings."""

from typing import TYPE_CHECKING

from gp.names import attach

if TYPE_CHECKING:
    from gp import embeddings, expectation, kernels, means, measures
    from gp.integrals import Integral, Integrals, JointIntegral
    from gp.linalg import NotPositiveDefiniteError
    from gp.observations import Gradients, Values
    from gp.regression.comparison import Comparison, compare
    from gp.regression.hyperparameters import Hyperparameters, fit
    from gp.regression.interop import as_botorch_model, from_botorch, from_gpytorch, from_gpytorch_kernel
    from gp.regression.marginal import MarginalPosterior, components, marginalise
    from gp.regression.paths import Path
    from gp.regression.posterior import GradientMoments, Posterior
    from gp.regression.predictions import load
    from gp.regression.process import GaussianProcess
else:
    __getattr__, __dir__ = attach(__name__)

__all__ = [
    "Comparison", "GaussianProcess", "GradientMoments", "Gradients", "Hyperparameters", "Integral",
    "Integrals", "JointIntegral", "MarginalPosterior", "NotPositiveDefiniteError", "Path", "Posterior",
    "Values", "as_botorch_model", "compare", "components", "embeddings", "expectation", "fit", "from_botorch",
    "from_gpytorch", "from_gpytorch_kernel", "kernels", "load", "marginalise", "means", "measures",
]  # fmt: skip
