"""Exponential families: one a file; `family` says what each must give."""

from bqvi.families.categorical import Categorical
from bqvi.families.diagonal_gaussian import DiagonalGaussian
from bqvi.families.dirichlet import Dirichlet
from bqvi.families.family import ExponentialFamily
from bqvi.families.gaussian import Gaussian
from bqvi.families.point_mass import PointMass
from bqvi.families.product import Product

__all__ = [
    "Categorical",
    "DiagonalGaussian",
    "Dirichlet",
    "ExponentialFamily",
    "Gaussian",
    "PointMass",
    "Product",
]
