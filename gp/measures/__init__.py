"""Probability measures against which functions are integrated."""

from gp.measures.base import AffineMap, Measure, Seed, Standardised
from gp.measures.empirical import Empirical, EmpiricalParameters
from gp.measures.gaussian import Gaussian, GaussianParameters
from gp.measures.mixture import GaussianMixture, MixtureParameters
from gp.measures.uniform import Uniform, UniformParameters
from gp.names import all_suggesting

__all__ = [
    "AffineMap", "Empirical", "EmpiricalParameters", "Gaussian", "GaussianMixture", "GaussianParameters",
    "Measure", "MixtureParameters", "Seed", "Standardised", "Uniform", "UniformParameters",
]  # fmt: skip
all_suggesting(globals())
