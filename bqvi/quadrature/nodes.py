"""The choice of the next nodes.

By default nodes are taken greedily from a pool of candidates so that the variance of the integral falls most
(thesis Eq. 7.17), by :mod:`acquisition.conditioned`: k nodes from M candidates cost O(n^2 M + k n M), less
than one fit. The pool covers the mass of the measure and the region around it, since nodes in the tails
determine a smooth integrand further in; for a finite measure the pool consists of its points.

Any criterion of :mod:`acquisition.pointwise` may be used instead. It is maximised over a continuous domain by
its gradient, one node after the other; a node that is not evaluated yet has the surrogate's mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from acquisition.conditioned import ConditionedPool, greedy, variance_reduction
from acquisition.pointwise import Criterion, bind
from acquisition.search import ContinuousSearch
from bqvi.quadrature.peaks import PeakFamily, drawn
from bqvi.quadrature.settings import DESIGN
from bqvi.quadrature.surrogate import CandidateProcess, Cube
from bqvi.runs.settings import ENGINES
from gp.low_discrepancy import normal_sobol, shifted_sobol
from gp.measures import Empirical, Measure, Uniform
from gp.observations import Values, covariance


def pool(
    measure: Measure, member: CandidateProcess, seed: int, taken: np.ndarray | None = None, log: bool = False
) -> np.ndarray:
    """Return candidates in standard coordinates, (M, D), for the surrogate ``member``.

    ``taken`` are the present nodes, (n, D), as points of a finite measure are evaluated once only. They lie
    up to 2.5 times as far out as draws; where f is given by its ``log`` its fall shows what lies beyond.
    """
    if isinstance(measure, Empirical):
        return _remaining(measure, taken, seed)
    chart, cube_points = member.chart, shifted_sobol(measure.dimension, ENGINES.draws, seed)
    if isinstance(chart, Cube):
        return chart.backward(chart.measure.from_unit_cube(cube_points))
    u = measure.from_unit_cube(cube_points)
    if not isinstance(measure, Uniform):
        far = u[len(u) // 2 :]
        far *= ENGINES.wider if log else np.linspace(1.0, 2.5, len(far))[:, None]
    if isinstance(member.family, PeakFamily):
        near = drawn(member.family, normal_sobol(measure.dimension, ENGINES.draws, seed))
        return np.concatenate([u, chart.backward(near)])
    return u


def _remaining(measure: Empirical, taken: np.ndarray | None, seed: int) -> np.ndarray:
    seen = set() if taken is None else {tuple(row) for row in taken}
    found = np.array([row for row in np.unique(measure.points, axis=0) if tuple(row) not in seen])
    if len(found) > ENGINES.draws:
        found = np.random.default_rng(seed).permutation(found)[: ENGINES.draws]
    return found.reshape(-1, measure.dimension)


def outermost(measure: Measure, u: np.ndarray, seed: int) -> np.ndarray:
    """Return a node (1, D) beside the face of a box that is farthest from nodes u (n, D), else none, (0, D).

    Beyond the outermost nodes a surrogate extrapolates, and a smooth one sees no need of nodes there. Whether
    f is as smooth up to the face shows at a node on the last part of the way. There is none where n evenly
    spread nodes would leave as much room.
    """
    if not isinstance(measure, Uniform):
        return u[:0]
    room = np.stack([u - measure.lower, measure.upper - u]).min(axis=1) / measure.width
    side, axis = np.unravel_index(np.argmax(room), room.shape)
    if room[side, axis] * len(u) < 0.5:
        return u[:0]
    cube = np.random.default_rng(seed).random((1, measure.dimension))
    cube[0, axis] = abs(side - DESIGN.outermost * room[side, axis])
    return measure.from_unit_cube(cube)


def whitened_cross(surrogate: CandidateProcess, v: np.ndarray) -> np.ndarray:
    """Return C^-1 k(X, v), (n, M), for v (M, D) in the chart; C C^T is the data's covariance."""
    return surrogate.process.factor.solve(covariance(surrogate.kernel, surrogate.view.observed, Values(v)))


def conditioned(
    surrogate: CandidateProcess, v: np.ndarray, whitened: np.ndarray, cross: np.ndarray, with_data: np.ndarray
) -> ConditionedPool:
    """Return the posterior moments at v (M, D) in the chart, for unit scale, with a functional of interest.

    Parameters
    ----------
    whitened : the whitened covariances of the data with f(v), (n, M).
    cross : prior covariances of f(v) with the functional, (M,).
    with_data : prior covariances of the data with the functional, (n,).
    """
    kernel = surrogate.kernel
    prior = kernel.diagonal(v)
    return ConditionedPool(
        columns=lambda j: kernel(v[j : j + 1], v)[0] - whitened[:, j] @ whitened,
        variance=prior - np.einsum("nm,nm->m", whitened, whitened),
        noise=np.maximum(surrogate.tau, 1e-12 * prior),
        signals=(cross - whitened.T @ surrogate.process.factor.solve(with_data))[:, None],
    )


def among(
    state: ConditionedPool,
    count: int,
    given: int,
    score: Callable[[ConditionedPool], np.ndarray] = variance_reduction,
) -> np.ndarray:
    """Return the indices of ``count`` candidates, the first ``given`` of which will be evaluated anyway.

    Parameters
    ----------
    state : m candidates, conditioned on the nodes so far. count : the number of candidates that are chosen.
    given : the number of first candidates under evaluation. score : a function of the state that returns the
        gain (m,) of each candidate.
    """
    for index in range(given):
        state = state.given(index)
    number = min(count, len(state.variance) - given)
    return np.array(greedy(state, number, score, closed=range(given)), dtype=int)


def by_variance(
    surrogate: CandidateProcess, candidates: np.ndarray, count: int, given: int = 0
) -> np.ndarray:
    """Return the indices of ``count`` candidates (M, D) that reduce the integral's variance most.

    The first ``given`` of the candidates will be evaluated anyway.
    """
    v = surrogate.chart.forward(candidates)
    whitened = whitened_cross(surrogate, v)
    state = conditioned(surrogate, v, whitened, surrogate.embedding.mean(v), surrogate.with_integral)
    return among(state, count, given)


def by_criterion(
    surrogate: CandidateProcess,
    criterion: Criterion,
    count: int,
    seed: int,
    among: np.ndarray | None = None,
    waiting: Sequence[np.ndarray] | np.ndarray = (),
) -> np.ndarray:
    """Return ``count`` nodes in standard coordinates, (count, D), by a criterion of the user's.

    ``among`` are the points (M, D) of a finite measure that are not yet nodes; without them the domain is
    searched. ``waiting`` are nodes (k, D) under evaluation.
    """
    posterior = surrogate.posterior()
    noise = surrogate.tau * float(surrogate.process.scales[0])
    for u in waiting:
        x = surrogate.chart.forward(u[None])
        posterior = posterior.extend(x, posterior.mean(x), np.array([noise]))
    search, rng = ContinuousSearch(), np.random.default_rng(seed)
    chosen = []
    for _ in range(count):
        acquisition = bind(criterion, posterior, surrogate.chart.measure, noise=noise)
        if among is None:
            x = search.maximise(acquisition, rng).x
        else:
            v = surrogate.chart.forward(among)
            best = int(np.argmax(acquisition.score(v)))
            x, among = v[best : best + 1], np.delete(among, best, axis=0)
        chosen.append(x[0])
        posterior = posterior.extend(x, posterior.mean(x), np.array([noise]))
    return surrogate.chart.backward(np.array(chosen))
