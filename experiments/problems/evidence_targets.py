"""Two evidences computed by brute force: a regression on diabetes data, a GP on the Nile's flow.

Each is Z = int L(theta) p(theta) dtheta with a normalised Gaussian prior p, and a likelihood in torch.

regression      y ~ N(X beta, s^2 I), beta ~ N(0, I), ln s ~ N(0, 1), on three columns of scikit-learn's
                diabetes data (bmi, bp, s5), standardised like y. Given s the evidence is Gaussian; the
                remaining dimension is a sum over a grid.
process         y ~ N(0, a^2 SE(l) + s^2 I), ln a, ln l, ln s ~ N(0, 1), l in decades, on 100 years of
                the Nile's flow (statsmodels), standardised. For each l one eigendecomposition
                K = U diag(k) U^T diagonalises the covariance for all a and s, so that a grid over all three
                takes little time:

                    -2 ln L = sum_i (U^T y)_i^2 / (s^2 (r^2 k_i + 1)) + ln(s^2 (r^2 k_i + 1)) + ln 2 pi,
                    r = a / s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import log, pi
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp

from gp.measures import Gaussian

__all__ = ["TARGETS", "EvidenceTarget"]

_LOG_2PI = log(2 * pi)
_COLUMNS = ("bmi", "bp", "s5")


@dataclass(frozen=True, eq=False)
class EvidenceTarget:
    """A likelihood, its prior, and ln Z.

    Attributes
    ----------
    log_likelihood : torch, (L, D) -> (L,). prior : of theta. log_evidence : ln Z, by brute force.
    """

    name: str
    log_likelihood: Callable[[torch.Tensor], torch.Tensor]
    prior: Gaussian
    log_evidence: float

    def log_joint(self, theta: torch.Tensor) -> torch.Tensor:
        """Return ln L + ln p, (L, D) -> (L,)."""
        whitened = theta - torch.as_tensor(self.prior.mean)
        log_prior = -0.5 * (whitened.square().sum(1) + self.prior.dimension * _LOG_2PI)
        return self.log_likelihood(theta) + log_prior


def _standard(dimension: int) -> Gaussian:
    """Return N(0, I), the prior of both."""
    return Gaussian(np.zeros(dimension), np.ones(dimension))


@cache
def _regression() -> EvidenceTarget:
    """Diabetes: three coefficients and ln s, D = 4."""
    from sklearn.datasets import load_diabetes

    found = load_diabetes()
    chosen = found.data[:, [found.feature_names.index(name) for name in _COLUMNS]]
    x, y = _standardised(chosen), _standardised(found.target)
    gram, moment, square = torch.as_tensor(x.T @ x), torch.as_tensor(x.T @ y), float(y @ y)

    def log_likelihood(theta: torch.Tensor) -> torch.Tensor:
        beta, log_s = theta[:, :-1], theta[:, -1]
        fit = (beta @ gram * beta).sum(1) - 2 * beta @ moment
        return -0.5 * ((square + fit) * torch.exp(-2 * log_s) + len(y) * (2 * log_s + _LOG_2PI))

    return EvidenceTarget("regression", log_likelihood, _standard(4), _regression_truth(x, y))


def _standardised(values: Any) -> Any:
    return (values - values.mean(axis=0)) / values.std(axis=0)


def _regression_truth(x: Any, y: Any) -> float:
    """ln int N(y; 0, s^2 I + X X^T) N(ln s; 0, 1) d ln s."""
    u, d, _ = np.linalg.svd(x, full_matrices=False)
    inside = u.T @ y
    outside, rest = y @ y - inside @ inside, len(y) - len(d)
    log_s = np.linspace(-3, 3, 3001)
    variances = np.exp(2 * log_s)
    along = variances[:, None] + d**2
    minus_two = np.sum(inside**2 / along + np.log(along), axis=1) + outside / variances + rest * 2 * log_s
    logs = -0.5 * (minus_two + len(y) * _LOG_2PI + log_s**2 + _LOG_2PI)
    return float(logsumexp(logs) + np.log(log_s[1] - log_s[0]))


@cache
def _process() -> EvidenceTarget:
    """The Nile: ln a, ln l and ln s of a Gaussian process, D = 3."""
    from statsmodels.datasets import nile

    data = nile.load_pandas().data
    y = _standardised(data["volume"].to_numpy(dtype=float))
    decades = torch.as_tensor(data["year"].to_numpy(dtype=float) / 10)
    squares = (decades[:, None] - decades[None, :]).square()
    column, identity = torch.as_tensor(y)[:, None], torch.eye(len(y), dtype=torch.float64)

    def log_likelihood(theta: torch.Tensor) -> torch.Tensor:
        amplitude, lengthscale, noise = torch.exp(2 * theta)[:, :, None, None].unbind(1)
        factor = torch.linalg.cholesky(amplitude * torch.exp(-0.5 * squares / lengthscale) + noise * identity)
        whitened = torch.linalg.solve_triangular(factor, column.expand(len(theta), -1, -1), upper=False)
        log_determinant = 2 * factor.diagonal(0, -2, -1).log().sum(-1)
        value: torch.Tensor = whitened.square().sum((-2, -1)) + log_determinant + len(y) * _LOG_2PI
        return -0.5 * value

    return EvidenceTarget("process", log_likelihood, _standard(3), _process_truth(squares.numpy(), y))


def _process_truth(squares: Any, y: Any) -> float:
    """Return ln Z by a sum over a grid in ln l, ln r and ln s."""
    log_l, log_r, log_s = np.linspace(-4.5, 4.5, 61), np.linspace(-6, 7, 87), np.linspace(-4.5, 1.5, 201)
    minus_two = np.empty((len(log_l), len(log_r), len(log_s)))
    for i, length in enumerate(np.exp(log_l)):
        k, u = np.linalg.eigh(np.exp(-0.5 * squares / length**2))
        relative = np.exp(2 * log_r)[:, None] * np.maximum(k, 0.0) + 1  # (r, n)
        fit = ((u.T @ y) ** 2 / relative).sum(axis=1)
        determinant = np.log(relative).sum(axis=1)
        minus_two[i] = fit[:, None] * np.exp(-2 * log_s) + determinant[:, None] + 2 * len(y) * log_s
    prior = log_l[:, None, None] ** 2 + (log_r[:, None] + log_s) ** 2 + log_s**2
    steps = [grid[1] - grid[0] for grid in (log_l, log_r, log_s)]
    logs = -0.5 * (minus_two + prior + (len(y) + 3) * _LOG_2PI)
    return float(logsumexp(logs) + np.log(steps).sum())


TARGETS: Mapping[str, Callable[[], EvidenceTarget]] = {"regression": _regression, "process": _process}
