"""The problems, estimators and choices of data of `comparison`.

    mixture     the thesis' (Section 6): N = 700, seven clusters, K = 10, alpha_0 = 1e-3, z summed out, with
                softmax weights so that q is a Gaussian: D = 29
    logistic    breast cancer on ten axes and an intercept, nine tenths of the rows: N = 512, D = 11
    Poisson     counts simulated with rates exp(x^T theta): N = 500, D = 6
    digits      is the digit odd? scikit-learn's on fifteen axes and an intercept: N = 1797, D = 16

All estimators take as many draws of theta, or nodes, at each step. Quadrature without memory has independent
draws for nodes, so that it differs from sticking-the-landing in the weights alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import bqvi
from acquisition import minibatch
from acquisition.minibatch import Features, Strategy
from bqvi.families import Gaussian
from bqvi.gradients import BayesianQuadrature, Estimator, Pathwise, Score
from bqvi.gradients.designs import Independent, MomentVarianceReduction
from bqvi.models import LogisticRegression
from experiments import fitting
from experiments.minibatch import problems as minibatch_problems
from experiments.thesis.softmax_mixture import SoftmaxMixture
from gp.arrays import LOG_2PI, to_numpy
from gp.kernels import Kernel
from gp.low_discrepancy import normal_sobol

__all__ = [
    "ADAM", "CELLS", "DATA", "DRAWS", "ESTIMATORS", "FULL", "GRID", "INSIDE", "PROBLEMS", "RATES", "SHORT",
    "STEPS", "TUNED", "UNTUNED", "Posed", "Schedule", "fitted", "possible",
]  # fmt: skip

Schedule = tuple[float, float, float]
UNTUNED: Schedule = (1.0, 10.0, 0.7)
"""(rho_0, tau, kappa) of natural steps rho_t = rho_0 (1 + t / tau)^-kappa."""
GRID: tuple[Schedule, ...] = (UNTUNED, (1.0, 3.0, 1.0), (0.3, 10.0, 0.7), (0.1, 10.0, 0.7))
SHORT: tuple[Schedule, ...] = ((0.03, 10.0, 0.7), (0.01, 10.0, 0.7))
"""Also tried for the score function and with the E step inside."""
RATES: tuple[Schedule, ...] = tuple((rate, 0.0, 0.0) for rate in (0.3, 0.1, 0.03, 0.01))
"""The first steps of Adam, which fall to a fifth."""
ADAM = ", Adam"
INSIDE = "BQ, E step inside"
TUNED = Path(__file__).with_name("comparison.json")
"""By problem, estimator and choice of data, from `comparison_tuning`."""
STEPS = 80

DRAWS = 8
"""Draws of theta, or nodes, at each step."""
_REMEMBERED = 200
"""Evaluations that are kept."""
_SPREAD = 0.1
"""Variance of the coefficients of a regression at the start."""
_POINTS = 128
"""Points of q for the ELBO of the mixture, the same for all runs."""
_LARGEST = 100.0
"""Logarithm of the largest rate: a run that has diverged goes on with finite numbers."""
FULL = "all data"


@dataclass(frozen=True)
class Posed:
    """A problem of one seed."""

    model: Any
    data: Any
    start: Gaussian
    rows: np.ndarray
    """(N, R), for kernels over the data."""
    size: int
    """S, of mini-batches."""
    kernel: Kernel | None = None
    metrics: Mapping[str, Callable[[Any], float]] = field(default_factory=dict)
    inside: Any = None
    """The log joint with the E step inside, for the same q."""

    @cached_property
    def features(self) -> Features:
        """The kernel over the data."""
        return Features.of(self.rows, self.kernel)


class _MixtureOfRows(SoftmaxMixture):
    """The mixture with z summed out, as a log joint with terms of single data."""

    at: Any = None  # its log joint does not change with q

    def check(self, data: Any) -> Any:
        """The rows as a tensor."""
        return torch.as_tensor(np.asarray(data, float))

    def log_prior(self, theta: Any) -> Any:
        """(L, D) -> (L,)."""
        return self._log_prior(*self._parts(theta))

    def log_likelihood_terms(self, theta: Any, rows: Any) -> Any:
        """(L, D) and S rows -> (L, S)."""
        log_weights, means = self._parts(theta)
        # |x - mu|^2 as a product of matrices, whose gradient is several times as fast as that of differences
        squares = rows.square().sum(1)[None, :, None] + means.square().sum(2)[:, None] - 2.0 * rows @ means.mT
        return torch.logsumexp(log_weights[:, None] - 0.5 * squares, 2) - 0.5 * rows.shape[1] * LOG_2PI

    def _draws(self, q: Gaussian) -> torch.Tensor:
        half = normal_sobol(self.dimension, _POINTS // 2, 0)
        noise = np.concatenate([half, -half])
        return torch.as_tensor(to_numpy(q.mean) + noise @ to_numpy(q.scale_tril).T)

    def elbo(self, q: Gaussian, data: Any) -> float:
        """The ELBO by fixed points, nats."""
        with torch.no_grad():
            theta = self._draws(q)
            values = self.log_prior(theta) + self.log_likelihood_terms(theta, data).sum(1)
        return float(values.mean()) + float(q.entropy)

    def expected(self, q: Gaussian) -> dict[str, np.ndarray]:
        """E[pi] and E[mu]."""
        with torch.no_grad():
            log_weights, means = self._parts(self._draws(q))
        return {"weights": log_weights.exp().mean(0).numpy(), "means": means.mean(0).numpy()}


def _mixture(seed: int) -> Posed:
    """The data and the start of `settings.problem`; the logits have the variances of a Dirichlet(10)."""
    from experiments.thesis.settings import problem

    conjugate, clusters, first = problem(seed)
    k = conjugate.n_components
    model = _MixtureOfRows(clusters.x, k, 1.0, concentration=1e-3)
    covariance = np.eye(model.dimension)
    covariance[: k - 1, : k - 1] = 0.1 * (np.eye(k - 1) + np.ones((k - 1, k - 1)))
    start = Gaussian(np.concatenate([np.zeros(k - 1), first["means"].mean.ravel()]), covariance)
    true = conjugate.log_likelihood(clusters.x, clusters.truth)
    error = {
        "log_likelihood_error": lambda q: true - conjugate.log_likelihood(clusters.x, model.expected(q)),
        "components": lambda q: float((model.expected(q)["weights"] > 0.01).sum()),
    }
    inside = SoftmaxMixture(clusters.x, k, 1.0, concentration=1e-3)
    return Posed(model, clusters.x, start, clusters.x, 50, metrics=error, inside=inside)


def _started(dimension: int) -> Gaussian:
    return Gaussian(np.zeros(dimension), _SPREAD * np.eye(dimension))


def _logistic(seed: int) -> Posed:
    made = minibatch_problems.logistic(seed)
    return Posed(made.model, made.data, _started(11), made.representation, 50)


def _digits(seed: int) -> Posed:
    """Nine tenths of the rows, drawn from the seed."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    centred = pixels - pixels.mean(0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:15]
    x = np.column_stack([minibatch.standardised(centred @ axes.T), np.ones(len(pixels))])
    kept = np.random.default_rng(seed).permutation(len(x))[: 9 * len(x) // 10]
    rows = (x[kept], (labels[kept] % 2).astype(float))
    model = LogisticRegression(16)
    return Posed(model, model.check(rows), _started(16), minibatch.signed(*rows), 100)


class _PoissonRegression:
    """y_n ~ Poisson(exp(x_n^T theta)), theta ~ N(0, I); the ELBO of a Gaussian q is in closed form."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def check(self, data: Any) -> Any:
        """Rows x (N, D), counts y (N,) and ln y!, as tensors."""
        x, y = (torch.as_tensor(np.asarray(part, float)) for part in data)
        return x, y, torch.lgamma(y + 1.0)

    def initial(self, data: Any, how: str, rng: np.random.Generator) -> Gaussian:
        """The start of all runs."""
        return _started(self.dimension)

    def log_prior(self, theta: Any) -> Any:
        """(L, D) -> (L,)."""
        return -0.5 * theta.square().sum(1) - 0.5 * self.dimension * LOG_2PI

    def log_likelihood_terms(self, theta: Any, rows: Any) -> Any:
        """(L, D) and S rows -> (L, S)."""
        x, y, constant = rows
        rates = (theta @ x.T).clamp(max=_LARGEST)
        return y * rates - rates.exp() - constant

    def elbo(self, q: Gaussian, data: Any) -> float:
        """E[exp(x^T theta)] = exp(x^T m + x^T C x / 2)."""
        x, y, constant = (to_numpy(part) for part in data)
        mean, covariance = to_numpy(q.mean), to_numpy(q.covariance)
        rates = x @ mean
        spread = np.einsum("nd,de,ne->n", x, covariance, x)
        likelihood = y @ rates - np.exp(rates + 0.5 * spread).sum() - constant.sum()
        prior = -0.5 * (mean @ mean + np.trace(covariance)) - 0.5 * self.dimension * LOG_2PI
        return float(likelihood + prior) + float(q.entropy)


def _poisson(seed: int) -> Posed:
    rng = np.random.default_rng(seed)
    x = np.column_stack([0.5 * rng.standard_normal((500, 5)), np.ones(500)])
    theta = np.concatenate([0.6 * rng.standard_normal(5), [0.5]])
    y = rng.poisson(np.exp(x @ theta)).astype(float)
    rows, kernel = minibatch.affine_in_labels(x[:, :5], y[:, None])
    model = _PoissonRegression(6)
    return Posed(model, (x, y), _started(6), rows, 50, kernel)


PROBLEMS: Mapping[str, Callable[[int], Posed]] = {
    "mixture": _mixture, "logistic": _logistic, "Poisson": _poisson, "digits": _digits,
}  # fmt: skip

ESTIMATORS: Mapping[str, Callable[[], Estimator]] = {
    "score": lambda: Score(DRAWS, baseline=False),
    "score, baseline": lambda: Score(DRAWS),
    "pathwise": lambda: Pathwise(DRAWS),
    "STL": lambda: Pathwise(DRAWS, entropy="sticking-the-landing"),
    "BQ": lambda: BayesianQuadrature(DRAWS, Independent(), memory=0, process="separable"),
    "BQ, remembered": lambda: BayesianQuadrature(DRAWS, Independent(), _REMEMBERED, process="separable"),
    "BQ, active nodes": lambda: BayesianQuadrature(
        DRAWS, MomentVarianceReduction(), _REMEMBERED, process="separable"
    ),
    INSIDE: lambda: BayesianQuadrature(DRAWS, Independent(), _REMEMBERED, process="separable"),
    f"score, baseline{ADAM}": lambda: Score(DRAWS),
    f"pathwise{ADAM}": lambda: Pathwise(DRAWS),
    f"STL{ADAM}": lambda: Pathwise(DRAWS, entropy="sticking-the-landing"),
}
"""Those of quadrature but the first keep evaluations, for which all data are needed; the one with the E step
inside is for the mixture. All have natural steps, but those of Adam, in the Cholesky coordinates of q."""

DATA: Mapping[str, Callable[[int, Features], Strategy]] = {
    "with replacement": lambda s, f: minibatch.Uniform(s, replacement=True),
    "without replacement": lambda s, f: minibatch.Uniform(s),
    "reshuffled": lambda s, f: minibatch.Reshuffled(s),
    "balanced": minibatch.Balanced,
    "control variates": lambda s, f: minibatch.GPControlVariate(minibatch.Uniform(s), f),
    "control variates, balanced": lambda s, f: minibatch.GPControlVariate(
        minibatch.Balanced(s, f, replacement=True), f
    ),
    "SAGA": lambda s, f: minibatch.Saga(minibatch.Uniform(s)),
    "SVRG": lambda s, f: minibatch.Svrg(minibatch.Reshuffled(s)),
    "herding": minibatch.Herding,
    "BQ weights": lambda s, f: minibatch.QuadratureWeighted(s, f, noise=0.0),
    "BQ weights, shrunk": lambda s, f: minibatch.QuadratureWeighted(s, f, noise=1.0),
    "sequential BQ": minibatch.SequentialBQ,
    "greatest variance": minibatch.MaxVariance,
    "upper confidence": minibatch.UpperConfidence,
}

_EVERYWHERE = ("without replacement", "reshuffled", "balanced")
CELLS: tuple[tuple[str, str], ...] = (
    *((estimator, FULL) for estimator in ESTIMATORS),
    *((estimator, chosen) for estimator in ("score", "score, baseline", "STL") for chosen in _EVERYWHERE),
    *((estimator, "reshuffled") for estimator in ESTIMATORS if estimator.endswith(ADAM)),
    *((estimator, chosen) for estimator in ("pathwise", "BQ") for chosen in DATA),
)
"""Every estimator with all data and three random choices (with Adam: one), every choice with two."""


def possible(problem: str, estimator: str) -> bool:
    """Whether the problem has what the estimator needs."""
    return estimator != INSIDE or problem == "mixture"


def fitted(
    posed: Posed,
    estimator: str,
    chosen: str,
    schedule: Sequence[float],
    steps: int,
    record: Sequence[int],
    seed: int,
) -> pd.DataFrame:
    """The records of one run.

    Parameters
    ----------
    posed : the problem. estimator, chosen : one of `CELLS`. schedule : rho_0, tau and kappa.
    steps : how many. record : the iterations of records. seed : of the run.
    """
    rho, tau, kappa = schedule
    adam, inside = estimator.endswith(ADAM), estimator == INSIDE
    lengths = bqvi.Adam(rho, decay=4.0 / STEPS) if adam else bqvi.RobbinsMonro(kappa, tau, rho * tau**kappa)
    data = posed.model.check(posed.data)
    found = fitting.frame(
        posed.inside if inside else posed.model,
        None if inside else posed.data,
        ESTIMATORS[estimator](),
        metrics={**posed.metrics, "whole": lambda q: posed.model.elbo(q, data)} if inside else posed.metrics,
        keep=fitting.STRATEGY,
        minibatch=None if chosen == FULL else DATA[chosen](posed.size, posed.features),
        geometry=bqvi.Euclidean() if adam else bqvi.Riemannian(),
        schedule=lengths,
        start_from=posed.start,
        steps=steps,
        record=record,
        seed=seed,
        warm=False,
    )
    if not inside:
        return found
    # a step takes one pass over the data, and the bound of this log joint is another
    return found.assign(elbo=found["whole"], evaluations=len(posed.rows) * found["iteration"])
