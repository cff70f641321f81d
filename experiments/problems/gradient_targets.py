"""Six log joints on which gradient estimators are compared, each with its starting q.

banana     -x^2/2 - (y - x^2)^2 / (2 0.7^2)                                                        D = 2
logistic   breast cancer, 4 features and an intercept, 120 rows; prior N(0, 9)                     D = 5
mixture    three Gaussians in the plane, N = 150, z summed out; softmax weights, Dirichlet(1)      D = 8
wine       logistic, class 1 against the rest, 9 features and an intercept; prior N(0, 9)          D = 10
schools    eight schools, centred and not; mu ~ N(0, 25), tau ~ half-Cauchy(5) by its logarithm    D = 10
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_wine

from bqvi.families import Gaussian
from bqvi.models import LogJoint

__all__ = ["GradientTarget", "banana", "mixture", "mixture_data", "schools", "targets"]

_Tensor = torch.Tensor


@dataclass(frozen=True)
class GradientTarget:
    """A log joint and a start."""

    name: str
    log_density: Callable[[_Tensor], _Tensor]
    """(L, D) -> (L,)."""
    mean: np.ndarray
    """(D,), of the first q."""
    scale: np.ndarray
    """(D,), its standard deviations."""

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.mean)

    def model(self) -> LogJoint:
        """For `bqvi.fit`."""
        return LogJoint(self.log_density, self.dimension)

    def start(self) -> Gaussian:
        """The first q."""
        return Gaussian(self.mean.copy(), np.diag(np.square(self.scale)))


def banana() -> GradientTarget:
    """D = 2."""

    def log_density(theta: _Tensor) -> _Tensor:
        x, y = theta[:, 0], theta[:, 1]
        return -0.5 * x**2 - (y - x**2) ** 2 / (2 * 0.7**2)

    return GradientTarget("banana", log_density, np.array([1.5, -1.0]), np.ones(2))


def _regression(name: str, features: np.ndarray, positive: np.ndarray) -> GradientTarget:
    standard = (features - features.mean(0)) / features.std(0)
    design = np.column_stack([standard, np.ones(len(standard))])
    signed = torch.from_numpy(design * np.where(positive, 1.0, -1.0)[:, None])
    d = design.shape[1]
    constant = -d * math.log(3.0 * math.sqrt(2.0 * math.pi))

    def log_density(theta: _Tensor) -> _Tensor:
        likelihood = torch.nn.functional.logsigmoid(theta @ signed.T).sum(1)
        return likelihood - (theta**2).sum(1) / 18.0 + constant

    return GradientTarget(name, log_density, np.zeros(d), np.ones(d))


def _logistic() -> GradientTarget:
    """D = 5."""
    features, labels = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(features))[:120]
    return _regression("logistic", features[rows, :4], labels[rows] == 1)


def _wine() -> GradientTarget:
    """D = 10."""
    features, labels = load_wine(return_X_y=True)
    return _regression("wine", features[:, :9], labels == 1)


def mixture_data() -> tuple[np.ndarray, np.ndarray]:
    """The mixture's data (150, 2), and the mean of its start (8,)."""
    rng = np.random.default_rng(0)
    centres = np.array([[-2.0, 0.0], [1.5, 1.5], [1.0, -2.0]])
    allocation = rng.choice(3, 150, p=[0.5, 0.3, 0.2])
    x = centres[allocation] + rng.standard_normal((150, 2))
    return x, np.concatenate([np.zeros(2), (centres + 0.7 * rng.standard_normal((3, 2))).ravel()])


def mixture() -> GradientTarget:
    """D = 8."""
    x, start = mixture_data()
    data = torch.from_numpy(x)
    half_squares = 0.5 * data.square().sum(1)

    def log_density(theta: _Tensor) -> _Tensor:
        logits = torch.cat([theta[:, :2], theta.new_zeros(len(theta), 1)], 1)
        log_weights = torch.log_softmax(logits, 1)
        means = theta[:, 2:].reshape(-1, 3, 2)
        # -|x - m|^2 / 2, expanded: one matrix product for all pairs instead of an (L, N, 3, 2) array
        offset = log_weights - 0.5 * means.square().sum(2)
        terms = torch.baddbmm(offset[:, :, None], means, data.T.expand(len(theta), 2, 150))
        fixed = half_squares.sum() + 150 * math.log(2.0 * math.pi)
        jacobian = math.log(2.0) + log_weights.sum(1)  # Dirichlet(1, 1, 1) in the logits
        likelihood = torch.logsumexp(terms, 1).sum(1) - fixed
        return likelihood + jacobian + _normal(theta[:, 2:], 0.0, 3.0).sum(1)

    return GradientTarget("mixture", log_density, start, np.full(8, 0.5))


def schools(centred: bool) -> GradientTarget:
    """D = 10: (mu, ln tau, 8 effects)."""
    effects = torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], dtype=torch.float64)
    errors = torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], dtype=torch.float64)

    def log_density(theta: _Tensor) -> _Tensor:
        mu, log_tau, rest = theta[:, :1], theta[:, 1:2], theta[:, 2:]
        tau = torch.exp(log_tau)
        half_cauchy = math.log(2.0 / (5.0 * math.pi)) - torch.log1p((tau / 5.0) ** 2)
        prior = (_normal(mu, 0.0, 5.0) + half_cauchy + log_tau)[:, 0]
        schools_effects = rest if centred else mu + tau * rest
        hierarchy = _normal(rest, mu, tau) if centred else _normal(rest, 0.0, 1.0)
        return prior + hierarchy.sum(1) + _normal(effects, schools_effects, errors).sum(1)

    if centred:
        mean, scale = np.array([5.0, 1.5, *[5.0] * 8]), np.array([3.0, 0.5, *[3.0] * 8])
        return GradientTarget("schools-centred", log_density, mean, scale)
    return GradientTarget("schools-noncentred", log_density, np.zeros(10), np.ones(10))


def targets() -> dict[str, GradientTarget]:
    """All six, by name."""
    made = (banana(), _logistic(), mixture(), _wine(), schools(True), schools(False))
    return {target.name: target for target in made}


def _normal(x: _Tensor, mean: _Tensor | float, scale: _Tensor | float) -> _Tensor:
    log_scale = torch.log(scale) if isinstance(scale, torch.Tensor) else math.log(scale)
    return -0.5 * ((x - mean) / scale) ** 2 - log_scale - 0.5 * math.log(2.0 * math.pi)
