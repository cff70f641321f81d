"""Kernels: covariance functions of Gaussian processes, their sums, products and restrictions."""

from typing import TYPE_CHECKING

from gp.kernels.anova import Anova
from gp.kernels.base import Derivatives, DifferentiableKernel, Kernel, Parameter
from gp.kernels.composite import ByColumn, Columns, Mapped, Product, Sum, Tilted
from gp.kernels.parameters import pack, scaled, unpack
from gp.kernels.polynomial import Constant, Linear, Multiple, QuadraticTrend
from gp.kernels.stationary import (
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)
from gp.kernels.white import White
from gp.names import all_suggesting, attach

RBF = SquaredExponential
"""The usual short name of :class:`SquaredExponential`."""

__all__ = [
    "RBF", "Anova", "ByColumn", "Columns", "Constant", "Derivatives",
    "DifferentiableKernel", "Kernel", "Linear", "Mapped", "Matern12", "Matern32", "Matern52", "Multiple",
    "Parameter", "Periodic", "Product", "QuadraticTrend", "RationalQuadratic", "SquaredExponential",
    "Stationary", "Sum", "Tilted", "White", "pack", "scaled", "unpack",
]  # fmt: skip
if TYPE_CHECKING:
    from gp.kernels.periodic import Periodic
else:
    __getattr__, __dir__ = attach(__name__)
all_suggesting(globals())
