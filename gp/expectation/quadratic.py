"""Polynomials of degree two, c + w . u + u^T M u / 2: prior means, and functions of some kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from gp.kernels import Constant, Kernel, Linear, QuadraticTrend, Sum
from gp.means import Mean


@dataclass(frozen=True, eq=False)
class Quadratic:
    """c + w . u + u^T M u / 2.

    Attributes
    ----------
    constant : c. linear : w, (D,). curvature : M, symmetric, (D, D).
    """

    constant: float
    linear: np.ndarray
    curvature: np.ndarray

    @classmethod
    def of_mean(cls, mean: Mean, dimension: int) -> Quadratic:
        """A prior ``mean`` of D = ``dimension`` variables as a polynomial, by its expectation at 0."""
        zero, none = np.zeros(dimension), np.zeros((dimension, dimension))
        linear, half = mean.expectation_gradient(zero, none)
        return cls(float(mean.expectation(zero, none)), linear, 2.0 * half)

    @classmethod
    def of_kernel(
        cls, kernel: Kernel, points: np.ndarray, values: np.ndarray | None, slopes: np.ndarray | None
    ) -> Quadratic:
        """The part of a posterior mean that belongs to a kernel of polynomials; TypeError for others.

        Parameters
        ----------
        kernel : a `QuadraticTrend`, a `Linear`, a `Constant` or a sum of them. points : (n, D).
        values, slopes : the weights (n,) of values and (n, D) of derivatives at the points, or None.
        """
        dimension = points.shape[1]
        if isinstance(kernel, Sum):
            terms = [cls.of_kernel(term, points, values, slopes) for term in kernel.terms]
            return reduce(add, terms)
        if isinstance(kernel, Constant):
            total = 0.0 if values is None else float(values.sum())
            return cls(float(kernel.variance) * total, np.zeros(dimension), np.zeros((dimension, dimension)))
        if isinstance(kernel, Linear):
            linear = 0.0 if values is None else values @ (points - kernel.offset)
            linear = kernel.variance * (linear + (0.0 if slopes is None else slopes.sum(0)))
            return cls(-float(np.sum(linear * kernel.offset)), linear, np.zeros((dimension, dimension)))
        if not isinstance(kernel, QuadraticTrend):
            raise TypeError(f"functions of {type(kernel).__name__} are no polynomials of degree two")
        return cls.of_trend(kernel.linear, kernel.quadratic, points, values, slopes)

    @classmethod
    def of_trend(cls, b1: float, b2: float, points: np.ndarray, values: Any, slopes: Any) -> Quadratic:
        """That of a trend of variances b1, b2 >= 0; ``points``, ``values``, ``slopes`` as of `of_kernel`."""
        dimension = points.shape[1]
        linear, curvature = np.zeros(dimension), np.zeros((dimension, dimension))
        if values is not None:
            linear, curvature = values @ points, (points.T * values) @ points
        if slopes is not None:
            crossed = slopes.T @ points[: len(slopes)]
            linear, curvature = linear + slopes.sum(0), curvature + crossed + crossed.T
        return cls(0.0, b1 * linear, b2 * curvature)

    def times(self, factor: float) -> Quadratic:
        """Return the polynomial times a ``factor``."""
        return Quadratic(factor * self.constant, factor * self.linear, factor * self.curvature)

    def __add__(self, other: Quadratic) -> Quadratic:
        linear, curvature = self.linear + other.linear, self.curvature + other.curvature
        return Quadratic(self.constant + other.constant, linear, curvature)

    def __call__(self, u: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.constant + u @ self.linear
        found += 0.5 * np.einsum("md,md->m", u, u @ self.curvature)
        return found

    def gradient(self, u: np.ndarray) -> np.ndarray:
        return self.linear + u @ self.curvature
