"""Designs of nodes u in whitened units, in which q is N(0, I).

Designs without a process, which may also be the noise of a pathwise estimator:

    iid                     independent draws
    scrambled Sobol         quasi-Monte Carlo (Owen 1995)
    antithetic-orthogonal   orthogonal frames with chi lengths, and their mirrors (Yu et al. 2016)

They are drawn by `acquisition.designs`. The marginal distribution of each node is N(0, I), so a mean over
nodes is unbiased. Designs for a Gaussian process:

    optimised               minimum posterior variance of (E[y], E[y u]) for a given kernel, rotated at random
    integral variance       the candidate that lowers the variance of the gradient most (thesis 7.17)
    uncertainty             the candidate with the largest density-weighted variance of y (thesis 7.18)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

import numpy as np
import scipy.optimize

from acquisition.designs import normal_frames, random_rotation
from acquisition.functionals import Candidates, most_informative
from bqvi.arguments import Above, AtLeast, Checked
from bqvi.gradients.feasibility import LogisticFeasibility
from bqvi.gradients.gradient_kernel import SeparableKernel
from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.settings import DESIGN, FEASIBILITY, SEARCH
from gp.low_discrepancy import normal_sobol

if TYPE_CHECKING:
    from bqvi.gradients.surrogates import Process


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

    On n = 2 D such points every odd gradient is linear, so that intervals are far too short (`Optimised`).
    """

    def nodes(
        self, n: int, dimension: int, rng: np.random.Generator, process: Informed | None = None
    ) -> np.ndarray:
        return normal_frames(n, dimension, rng)


@dataclass(frozen=True)
class Optimised(Checked):
    """A minimum-variance design of n nodes for the prior process, rotated at random and blurred at each use.

    The functionals' variance does not depend on the observations, nor on rotations, so the design is found
    once for each n and D. For n = 2 D it is D orthogonal pairs u, -u of equal lengths, on which *every* odd
    function is linear. Neither the evidence nor leave-one-out residuals detect this, and where y is odd (a
    logistic regression at theta = 0) standard errors are a hundred times too small. Random numbers are
    therefore added to the nodes.

    Parameters
    ----------
    lengthscale : lengthscale of the kernel, in units of sqrt(D); by default the centre of its prior
    blur : >= 0, standard deviation of the random numbers that are added to each node; with 0 errors are
        smallest, and for n = 2 D standard errors may be too small
    """

    lengthscale: Annotated[float, Above(0.0)] = SEARCH.length
    blur: Annotated[float, AtLeast(0.0)] = DESIGN.blur

    def nodes(
        self, n: int, dimension: int, rng: np.random.Generator, process: Informed | None = None
    ) -> np.ndarray:
        fixed = _minimum_variance(n, dimension, self.lengthscale * np.sqrt(dimension))
        nodes: np.ndarray = fixed @ random_rotation(dimension, rng)
        return nodes + self.blur * rng.standard_normal((n, dimension))


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
    spread: Annotated[float, Above(0.0)] = DESIGN.spread

    def nodes(
        self, n: int, dimension: int, rng: np.random.Generator, process: Informed | None = None
    ) -> np.ndarray:
        """Nodes (n, D); antithetic-orthogonal and blurred as in `Optimised`, while there is no process."""
        if process is None:
            frames: np.ndarray = normal_frames(n, dimension, rng)
            return frames + DESIGN.blur * rng.standard_normal((n, dimension))
        separable = isinstance(process.process, GradientProcess)
        spread = 1.0 + self.spread / np.sqrt(dimension) if separable else self.spread
        pool: np.ndarray = spread * rng.standard_normal((max(self.candidates, n), dimension))
        if process.feasibility is not None:
            probability = process.feasibility(pool)
            pool = pool[probability >= min(FEASIBILITY.least, np.sort(probability)[-n])]
        return pool[most_informative(self._candidates(pool, process), n, process.noise)]

    def _candidates(self, pool: np.ndarray, process: Informed) -> Candidates:
        return process.candidates(pool)


@lru_cache(maxsize=64)
def _minimum_variance(n: int, dimension: int, lengthscale: float) -> np.ndarray:
    """Nodes at a local minimum of the functionals' variance under the prior process, (n, D)."""
    kernel = SeparableKernel(lengthscale, SEARCH.part, SEARCH.part)
    first = normal_frames(n, dimension, np.random.default_rng(n * 1000 + dimension))

    def objective(flat: np.ndarray) -> float:
        known = GradientProcess.of(flat.reshape(n, dimension), np.ones((n, 1)), kernel).whitened
        return -float(np.square(known).sum() + (dimension - 1.0) * np.square(known[:, 0]).sum())

    found = scipy.optimize.minimize(objective, first.ravel(), method="L-BFGS-B", options={"maxiter": 60})
    nodes: np.ndarray = found.x.reshape(n, dimension)
    nodes.flags.writeable = False
    return nodes
