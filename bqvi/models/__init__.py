"""Models, one in each file; `contracts` and `log_joint` define their contracts."""

from typing import TYPE_CHECKING

from gp.names import attach

if TYPE_CHECKING:
    from bqvi.models.autoencoder import VariationalAutoencoder
    from bqvi.models.component_mixture import Mixture
    from bqvi.models.conjugate_components import (
        ConjugateComponents,
        bernoulli,
        categorical,
        exponential,
        poisson,
    )
    from bqvi.models.contracts import AmortisedModel, ConjugateModel, LocalStep, elbo
    from bqvi.models.gaussian_mixture import (
        DirichletProcessMixture,
        GaussianMixture,
        component_estimates,
        gaussian_components,
    )
    from bqvi.models.hidden_markov_model import HiddenMarkovModel
    from bqvi.models.latent_dirichlet_allocation import LatentDirichletAllocation
    from bqvi.models.likelihoods import BernoulliLikelihood, GaussianLikelihood
    from bqvi.models.log_joint import LogJoint, LogJointModel
    from bqvi.models.logistic_regression import LogisticRegression
    from bqvi.models.mixing import DirichletWeights, Sticks, UniformWeights
    from bqvi.models.mixture_of_experts import MixtureOfExperts
    from bqvi.models.multinomial_mixture import Multinomial, MultinomialMixture
    from bqvi.models.networks import WeightPrior
    from bqvi.models.sequences import Sequences
else:
    __getattr__, __dir__ = attach(__name__)

__all__ = [
    "AmortisedModel", "BernoulliLikelihood", "ConjugateComponents", "ConjugateModel",
    "DirichletProcessMixture", "DirichletWeights", "GaussianLikelihood", "GaussianMixture",
    "HiddenMarkovModel", "LatentDirichletAllocation", "LocalStep", "LogJoint", "LogJointModel",
    "LogisticRegression", "Mixture", "MixtureOfExperts", "Multinomial", "MultinomialMixture",
    "Sequences", "Sticks", "UniformWeights", "VariationalAutoencoder", "WeightPrior", "bernoulli",
    "categorical", "component_estimates", "elbo", "exponential", "gaussian_components", "poisson",
]  # fmt: skip
