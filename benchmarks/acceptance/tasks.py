"""The tasks: a front door, a problem whose answer is known, and the figures of the door's result.

The doors are called as a user calls them, with default options but for the budget. Whatever is drawn is drawn
from the seed: the start, the noise, simulated data.

    integrate    |estimate - integral|; n = 60. With a logarithm, of the logarithm
    bq, pathwise ELBO of the best Gaussian less that of q, nats, on quasi-random points; "within" is of the
                 ELBO that the fit reports against q's on those points
    cavi         mean log density of new data under the truth less that under q's means; "within" is the
                 share of the true centres' coordinates within 2 sd of q's; a unit of work is 1000 data
    minibatch    ELBO of coordinate ascent from the same start less that of stochastic natural gradients;
                 the exact ELBOs of the two records count N evaluations each since 284d702, and in the
                 reference, which is older, were added afterwards (50,000 for 40,000)
    vbmc         |log evidence - ln Z|, nats; "distance" from 20,000 draws
    gp.fit       root mean square of (posterior mean - noise-free truth) at new points over the truth's
                 standard deviation; "within" is the share of those points; evaluations are of the evidence

Where torch differentiates the user's function, the backward pass counts as overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp

import bqvi
import gp
from benchmarks.acceptance.meter import Meter, Watched
from bqvi.gradients import Pathwise
from bqvi.models import GaussianMixture, LogJoint
from experiments.gradients import references
from experiments.problems import known_posteriors as posteriors
from experiments.problems.data import simulate
from experiments.problems.integrands import Integrand, integrands
from experiments.problems.unseen_integrands import first, second

NOTHING = float("nan")
_NODES = 60
_DRAWS = 20_000


@dataclass(frozen=True)
class Figures:
    """The figures of one run; NaN where a task has no such figure."""

    error: float
    within: float
    evaluations: float
    overhead: float
    memory: float
    distance: float = NOTHING


@dataclass(frozen=True)
class Task:
    """One door on one problem.

    Attributes
    ----------
    door, name : of the front door, and of the problem.
    run : a seed to its figures.
    quick : whether it belongs to the quick form.
    floor : errors below count as this.
    """

    door: str
    name: str
    run: Callable[[int], Figures]
    quick: bool = False
    floor: float = 1e-9

    @property
    def key(self) -> str:
        """Door and name."""
        return f"{self.door}: {self.name}"


def tasks() -> tuple[Task, ...]:
    """All of them."""
    made = (*_integrals(), *_fits(), *_conjugate(), *_evidences(), *_regressions())
    return tuple(made)


# --- integrate ---------------------------------------------------------------------------------------------


def _integrals() -> Iterator[Task]:
    known = {integrand.name: integrand for integrand in (*integrands(), *first(), *second())}
    quick = ("probit 5", "turned banana 2", "payoff 2")
    others = (
        "bump, full covariance 2", "box corner 3", "bump, mixture measure 3", "logistic ELBO 5", "bump 10",
    )  # fmt: skip
    for name in (*quick, *others):
        yield Task("integrate", name, partial(_integrate, known[name]), name in quick)
    yield Task("integrate", "bimodal 2, wsabi-l", partial(_integrate, known["bimodal 2"], method="wsabi-l"))
    narrow = known["narrow likelihood 3"]
    yield Task("integrate", "narrow likelihood 3, log", partial(_integrate, narrow, log=True))


def _integrate(integrand: Integrand, seed: int, **options: Any) -> Figures:
    log = options.get("log", False)
    function = Watched((lambda x: np.log(integrand.function(x))) if log else integrand.function)
    with Meter() as meter:
        found = bqvi.integrate(function, integrand.measure, budget=_NODES, seed=seed, **options)
    mean, sd = (found.log_mean, found.log_sd) if log else (found.mean, found.sd)
    assert mean is not None  # only a result with log=True has none
    assert sd is not None
    error = abs(float(mean) - (np.log(integrand.truth) if log else integrand.truth))
    overhead = meter.overhead(function.seconds, function.points)
    return Figures(error, float(error <= 2 * sd), function.points, overhead, meter.memory)


# --- fit with a log joint ----------------------------------------------------------------------------------


def _fits() -> Iterator[Task]:
    for name, quick in (
        ("banana", True), ("mixture", True), ("schools-centred", True), ("logistic", False), ("wine", False),
    ):  # fmt: skip
        yield Task("bq", f"{name}, n = 100", partial(_bq, name), quick, 1e-6)
    yield Task("bq", "logistic, values alone, n = 100", partial(_bq, "logistic", gradient=False), False, 1e-6)
    for name, quick in (("logistic", True), ("wine", False)):
        yield Task("pathwise", f"{name}, 200 steps of 4", partial(_pathwise, name), quick, 1e-6)


def _bq(name: str, seed: int, gradient: bool = True) -> Figures:
    return _fitted(references.problem(name), seed, gradient, 100, method="bq", budget=100, tolerance=None)


def _pathwise(name: str, seed: int) -> Figures:
    return _fitted(
        references.problem(name), seed, True, 800, method=Pathwise(4, "sticking-the-landing"),
        geometry=bqvi.Riemannian(), schedule=bqvi.Cosine(0.2, 200), steps=200, record=[200],
    )  # fmt: skip


def _fitted(
    posed: references.GaussianTask, seed: int, gradient: bool, units: float, **options: Any
) -> Figures:
    target = posed.target
    function = Watched(target.log_density if gradient else _of_arrays(target.log_density))
    model = (
        LogJoint(function, target.dimension)
        if gradient
        else LogJoint(function, target.dimension, gradient=None)
    )
    with Meter() as meter:
        found = bqvi.fit(model, start_from=target.start(), seed=seed, **options)
    points = function.points
    exact = posed.best - posed.gap(found.q)
    return _of_fit(found, meter, posed.best, exact, points, meter.overhead(function.seconds, units))


def _of_arrays(log_density: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda theta: log_density(torch.from_numpy(theta)).numpy()


def _of_fit(found: Any, meter: Meter, best: float, exact: float, points: int, overhead: float) -> Figures:
    """Figures of a fit whose ELBO is known: the best that can be had, and that of the q that was found."""
    within = float(abs(found.elbo - exact) <= 2 * found.trace["elbo_sd"][-1])
    return Figures(best - exact, within, points, overhead, meter.memory)


# --- fit with a conjugate model ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Clusters:
    """Three clusters in the plane: data (N, 2), their centres (3, 2) and weights (3,)."""

    x: np.ndarray
    centres: np.ndarray
    weights: np.ndarray
    fresh: np.ndarray

    @classmethod
    def of(cls, seed: int, n: int) -> _Clusters:
        rng = np.random.default_rng([20261122, seed])
        centres = np.array([[-2.0, 0.0], [1.5, 1.5], [1.0, -2.0]])
        weights = np.array([0.5, 0.3, 0.2])
        x, _ = simulate(n + 20_000, weights, centres, np.eye(2), rng)
        return cls(x[:n], centres, weights, x[n:])

    def log_density(self, weights: np.ndarray, centres: np.ndarray) -> float:
        """Mean log density over the new data, without constants."""
        squares = np.square(self.fresh[:, None] - centres).sum(-1)
        return float(logsumexp(np.log(weights) - 0.5 * squares, axis=1).mean())


def _conjugate() -> Iterator[Task]:
    yield Task("cavi", "three clusters, N = 2000", _cavi, True, 1e-6)
    yield Task("minibatch", "three clusters, N = 5000, 'balanced'", _minibatch, True, 1e-4)
    yield Task(
        "minibatch", "three clusters, N = 5000, default", partial(_minibatch, strategy=None), False, 1e-4
    )


def _cavi(seed: int) -> Figures:
    data = _Clusters.of(seed, 2000)
    model = GaussianMixture(3, np.eye(2))
    with Meter() as meter:
        found = bqvi.fit(model, data.x, method="cavi", seed=seed)
    means, weights = found.q["means"], found.q["weights"].mean
    error = data.log_density(data.weights, data.centres) - data.log_density(weights, means.mean)
    return replace(_of_clusters(found, data, meter), error=max(error, 0.0))


def _minibatch(seed: int, strategy: str | None = "balanced") -> Figures:
    data = _Clusters.of(seed, 5000)
    model = GaussianMixture(3, np.eye(2))
    start = model.initial(data.x, "k-means++", np.random.default_rng(seed))
    best = bqvi.fit(model, data.x, method="cavi", start_from=start).elbo
    with Meter() as meter:
        found = bqvi.fit(
            model, data.x, method="sngd", minibatch=strategy, start_from=start, steps=400, record=[400],
            seed=seed,
        )  # fmt: skip
    return replace(_of_clusters(found, data, meter), error=best - found.elbo)


def _of_clusters(found: Any, data: _Clusters, meter: Meter) -> Figures:
    means = found.q["means"]
    sds = np.sqrt(np.diagonal(means.covariance, axis1=-2, axis2=-1))
    nearest = np.argmin(np.square(data.centres[:, None] - means.mean).sum(-1), axis=1)
    within = np.abs(means.mean[nearest] - data.centres) <= 2 * sds[nearest]
    overhead = meter.overhead(0.0, found.n_evaluations / 1000)
    return Figures(NOTHING, float(within.mean()), found.n_evaluations, overhead, meter.memory)


# --- vbmc --------------------------------------------------------------------------------------------------


def _evidences() -> Iterator[Task]:
    for name, problem, quick in (
        ("lumpy 2", partial(posteriors.lumpy, 2), True),
        ("bounded banana", posteriors.bounded_banana, True),
        ("Rosenbrock 2", partial(posteriors.rosenbrock, 2), False),
        ("cigar 4", partial(posteriors.cigar, 4), False),
        ("logistic 5", posteriors.logistic, False),
    ):
        yield Task("vbmc", name, partial(_vbmc, cache(problem)), quick, 1e-4)
    noisy = partial(_vbmc, cache(partial(posteriors.rosenbrock, 2)), noise_sd=0.5)
    yield Task("vbmc", "Rosenbrock 2, noise .5", noisy, False, 1e-4)
    for name, problem, quick in (
        ("logistic 5", posteriors.logistic, True),
        ("cigar 4", partial(posteriors.cigar, 4), False),
    ):
        yield Task("vbmc gradients", name, partial(_vbmc, cache(problem), gradients=True), quick, 1e-4)


def _vbmc(
    problem: Callable[[], posteriors.Problem],
    seed: int,
    gradients: bool = False,
    noise_sd: float | None = None,
) -> Figures:
    known = problem()
    function = Watched(known.log_joint if noise_sd is None else known.noisy(noise_sd, seed))
    slope = Watched(known.gradient)
    with Meter() as meter:
        found = bqvi.vbmc(
            function, **known.bounds(), gradient=slope if gradients else None, noise_sd=noise_sd, seed=seed
        )
    points = function.points
    error = abs(found.log_evidence - known.log_evidence)
    distance = posteriors.mmtv(found.posterior.sample(_DRAWS, seed), known.sample(_DRAWS, seed + 1))
    within = float(error <= 2 * found.log_evidence_sd)
    overhead = meter.overhead(function.seconds + slope.seconds, points)
    return Figures(error, within, points, overhead, meter.memory, distance)


# --- gp.fit ------------------------------------------------------------------------------------------------


def _regressions() -> Iterator[Task]:
    yield Task(
        "gp.fit", "Friedman 5, 150 rows, noise 1", partial(_regression, _friedman, 150, 1.0), True, 1e-6
    )
    yield Task("gp.fit", "waves 2, 200 rows, noise .1", partial(_regression, _waves, 200, 0.1), True, 1e-6)
    yield Task("gp.fit", "waves 2, 60 rows, exact", partial(_regression, _waves, 60, None), False, 1e-6)


def _friedman(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_friedman1

    x, truth = make_friedman1(n, n_features=5, noise=0.0, random_state=seed)
    return x, truth


def _waves(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng([20261123, seed]).standard_normal((n, 2))
    return x, np.sin(2.0 * x[:, 0]) + 0.5 * np.cos(x @ [1.0, 2.0])


def _regression(
    drawn: Callable[[int, int], tuple[np.ndarray, np.ndarray]], n: int, noise_sd: float | None, seed: int
) -> Figures:
    x, truth = drawn(n + 500, seed)
    y = truth[:n] + (noise_sd or 0.0) * np.random.default_rng([20261124, seed]).standard_normal(n)
    with Meter() as meter:
        posterior = gp.fit(x[:n], y, noise=None if noise_sd is None else "learn")
        mean, variance = posterior.mean(x[n:]), posterior.variance(x[n:])
    miss = np.abs(mean - truth[n:])
    within = float(np.mean(miss <= 2 * np.sqrt(variance)))
    assert posterior.hyperparameters is not None  # a fit has hyperparameters
    count = posterior.hyperparameters.n_evaluations
    error = float(np.sqrt(np.mean(miss**2)) / truth.std())
    return Figures(error, within, count, meter.overhead(0.0, 1.0), meter.memory)
