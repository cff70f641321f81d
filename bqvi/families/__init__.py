"""Exponential families, one a file, with the contract in `family`; and mixtures of Gaussians."""

from bqvi.families.dirichlet import Concentration, Dirichlet
from bqvi.families.family import Distribution, ExponentialFamily, FamilyOrPoint
from bqvi.families.gamma import Gamma
from bqvi.families.gaussian import DiagonalGaussian, Gaussian
from bqvi.families.gaussian_mixture import GaussianMixture
from bqvi.families.matrix_normal_inverse_wishart import MatrixNormalInverseWishart
from bqvi.families.point_mass import Flat, Point, PointMass
from bqvi.families.product import Product
from gp.names import all_suggesting

__all__ = [
    "Concentration", "DiagonalGaussian", "Dirichlet", "Distribution", "ExponentialFamily", "FamilyOrPoint",
    "Flat", "Gamma", "Gaussian", "GaussianMixture", "MatrixNormalInverseWishart", "Point", "PointMass",
    "Product",
]  # fmt: skip
all_suggesting(globals())
