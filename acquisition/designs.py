"""Points chosen before f is evaluated, for any measure.

sobol                    scrambled Sobol points, mapped to the measure
antithetic_orthogonal    random points in orthogonal frames, each with its mirror image
minimum_variance         nodes whose integral variance under a kernel is small

The first two are unbiased: each point follows the measure exactly, so plain averages over them
estimate integrals without bias. The last is for weights of Bayesian quadrature (or a surrogate);
apart from its candidates it is deterministic given the kernel.

All are mapped from the unit cube or from standard normal space, so they serve every measure with a map from
the cube: mixtures, boxes, correlated Gaussians. `normal_frames` returns points in standard normal
coordinates.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from acquisition.joint import refine_jointly
from acquisition.pointwise.acquisition import bind
from acquisition.pointwise.variance_reduction import IntegralVarianceReduction
from acquisition.pool import Pool
from acquisition.search import Seed, mapped_sobol
from gp.arrays import Array, as_like
from gp.kernels import Kernel
from gp.measures import Measure
from gp.measures.checks import require_count
from gp.process import GaussianProcess

__all__ = [
    "antithetic_orthogonal",
    "minimum_variance",
    "normal_frames",
    "random_rotation",
    "sobol",
]


def sobol(measure: Measure, n: int, seed: Seed) -> Array:
    """Return n scrambled Sobol points, mapped to the measure, (n, D).

    Averages over them are unbiased for any n. Where n is a power of two the points are balanced, and the
    error is near 1/n for smooth integrands (Owen 1995). They are the first n of the next power of two.
    """
    return mapped_sobol(measure, n, seed)


def antithetic_orthogonal(measure: Measure, n: int, seed: Seed) -> Array:
    """Return n points, (n, D): random orthogonal frames with random lengths, and their mirrors.

    In standard normal coordinates each block is r_d q_d and -r_d q_d, d = 1..D, with q a random
    orthogonal matrix (Haar) and r_d independent chi_D lengths, so that each point is N(0, I) alone
    (Yu et al. 2016, "Orthogonal random features"). Each pair integrates odd functions of those coordinates
    exactly; for an odd n the last point has no mirror image.
    """
    require_count(n)
    cube = ndtr(normal_frames(n, measure.dimension, np.random.default_rng(seed)))
    return measure.from_unit_cube(as_like(cube, measure.mean))


def normal_frames(n: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Return the points of `antithetic_orthogonal` in standard normal coordinates, (n, D)."""
    blocks = []
    for _ in range(-(-n // (2 * dimension))):
        frame = random_rotation(dimension, rng)
        lengths = np.sqrt(rng.chisquare(dimension, size=dimension))
        points = lengths[:, None] * frame
        blocks.append(np.stack([points, -points], axis=1).reshape(-1, dimension))
    return np.concatenate(blocks)[:n]


def minimum_variance(
    kernel: Kernel,
    measure: Measure,
    n: int,
    seed: Seed,
    *,
    candidates: int = 512,
    max_iterations: int = 100,
) -> Array:
    """Return n nodes, (n, D), for which the variance of the integral is at a local minimum.

    The variance does not depend on f, so the nodes are known beforehand. They are chosen one after
    the other from Sobol candidates (sequential Bayesian quadrature, Huszar & Duvenaud 2012), and then
    moved together (:mod:`acquisition.joint`). O(candidates n^2 + iterations n^3).

    Parameters
    ----------
    kernel : the kernel of the prior, in the units of the measure's points.
    seed : seed of the candidates.
    candidates : the number of Sobol points among which the first nodes are chosen; at least n.
    max_iterations : the most iterations of the joint descent; 0 keeps the greedy nodes.
    """
    require_count(n)
    if candidates < n:
        raise ValueError(f"candidates = {candidates}, n = {n}: give at least n")
    points = sobol(measure, candidates, seed)
    prior = GaussianProcess(kernel).condition(points[:0, :], 0.0 * points[:0, 0])
    bound = bind(IntegralVarianceReduction(), prior, measure)
    nodes = points[Pool.of(bound, points).choose(n).indices, :]
    if max_iterations == 0:
        return nodes
    return refine_jointly(bound, nodes, max_iterations=max_iterations)


def random_rotation(dimension: int, rng: np.random.Generator) -> np.ndarray:
    """A Haar-distributed orthogonal matrix (D, D): QR of normals, with the signs made unique."""
    q, r = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    return q * np.sign(np.diagonal(r))
