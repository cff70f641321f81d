"""Exponential families, one a file, of which `family` says what each must give; and mixtures of Gaussians."""

from bqvi.families.categorical import Categorical
from bqvi.families.diagonal_gaussian import DiagonalGaussian
from bqvi.families.dirichlet import Dirichlet
from bqvi.families.family import ExponentialFamily
from bqvi.families.gaussian import Gaussian
from bqvi.families.gaussian_mixture import GaussianMixture
from bqvi.families.point_mass import PointMass
from bqvi.families.product import Product

__all__ = [
    "Categorical",
    "DiagonalGaussian",
    "Dirichlet",
    "ExponentialFamily",
    "Gaussian",
    "GaussianMixture",
    "PointMass",
    "Product",
]
