"""Recombination: few points with positive weights whose sums are those of many.

Given N points with weights mu_i >= 0 and m functions phi_j, Caratheodory's theorem says that at most
m + 1 of the points carry weights w_i >= 0 with the same total and the same

    sum_i w_i phi_j(x_i) = sum_i mu_i phi_j(x_i),    j = 1..m.

They are found by a walk: a direction v with sum_i v_i = 0 and sum_i v_i phi_j(x_i) = 0 changes
none of these sums, and w - t v is followed until a weight is zero. For N points the walk costs
little more than for 2 (m + 1): groups of points are eliminated by their barycentres, which halves
the number of points each time (Litterer & Lyons 2012; Tchernychova 2016).

A batch for quadrature takes as functions the leading eigenfunctions of the *posterior* covariance against the
measure, by Nystrom's method (Hayakawa, Oberhauser & Lyons 2022, "Positively weighted kernel quadrature via
subsampling"): f has the largest posterior variance along these, and the batch integrates each of them
exactly. The variance that the eigenfunctions leave out is a cost, which does not increase along the walk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, svd

from acquisition.search import Seed, mapped_sobol
from gp.arrays import Array, as_like, to_numpy
from gp.checks import as_points
from gp.measures import Empirical, Measure
from gp.posterior import Posterior

__all__ = ["Recombined", "WeightedBatch", "kernel_recombination", "recombine"]


@dataclass(frozen=True, eq=False)
class Recombined:
    """Points of a larger set, and their weights.

    Attributes
    ----------
    indices : (k,), ascending.
    weights : (k,), positive.
    """

    indices: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True, eq=False)
class WeightedBatch:
    """Points and positive weights with sum one, which approximate a measure.

    Attributes
    ----------
    x : (k, D), k at most the number that was asked for.
    weights : (k,)
    indices : (k,), the indices of the points among the candidates.
    """

    x: Array
    weights: Array
    indices: np.ndarray


def recombine(features: np.ndarray, weights: np.ndarray, *, cost: np.ndarray | None = None) -> Recombined:
    """Return at most m + 1 points with the same weighted sums of features and the same total.

    Parameters
    ----------
    features : (N, m), phi_j(x_i).
    weights : (N,), not negative and not all zero.
    cost : (N,); sum_i w_i cost_i does not increase along the walk.

    Raises
    ------
    ValueError
        For shapes that do not agree, entries that are not finite, or negative weights.
    """
    features, weights, cost = _checked(features, weights, cost)
    scale = np.maximum(np.abs(features).max(axis=0, initial=0.0), np.finfo(float).tiny)
    rows = np.column_stack([np.ones(len(weights)), features / scale])
    total = weights @ rows
    alive = np.flatnonzero(weights)
    weights = weights[alive]
    while len(alive) > 2 * rows.shape[1]:
        kept, weights = _halved(rows[alive], weights, cost[alive])
        alive, weights = alive[kept], weights[kept]
    weights = _walk(rows[alive], weights, cost[alive])
    kept = weights > 0
    alive, weights = alive[kept], _polished(rows[alive[kept]], weights[kept], total)
    order = np.argsort(alive)
    return Recombined(alive[order], weights[order])


def kernel_recombination(
    posterior: Posterior,
    measure: Measure,
    q: int,
    seed: Seed,
    *,
    candidates: int | Array = 1024,
    weights: np.ndarray | None = None,
    landmarks: int = 256,
) -> WeightedBatch:
    """Return at most q points with positive weights that integrate leading eigenfunctions exactly.

    Parameters
    ----------
    posterior : the posterior of f, whose covariance is decomposed.
    measure : the measure that is approximated.
    q : number of points; q - 1 eigenfunctions and the constant are integrated exactly.
    seed : seed of candidates and landmarks.
    candidates : the number of points drawn from the measure (all points of an empirical one are taken), or
        points (N, D).
    weights : (N,), of the candidates, not negative; by default equal. They need not be normalised.
    landmarks : candidates whose covariance is decomposed.
    """
    rng = np.random.default_rng(seed)
    points, mu = _candidates(measure, candidates, weights, rng)
    if not 1 <= q <= points.shape[0]:
        raise ValueError(f"q = {q!r}: there are {points.shape[0]} candidates to choose from")
    features, residual = _eigenfunctions(posterior, points, q - 1, landmarks, rng)
    chosen = recombine(features, mu / mu.sum(), cost=residual)
    at = points[chosen.indices, :]
    return WeightedBatch(at, as_like(chosen.weights, points), chosen.indices)


def _candidates(
    measure: Measure, candidates: int | Array, weights: np.ndarray | None, rng: np.random.Generator
) -> tuple[Array, np.ndarray]:
    if not isinstance(candidates, int | np.integer):
        points, default = as_points("candidates", candidates), None
    elif isinstance(measure, Empirical):
        points, default = measure.points, to_numpy(measure.weights).astype(float)
    else:
        points, default = mapped_sobol(measure, int(candidates), rng), None
    if weights is None:
        weights = np.full(points.shape[0], 1 / points.shape[0]) if default is None else default
    if np.shape(weights) != (points.shape[0],):
        raise ValueError(f"weights has shape {np.shape(weights)}, there are {points.shape[0]} candidates")
    return points, np.asarray(weights, dtype=float)


def _eigenfunctions(
    posterior: Posterior, points: Array, count: int, landmarks: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenfunctions (N, m) of the posterior covariance, and the remaining variances, (N,)."""
    size = points.shape[0]
    number = min(size, max(landmarks, count + 1))
    chosen = np.sort(rng.choice(size, number, replace=False))
    at = points[chosen, :]
    cross = to_numpy(posterior.covariance(points, at)).astype(float)
    gram = cross[chosen]
    values, vectors = eigh((gram + gram.T) / 2, subset_by_index=[number - max(count, 1), number - 1])
    # directions with eigenvalues of rounding size are left out
    real = values > number * np.finfo(float).eps * max(values[-1], 0.0)
    keep = np.flatnonzero(real)[::-1][:count]
    features = cross @ (vectors[:, keep] / np.sqrt(values[keep]))
    variance = to_numpy(posterior.variance(points)).astype(float)
    return features, np.maximum(variance - (features**2).sum(axis=1), 0.0)


def _halved(rows: np.ndarray, weights: np.ndarray, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points that remain after groups were recombined by their barycentres, and their weights."""
    groups = 2 * rows.shape[1]
    member = np.arange(len(weights)) * groups // len(weights)
    starts = np.searchsorted(member, np.arange(groups))
    mass = np.add.reduceat(weights, starts)
    centres = np.add.reduceat(weights[:, None] * rows, starts, axis=0) / mass[:, None]
    costs = np.add.reduceat(weights * cost, starts) / mass
    factor = _walk(centres, mass, costs) / mass
    return factor[member] > 0, weights * factor[member]


def _walk(rows: np.ndarray, weights: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return weights (G,) with at most rank(rows) of them positive and the same sums of rows.

    The directions that change no sum are kept as an orthonormal basis. After a weight has become zero, the
    basis is reflected so that all but one of its vectors vanish at that point, and this one is removed.
    """
    singular_vectors, singular, _ = svd(rows, full_matrices=True)
    rank = int(np.sum(singular > max(rows.shape) * np.finfo(float).eps * singular[0]))
    basis, weights = singular_vectors[:, rank:], weights.copy()
    while basis.shape[1]:
        direction = _downhill(basis, cost)
        forward = direction > 0
        steps = weights[forward] / direction[forward]
        first = np.flatnonzero(forward)[np.argmin(steps)]
        weights = np.maximum(weights - steps.min() * direction, 0.0)
        weights[first] = 0.0
        basis = _vanishing_at(basis, first)
    return weights


def _downhill(basis: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """A direction v in the span with v . cost >= 0 and some v_i > 0, so that w - t v costs no more."""
    projected = basis.T @ cost
    steepest: np.ndarray = basis @ projected
    # the projected cost is orthogonal to constants, so it has both signs unless it is rounding
    if np.abs(projected).max() > 1e-12 * np.abs(cost).max(initial=0.0) and steepest.max() > 0:
        return steepest
    direction: np.ndarray = basis[:, 0]
    return direction if direction.max() >= -direction.min() else -direction


def _vanishing_at(basis: np.ndarray, index: int) -> np.ndarray:
    """Return an orthonormal basis of the vectors in the span that vanish at ``index``, by one reflection."""
    row = basis[index].copy()
    norm = np.linalg.norm(row)
    if norm > 0:
        row[0] += norm if row[0] >= 0 else -norm
        basis = basis - np.outer(basis @ row, row) * (2 / (row @ row))
    rest = basis[:, 1:].copy()
    rest[index] = 0.0
    return rest


def _polished(rows: np.ndarray, weights: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Remove the rounding that many small steps left, unless that would make a weight negative."""
    correction = np.linalg.lstsq(rows.T, total - weights @ rows, rcond=None)[0]
    better: np.ndarray = weights + correction
    return better if np.all(better > 0) else weights


def _checked(
    features: np.ndarray, weights: np.ndarray, cost: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    features, weights = np.asarray(features, dtype=float), np.asarray(weights, dtype=float)
    if features.ndim != 2 or weights.shape != features.shape[:1]:
        raise ValueError(
            f"features has shape {features.shape}, weights {weights.shape}: give (N, m) and (N,)"
        )
    cost = np.zeros(len(weights)) if cost is None else np.asarray(cost, dtype=float)
    if cost.shape != weights.shape:
        raise ValueError(f"cost has shape {cost.shape}: give ({len(weights)},)")
    for name, values in (("features", features), ("weights", weights), ("cost", cost)):
        if not np.all(np.isfinite(values)):
            raise ValueError(f"{name} has entries that are NaN or infinite")
    if np.any(weights < 0) or not np.any(weights > 0):
        raise ValueError("weights has negative entries, or none is positive: give weights >= 0")
    return features, weights, cost
