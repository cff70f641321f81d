"""E_q of a Gaussian process: its value, its gradient in q, variances and covariances."""

from gp.expectation.anova_sum import AnovaSum, AnovaSums, DiagonalIntegrals
from gp.expectation.kernel_sum import (
    Integrated,
    KernelMeans,
    KernelSum,
    Quadratic,
    standard_means,
    standard_variance,
)
from gp.expectation.posterior_expectation import Expectation, expectation

__all__ = [
    "AnovaSum", "AnovaSums", "DiagonalIntegrals", "Expectation", "Integrated", "KernelMeans", "KernelSum",
    "Quadratic", "expectation", "standard_means", "standard_variance",
]  # fmt: skip
