"""Posteriors with published figures, among them test problems of nested-sampling packages.

rosenbrock_gaussian  two Rosenbrock densities and a Gaussian side by side, D = 6 (Li, Huggins and Acerbi
                     2025); closed form given `known_posteriors.rosenbrock`
himmelblau           four modes of unlike width, -.1 ((x^2 + y - 11)^2 + (x + y^2 - 7)^2)
eggbox               eighteen modes in a box, (2 + cos(x / 2) cos(y / 2))^5 on [0, 10 pi]^2 (Feroz and Hobson
                     2008)
shells               two rings beside each other, radius 2, sd .1, centres (-3.5, 0) and (3.5, 0) (the same)

The last three are in the plane: their evidence, moments and draws are those of a fine grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.linalg import block_diag

from experiments.problems.known_posteriors import Problem, of_mixture, planar, rosenbrock, unbounded
from gp.measures import GaussianMixture

__all__ = ["eggbox", "himmelblau", "rosenbrock_gaussian", "shells"]

_Array = np.ndarray
_LOG_2PI = math.log(2.0 * math.pi)


def _side_by_side(name: str, *parts: Problem) -> Problem:
    """The product of the densities of independent ``parts``."""
    ends = np.cumsum([part.dimension for part in parts])[:-1]

    def log_density(x: _Array) -> _Array:
        blocks = np.split(x, ends, axis=1)
        return np.sum([part.log_density(b) for part, b in zip(parts, blocks, strict=True)], axis=0)

    def gradient(x: _Array) -> _Array:
        blocks = np.split(x, ends, axis=1)
        return np.hstack([part.log_density_gradient(b) for part, b in zip(parts, blocks, strict=True)])

    def joined(of: Callable[[Problem], _Array]) -> _Array:
        return np.concatenate([of(part) for part in parts])

    return Problem(
        name,
        log_density,
        gradient,
        lower=joined(lambda part: part.lower),
        upper=joined(lambda part: part.upper),
        plausible_lower=joined(lambda part: part.plausible_lower),
        plausible_upper=joined(lambda part: part.plausible_upper),
        log_evidence=sum(part.log_evidence for part in parts),
        mean=joined(lambda part: part.mean),
        covariance=block_diag(*[part.covariance for part in parts]),
        sampler=lambda n, rng: np.hstack([part.sampler(n, rng) for part in parts]),
    )


@cache
def rosenbrock_gaussian() -> Problem:
    """R(x_1, x_2) R(x_3, x_4) N(x_5, x_6; 0, I), each times a prior N(0, 9): D = 6.

    N(x; 0, 1) N(x; 0, 9) is N(x; 0, .9) times N(0; 0, 10).
    """
    pair = rosenbrock(2)
    box = np.full(2, 3.0)
    normal = of_mixture("", GaussianMixture(np.ones(1), np.zeros((1, 2)), 0.9 * np.eye(2)[None]), -box, box)
    found = _side_by_side("Rosenbrock-Gaussian 6", pair, pair, normal)
    offset = -_LOG_2PI - math.log(10.0)
    return found.raised(offset)


@cache
def himmelblau(cells: int = 1500) -> Problem:
    """Himmelblau's function as a density, on a grid of so many ``cells`` a side."""

    def log_density(x: _Array) -> _Array:
        a, b = x.T
        return -0.1 * ((a * a + b - 11.0) ** 2 + (a + b * b - 7.0) ** 2)

    def gradient(x: _Array) -> _Array:
        a, b = x.T
        first, second = a * a + b - 11.0, a + b * b - 7.0
        return -0.2 * np.stack([2.0 * a * first + second, first + 2.0 * b * second], axis=1)

    box = np.full(2, 6.0)
    return planar(
        "Himmelblau", log_density, gradient, (-box - 2.0, box + 2.0), unbounded(2), (-box, box), cells
    )


@cache
def eggbox(cells: int = 2500) -> Problem:
    """The eggbox on [0, 10 pi]^2, on a grid of so many ``cells`` a side."""

    def log_density(x: _Array) -> _Array:
        return (2.0 + np.cos(0.5 * x).prod(axis=1)) ** 5

    def gradient(x: _Array) -> _Array:
        c, s = np.cos(0.5 * x), np.sin(0.5 * x)
        outer = -2.5 * (2.0 + c.prod(axis=1)) ** 4
        return outer[:, None] * s * c[:, ::-1]

    bounds = np.zeros(2), np.full(2, 10.0 * math.pi)
    inside = bounds[0] + 0.5, bounds[1] - 0.5
    return planar("eggbox", log_density, gradient, bounds, bounds, inside, cells)


@cache
def shells(cells: int = 1500) -> Problem:
    """Two rings, on a grid of so many ``cells`` a side."""
    centres, radius, sd = np.array([[-3.5, 0.0], [3.5, 0.0]]), 2.0, 0.1

    def parts(x: _Array) -> tuple[_Array, _Array]:
        apart = x[:, None] - centres
        return apart, np.linalg.norm(apart, axis=2)

    def logs(distance: _Array) -> _Array:
        return -0.5 * ((distance - radius) / sd) ** 2 - 0.5 * _LOG_2PI - math.log(sd)

    def log_density(x: _Array) -> _Array:
        return np.logaddexp.reduce(logs(parts(x)[1]), axis=1)

    def gradient(x: _Array) -> _Array:
        apart, distance = parts(x)
        each = logs(distance)
        share = np.exp(each - np.logaddexp.reduce(each, axis=1)[:, None])
        pull = -share * (distance - radius) / (sd**2 * np.maximum(distance, 1e-300))
        return (pull[..., None] * apart).sum(1)

    box = np.full(2, 6.0)
    edge = box + 1.0
    return planar("shells", log_density, gradient, (-edge, edge), unbounded(2), (-box, box), cells)
