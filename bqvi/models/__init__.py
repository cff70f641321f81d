"""Models: what each states of itself. One a file; `conjugate` and `log_joint` say what is asked."""

from bqvi.models.conjugate import ConjugateModel, LocalStep, elbo, log_likelihood_error
from bqvi.models.discrete import Marginal, Relaxed
from bqvi.models.gaussian_mixture import GaussianMixture
from bqvi.models.log_joint import LogJoint, LogJointModel
from bqvi.models.logistic_regression import LogisticRegression
from bqvi.models.multinomial_mixture import MultinomialMixture

__all__ = [
    "ConjugateModel",
    "GaussianMixture",
    "LocalStep",
    "LogJoint",
    "LogJointModel",
    "LogisticRegression",
    "Marginal",
    "MultinomialMixture",
    "Relaxed",
    "elbo",
    "log_likelihood_error",
]
