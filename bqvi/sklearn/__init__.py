"""Estimators with scikit-learn's interface (the extra ``bqvi[sklearn]``); nothing else here imports it."""

from bqvi.sklearn.mixtures import BayesianGaussianMixture, DirichletProcessMixture, GaussianMixture

__all__ = ["BayesianGaussianMixture", "DirichletProcessMixture", "GaussianMixture"]
