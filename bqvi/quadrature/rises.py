"""A surrogate of ln f: where f may be large and no node lies.

It is for an f that is given by its logarithm, and for values none of which is negative, with evidence for
narrow peaks. The surrogate of f has no information on a mode that all nodes have missed, as f is about zero
at each of them. ln f has: it rises towards a mode from far away. A smooth process is therefore fitted to it
as well, and of candidates in the region of the measure those are evaluated at which

    mean + 2 sd of ln f  +  ln p  >  the largest ln f p - ``within``,      sd > ``open``   (in nats)

the largest first, each sd given the candidates before it (an upper confidence bound; Srinivas et al. 2010).
About a known mode sds are small, and no such candidate remains. While there is one whose nearest node lies
far below the largest value, the region has not been explored, and the surrogate of f is not credible. Nor is
it if a large share of the integral may lie beyond the nodes (`Rises.beyond`), where the surrogate of f has no
slope; the share is part of the standard deviation.

A mode so narrow that ln f rises to it in a part of the region that no node has reached is not found by this.
Where f is given by its logarithm, nodes are therefore placed, once the surrogate predicts, where they reveal
the largest share of the modes that are hidden (:mod:`bqvi.unseen`), with widths in units of the Gaussian
about the highest node. As long as one reveals more than ``HIDDEN.worth``, or a low node lies far above what
all others predict, the surrogate of f is not credible. What hidden modes would add stands beside the sd.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import cdist

from acquisition.conditioned import ConditionedPool
from bqvi.quadrature.nodes import conditioned, whitened_cross
from bqvi.quadrature.peaks import PeakFamily, peak_through
from bqvi.quadrature.settings import DESIGN, RISES, ROUGHLY
from bqvi.quadrature.state import IntegrationProblem, IntegrationState
from bqvi.quadrature.surrogate import (
    SMOOTH,
    CandidateProcess,
    StandardData,
    fitted,
    identity,
    starting_points,
    surrogate,
)
from bqvi.runs.settings import ENGINES
from bqvi.unseen import HIDDEN, Evaluated, expected_rise
from gp.fixed_points.gram import MOST_PAIRED
from gp.low_discrepancy import normal_sobol, shifted_sobol
from gp.matrices import spectrum
from gp.measures import Measure, Uniform


@dataclass(frozen=True, eq=False)
class _Smooth:
    """A process of ln f, fitted to some of the nodes.

    Attributes
    ----------
    rows : (m,), those nodes. member : the process of (ln f - level) / unit. level, unit : in nats.
    """

    rows: np.ndarray
    member: CandidateProcess
    level: float
    unit: float

    @classmethod
    def of(cls, measure: Measure, u: np.ndarray, logs: np.ndarray, rows: np.ndarray) -> _Smooth | None:
        """Fit it to ln f (n,) at those ``rows`` of nodes u (n, D); None where they determine nothing."""
        u, logs = u[rows], logs[rows]
        if len(rows) < DESIGN.first[0] // 2 or not np.ptp(logs) > 0:
            return None
        level, unit = float(logs.mean()), float(logs.std())
        data, chart = StandardData(u, ((logs - level) / unit)[:, None]), identity(measure)
        starts = starting_points(u.shape[1], False)
        first = surrogate("logarithm", chart, SMOOTH, data, starts[0])
        return cls(rows, fitted([first.at(start) for start in starts], ROUGHLY), level, unit)

    def worst(self, count: int) -> np.ndarray:
        """Up to ``count`` rows with the largest errors, each left out, over their standard deviations.

        An error counts above ``RISES.open`` nats and twice its standard deviation.
        """
        errors, sds = (np.abs(part[:, 0]) for part in self.member.process.leave_one_out())
        wrong = np.flatnonzero((self.unit * errors > RISES.open) & (errors > 2 * sds))
        return self.rows[wrong[np.argsort(-(errors / sds)[wrong], kind="stable")[:count]]]

    def at(self, u: np.ndarray) -> tuple[ConditionedPool, np.ndarray]:
        """The posterior moments at points u (M, D), and the mean of ln f there, (M,)."""
        member = self.member
        v = member.chart.forward(u)
        whitened = whitened_cross(member, v)
        nothing = np.zeros(len(v)), np.zeros(len(member.data))  # there is no functional of interest
        state = conditioned(member, v, whitened, *nothing)
        mean = member.process.mean[0] + whitened.T @ member.process.residual[:, 0]
        return state, self.level + self.unit * mean

    def sd(self, state: ConditionedPool) -> np.ndarray:
        """The standard deviations of ln f at the points of ``state``, (M,)."""
        process = self.member.process
        scale = float(process.scales[0] * process.inflation)
        return self.unit * np.sqrt(np.maximum(scale * state.variance, 0.0))


@dataclass(frozen=True, eq=False)
class Rises:
    """The surrogate of ln f.

    Attributes
    ----------
    measure : the measure in standard coordinates. u : (n, D), the nodes. logs : (n,), ln f at these.
    parts : the process everywhere first, then those of neighbours.
    """

    measure: Measure
    u: np.ndarray
    logs: np.ndarray
    parts: tuple[_Smooth, ...]

    @classmethod
    def of(cls, measure: Measure, u: np.ndarray, logs: np.ndarray) -> Rises | None:
        """Fit it to ln f (n,) at nodes u (n, D) in standard coordinates; None where too few are finite.

        The ``MOST_PAIRED`` highest nodes are used.
        """
        finite = np.flatnonzero(np.isfinite(logs))
        order = np.argsort(-logs[finite], kind="stable")[:MOST_PAIRED]
        u, logs = u[finite[order]], logs[finite[order]]
        whole = _Smooth.of(measure, u, logs, np.arange(len(u)))
        if whole is None:
            return None
        parts, count = [whole], RISES.neighbours * math.comb(u.shape[1] + 2, 2)
        if len(u) > count:
            for row in whole.worst(RISES.centres):
                near = np.argsort(cdist(u[[row]], u)[0], kind="stable")[:count]
                part = _Smooth.of(measure, u, logs, near)
                parts += [] if part is None else [part]
        return cls(measure, u, logs, tuple(parts))

    def nodes(self, count: int, waiting: np.ndarray, seed: int) -> np.ndarray:
        """Return up to ``count`` nodes (k, D) where f may be large, beside ``waiting`` (m, D)."""
        bounds = _Bounds.of(self, np.concatenate([waiting, self._candidates(seed)]))
        for index in range(len(waiting)):
            bounds = bounds.given(index)
        chosen: list[int] = []
        while len(chosen) < count:
            bound = bounds.values(RISES.open)
            best = int(np.argmax(bound))
            if bound[best] < self._relevant or best < len(waiting) or best in chosen:
                break
            chosen.append(best)
            bounds = bounds.given(best)
        return bounds.u[chosen]

    def surprised(self) -> bool:
        """Whether ln f at a node far below the largest value lies far above what all others predict.

        It may be the flank of a mode that no other node has reached.
        """
        part = self.parts[0]
        errors, sds = (part.unit * each[:, 0] for each in part.member.process.leave_one_out())
        low = (self.logs + self.log_density(self.u))[part.rows] < self._relevant
        return bool(np.any(low & (errors > np.maximum(6.0 * RISES.open, HIDDEN.surprising * sds))))

    def remain(self, seed: int) -> bool:
        """Whether f may be large at a place whose nearest node lies far below the largest value."""
        candidates = self._candidates(seed)
        high = candidates[_Bounds.of(self, candidates).values(RISES.open) > self._relevant]
        nearest = cdist(high, self.u).argmin(axis=1)
        values = (self.logs + self.log_density(self.u))[nearest]
        return bool(np.any(values < self._relevant - RISES.within))

    def beyond(self, log_integral: float) -> float:
        """The share of the integral, whose logarithm is given, beyond the ball with nine tenths of the nodes.

        With S the area of the unit sphere, A = S r^D E[f p] over that of radius r is the share per change of
        ln r. It falls like r^-alpha, by ln f at r and r / 1.1, and A / alpha lies beyond.
        """
        if isinstance(self.measure, Uniform):
            return 0.0
        dimension, at = self.u.shape[1], self.parts[0].at
        radius = math.sqrt(float(np.quantile(np.sum(self.u**2, axis=1), 0.9)))
        ends = normal_sobol(dimension, ENGINES.draws // RISES.centres, 0)
        ends *= radius / np.linalg.norm(ends, axis=1)[:, None]
        logs, inner = at(ends)[1], at(ends / 1.1)[1]
        log_area = math.log(2.0) + 0.5 * dimension * math.log(math.pi) - math.lgamma(0.5 * dimension)
        sizes = logs + self.log_density(ends) + log_area + dimension * math.log(radius) - log_integral
        shares = np.exp(np.clip(sizes, -700.0, 300.0))
        falls = radius**2 - dimension - shares @ (logs - inner) / math.log(1.1) / shares.sum()
        return float(shares.mean() / falls) if falls > 0.0 else math.inf

    @property
    def _relevant(self) -> float:
        """The ln f p from which a mode may have a share of the integral."""
        return float(np.max(self.logs + self.log_density(self.u))) - RISES.within

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """ln p (m,) at points u (m, D)."""
        return np.asarray(self.measure.log_density(u), float)

    def _candidates(self, seed: int) -> np.ndarray:
        """Points of the measure, and more about those with the largest bounds."""
        dimension = self.measure.dimension
        wide = self.measure.from_unit_cube(shifted_sobol(dimension, ENGINES.draws, seed))
        centres = wide[np.argsort(-_Bounds.of(self, wide).values())[: RISES.centres]]
        steps = normal_sobol(dimension, ENGINES.draws // RISES.centres, seed)
        widths = np.sort(cdist(wide, centres), axis=0)[2 * dimension]  # about the distance of candidates
        near = np.concatenate([c + w * steps for c, w in zip(centres, widths, strict=True)])
        inside = np.isfinite(self.log_density(near))
        return np.concatenate([wide, near[inside]])


@dataclass(frozen=True, eq=False)
class _Bounds:
    """Upper confidence bounds of ln f at candidates, which fall as candidates are evaluated.

    Attributes
    ----------
    u : (M, D), the candidates. log_density : (M,), ln p there. parts : the processes.
    apply : (M,) for each, the candidates where it counts.
    means : (M,) for each, the means of ln f. states : for each, the moments given those evaluated.
    """

    u: np.ndarray
    log_density: np.ndarray
    parts: tuple[_Smooth, ...]
    apply: tuple[np.ndarray, ...]
    means: tuple[np.ndarray, ...]
    states: tuple[ConditionedPool, ...]

    @classmethod
    def of(cls, rises: Rises, u: np.ndarray) -> _Bounds:
        """Those before any candidate is evaluated."""
        nearest = cdist(u, rises.u).argmin(axis=1)
        apply = tuple(np.isin(nearest, part.rows) for part in rises.parts)
        states, means = zip(*(part.at(u) for part in rises.parts), strict=True)
        return cls(u, rises.log_density(u), rises.parts, apply, means, states)

    def given(self, index: int) -> _Bounds:
        """The bounds once the candidate ``index`` is evaluated."""
        return replace(self, states=tuple(state.given(index) for state in self.states))

    def values(self, least_sd: float = 0.0) -> np.ndarray:
        """mean + 2 sd + ln p (M,), the largest of processes with that sd or more; -inf where none has it."""
        bound = np.full(len(self.u), -np.inf)
        for part, apply, mean, state in zip(self.parts, self.apply, self.means, self.states, strict=True):
            sd = part.sd(state)
            bound = np.where(apply & (sd >= least_sd), np.maximum(bound, mean + 2 * sd), bound)
        return bound + self.log_density


def nodes_of_logarithms(
    problem: IntegrationProblem, state: IntegrationState, count: int, seed: int, resolved: bool
) -> np.ndarray:
    """Return nodes (k, D), k <= ``count``, at which ln f may be large, or where modes may be hidden.

    They are in the standard coordinates of the ``problem``, and there are none without a surrogate of ln f.
    Hidden modes of an f that is given by its logarithm are searched for where the ``state``'s surrogate
    predicts well, ``resolved``.
    """
    rises = _rises(problem, state)
    if rises is None:
        return np.zeros((0, problem.measure.dimension))
    most = max(int(DESIGN.checks * count), 1)
    high = rises.nodes(most, state.pending_u, seed)
    return np.concatenate([high, _hidden(problem, state, count // 2)[1]]) if resolved else high


def doubts(
    problem: IntegrationProblem, state: IntegrationState, seed: int, log_integral: float
) -> tuple[bool, float]:
    """Whether the logarithms leave room for a mode that no node has shown, and the share beyond the nodes.

    They are by the ``state`` of a ``problem`` with the integral exp(``log_integral``); False and 0 where
    there is no surrogate of ln f, and 0 where f is not given by its logarithm.
    """
    rises = _rises(problem, state)
    if rises is None:
        return False, 0.0
    doubtful = rises.remain(seed) or rises.surprised() or len(_hidden(problem, state, 1)[1]) > 0
    return doubtful, rises.beyond(log_integral) if problem.is_given_by_logarithms else 0.0


def unseen_modes(problem: IntegrationProblem, state: IntegrationState) -> tuple[float, float]:
    """The nats that modes to which no node leads, and those that no node would show, are expected to add.

    They are 0 where f is not given by its logarithm. Nodes of the sequence where f is zero lead to no mode.
    """
    if not problem.is_given_by_logarithms:
        return 0.0, 0.0
    leads = np.isfinite(state.values[state.sobol, 0])
    unseen = expected_rise(0.0, int(leads.sum()), nowhere=int((~leads).sum()))
    return unseen, expected_rise(_hidden(problem, state, 0)[0])


def _hidden(problem: IntegrationProblem, state: IntegrationState, most: int) -> tuple[float, np.ndarray]:
    """The share of modes that no node has noticed, and up to ``most`` nodes (k, D) that reveal many of them.

    There are none of these where f is not given by its logarithm.
    Widths are in units of the Gaussian about the highest node that a quadratic function of the logarithms at
    the nodes nearest to it describes; it is no wider than the measure.
    """
    measure, dimension = problem.standard.measure, problem.measure.dimension
    u = np.concatenate([state.u, state.pending_u])  # what is under evaluation counts as predicted
    count = RISES.neighbours * math.comb(dimension + 2, 2)
    places = measure.from_unit_cube(shifted_sobol(dimension, ENGINES.draws, problem.seed))
    sizes = np.append(state.values[:, 0], np.full(len(state.pending_u), -np.inf))
    sizes += np.asarray(measure.log_density(u), float)
    good = np.flatnonzero(np.isfinite(sizes))
    if len(good) < count or not problem.is_given_by_logarithms:
        return 1.0, places[:0]
    best = good[sizes[good].argmax()]
    near = good[np.argsort(cdist(u[[best]], u[good])[0], kind="stable")[:count]]
    precision = peak_through(u[near] - u[best], sizes[near])[1]
    curvatures, axes = spectrum(precision, 1.0 / np.max(np.diag(measure.covariance)))
    root = axes * np.sqrt(curvatures)
    outlined, there = (0.5 * cdist(u[[best]] @ root, x @ root)[0] ** 2 for x in (u, places))
    outside = 2.0 * there > dimension + 2.0 * math.sqrt(2.0 * dimension)
    depths = np.where(np.isfinite(sizes), sizes[best] - sizes, np.inf)
    share, chosen, gains = Evaluated(u, depths, outlined, root.T[None]).search(places, there, outside, most)
    return share, places[[i for i, gain in zip(chosen, gains, strict=True) if gain > HIDDEN.worth]]


def _rises(problem: IntegrationProblem, state: IntegrationState) -> Rises | None:
    """The surrogate of ln f; None if neither f is given by ln f, nor is f >= 0 with evidence for peaks."""
    values = state.values
    if not problem.is_given_by_logarithms:
        peaked = state.ensemble is not None and isinstance(state.ensemble.best.family, PeakFamily)
        if not peaked or problem.noise_sd is not None or values.shape[1] > 1 or np.min(values) < 0.0:
            return None
        with np.errstate(divide="ignore"):
            values = np.log(values)
    return Rises.of(problem.standard.measure, state.u, values[:, 0])
