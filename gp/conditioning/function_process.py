"""A Gaussian process on one function, given its values, its gradients, or both.

The kernel is that of `function_kernel`, and the conditioning that of `conditioned.Conditioned`. The posterior
mean is a `KernelSum`, whose integrals against Gaussians and mixtures of Gaussians are in closed form. The
posterior covariance of integrals, and their jackknife over the nodes, follow from their covariances with the
observations (`functionals`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from gp.conditioning.conditioned import Conditioned, Noise
from gp.conditioning.function_kernel import FunctionKernel
from gp.expectation import KernelSum, Quadratic


@dataclass(frozen=True, eq=False)
class FunctionProcess:
    """The process on phi given m points.

    Attributes
    ----------
    kernel : the kernel of phi and its derivatives.
    given : the process of the numbers observed at the points.
    """

    kernel: FunctionKernel
    given: Conditioned

    @classmethod
    def of(
        cls,
        kernel: FunctionKernel,
        points: np.ndarray,
        targets: np.ndarray,
        noise: Noise,
        measured: np.ndarray | None = None,
    ) -> Self:
        """The process of a ``kernel`` from (m, D) points and the ``targets`` (m, B) shown: O((m B)^3).

        ``measured`` is added to the noise, (m,) or (m, B).

        Raises
        ------
        numpy.linalg.LinAlgError
            The Gram matrix is not positive definite in floating point.
        """
        return cls(kernel, Conditioned.of(kernel, points, targets, noise, measured))

    def extended(self, points: np.ndarray, targets: np.ndarray, measured: np.ndarray | None = None) -> Self:
        """Return the process given (l, D) more points and their ``targets`` (l, B), O((m B)^2 l B).

        ``measured`` is as of `of`.
        """
        return replace(self, given=self.given.extended(points, targets, measured))

    @cached_property
    def posterior_mean(self) -> KernelSum:
        """The posterior mean of phi; up to a constant where only derivatives are observed."""
        return self.function(self.given.weights, self.given.constant)

    def function(self, weights: np.ndarray, constant: float = 0.0) -> KernelSum:
        """The ``constant`` plus the kernel functions of the observations, weighted by ``weights`` (m, B)."""
        shown = self.kernel.shown
        alpha = weights[:, 0] if shown.values else None
        b = weights[:, int(shown.values) :] if shown.gradients else None
        return kernel_sum(self.kernel, self.given.points, alpha, b, constant)


class TrendedKernel(Protocol):
    """A squared exponential of a height beside a linear and a quadratic trend."""

    @property
    def lengthscale(self) -> float:
        """l."""

    @property
    def height(self) -> float:
        """h."""

    @property
    def linear(self) -> float:
        """b1."""

    @property
    def quadratic(self) -> float:
        """b2."""


def kernel_sum(
    kernel: TrendedKernel,
    points: np.ndarray,
    values: np.ndarray | None,
    slopes: np.ndarray | None,
    constant: float,
) -> KernelSum:
    """The sum of kernel functions of values (m,) and gradients (m, D) at (m, D) points, and a constant."""
    d = points.shape[1]
    linear, curvature = np.zeros(d), np.zeros((d, d))
    if values is not None:
        linear, curvature = linear + values @ points, curvature + (points.T * values) @ points
    if slopes is not None:
        linear = linear + slopes.sum(0)
        curvature = curvature + points.T @ slopes + slopes.T @ points
    trend = Quadratic(constant, kernel.linear * linear, kernel.quadratic * curvature)
    return KernelSum(points, kernel.lengthscale, kernel.height, trend, values=values, slopes=slopes)
