"""The experts of a mixture of experts: K regressions of y on x, whose weights are given by the gate.

    LinearExperts      y ~ N(w_k x, v_k)                 conjugate: `regression_prior.RegressionPrior`
    LogisticExperts    y ~ Bernoulli(sigmoid(w_k x))     w_k normal; bounded as `mixture_of_experts` says

`network_experts` has those that are networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from scipy.special import expit, log_expit

from bqvi.arrays import Values
from bqvi.checks import require_positive
from bqvi.families import Gaussian
from bqvi.families.family import ExponentialFamily, FamilyOrPoint
from bqvi.models.data import as_numbers
from bqvi.models.gaussian_components import EMPIRICAL
from bqvi.models.regression_prior import (
    RegressionPrior,
    estimates,
    expectations,
    statistics,
    visible_strength,
)
from gp.arrays import LOG_2PI, Array


class Experts(Protocol):
    """The K regressions, as frozen settings. ``x`` is (N, P), ``y`` (N,)."""

    @property
    def points_only(self) -> bool:
        """Whether there are point estimates only."""

    def for_data(self, x: np.ndarray, y: np.ndarray) -> Self:
        """The experts with a prior settled by ``x`` and ``y``."""

    def check(self, y: np.ndarray) -> None:
        """Raise ValueError where ``y`` is no possible output."""

    def prior(self, n_experts: int, dimension: int) -> Any:
        """The prior of K = ``n_experts`` with P = ``dimension`` inputs."""

    def start(self, prior: Any, rng: np.random.Generator) -> Any:
        """The start of the first step, in the family of the proper ``prior``; draws by ``rng``."""

    def log_densities(self, q: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """E ln p(y_n | x_n, theta_k) under ``q`` or a bound on it, less ln h, (N, K)."""

    def statistics(self, q: Any, x: np.ndarray, y: np.ndarray, r: np.ndarray, prior: Any) -> Values:
        """The natural parameters added to the ``prior`` by rows with responsibilities ``r`` (N, K)."""

    def log_base_measure(self, y: np.ndarray) -> float:
        """sum ln h."""

    def parameters(self, q: Any) -> dict[str, np.ndarray]:
        """By name, (K, ...), at the means of ``q``."""

    def log_likelihoods(self, theta: Mapping[str, Array], x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """ln p(y_n | x_n, theta_k), (N, K), at ``theta`` as ``parameters`` has it."""

    def means(self, theta: Mapping[str, Array], x: np.ndarray) -> np.ndarray:
        """E[y | x_n, theta_k], (N, K), at ``theta`` as ``parameters`` has it."""


def require_binary(y: np.ndarray) -> None:
    """ValueError unless ``y`` is 0 or 1 throughout."""
    if not np.isin(y, (0.0, 1.0)).all():
        raise ValueError(f"data[1] has values {np.unique(y)[:5]}; they must be 0 or 1")


def empirical_scale(y: np.ndarray) -> float:
    """A tenth of the variance of ``y``, or 1 where it does not vary."""
    variance = float(y.var())
    return EMPIRICAL.spread * variance if variance > 0.0 else 1.0


def normal_log_densities(y: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """ln N(y_n | means_nk, variances_k), (N, K).

    Parameters
    ----------
    y : (N,). means : (N, K). variances : (K,).
    """
    squares = (y[:, None] - means) ** 2 / variances
    return np.asarray(-0.5 * (squares + np.log(variances) + LOG_2PI))


@dataclass(frozen=True)
class LinearExperts:
    """N(w_k x, v_k)."""

    regression: RegressionPrior
    points_only = False

    def for_data(self, x: np.ndarray, y: np.ndarray) -> Self:
        """With a scale of the noise, and a strength that rounding leaves."""
        prior = self.regression.for_inputs(x, "prior_strength")
        if prior.scale is None:
            prior = replace(prior, scale=empirical_scale(y))
        return self if prior is self.regression else replace(self, regression=prior)

    def check(self, y: np.ndarray) -> None:
        """Any y."""

    def prior(self, n_experts: int, dimension: int) -> Any:
        """A batch of K, one output each."""
        if self.regression.scale is None:
            raise ValueError("prior_scale is to be taken from data; use model.for_data(data), as fit does")
        return self.regression.for_outputs(np.ones(n_experts)).of(1, dimension)

    def start(self, prior: ExponentialFamily, rng: np.random.Generator) -> FamilyOrPoint:
        """The prior."""
        return prior

    def log_densities(self, q: FamilyOrPoint, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(E ln lambda_k - E lambda_k (y - w_k x)^2) / 2."""
        linear, squares, precision, logs = expectations(q)
        gaps = np.einsum("np,kpr,nr->nk", x, squares, x, optimize=True) + np.outer(y * y, precision)
        return np.asarray(y[:, None] * (x @ linear[:, 0].T) + 0.5 * (logs - gaps))

    def statistics(
        self, q: FamilyOrPoint, x: np.ndarray, y: np.ndarray, r: np.ndarray, prior: ExponentialFamily
    ) -> Values:
        """sum r (y x^T, x x^T, y^2, 1)."""
        return statistics((r * y[:, None]).T[:, None, :] @ x, _seconds(r, x), r.T @ (y * y), r.sum(0))

    def log_base_measure(self, y: np.ndarray) -> float:
        """-(N / 2) ln(2 pi)."""
        return float(-0.5 * len(y) * LOG_2PI)

    def parameters(self, q: FamilyOrPoint) -> dict[str, np.ndarray]:
        """'coefficients' (K, P), 'variances' (K,)."""
        coefficients, variances = estimates(q)
        return {"coefficients": coefficients[:, 0], "variances": variances}

    def log_likelihoods(self, theta: Mapping[str, Array], x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """ln N(y | w_k x, v_k)."""
        return normal_log_densities(y, self.means(theta, x), np.asarray(theta["variances"]))

    def means(self, theta: Mapping[str, Array], x: np.ndarray) -> np.ndarray:
        """w_k x."""
        return np.asarray(x @ np.asarray(theta["coefficients"]).T)


@dataclass(frozen=True)
class LogisticExperts:
    """Bernoulli(sigmoid(w_k x)), each coefficient N(0, scale^2)."""

    scale: np.ndarray | float
    points_only = False

    def __post_init__(self) -> None:
        require_positive("prior_scale", as_numbers("prior_scale", self.scale))

    def for_data(self, x: np.ndarray, y: np.ndarray) -> Self:
        """With a scale beside which rounding leaves something of the prior."""
        scale = visible_scale("prior_scale", self.scale, x)
        return self if scale is self.scale else replace(self, scale=scale)

    def check(self, y: np.ndarray) -> None:
        """0 or 1."""
        require_binary(y)

    def prior(self, n_experts: int, dimension: int) -> Gaussian:
        """A batch of K."""
        return centred_normal((n_experts, dimension), self.scale)

    def start(self, prior: ExponentialFamily, rng: np.random.Generator) -> FamilyOrPoint:
        """The prior."""
        return prior

    def _logits(self, q: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E a and its variance, (N, K)."""
        variances = np.einsum("np,kpr,nr->nk", x, q.covariance, x, optimize=True)
        return x @ np.asarray(q.mean).T, np.maximum(variances, 0.0)

    def log_densities(self, q: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """ln sigmoid(xi) - (xi - s) / 2,  s = (2 y - 1) E a,  xi^2 = s^2 + Var a."""
        logits, variances = self._logits(q, x)
        s = (2.0 * y - 1.0)[:, None] * logits
        xi = np.hypot(s, np.sqrt(variances))
        # For large s > 0 the difference is lost to rounding, and the quotient is not.
        gap = np.where(s > 0.0, variances / np.maximum(xi + s, 1e-300), xi - s)
        return np.asarray(log_expit(xi) - 0.5 * gap)

    def statistics(
        self, q: FamilyOrPoint, x: np.ndarray, y: np.ndarray, r: np.ndarray, prior: ExponentialFamily
    ) -> Values:
        """sum r ((y - 1/2) x, -l x x^T)."""
        logits, variances = self._logits(q, x)
        xi = np.maximum(np.hypot(logits, np.sqrt(variances)), 1e-8)
        return (r * (y - 0.5)[:, None]).T @ x, -_seconds(r * np.tanh(0.5 * xi) / (4.0 * xi), x)

    def log_base_measure(self, y: np.ndarray) -> float:
        """0."""
        return 0.0

    def parameters(self, q: Any) -> dict[str, np.ndarray]:
        """'coefficients' (K, P)."""
        return {"coefficients": np.asarray(q.mean)}

    def log_likelihoods(self, theta: Mapping[str, Array], x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """ln sigmoid of the logit, or of its negative."""
        return np.asarray(log_expit((2.0 * y - 1.0)[:, None] * (x @ np.asarray(theta["coefficients"]).T)))

    def means(self, theta: Mapping[str, Array], x: np.ndarray) -> np.ndarray:
        """p(y = 1)."""
        return np.asarray(expit(x @ np.asarray(theta["coefficients"]).T))


def visible_scale(name: str, scale: np.ndarray | float, x: np.ndarray) -> np.ndarray | float:
    """``scale`` of coefficients of ``x`` (N, P), or a smaller one, (P,): see `visible_strength`."""
    strength = np.asarray(scale, float) ** -2.0
    seen = visible_strength(f"the precision of {name}", strength, x)
    return scale if seen is strength else np.asarray(seen) ** -0.5


def centred_normal(shape: tuple[int, ...], scale: np.ndarray | float) -> Gaussian:
    """N(0, scale^2 I), a batch; ``scale`` a number, or one for each coefficient."""
    scale = np.asarray(scale, float)
    return Gaussian(
        np.zeros(shape), np.broadcast_to(scale**2 * np.eye(shape[-1]), (*shape, shape[-1])).copy()
    )


def _seconds(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    """sum_n w_nk x_n x_n^T, (K, P, P)."""
    return np.stack([(weights[:, k, None] * x).T @ x for k in range(weights.shape[1])])
