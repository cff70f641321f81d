"""Models: what each states of itself. One a file; `conjugate` and `log_joint` say what is asked.

`SoftmaxMixture` lives on torch, which takes seconds to import: it is loaded when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bqvi.models.conjugate import ConjugateModel, LocalStep, elbo, log_likelihood_error
from bqvi.models.discrete import Marginal, Relaxed
from bqvi.models.emissions import (
    CategoricalEmissions,
    ComponentEmissions,
    PoissonEmissions,
    gaussian_emissions,
)
from bqvi.models.gaussian_mixture import GaussianMixture
from bqvi.models.hidden_markov_model import HiddenMarkovModel
from bqvi.models.latent_dirichlet_allocation import LatentDirichletAllocation
from bqvi.models.log_joint import LogJoint, LogJointModel
from bqvi.models.logistic_regression import LogisticRegression
from bqvi.models.multinomial_mixture import MultinomialMixture
from bqvi.models.sequences import Sequences

if TYPE_CHECKING:
    from bqvi.models.softmax_mixture import SoftmaxMixture

__all__ = [
    "CategoricalEmissions",
    "ComponentEmissions",
    "ConjugateModel",
    "GaussianMixture",
    "HiddenMarkovModel",
    "LatentDirichletAllocation",
    "LocalStep",
    "LogJoint",
    "LogJointModel",
    "LogisticRegression",
    "Marginal",
    "MultinomialMixture",
    "PoissonEmissions",
    "Relaxed",
    "Sequences",
    "SoftmaxMixture",
    "elbo",
    "gaussian_emissions",
    "log_likelihood_error",
]


def __getattr__(name: str) -> Any:
    if name != "SoftmaxMixture":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bqvi.models.softmax_mixture import SoftmaxMixture

    return SoftmaxMixture
