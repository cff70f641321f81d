"""Nodes that are moved together to a local minimum of the remaining variance.

Choosing nodes one after the other is greedy, as the first nodes are those that would be best alone. The
variance of the targets that remains after q further nodes x_1..x_q is a smooth function of all q nodes. With
signals s (q, r), posterior covariance K (q, q) with noise, and U = K^-1 s,

    V = trace(S) - trace(s^T U),
    dV/dx_i = 2 sum_r U_ir ( sum_j U_jr dk(x_i, x_j)/dx_i + sum_o w_or dk(x_i, o)/dx_i - dz_r(x_i)/dx_i ),

with o the n earlier observations, whose quadrature weights are w = C^-T (C^-1 Z - H U). One evaluation costs
O(n^2 q + n q^2 + q^3), less than one search for a single node, and a quasi-Newton descent of log V needs some
tens of evaluations. :func:`plan` thus places *all remaining nodes* for a fraction of the cost of as many
greedy searches, and the variance under that kernel is lower. Whether the error of an integral is lower too
depends on how well the kernel is known. After the kernel has been fitted again, the remaining nodes of a plan
are the start of the next plan.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, minimize

from acquisition.batches import PointBatch
from acquisition.pointwise.acquisition import Acquisition, checked_points
from acquisition.pointwise.criterion import Informative
from acquisition.pointwise.predictor import Predictor
from acquisition.pointwise.targets import PosteriorTargets
from acquisition.pool import Pool
from acquisition.search import Seed, domain_of, mapped_sobol
from gp.arrays import Array, as_like, namespace, to_numpy
from gp.kernels.contraction import contracted_gradient
from gp.kernels.stationary import diagonal_matrix
from gp.linalg import NotPositiveDefiniteError, cholesky
from gp.measures.checks import require_count

__all__ = ["plan", "refine_jointly"]

_RESOLUTION = 1e-12
"""Share of the variance before the nodes, below which the remaining variance is rounding."""


def plan(
    acquisition: Acquisition,
    n: int,
    seed: Seed,
    *,
    starts: Array | None = None,
    radius: float = 4.0,
    max_iterations: int = 40,
) -> PointBatch:
    """Return n nodes that reduce the variance of the targets together, the most useful first.

    Parameters
    ----------
    acquisition : an acquisition whose criterion has targets, such as integral-variance reduction.
    n : the number of evaluations still to be made.
    seed : seed of the scrambled Sobol points from which the descent starts.
    starts : (m, D), points that replace the first m of them: the remaining nodes of an earlier plan.
    radius : half the width of the box, in standard deviations of the measure.
    max_iterations : the most iterations of the descent.

    Raises
    ------
    TypeError
        If the criterion has no targets.
    """
    _require_targets(acquisition)
    require_count(n)
    nodes = _starting_nodes(acquisition, n, seed, starts)
    moved = refine_jointly(acquisition, nodes, radius=radius, max_iterations=max_iterations)
    chosen = Pool.of(acquisition, moved).choose(n)
    return PointBatch(moved[chosen.indices, :], chosen.scores, moved[:0, :])


def _starting_nodes(acquisition: Acquisition, n: int, seed: Seed, starts: Array | None) -> Array:
    """The first n of ``starts``, and Sobol points where they are too few."""
    if starts is None or starts.shape[0] == 0:
        return mapped_sobol(acquisition.measure, n, seed)
    starts = checked_points(acquisition, starts)[:n, :]
    missing = n - starts.shape[0]
    if missing == 0:
        return starts
    fresh = mapped_sobol(acquisition.measure, missing, seed)
    return namespace(starts).concat([starts, fresh], axis=0)


def refine_jointly(
    acquisition: Acquisition, nodes: Array, *, radius: float = 4.0, max_iterations: int = 100
) -> Array:
    """Return nodes (q, D) after a joint descent of the remaining variance of the targets.

    Parameters
    ----------
    acquisition : an acquisition whose criterion has targets.
    nodes : (q, D), the start of the descent.
    radius : half the width of the box of the nodes, in standard deviations of the measure (see
        ``domain_of``).
    max_iterations : the most iterations of the descent.
    """
    predictor, targets = acquisition.predictor, _require_targets(acquisition)
    nodes = checked_points(acquisition, nodes)
    domain, shape = domain_of(acquisition.measure, radius), tuple(nodes.shape)
    combination = to_numpy(predictor.combination)
    total = float(np.sum(combination * (to_numpy(targets.covariance) @ combination)))

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        x = as_like(domain.points(flat.reshape(shape)), nodes)
        try:
            gain, slope = _gain(predictor, targets, x)
        except NotPositiveDefiniteError:
            # nodes so close together, or so far out, that rounding decides: the line search steps back
            return float(np.log(total)), np.zeros(flat.shape)
        remaining = max(total - gain, _RESOLUTION * total)
        return float(np.log(remaining)), (-slope @ domain.map.scale).reshape(-1) / remaining

    bounds = Bounds(np.tile(domain.lower, shape[0]), np.tile(domain.upper, shape[0]))
    ended = minimize(
        objective,
        domain.coordinates(to_numpy(nodes)).reshape(-1),
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
        options={"maxiter": max_iterations},
    )
    return as_like(domain.points(ended.x.reshape(shape)), nodes)


def _gain(predictor: Predictor, targets: PosteriorTargets, x: Array) -> tuple[float, np.ndarray]:
    """The reduction of the targets' variance by observations at x (q, D), and its gradient (q, D)."""
    kernel, at = predictor.posterior.kernel, predictor.moments(x)
    xp, whitened, signals = namespace(x), at.whitened, at.signals
    extra = diagonal_matrix(at.extra + predictor.rounding)
    factor = cholesky(kernel(x, x) - whitened.T @ whitened + extra, at.prior + at.extra)
    solved = factor.solve(factor.solve(signals), transposed=True)  # U, (q, r)
    earlier = predictor.posterior.factor.solve(predictor.solved_targets - whitened @ solved, transposed=True)
    slope = (
        targets.contracted_gradient(x, solved @ predictor.combination.T)
        - predictor.through_kernel(x, solved @ earlier.T)
        - contracted_gradient(kernel, x, x, solved @ solved.T)
    )
    return float(xp.sum(signals * solved)), 2 * to_numpy(slope)


def _require_targets(acquisition: Acquisition) -> PosteriorTargets:
    targets = acquisition.predictor.targets
    if targets is None or not isinstance(acquisition.criterion, Informative):
        raise TypeError(
            f"{type(acquisition.criterion).__name__} is not about targets: nodes are moved together to "
            "lower the variance of integrals, so bind IntegralVarianceReduction()"
        )
    return targets
