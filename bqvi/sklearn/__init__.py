"""Estimators with scikit-learn's interface; only this package imports it (extra ``bqvi[sklearn]``)."""

from gp.names import all_suggesting, needing

with needing():
    from bqvi.sklearn.mixtures import BayesianGaussianMixture, DirichletProcessMixture, GaussianMixture
    from bqvi.sklearn.regression import GaussianProcessRegressor
    from bqvi.sklearn.sequences import HiddenMarkovModel
    from bqvi.sklearn.topics import LatentDirichletAllocation

__all__ = [
    "BayesianGaussianMixture",
    "DirichletProcessMixture",
    "GaussianMixture",
    "GaussianProcessRegressor",
    "HiddenMarkovModel",
    "LatentDirichletAllocation",
]
all_suggesting(globals())
