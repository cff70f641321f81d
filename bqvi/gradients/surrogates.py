"""The kinds of processes on a memory: on gradients where the log joint has them, otherwise on values.

Each kind defines its targets in the units of a q, the fit of its hyperparameters (as logarithms, so that a
memory can keep them as an array), and the process given them. The separable process on gradients costs O(m^3)
for every D, and is the default wherever it is possible.

Where evaluations are noisy, the variances V of the noise are known in nats, not over s^2. Then s^2 is the
last hyperparameter, and the evidence is that of s^2 (K_0 + N) + V; V / s^2 is added to the noise N of the
process. In q's units the noise of a gradient is L^T V L. A process uses its diagonal, and the separable
process, whose outputs share K, the mean of the diagonal.

*The process on the log joint as one function* is on phi(u) = f(theta) + |u|^2 / 2, theta = mu + L u in units
whitened by q, so that the prior mean of f is the log density of q up to a constant, which is profiled out
where values are observed (`gp.conditioning.function_kernel`). Its posterior mean is integrated in closed
form: E[grad phi] = dE/dm and E[Hessian of phi] = 2 dE/dS are the moments of y = grad phi that `whitened`
defines (variational Bayesian Monte Carlo integrates the same process, Acerbi 2018).

Its errors at a given number of nodes are smaller than those of the separable process of `gradient_process`,
and its cost is O((m B)^3), B = D + 1 where values and gradients are observed. It is for expensive
evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Protocol, runtime_checkable

import numpy as np

from acquisition.conditioned import Candidates
from bqvi.arguments import Above, Checked
from bqvi.gradients.gradient_process import (
    Directions,
    GradientProcess,
    SeparableKernel,
    shaped_noise,
)
from bqvi.gradients.settings import SEARCH
from bqvi.gradients.standard_errors import mean_square
from bqvi.gradients.whitened import (
    JITTER,
    WhitenedFrame,
    WhitenedMoments,
    distance_noise,
    jitter_multiple,
    typical_noise,
)
from bqvi.importance import weighted_quantile
from bqvi.runs.settings import ENGINES
from gp.conditioning.conditioned import Conditioned
from gp.conditioning.function_kernel import (
    DirectionalKernel,
    FunctionKernel,
    Shown,
    directional_gram,
    slope_rows,
    standard_observed,
    standard_prior,
    value_rows,
)
from gp.evidence import LogPosterior
from gp.fixed_points import components_gram, scaled
from gp.fixed_points.gram import MOST_PAIRED
from gp.priors import JointPrior
from gp.search import Search, search


@dataclass(frozen=True, eq=False)
class FunctionSurrogate:
    """A `whitened.WhitenedSurrogate` from m points."""

    given: Conditioned
    noise: float = JITTER
    """Noise variance over s^2 of a number in a new observation near q."""

    @classmethod
    def of_targets(
        cls,
        kernel: FunctionKernel,
        points: np.ndarray,
        targets: np.ndarray,
        measured: np.ndarray | None = None,
    ) -> FunctionSurrogate:
        """The process given (m, D) points in q's units and the B numbers observed at each, (m, B).

        ``measured`` is the noise variance of these numbers over s^2, (m, B); None where they are exact.
        """
        given = Conditioned.of(kernel, points, targets, distance_noise, measured)
        return cls(given, typical_noise(measured))

    def extended(
        self, points: np.ndarray, targets: np.ndarray, measured: np.ndarray | None = None
    ) -> FunctionSurrogate:
        """The process given (l, D) more points; arguments are as of `of_targets`."""
        return replace(self, given=self.given.extended(points, targets, measured))

    def moments(self, mean: np.ndarray, covariance: np.ndarray) -> WhitenedMoments:
        found = self.given.posterior_mean.integrate(mean, covariance)
        return WhitenedMoments(found.mean, 2.0 * found.covariance)

    @cached_property
    def at_q(self) -> WhitenedMoments:
        d = self.given.points.shape[1]
        return self.moments(np.zeros(d), np.eye(d))

    def by_rule(self, targets: np.ndarray) -> WhitenedMoments:
        """The moments under q of other targets (m, B) at these points, by the same weights."""
        return WhitenedMoments.of_flat(
            targets.reshape(-1) @ self.given.evidence.rules(self._whitened), self.given.points.shape[1]
        )

    def candidates(self, pool: np.ndarray) -> Candidates:
        """Posterior moments / s^2 of the numbers observed at (C, D) points, B each."""
        given, kernel = self.given, self.given.kernel
        places = kernel.at(pool)
        cross = given.whitened_covariance(places)
        shared = standard_observed(pool, kernel) - cross.T @ self._whitened
        return Candidates.of(shared, kernel.covariance(places, places) - cross.T @ cross, given.numbers)

    @cached_property
    def _whitened(self) -> np.ndarray:
        """W k of the moments, (m B, F)."""
        return np.asarray(self.given.whitening @ standard_observed(self.given.points, self.given.kernel))

    def covariance(self) -> np.ndarray:
        """Covariance of the flat moments `at_q` (`standard_errors`), (F, F), with the jackknife's."""
        return mean_square(self._model_covariance(), self.given.changes(self._whitened))

    def standard_deviations(self) -> WhitenedMoments:
        changes = self.given.changes(self._whitened)
        squares = np.square(changes).sum(0) + np.square(changes.sum(0))
        return _deviations(np.diagonal(self._model_covariance()) + squares, self.given.points.shape[1])

    def model_deviations(self) -> WhitenedMoments:
        """The model's posterior standard deviations of the moments `at_q`."""
        return _deviations(np.diagonal(self._model_covariance()), self.given.points.shape[1])

    def _model_covariance(self) -> np.ndarray:
        prior = standard_prior(self.given.points.shape[1], self.given.kernel)
        return self.given.covariance(prior, self._whitened)


def _deviations(variances: np.ndarray, dimension: int) -> WhitenedMoments:
    """Roots of the variances of flat moments, (F,)."""
    return WhitenedMoments.of_flat(np.sqrt(np.maximum(variances, 0.0)), dimension)


Process = GradientProcess | FunctionSurrogate


@dataclass(frozen=True, eq=False)
class Observed:
    """The observations on which a process is conditioned."""

    points: np.ndarray
    """In the units of q, (m, D)."""
    targets: np.ndarray
    """(m, B)."""
    noise: np.ndarray | None = None
    """Noise variances of the targets, (m,) or (m, B); None where they are exact."""

    def latest(self, most: int) -> Observed:
        """The latest observations, at most ``most``."""
        noise = None if self.noise is None else self.noise[-most:]
        return Observed(self.points[-most:], self.targets[-most:], noise)


@runtime_checkable
class Kind(Protocol):
    """A kind of process."""

    def targets(
        self, frame: WhitenedFrame, whitened: np.ndarray, values: np.ndarray, gradients: np.ndarray
    ) -> np.ndarray:
        """Targets (m, B) from f (m,) and grad f (m, D) at ``whitened`` (m, D)."""

    def noise(self, frame: WhitenedFrame, variances: np.ndarray) -> np.ndarray | None:
        """Noise variances of the targets, (m,) or (m, B), from those of f and grad f (m, 1 + D), or None."""

    def fit(self, observed: Observed, start: np.ndarray | None) -> np.ndarray:
        """Logarithms of the hyperparameters; ``start`` are those of the last fit, None for a first fit."""

    def process(self, observed: Observed, logs: np.ndarray) -> Process:
        """The process given the observations and its hyperparameters."""


@dataclass(frozen=True)
class OnGradients(Checked):
    """The separable process on gradients, `gradient_process`.

    Parameters
    ----------
    jitter : > 0, on the diagonal of K / s^2
    """

    jitter: Annotated[float, Above(0.0)] = JITTER

    def targets(
        self, frame: WhitenedFrame, whitened: np.ndarray, values: np.ndarray, gradients: np.ndarray
    ) -> np.ndarray:
        return gradients @ frame.scale + whitened

    def noise(self, frame: WhitenedFrame, variances: np.ndarray) -> np.ndarray | None:
        if not variances[:, 1:].any():
            return None
        return variances[:, 1:] @ np.square(frame.scale).mean(1)

    def fit(self, observed: Observed, start: np.ndarray | None) -> np.ndarray:
        """ln (l, b0, b1, b2), around l = 2 sqrt(D), b0 = b1 = 1 / 10, b2 = 1 / (10 D); of noisy y ln s^2."""
        kept = observed.latest(100 if observed.noise is None else MOST_PAIRED)
        u, y, noise = kept.points, kept.targets, kept.noise
        directions = Directions.of(u, y, noise)
        in_units = directions.scaled(u)
        inner = in_units @ in_units.T
        sizes = np.diagonal(inner)
        bent = 0.5 * inner * inner + 0.25 * np.multiply.outer(sizes, sizes)
        gram = components_gram(in_units, (np.ones_like(inner), u @ u.T, bent))
        shaped = shaped_noise(u, directions, self.jitter)
        if noise is None:
            return fitted(LogPosterior(gram, shaped, y, _prior(u, 4)), start)
        prior = _prior(u, 4, _typical(u, np.square(y).mean(1)))
        known = LogPosterior(scaled(gram, shaped), noise, y, prior, convention="known")
        return fitted(known, start)

    def process(self, observed: Observed, logs: np.ndarray) -> GradientProcess:
        points, targets = observed.points, observed.targets
        directions = Directions.of(points, targets, observed.noise)
        lengthscale, constant, linear, quadratic = (float(x) for x in np.exp(logs[:4]))
        kernel = SeparableKernel(lengthscale, constant, linear, quadratic, directions)
        measured = over_scale(observed.noise, logs)
        return GradientProcess.of(points, targets, kernel, self.jitter, measured)


@dataclass(frozen=True)
class OnFunction:
    """The process on the log joint as one function.

    Parameters
    ----------
    values, gradients : whether values and gradients are observed; at least one of the two
    """

    values: bool = True
    gradients: bool = True

    def __post_init__(self) -> None:
        self._shown()

    def _shown(self) -> Shown:
        return Shown(self.values, self.gradients)

    def targets(
        self, frame: WhitenedFrame, whitened: np.ndarray, values: np.ndarray, gradients: np.ndarray
    ) -> np.ndarray:
        """phi = f + |u|^2 / 2 and y = L^T grad f + u, or the one of them that is observed, (m, B)."""
        parts = []
        if self.values:
            parts.append((values + 0.5 * np.square(whitened).sum(1))[:, None])
        if self.gradients:
            parts.append(gradients @ frame.scale + whitened)
        return np.concatenate(parts, 1)

    def noise(self, frame: WhitenedFrame, variances: np.ndarray) -> np.ndarray | None:
        parts = [variances[:, :1]] if self.values else []
        if self.gradients:
            parts.append(variances[:, 1:] @ np.square(frame.scale))
        found = np.concatenate(parts, 1)
        return found if found.any() else None

    def fit(self, observed: Observed, start: np.ndarray | None) -> np.ndarray:
        """ln (l, b1, b2), around l = 2 sqrt(D) and b = 1 / 10, and of noisy targets ln s^2."""
        alone = 100 if observed.noise is None else MOST_PAIRED
        most = max(2, 300 // observed.targets.shape[1]) if self.gradients else alone
        kept = observed.latest(most)
        u = kept.points
        blocks = [value_rows(u)] if self.values else []
        if self.gradients:
            blocks.append(slope_rows(u))
        measured = None if kept.noise is None else self._by_kind(kept.noise)
        targets = self._by_kind(kept.targets)
        return fitted(of_rows(np.concatenate(blocks), targets, measured, self.gradients), start)

    def _by_kind(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers of (m, B) points as rows: all values, then all gradients."""
        first = int(self.values)
        return np.concatenate([numbers[:, :first].reshape(-1), numbers[:, first:].reshape(-1)])

    def process(self, observed: Observed, logs: np.ndarray) -> FunctionSurrogate:
        lengthscale, linear, quadratic = (float(x) for x in np.exp(logs[:3]))
        kernel = FunctionKernel(lengthscale, linear, quadratic, self._shown())
        measured = over_scale(observed.noise, logs)
        return FunctionSurrogate.of_targets(kernel, observed.points, observed.targets, measured)


def of_rows(rows: np.ndarray, targets: np.ndarray, measured: np.ndarray | None, slopes: bool) -> LogPosterior:
    """That of ln (l, b1, b2) of a process on one function, for noisy targets also ln s^2, to be fitted.

    Parameters
    ----------
    rows : (N, 2 D), see `gp.conditioning.function_kernel`. targets : (N,). measured : their noise, (N,).
    slopes : whether there are derivatives.
    """
    u = rows[:, : rows.shape[1] // 2]
    gram, shaped = directional_gram(rows, slopes), distance_noise(u)
    basis = DirectionalKernel(1.0, 0.0, 0.0, slopes).constant(rows)
    means = basis[:, None] if basis.any() else None
    if measured is None:
        return LogPosterior(gram, shaped, targets[:, None], _prior(u, 3), means)
    # from the noise of slopes where there are any, as s^2 is
    steep = basis == 0.0 if slopes else slice(None)
    sizes = np.square(targets[steep] - (0.0 if slopes else np.median(targets)))
    prior = _prior(u, 3, _typical(u[steep], sizes))
    return LogPosterior(scaled(gram, shaped), measured, targets[:, None], prior, means, "known")


def over_scale(noise: np.ndarray | None, logs: np.ndarray) -> np.ndarray | None:
    """The variances of the noise over s^2, for the hyperparameters of a fit with that noise."""
    return None if noise is None else noise * np.exp(-logs[-1])


def _prior(points: np.ndarray, parameters: int, scale: float | None = None) -> JointPrior:
    """The prior of ln (l, b0, b1, b2) or of ln (l, b1, b2), and of ln s^2 if a typical ``scale`` is given."""
    dimension = points.shape[1]
    parts = [SEARCH.part, SEARCH.part, SEARCH.part / dimension]
    centre = np.log([SEARCH.length * np.sqrt(dimension), *parts])[:parameters]
    sds = np.array(SEARCH.sds[:parameters])
    if scale is not None:
        centre, sds = np.append(centre, np.log(scale)), np.append(sds, SEARCH.scale_sd)
    return JointPrior.normal(centre, sds)


def _typical(points: np.ndarray, squares: np.ndarray) -> float:
    """The typical size of ``squares`` (m,) at points near q; positive."""
    return weighted_quantile(squares, 1.0 / jitter_multiple(points)) + 1e-300


def fitted(posterior: LogPosterior, start: np.ndarray | None) -> np.ndarray:
    """The fit from the prior's centre and the last fit, or, at first, from a nearly quadratic process."""
    prior, parameters = posterior.prior, len(posterior.prior.lower) - (posterior.convention == "known")
    simple = prior.lower.copy()
    simple[:parameters] += np.array([3.0, 3.5, 3.5, -4.0])[:parameters] * prior.falloff[:parameters]
    starts = (prior.lower, simple)
    if start is not None and len(start) == len(simple):
        starts = (start, prior.lower)
    settings = Search(iterations=8, settled=0.5 * ENGINES.gain, gained=ENGINES.gain)
    if posterior.convention != "profiled":  # two climbs, as the evidence is flat at small s^2
        settings = replace(settings, climbs=2, iterations=16)
    return search(posterior, starts, prior.bounds, settings).psi
