"""Designs of nodes u in whitened units, in which q is N(0, I).

Designs without a process, which may also be the noise of a pathwise estimator:

    iid                     independent draws
    scrambled Sobol         quasi-Monte Carlo (Owen 1995)
    antithetic-orthogonal   orthogonal frames with chi lengths, and their mirrors (Yu et al. 2016)

The marginal distribution of each node is N(0, I), so a mean over
nodes is unbiased. With a Gaussian process `MomentVarianceReduction` takes the candidates that lower the
variance of the gradient most (thesis 7.17).

The variance is large where evaluations failed, and a design prefers candidates of large variance. The
probability that an evaluation succeeds is therefore estimated too, by logistic regression on

    1, u_1, .., u_D, |u|^2,

whose level sets include half-spaces, balls and their complements, with a normal prior of variance 4
on each coefficient, at its mode by Newton steps. For regions of other shapes
the nearest evaluation decides: where it failed, and the nearest successful one is 1.5 times as far, the
probability is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import expit

from acquisition.conditioned import Candidates, most_informative
from bqvi.arguments import Above, AtLeast, Checked
from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.settings import DESIGN, FEASIBILITY
from bqvi.runs.settings import ENGINES
from gp.low_discrepancy import normal_sobol
from gp.matrices import cholesky_inverse

if TYPE_CHECKING:
    from bqvi.gradients.memory import Memory
    from bqvi.gradients.surrogates import Process
    from bqvi.gradients.whitened import WhitenedFrame


@dataclass(frozen=True, eq=False)
class LogisticFeasibility:
    """The probability that an evaluation succeeds.

    Parameters
    ----------
    good, failed : points of evaluations that succeeded, (m, D), in the units of q, and did not, (k, D)
    """

    good: np.ndarray
    failed: np.ndarray

    @classmethod
    def near(cls, frame: WhitenedFrame, memory: Memory) -> LogisticFeasibility:
        """The model from the evaluations of a ``memory``, in the units of a ``frame``."""
        memory = memory.censored
        return cls(frame.whiten(memory.points), frame.whiten(memory.failed))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return the probabilities (C,) at points (C, D); 1 where nothing has failed."""
        if not len(self.failed):
            return np.ones(len(points))
        probability = expit(_features(points) @ self._coefficients)
        if not len(self.good):
            return probability
        to_failed, to_good = (
            cdist(points, known, "sqeuclidean").min(1) for known in (self.failed, self.good)
        )
        return np.where(FEASIBILITY.nearest**2 * to_failed < to_good, 0.0, probability)

    @cached_property
    def _coefficients(self) -> np.ndarray:
        features = _features(np.concatenate([self.good, self.failed]))
        succeeded = np.arange(len(features)) < len(self.good)
        found = np.zeros(features.shape[1])
        for _ in range(8):
            probability = expit(features @ found)
            slope = features.T @ (succeeded - probability) - found / 4.0
            curvature = (features.T * (probability * (1.0 - probability))) @ features
            np.einsum("ii->i", curvature)[:] += 1.0 / 4.0
            found = found + cholesky_inverse(curvature)[1] @ slope
        return found


def _features(points: np.ndarray) -> np.ndarray:
    points = np.clip(points, -100.0, 100.0)  # of a q that has collapsed they lie at any distance
    squares = np.square(points).sum(1, keepdims=True)
    return np.concatenate([np.ones_like(squares), points, squares / points.shape[1]], 1)


@dataclass(frozen=True, eq=False)
class Informed:
    """A process given earlier evaluations, with those that are under way and those that have failed.

    Parameters
    ----------
    process : the process
    waiting : points under evaluation, in the units of q, (k, D); variances do not depend on their values
    feasibility : the probability that evaluations succeed, in the units of q; None where none has failed
    """

    process: Process
    waiting: np.ndarray | None = None
    feasibility: LogisticFeasibility | None = None

    @property
    def noise(self) -> float:
        """The noise variance over s^2 of a new observation."""
        return self.process.noise

    def candidates(self, pool: np.ndarray) -> Candidates:
        """Posterior covariances of the numbers observed at (C, D) points, given those under evaluation."""
        if self.waiting is None:
            return self.process.candidates(pool)
        both = self.process.candidates(np.concatenate([self.waiting, pool]))
        return both.given(len(self.waiting), self.noise)


@runtime_checkable
class NodeRule(Protocol):
    """A rule by which nodes are chosen."""

    def nodes(
        self, n: int, dimension: int, rng: np.random.Generator, process: Informed | None = None
    ) -> np.ndarray:
        """Nodes (n, D); ``process`` is the one given earlier evaluations, None if there are none."""


@dataclass(frozen=True)
class Independent:
    """Independent draws of N(0, I)."""

    def nodes(
        self, n: int, dimension: int, rng: np.random.Generator, process: Informed | None = None
    ) -> np.ndarray:
        return rng.standard_normal((n, dimension))


@dataclass(frozen=True)
class Sobol:
    """Scrambled Sobol points through the normal quantile; best for powers of two."""

    def nodes(
        self, n: int, dimension: int, rng: np.random.Generator, process: Informed | None = None
    ) -> np.ndarray:
        # SciPy would spawn children of rng, and a saved run does not keep how many rng has had
        return normal_sobol(dimension, n, np.random.default_rng(rng.integers(2**63)))


@dataclass(frozen=True)
class AntitheticOrthogonal:
    """Pairs u, -u along random orthogonal frames, with lengths distributed as |N(0, I)|.

    On n = 2 D such points every odd gradient is linear. Neither the evidence nor leave-one-out residuals
    detect this, and where y is odd (a logistic regression at theta = 0) standard errors are a hundred times
    too small.
    """

    def nodes(
        self, n: int, dimension: int, rng: np.random.Generator, process: Informed | None = None
    ) -> np.ndarray:
        return normal_frames(n, dimension, rng)


@dataclass(frozen=True)
class MomentVarianceReduction(Checked):
    """Greedy choice of the candidates that most reduce the variance of the gradient's functionals.

    The variance is D Var E[y_i] + sum_j Var E[y_i u_j] for a separable process, and for one of values or
    derivatives the sum of those of E[y] and of the lower triangle of E[dy/du].

    Each node is chosen given the earlier ones, as variances do not depend on observations. Candidates at
    which evaluations are likely to fail are left out.

    Parameters
    ----------
    candidates : the number of candidates that are drawn
    spread : their standard deviation, in units of q's; of a separable process by how much larger |u| is than
        that of draws of q, whose standard deviation is .7 for every D
    """

    candidates: Annotated[int, AtLeast(1)] = DESIGN.candidates
    spread: Annotated[float, Above(0.0)] = ENGINES.wider

    def nodes(
        self, n: int, dimension: int, rng: np.random.Generator, process: Informed | None = None
    ) -> np.ndarray:
        """Nodes (n, D); antithetic-orthogonal with random numbers added, while there is no process."""
        if process is None:
            frames: np.ndarray = normal_frames(n, dimension, rng)
            return frames + DESIGN.blur * rng.standard_normal((n, dimension))
        separable = isinstance(process.process, GradientProcess)
        spread = 1.0 + self.spread / np.sqrt(dimension) if separable else self.spread
        pool: np.ndarray = spread * rng.standard_normal((max(self.candidates, n), dimension))
        if process.feasibility is not None:
            probability = process.feasibility(pool)
            pool = pool[probability >= min(0.5, np.sort(probability)[-n])]
        return pool[most_informative(self._candidates(pool, process), n, process.noise)]

    def _candidates(self, pool: np.ndarray, process: Informed) -> Candidates:
        return process.candidates(pool)


def normal_frames(n: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Return n points, (n, D): random orthogonal frames with random lengths, and their mirror images.

    Each block is r_d q_d and -r_d q_d, d = 1..D, with q a random orthogonal matrix (Haar) and r_d independent
    chi_D lengths, so that each point is N(0, I) alone (Yu et al. 2016, "Orthogonal random features"). Each
    pair integrates odd functions exactly; for an odd n the last point has no mirror image.
    """
    blocks = []
    for _ in range(-(-n // (2 * dimension))):
        frame = random_rotation(dimension, rng)
        lengths = np.sqrt(rng.chisquare(dimension, size=dimension))
        points = lengths[:, None] * frame
        blocks.append(np.stack([points, -points], axis=1).reshape(-1, dimension))
    return np.concatenate(blocks)[:n]


def random_rotation(dimension: int, rng: np.random.Generator) -> np.ndarray:
    """A Haar-distributed orthogonal matrix (D, D): QR of normals, with the signs made unique."""
    q, r = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    return q * np.sign(np.diagonal(r))
