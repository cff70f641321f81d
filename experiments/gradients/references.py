"""The references of the experiments on gradients: optima, paths, gradients and ELBOs by quasi-random points.

In units whitened by q (`bqvi.gradients.whitened`), with u the N scrambled Sobol points of one scrambling,

    E[y], E[y u^T]       sticking-the-landing's form of the gradient; 2^20 points where it is the reference
    E[f + |u|^2 / 2]     the ELBO less the entropy's constants: the variance of f vanishes at the optimum

The optimum is that of the ELBO on `POINTS` points, by natural-gradient steps with the same points each time,
and a gap is the difference of two ELBOs on the same points, so that their errors cancel for the most part.

Places where one-shot estimators are compared:

    start     q of the target's start
    midway    mean and Cholesky factor half way from the start to the optimum
    path      after ten steps of the path, a tenth of a nat from the optimum on an easy target
    optimum
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from bqvi.arrays import Values
from bqvi.families import Gaussian
from bqvi.gradients.whitened import WhitenedFrame, WhitenedMoments
from experiments.problems.gradient_targets import GradientTarget, targets
from gp.low_discrepancy import normal_sobol

__all__ = [
    "MANY",
    "PLACES",
    "POINTS",
    "RATE",
    "GaussianTask",
    "Moment",
    "TargetWithOptimum",
    "best_elbo",
    "best_from",
    "elbo",
    "flat",
    "gap",
    "moments",
    "moved",
    "optimum",
    "place",
    "problem",
    "reference",
    "target_named",
    "whitened",
]  # fmt: skip

POINTS = 2**12
"""The number of points for paths, optima and gaps."""
MANY = 2**20
"""The number of points for the reference gradient."""
_STORED = Path(__file__).with_name("references.json")
"""References of `MANY` points, made by `python -m experiments.gradients.references`."""
PLACES = ("start", "midway", "path", "optimum")
RATE = 0.3
_STEPS = 20
"""The number of steps of a path."""
_SCRAMBLING = 20240229
_BLOCK = 2**13
_SMALL_BLOCK = 2**9
"""The number of points in a block, whose arrays stay in the processor's cache."""
_POLISH = 60


@dataclass(frozen=True, eq=False)
class Moment:
    """Of the integrand at q."""

    y: WhitenedMoments
    """E[y] and the symmetric part of E[y u^T]."""
    lower: np.ndarray
    """E[y u^T] itself, (D, D)."""
    elbo: float


def moments(target: GradientTarget, frame: WhitenedFrame, n: int) -> Moment:
    """By n quasi-random points.

    Parameters
    ----------
    target : the log joint, which has a gradient. frame : the units of q, (D,) and (D, D). n : the number of
        points.
    """
    d = target.dimension
    noise = _noise(n, d)
    mean, slopes, value = np.zeros(d), np.zeros((d, d)), 0.0
    for block in np.array_split(noise, max(1, n // _BLOCK)):
        theta = torch.tensor(frame.points(block), requires_grad=True)
        f = target.log_density(theta)
        (gradient,) = torch.autograd.grad(f.sum(), theta)
        y = gradient.numpy() @ frame.scale + block
        mean += y.sum(0) / n
        slopes += y.T @ block / n
        value += (float(f.detach().sum()) + 0.5 * float(np.square(block).sum())) / n
    return Moment(WhitenedMoments(mean, 0.5 * (slopes + slopes.T)), slopes, value + _entropy_terms(frame))


def _entropy_terms(frame: WhitenedFrame) -> float:
    """The terms of the ELBO beside E[f + |u|^2 / 2]."""
    return float(0.5 * len(frame.mean) * np.log(2.0 * np.pi) + np.log(np.diagonal(frame.scale)).sum())


@cache
def _noise(n: int, dimension: int) -> np.ndarray:
    return normal_sobol(dimension, n, _SCRAMBLING)


@cache
def target_named(name: str) -> GradientTarget:
    """One of `experiments.problems.gradient_targets.targets`."""
    return targets()[name]


@cache
def _path(name: str) -> tuple[Gaussian, ...]:
    """q before each of `_STEPS` natural-gradient steps on `POINTS` points, and after the last."""
    target = target_named(name)
    q, found = target.start(), []
    for _ in range(_STEPS):
        found.append(q)
        q = _stepped(target, q, RATE)
    return (*found, q)


@cache
def optimum(name: str) -> Gaussian:
    """The best Gaussian on `POINTS` points."""
    return best_from(target_named(name), _path(name)[-1])


def best_from(target: GradientTarget, q: Gaussian, points: int = POINTS, left: float = 1e-10) -> Gaussian:
    """The best Gaussian on so many points, by steps from q until twice the nats to be won are ``left``."""
    rate, before, frame = RATE, np.inf, WhitenedFrame.of(q)
    y = moments(target, frame, points).y
    for _ in range(_POLISH):
        q = moved(frame, y, rate)
        frame = WhitenedFrame.of(q)
        y = moments(target, frame, points).y
        norm = float(y.mean @ y.mean + 0.5 * np.square(y.jacobian).sum())
        if norm < left:
            break
        rate = min(1.0, 1.2 * rate) if norm < before else 0.5 * rate
        before = norm
    return q


def _stepped(target: GradientTarget, q: Gaussian, rate: float) -> Gaussian:
    frame = WhitenedFrame.of(q)
    return moved(frame, moments(target, frame, POINTS).y, rate)


def moved(frame: WhitenedFrame, y: WhitenedMoments, rate: float) -> Gaussian:
    """A natural-gradient step; the precision's eigenvalues keep at least a quarter of their values.

    Parameters
    ----------
    frame : the units of q. y : the whitened moments at q. rate : the step size.
    """
    values, vectors = np.linalg.eigh(np.eye(len(frame.mean)) - rate * y.jacobian)
    covariance = (vectors / np.maximum(values, 0.25)) @ vectors.T
    step = rate * covariance @ y.mean
    step *= min(1.0, 2.0 / float(np.linalg.norm(step)))
    return Gaussian(frame.mean + frame.scale @ step, frame.scale @ covariance @ frame.scale.T)


def place(name: str, where: str) -> Gaussian:
    """q at one of `PLACES`."""
    if where == "start":
        return target_named(name).start()
    if where == "path":
        return _path(name)[10]
    best = optimum(name)
    if where == "optimum":
        return best
    first, last = WhitenedFrame.of(target_named(name).start()), WhitenedFrame.of(best)
    root = 0.5 * (first.scale + last.scale)
    return Gaussian(0.5 * (first.mean + last.mean), root @ root.T)


def elbo(target: GradientTarget, frame: WhitenedFrame, points: int = POINTS) -> float:
    """The ELBO of q, on so many points, as by `moments`, without gradients.

    Parameters
    ----------
    target : the log joint. frame : the units of q. points : how many.
    """
    value = 0.0
    with torch.no_grad():
        for block in np.array_split(_noise(points, target.dimension), max(1, points // _SMALL_BLOCK)):
            f = target.log_density(torch.from_numpy(frame.points(block)))
            value += (float(f.sum()) + 0.5 * float(np.square(block).sum())) / points
    return value + _entropy_terms(frame)


class TargetWithOptimum(Protocol):
    """What a run is given."""

    @property
    def target(self) -> GradientTarget:
        """The log joint, and where to start."""

    def gap(self, q: Gaussian) -> float:
        """Nats below the best Gaussian; infinite where the ELBO of q is not finite."""


@dataclass(frozen=True, eq=False)
class GaussianTask:
    """A target with its best Gaussian and the ELBO of that."""

    target: GradientTarget
    best: float
    """Its ELBO, on ``points`` points."""
    points: int = POINTS

    def gap(self, q: Gaussian) -> float:
        """ELBO of the best Gaussian less that of q, on the same points; infinite where q's is not finite."""
        with np.errstate(all="ignore"):
            try:
                found = self.best - elbo(self.target, WhitenedFrame.of(q), self.points)
            except RuntimeError:  # far out, a log joint that factorises a matrix may raise
                return float("inf")
        return found if np.isfinite(found) else float("inf")


@cache
def problem(name: str) -> GaussianTask:
    """One of `experiments.problems.gradient_targets.targets`."""
    return GaussianTask(target_named(name), best_elbo(name))


@cache
def best_elbo(name: str) -> float:
    """The ELBO of the best Gaussian, on `POINTS` points."""
    return elbo(target_named(name), WhitenedFrame.of(optimum(name)))


def gap(name: str, q: Gaussian) -> float:
    """As `GaussianTask.gap`."""
    return problem(name).gap(q)


@cache
def reference(name: str, where: str, points: int) -> np.ndarray:
    """The whitened gradient at a place by quasi-random points, (D + D (D + 1) / 2,).

    Taken from `_STORED` if it stands there for the same q, which saves minutes.

    Parameters
    ----------
    name : the target. where : the place of q. points : how many.
    """
    q = place(name, where)
    stored = _stored().get(f"{name}, {where}, {points}")
    if stored is not None and np.allclose(stored["mean"], q.mean, rtol=1e-6, atol=1e-6):
        return np.array(stored["gradient"])
    return flat(moments(target_named(name), WhitenedFrame.of(q), points).y)


@cache
def _stored() -> Any:
    return json.loads(_STORED.read_text(encoding="utf-8")) if _STORED.exists() else {}


def _store() -> None:
    """Compute all references with `MANY` points, and write `_STORED`: a few minutes."""
    found = {}
    for name in targets():
        for where in PLACES:
            q = place(name, where)
            gradient = flat(moments(target_named(name), WhitenedFrame.of(q), MANY).y)
            found[f"{name}, {where}, {MANY}"] = {
                "mean": [float(f"{x:.9g}") for x in q.mean],
                "gradient": [float(f"{x:.12g}") for x in gradient],
            }
    _STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def whitened(q: Gaussian, values: Values) -> np.ndarray:
    """A natural gradient dL/dmu as (g_delta, g_Delta), (D + D (D + 1) / 2,): mu + L delta, L (I + Delta)."""
    return flat(WhitenedFrame.of(q).moments(values))


def flat(found: WhitenedMoments) -> np.ndarray:
    """E[y] and the lower triangle of the Jacobian."""
    return np.concatenate([found.mean, found.jacobian[np.tril_indices(len(found.mean))]])


if __name__ == "__main__":
    _store()
