"""E_q of a Gaussian process: its value, its gradient in q, variances and covariances."""

from typing import TYPE_CHECKING

from gp.expectation.kernel_sum import (
    AnovaSum,
    AnovaSums,
    DiagonalIntegrals,
    Integrated,
    KernelMeans,
    KernelSum,
    Quadratic,
    standard_means,
    standard_variance,
)
from gp.names import attach

if TYPE_CHECKING:
    from gp.regression.expectation import Expectation, expectation
else:
    __getattr__, __dir__ = attach(__name__)

__all__ = [
    "AnovaSum", "AnovaSums", "DiagonalIntegrals", "Expectation", "Integrated", "KernelMeans", "KernelSum",
    "Quadratic", "expectation", "standard_means", "standard_variance",
]  # fmt: skip
