"""Models, one in each file; `conjugate` and `log_joint` define their contracts.

`SoftmaxMixture` and the autoencoder need torch, which takes seconds to import: they are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bqvi.models.amortised import AmortisedModel
from bqvi.models.component_mixture import Marginal, Mixture
from bqvi.models.conjugate import ConjugateModel, LocalStep, elbo
from bqvi.models.conjugate_components import (
    ConjugateComponents,
    bernoulli,
    categorical,
    exponential,
    poisson,
)
from bqvi.models.emissions import (
    CategoricalEmissions,
    ComponentEmissions,
    PoissonEmissions,
    gaussian_emissions,
)
from bqvi.models.factor_analysis import FactorAnalysis, MixtureOfFactorAnalysers
from bqvi.models.gaussian_mixture import (
    DirichletProcessMixture,
    GaussianMixture,
    component_estimates,
    gaussian_components,
)
from bqvi.models.hidden_markov_model import HiddenMarkovModel
from bqvi.models.latent_dirichlet_allocation import LatentDirichletAllocation
from bqvi.models.linear_regression import LinearRegression, RegressionPrior
from bqvi.models.log_joint import LogJoint, LogJointModel
from bqvi.models.logistic_regression import LogisticRegression
from bqvi.models.mixing import DirichletWeights, Sticks, UniformWeights
from bqvi.models.mixture_of_experts import MixtureOfExperts
from bqvi.models.multinomial_mixture import Multinomial, MultinomialMixture
from bqvi.models.semantic_analysis import ProbabilisticLatentSemanticAnalysis, latent_semantic_analysis
from bqvi.models.sequences import Sequences

if TYPE_CHECKING:
    from bqvi.models.autoencoder import VariationalAutoencoder
    from bqvi.models.likelihoods import BernoulliLikelihood, GaussianLikelihood
    from bqvi.models.network_experts import NetworkExperts
    from bqvi.models.networks import WeightNetwork, WeightPrior
    from bqvi.models.softmax_mixture import SoftmaxMixture

__all__ = [
    "AmortisedModel",
    "BernoulliLikelihood",
    "CategoricalEmissions",
    "ComponentEmissions",
    "ConjugateComponents",
    "ConjugateModel",
    "DirichletProcessMixture",
    "DirichletWeights",
    "FactorAnalysis",
    "GaussianLikelihood",
    "GaussianMixture",
    "HiddenMarkovModel",
    "LatentDirichletAllocation",
    "LinearRegression",
    "LocalStep",
    "LogJoint",
    "LogJointModel",
    "LogisticRegression",
    "Marginal",
    "Mixture",
    "MixtureOfExperts",
    "MixtureOfFactorAnalysers",
    "Multinomial",
    "MultinomialMixture",
    "NetworkExperts",
    "PoissonEmissions",
    "ProbabilisticLatentSemanticAnalysis",
    "RegressionPrior",
    "Sequences",
    "SoftmaxMixture",
    "Sticks",
    "UniformWeights",
    "VariationalAutoencoder",
    "WeightNetwork",
    "WeightPrior",
    "bernoulli",
    "categorical",
    "component_estimates",
    "elbo",
    "exponential",
    "gaussian_components",
    "gaussian_emissions",
    "latent_semantic_analysis",
    "poisson",
]


_ON_TORCH = {
    "BernoulliLikelihood": "likelihoods",
    "GaussianLikelihood": "likelihoods",
    "NetworkExperts": "network_experts",
    "SoftmaxMixture": "softmax_mixture",
    "VariationalAutoencoder": "autoencoder",
    "WeightNetwork": "networks",
    "WeightPrior": "networks",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ON_TORCH[name]}"), name)
