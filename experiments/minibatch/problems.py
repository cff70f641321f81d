"""The problems of the studies of mini-batches.

    clusters    a mixture of Gaussians in D dimensions, N data and K components as asked
    logistic    breast cancer on ten axes and an intercept, nine tenths of N = 569; exact expectations
    patients    of `experiments.problems.pharmacokinetics`, N = 2000: a millisecond a datum

All are natural-gradient problems. Strategies that need features get those of `representation`: data in
units of the cluster's covariance, y x for the logistic regression; patients have a kernel that is smooth in
their covariates and affine in their measurements, as gradients are, with more features, whose cost is small
beside a millisecond. Lengthscales are the defaults of the package; none was fitted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from acquisition import minibatch
from acquisition.minibatch.settings import FEATURES
from bqvi.models import GaussianMixture, LogisticRegression
from experiments.problems.data import simulate
from experiments.problems.pharmacokinetics import Pharmacokinetics
from experiments.problems.pharmacokinetics import simulate as simulated
from gp.kernels import Kernel

__all__ = ["Setting", "clusters", "logistic", "patients"]

_PATIENTS = 2000
_PATIENT_FEATURES = 150


@dataclass(frozen=True)
class Setting:
    """A model, data, a start, and rows for kernels over data."""

    model: Any
    data: Any
    start: Any
    representation: np.ndarray
    """(N, D)."""
    kernel: Kernel | None = None
    """The kernel over these rows; None: the package's default."""
    rank: int = FEATURES.rank
    """Features of these rows, at most."""
    seconds: float = 0.0
    """The seconds in which these rows were computed, where that is more than copying the data."""


def clusters(
    seed: int, n: int, centres: int, dimension: int, components: int, concentration: float
) -> Setting:
    """A mixture of ``centres`` Gaussians, fitted by one of ``components``, started at random rows.

    Parameters
    ----------
    seed : of the data and the start. n : data. centres : clusters. dimension : D. components : of the model.
    concentration : of the prior of the weights.
    """
    rng = np.random.default_rng(seed)
    means = (
        rng.uniform(-10.0, 10.0, (centres, 2))
        if dimension == 2
        else 3.0 * rng.standard_normal((centres, dimension))
    )
    weights = rng.dirichlet(np.full(centres, concentration))
    x, _ = simulate(n, weights, means, np.eye(dimension), rng)
    return _mixture(x, components, rng)


def _mixture(x: np.ndarray, components: int, rng: np.random.Generator) -> Setting:
    dimension = x.shape[1]
    spread = float(x.var(axis=0).mean())
    model = GaussianMixture(
        components, np.eye(dimension), concentration=0.1, prior_covariance=spread * np.eye(dimension)
    )
    return Setting(model, x, model.initial(x, "random", rng), x)


def logistic(seed: int) -> Setting:
    """Nine tenths of the data, drawn from the seed."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    x = minibatch.standardised(x)
    axes = np.linalg.svd(x, full_matrices=False)[2][:10]
    x = np.column_stack([minibatch.standardised(x @ axes.T), np.ones(len(x))])
    kept = np.random.default_rng(seed).permutation(len(x))[: 9 * len(x) // 10]
    model = LogisticRegression(11)
    rows = (x[kept], y[kept].astype(float))
    return Setting(model, model.check(rows), model.initial(rows, "k-means++", np.random.default_rng(seed)),
                   minibatch.signed(*rows))  # fmt: skip


def patients(seed: int, n: int = _PATIENTS) -> Setting:
    """Patients drawn from the seed."""
    drawn = simulated(n, seed)
    model = Pharmacokinetics()
    rows = (drawn.covariates, drawn.y)
    began = time.perf_counter()
    known, kernel = minibatch.affine_in_labels(np.log(drawn.covariates), drawn.y)
    seconds = time.perf_counter() - began
    start = model.initial(rows, "random", np.random.default_rng(seed))
    return Setting(model, rows, start, known, kernel, _PATIENT_FEATURES, seconds)
