"""Draws of a function from its posterior, for functionals that are not linear in it.

A functional that is linear in phi has its posterior variance in closed form (`functionals`). Other
functionals are evaluated on draws of phi. As in `gp.paths`, a draw of the prior is updated (Matheron's rule;
Wilson et al. 2020, "Efficiently sampling functions from Gaussian process posteriors"): a draw of the
posterior is the sum of a draw h of the prior and of the posterior mean given the observations less those of
h,

    phi_s = h + sum_n k(., u_n) beta_n,      beta = P (observations - observations of h - noise),

with P of `conditioned`, which is K^-1 where no constant is fitted. Only h is approximate, by F random
features (Rahimi and Recht 2007). Unlike the paths of `gp.paths`, draws share their features, which are
evaluated once for all draws; the covariance of draws has a relative error of the order of 1 / sqrt(F).

    h(u) = s (sqrt(2 v / F) sum_j a_j cos(w_j . u + p_j) + sqrt(b1) g . u + sqrt(b2 / 2) u^T Z u)

with a, g, Z standard normal and w ~ N(0, I / l^2). Constants are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gp.conditioning.function_process import FunctionProcess
from gp.expectation import KernelSum

__all__ = ["FourierFeatures", "FunctionAt", "drawn"]


@dataclass(frozen=True, eq=False)
class FunctionAt:
    """A function at M points."""

    values: np.ndarray
    """(M,)."""
    gradients: np.ndarray
    """(M, D)."""

    @classmethod
    def of(cls, phi: KernelSum, points: np.ndarray) -> FunctionAt:
        """Return the function's values and gradients at (M, D) points."""
        return cls(phi(points), phi.gradient(points))

    def plus(self, other: FunctionAt) -> FunctionAt:
        """The sum of two."""
        return FunctionAt(self.values + other.values, self.gradients + other.gradients)


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """cos(w_j . u + p_j) and its slope along w_j, at M points."""

    points: np.ndarray
    """u, (M, D)."""
    frequencies: np.ndarray
    """w, (F, D)."""
    cosines: np.ndarray
    """(M, F)."""
    slopes: np.ndarray
    """(M, F)."""

    @classmethod
    def at(cls, points: np.ndarray, frequencies: np.ndarray, phases: np.ndarray) -> FourierFeatures:
        """Return the function's values and gradients at (M, D) points."""
        angles = points @ frequencies.T + phases
        return cls(points, frequencies, np.cos(angles), -np.sin(angles))

    def sum(self, heights: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> FunctionAt:
        """The features' sum by heights (F,), plus slope . u + u^T curvature u / 2; curvature is symmetric."""
        curved = self.points @ curvature
        return FunctionAt(
            self.cosines @ heights + self.points @ slope + 0.5 * np.einsum("md,md->m", self.points, curved),
            self.slopes @ (heights[:, None] * self.frequencies) + slope + curved,
        )


def drawn(
    process: FunctionProcess, points: np.ndarray, count: int, rng: np.random.Generator, features: int
) -> Iterator[FunctionAt]:
    """``count`` draws of phi at (M, D) points, by F = ``features`` random features.

    O(M F D + w^2) each for w observed numbers, after O(w^3).
    """
    given, kernel = process.given, process.kernel
    d, s = given.points.shape[1], np.sqrt(given.scale)
    noise_sd = s * np.sqrt(given.noise(given.points, given.targets))[:, None]
    frequencies = rng.standard_normal((features, d)) / kernel.lengthscale
    phases = rng.uniform(0.0, 2.0 * np.pi, features)
    at_nodes, at_points = (FourierFeatures.at(u, frequencies, phases) for u in (given.points, points))
    for _ in range(count):
        square = rng.standard_normal((d, d))
        prior = (
            s * np.sqrt(2.0 * kernel.height / features) * rng.standard_normal(features),
            s * np.sqrt(kernel.linear) * rng.standard_normal(d),
            s * np.sqrt(0.5 * kernel.quadratic) * (square + square.T),
        )
        drawn_there = at_nodes.sum(*prior)
        observed = np.column_stack([drawn_there.values, drawn_there.gradients])[:, kernel.shown.numbers]
        observed = observed + noise_sd * rng.standard_normal(observed.shape)
        weights = given.weights - given.projected(observed.reshape(-1, 1)).reshape(observed.shape)
        update = process.function(weights)
        yield at_points.sum(*prior).plus(FunctionAt.of(update, points))
