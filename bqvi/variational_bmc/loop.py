"""The loop: learn, climb, weigh, look, evaluate.

    evaluations --believed--> data --fit--> surrogate --climb--> q --correct--> evidence, draws
         ^                                                                          |
         |______________________________ evaluate <---- look <----------------------|

`learnt` is the upper row, a function of what has been evaluated and of the state before; `run` alternates it
with evaluations. All randomness comes from (seed, number of evaluations), so a run that is stopped and
resumed draws the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp
from scipy.stats import qmc

from bqvi.variational_bmc.annealing import annealed
from bqvi.variational_bmc.coordinates import Coordinates
from bqvi.variational_bmc.correction import Correction, Proposal, correct, polished, weighed
from bqvi.variational_bmc.feasibility import Feasibility
from bqvi.variational_bmc.frame import Frame, alternative, elite, fitting
from bqvi.variational_bmc.hyperuncertainty import spread
from bqvi.variational_bmc.laplace import ascended, laplace
from bqvi.variational_bmc.looking import look
from bqvi.variational_bmc.surrogate import Data, Surrogate, believed, fit
from bqvi.variational_bmc.target import Evaluations
from bqvi.variational_bmc.variational import Box, Mixture, base_points, climb, entropy, grown, pruned

Vector = np.ndarray

_DEEP, _DEEPEST = 10.0, 1000.0
"""Nats below the best, for each dimension, as far as values are believed as they are: at first, and at most.

What lies deeper than the first has no say in where the posterior may be.
"""
_SHALLOWEST = 15.0
"""Nats beyond D / 2, the mean depth of a Gaussian's draws, as far as they are believed at least."""
_REMEMBERED, _MOST_SURPRISING = 30, 25.0
_MANY, _OFTEN = 250, 1.08
"""Beyond so many observations hyperparameters are fitted when evaluations have grown by this factor."""
_SHALLOW, _UNSEEN = 7.0, 4.0
"""Nats below the top, beyond D / 2, of a mode or a tail; nats by which it exceeds the draws' density."""
_DOUBT = 0.01
"""Share of the mass at the edge of what is feasible that is worth an evaluation a step."""
_KNOWN = 0.01
"""Variance of f, in squared nats, where another evaluation is of little use."""
UNSETTLED = 1.0
"""Divergence between successive posteriors of a run that is still looking for it."""
LEAST_EFFECTIVE = 20.0
"""Draws that have to carry the weight."""


@dataclass(frozen=True)
class Settings:
    """What the loop may do; defaults were chosen on problems other than those reported.

    Attributes
    ----------
    batch : evaluations a step. few : until the posterior has been found; by default 2, with gradients 1.
    draws : of the correction. final_draws : of the last one.
    samples : base points of the entropy, in all. climbs, fits : iterations of L-BFGS a step.
    learnt_noise : whether values are noisy and nobody knows how much.
    variational : whether nodes are sought by q (VIQR), not by the surrogate's density (IMIQR).
    """

    batch: int = 5
    few: int | None = None
    draws: int = 1024
    final_draws: int = 8192
    samples: int = 1000
    climbs: int = 16
    fits: int = 15
    learnt_noise: bool = False
    variational: bool = False


@dataclass(frozen=True)
class Row:
    """One record."""

    n_evaluations: int
    seconds: float
    elbo: float
    elbo_sd: float
    log_evidence: float
    log_evidence_sd: float
    effective: float
    shape: float
    components: int
    divergence: float
    """Gaussianised symmetric KL between successive posteriors."""
    surprise: float
    """Mean squared standardised error of the last batch's predictions."""


@dataclass(frozen=True, eq=False)
class State:
    """All that a run is, as arrays and numbers.

    Attributes
    ----------
    evaluations : in the coordinates.
    predicted : (n, 2), mean and variance that each value had before it was seen; NaN for the first.
    pending : (m, D), points that were chosen and wait to be evaluated, what is predicted there (m, 2).
    frame, theta, q, reach : the surrogate's frame, its hyperparameters, the mixture in the frame, and how far
        down values are believed.
    mean, covariance : moments of the posterior, in the coordinates.
    fitted_at : how many evaluations there were when hyperparameters were last fitted.
    rows : what was reached.
    coordinates : what the coordinates mean; where they are not known, nothing checks a resumed run.
    """

    evaluations: Evaluations
    predicted: Vector
    pending: Vector
    pending_predicted: Vector
    frame: Frame
    theta: Vector | None = None
    q: Mixture | None = None
    reach: float | None = None
    mean: Vector | None = None
    covariance: Vector | None = None
    fitted_at: int = 0
    rows: tuple[Row, ...] = ()
    seconds: float = 0.0
    coordinates: Coordinates | None = None

    def __len__(self) -> int:
        return len(self.evaluations)


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a state knows: the surrogate, q by its two terms, and the correction."""

    surrogate: Surrogate
    q: Mixture
    expected: float
    entropy: float
    found: Correction


def begun(points: Vector, made: Evaluations) -> State:
    """A state with evaluations made before, if any, and the first points (m, D) to evaluate.

    The plausible box is [-1, 1]^D, two standard deviations to either side.
    """
    dimension = points.shape[1]
    frame = Frame(np.zeros(dimension), 0.5 * np.eye(dimension))
    unknown = np.full((len(made), 2), np.nan)
    return State(made, unknown, points, np.full((len(points), 2), np.nan), frame)


def evaluated(state: State, more: Evaluations) -> State:
    """The state once the first of its pending points have been evaluated."""
    count = len(more)
    return replace(
        state,
        evaluations=state.evaluations.joined(more),
        predicted=np.concatenate([state.predicted, state.pending_predicted[:count]]),
        pending=state.pending[count:],
        pending_predicted=state.pending_predicted[count:],
    )


def data_in(state: State, frame: Frame, reach: float, settings: Settings) -> Data:
    """The evaluations that did not fail, as a surrogate takes them."""
    made = state.evaluations[~state.evaluations.failed]
    gradients = None if made.gradients is None else frame.slopes_into(made.gradients)
    points = frame.into(made.points)
    noise = made.noise_variance
    if noise is not None and np.isnan(noise).any():
        # handed in without: they come from the same function, and are as noisy as the others
        noise = np.where(np.isnan(noise), np.nanmedian(noise) if np.isfinite(noise).any() else 0.0, noise)
    return believed(points, made.values, gradients, noise, reach, settings.learnt_noise)


def learn(state: State, settings: Settings, seed: int, final: bool = False) -> tuple[State, Learnt]:
    """Fit, climb and weigh; the state keeps what the next step starts from.

    Where hardly a draw of q carries weight, q and the frame start again from Laplace's approximation.
    """
    state, learnt = _learn(state, settings, seed, final)
    if learnt.found.effective > LEAST_EFFECTIVE:
        return state, learnt
    again = _restarted(state, learnt)
    if again is not None:
        state, learnt = _learn(again, settings, seed, final, restarted=True)
        if learnt.found.effective > LEAST_EFFECTIVE:
            return state, learnt
    mean, covariance = _spread(state, learnt.surrogate, seed)
    again = replace(state, mean=mean, covariance=covariance, q=None)
    state, learnt = _learn(again, settings, seed, final, climbing=False, restarted=True)
    return replace(state, mean=mean, covariance=covariance), learnt


def _spread(state: State, surrogate: Surrogate, seed: int) -> tuple[Vector, Vector]:
    """From the best evaluations, with gradients as far as the surrogate can tell.

    From values alone it can tell little beside a thin ellipsoid, and the best evaluations lead along it.
    """
    good = state.evaluations[~state.evaluations.failed]
    frame = state.frame
    mean, covariance = elite(good.points, good.values)
    if good.gradients is None:
        return mean, covariance
    turn = np.linalg.inv(frame.scale)
    feasible = Feasibility.of(frame.into(state.evaluations.points), state.evaluations.failed)
    mean, covariance = annealed(
        surrogate, frame.into(mean[None])[0], turn @ covariance @ turn.T, seed, feasible
    )
    return frame.out(mean[None])[0], frame.scale @ covariance @ frame.scale.T


def _restarted(state: State, learnt: Learnt) -> State | None:
    data = learnt.surrogate.data
    best = data.points[np.argmax(data.values)]
    widest = None if state.rows else 1.0
    near = hull(data)
    found = laplace(learnt.surrogate, best, near.lower - 1.0, near.upper + 1.0, widest)
    if found is None:
        return None
    mean = state.frame.out(found[0][None])[0]
    covariance = state.frame.scale @ found[1] @ state.frame.scale.T
    return replace(state, mean=mean, covariance=0.5 * (covariance + covariance.T), q=None)


def _learn(
    state: State,
    settings: Settings,
    seed: int,
    final: bool,
    climbing: bool = True,
    restarted: bool = False,
) -> tuple[State, Learnt]:
    frame = chosen = _next_frame(state)
    theta, q = _carried(state, frame)
    known = theta
    found_so = _fitted(state, frame, theta, settings, final, restarted)
    frame, theta, reach, data = found_so.frame, found_so.theta, found_so.reach, found_so.data
    if frame.diagonal != chosen.diagonal:
        _, q = _carried(state, frame)
    surrogate = Surrogate.of(data, theta)
    count = len(data.values)
    near = hull(data)
    box = Box(near.lower - 0.5, near.upper + 0.5)
    for repeat in range((4 if final else 1) if climbing else 0):
        q = _with_more(surrogate, q, count, settings, seed + repeat)
        samples = max(32, 2 * (settings.samples // (2 * q.count))) * (2 if final else 1)
        q = climb(surrogate, q, box, seed % 7919, samples, settings.climbs * (1 + final)).q
        q = pruned(q, 0.003)
    feasible = Feasibility.of(frame.into(state.evaluations.points), state.evaluations.failed)
    if final:
        found = polished(surrogate, q, settings.final_draws, seed, feasible)
        found = replace(found, sd=float(np.hypot(found.sd, spread(surrogate, found, seed))))
    else:
        found = correct(surrogate, q, settings.draws, seed, feasible)
    mean, covariance = _moments(frame, found, q)
    expected = float(q.weights @ surrogate.integrals(q.means, q.scales**2).values)
    fresh = base_points(q.count, 1024 if final else 64, len(frame.shift), seed % 7919 + 1)
    learnt = Learnt(surrogate, q, expected, entropy(q, fresh).value, found)
    state = replace(state, frame=frame, theta=theta, q=q, mean=mean, covariance=covariance, reach=reach)
    return (state if theta is known else replace(state, fitted_at=len(state))), learnt


@dataclass(frozen=True, eq=False)
class _Belief:
    """A frame, how far down values are believed as they are in it, and what has been fitted to them so."""

    frame: Frame
    reach: float
    data: Data
    theta: Vector
    evidence: float
    """Of the data as `fit` gives it; their gradients are in the frame's units."""

    @property
    def comparable(self) -> float:
        """The evidence of the gradients as they were observed."""
        slopes = self.data.thinned.gradients
        return self.evidence + (0 if slopes is None else len(slopes)) * self.frame.log_volume

    def __lt__(self, other: _Belief) -> bool:
        return self.comparable < other.comparable


def _fitted(
    state: State, frame: Frame, theta: Vector | None, settings: Settings, final: bool, restarted: bool
) -> _Belief:
    """What is believed, as far as the evidence has been asked.

    Now and then the other reaches and the other frame are tried too; with gradients one of them in turn, but
    all at first and at the end. With gradients a restart keeps what has been fitted to the same evaluations
    just before.
    """
    n, dimension = len(state), len(frame.shift)
    iterations = settings.fits * (3 if theta is None else 1)
    reach = state.reach or _DEEP * dimension
    data = data_in(state, frame, reach, settings)
    many = len(data.residuals) > _MANY
    restarted = restarted and data.gradients is not None
    if theta is not None and not final and (restarted or (many and n < _OFTEN * state.fitted_at)):
        return _Belief(frame, reach, data, theta, 0.0)
    best = _Belief(frame, reach, data, *fit(data, theta, iterations))
    if settings.learnt_noise and theta is not None and (final or n // settings.batch % 4 == 0):
        # noise and short lengthscales explain the same few values: the other explanation is tried anew
        best = max(best, _Belief(frame, reach, data, *fit(data, None, 2 * iterations)))
    turn, rest = divmod(n // settings.batch, 2 if n < 80 else 4)
    if restarted or (rest and theta is not None and not final):
        return best
    others = _alternatives(state, frame, reach)
    if data.gradients is not None and theta is not None and not final:
        others = [others[turn % len(others)]]  # a fit takes long
    for other_frame, other_reach in others:
        trial = data_in(state, other_frame, other_reach, settings)
        if other_frame is frame and np.array_equal(trial.values, data.values):
            continue
        start = theta if other_frame is frame else None
        found = _Belief(other_frame, other_reach, trial, *fit(trial, start, 2 * iterations))
        best = max(best, found)
    return best


def _alternatives(state: State, frame: Frame, reach: float) -> list[tuple[Frame, float]]:
    """All other pairs of a frame that the correlations allow and a reach."""
    frames, dimension = [frame], len(frame.shift)
    if state.mean is not None and state.covariance is not None:
        kind = alternative(state.mean, state.covariance, frame)
        frames += [kind] if kind is not None else []
    reaches = (_SHALLOWEST + 0.5 * dimension, _DEEP * dimension, _DEEPEST * dimension)
    return [(one, r) for one in frames for r in reaches if one is not frame or r != reach]


def _with_more(surrogate: Surrogate, q: Mixture, n: int, settings: Settings, seed: int) -> Mixture:
    most = max(2, int(n ** (2 / 3)))
    if q.count >= most:
        return q
    found = weighed(surrogate, q, 512, seed + 1)
    missed = _missed(surrogate, q, found)
    if len(missed):
        return grown(q, missed, np.zeros(len(missed)), 1)
    if found.effective > 0.7 * 512:
        return q
    log_ratio = found.log_weights + found.log_proposal - np.logaddexp(found.log_q, found.log_proposal - 5.0)
    score = np.where(found.variance < 25.0, log_ratio, -np.inf)
    return grown(q, found.u, score, min(3, most - q.count))


def _missed(surrogate: Surrogate, q: Mixture, found: Correction) -> Vector:
    """Evaluated points (m, D) of high density where the draws would hardly ever come, the best first.

    A mode that was evaluated but never drawn from q has no part in any diagnostic of the draws.
    """
    data = surrogate.data
    best = np.flatnonzero(data.top - data.values < 0.5 * surrogate.dimension + _SHALLOW)
    best = best[np.argsort(-data.values[best])]
    u = data.points[best]
    log_density = surrogate.mean(u) - found.log_evidence
    chosen: Vector = u[log_density - logsumexp(Proposal.of(q).log_parts(u), axis=1) > _UNSEEN]
    return chosen


def _next_frame(state: State) -> Frame:
    """The old frame, unless the posterior has moved out of it."""
    if state.mean is None or state.covariance is None:
        return state.frame
    return fitting(state.mean, state.covariance, not state.frame.diagonal)


def _carried(state: State, frame: Frame) -> tuple[Vector | None, Mixture]:
    """Hyperparameters and q, in another frame."""
    dimension = len(frame.shift)
    theta = None if state.theta is None else state.theta.copy()
    if theta is not None:
        old = np.sqrt(np.square(state.frame.scale).sum(1))
        new = np.sqrt(np.square(frame.scale).sum(1))
        theta[:dimension] += np.log(old / new)
        theta[dimension + 2] += 4.0 * np.log(new / old).mean()
        if frame.diagonal != state.frame.diagonal:
            theta = None
    if state.q is not None and (frame.diagonal or not state.frame.diagonal):
        return theta, state.frame.moved(state.q, frame)
    means = 0.2 * np.array([[1.0], [-1.0]]) * np.ones(dimension)
    if state.mean is None:
        made = state.evaluations
        best = frame.into(made.points[[np.argmax(made.values)]])
        means = np.concatenate([best, best * 0.5])
    return theta, Mixture(np.full(2, 0.5), means, np.full((2, dimension), 0.7))


def _moments(frame: Frame, found: Correction, q: Mixture) -> tuple[Vector, Vector]:
    """Of the weighted draws, blended with those of q where few draws carry the weight."""
    trust = min(1.0, found.effective / 200.0)
    weights = trust * found.weights + (1.0 - trust) * np.exp(found.log_q - found.log_proposal) / len(found.u)
    weights = weights / weights.sum()
    mean = weights @ found.u
    centred = found.u - mean
    covariance = (centred.T * weights) @ centred
    return frame.out(mean[None])[0], frame.scale @ covariance @ frame.scale.T


def design(dimension: int, count: int, seed: int) -> Vector:
    """The middle of the plausible box, then a Sobol set in it, (count, D)."""
    sobol = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed))
    cube = sobol.random_base2(int(np.ceil(np.log2(max(count, 2)))))
    return np.concatenate([np.zeros((1, dimension)), 2.0 * cube - 1.0])[:count]


def surprise(state: State) -> float:
    """Mean squared standardised error of the latest ``_REMEMBERED`` predictions, drawn to 1 as if by 4 more.

    Each counts as at most ``_MOST_SURPRISING``.
    """
    gaps = state.evaluations.values - state.predicted[:, 0]
    squares = (gaps**2 / state.predicted[:, 1])[np.isfinite(gaps)][-_REMEMBERED:]
    return float((4.0 + np.minimum(squares, _MOST_SURPRISING).sum()) / (4.0 + len(squares)))


def settled(state: State) -> bool:
    """Whether the posterior has been found: it no longer moves by much, and the draws cover it."""
    last = state.rows[-1] if state.rows else None
    return last is not None and last.divergence < UNSETTLED and last.effective > 0.05


def batch_size(state: State, settings: Settings) -> int:
    """Few at a time until the posterior has been found: each changes where the next should be."""
    few = settings.few
    if few is None:
        few = min(2 if state.evaluations.gradients is None else 1, settings.batch)
    return settings.batch if settled(state) else few


def hull(data: Data) -> Box:
    """The box around the evaluations that are not hopelessly deep, or else around the 2 D + 2 best.

    One that went astray must not be what the next may be twice as far away as.
    """
    dimension = data.points.shape[1]
    depth = data.top - data.values
    best = np.sort(depth)[: 2 * dimension + 2][-1]
    near = data.points[depth <= max(best, _DEEP * dimension)]
    return Box(near.min(0), near.max(0))


def _mode(surrogate: Surrogate) -> Vector | None:
    data = surrogate.data
    best = data.points[np.argmax(data.values)]
    near = hull(data)
    reach = np.maximum(near.upper - near.lower, 2.0)
    found = ascended(surrogate, best, near.lower - reach, near.upper + reach)
    return None if surrogate.moments(found[None])[1][0] < _KNOWN else found


def with_next(state: State, learnt: Learnt, count: int, seed: int, variational: bool = False) -> State:
    """The state with ``count`` points to evaluate next."""
    noise = learnt.surrogate.learnt_noise
    if state.evaluations.noise_variance is not None:
        noise += float(np.nanmedian(state.evaluations.noise_variance))
    first = _edge(learnt.found) if settled(state) else _mode(learnt.surrogate)
    allowed = learnt.found.feasible > 0.5
    if not allowed.any():
        allowed = np.ones(len(allowed), bool)
    worse = surprise(state)
    u = look(learnt.surrogate, learnt.found, count, noise, seed, allowed, first, worse, variational)
    mean, variance = learnt.surrogate.moments(u)
    predicted = np.stack([mean, variance + noise], axis=1)
    return replace(state, pending=state.frame.out(u), pending_predicted=predicted)


def _edge(found: Correction) -> Vector | None:
    """The draw (D,) with most mass that may not be feasible; ``None`` if it is little."""
    if found.doubtful < _DOUBT:
        return None
    at = int(np.argmax(found.log_weights + np.log(np.maximum(1.0 - found.feasible, 1e-300))))
    chosen: Vector = found.u[at]
    return chosen


def record(before: State, state: State, learnt: Learnt) -> Row:
    """What was reached."""
    found, volume = learnt.found, state.frame.log_volume
    sd = float(np.hypot(found.sd * np.sqrt(max(1.0, surprise(state))), found.doubtful))
    return Row(
        n_evaluations=len(state),
        seconds=state.seconds,
        elbo=learnt.expected + learnt.entropy + volume,
        elbo_sd=sd,
        log_evidence=found.log_evidence + volume,
        log_evidence_sd=float(np.hypot(sd, found.monte_carlo_sd)),
        effective=found.effective / len(found.u),
        shape=found.shape,
        components=learnt.q.count,
        divergence=_divergence(before, state),
        surprise=surprise(state),
    )


def _divergence(before: State, state: State) -> float:
    if before.mean is None or before.covariance is None or state.mean is None or state.covariance is None:
        return float("inf")
    return gaussian_divergence(before.mean, before.covariance, state.mean, state.covariance)


def gaussian_divergence(m1: Vector, s1: Vector, m2: Vector, s2: Vector) -> float:
    """(KL(N1 || N2) + KL(N2 || N1)) / 2."""
    gap = m1 - m2
    p1, p2 = np.linalg.inv(s1), np.linalg.inv(s2)
    trace = np.trace(p1 @ s2) + np.trace(p2 @ s1) - 2 * len(m1)
    return float(0.25 * (trace + gap @ (p1 + p2) @ gap))
