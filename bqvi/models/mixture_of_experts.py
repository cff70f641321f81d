"""Mixture of experts with a softmax gate (Jacobs et al. 1991), by generalised EM or variational Bayes.

    z_n ~ softmax(G x_n),   y_n | z_n = k ~ N(w_k x_n, v_k),  or Bernoulli(sigmoid(w_k x_n))

G has K - 1 rows, the last logit is 0. Neither the softmax nor the sigmoid is conjugate, so each is bounded by
a quadratic in the logits a that touches it at a local parameter, whose best value is known (Boehning 1992;
Jaakkola and Jordan 2000):

    ln sum_k exp a_k <= lse(psi) + g^T (a - psi) + (a - psi)^T H (a - psi) / 2,
    psi = E a,   g = softmax(psi),   H = (I - 1 1^T / K) / 2;
    ln sigmoid(a) >= ln sigmoid(xi) + (a - xi) / 2 - l (a^2 - xi^2),
    xi^2 = E a^2,   l = tanh(xi / 2) / (4 xi).

Given those, q(z_n), q(G) = N and q(w_k, v_k) are conjugate: coordinate ascent, mini-batches and point masses
are those of every model here, and the ELBO is a bound on the evidence that never falls. At a point mass both
quadratics touch at the point, so that with flat priors the ELBO is the log likelihood and the loop a
generalised EM: a gate's M-step raises the likelihood without maximising it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
import scipy.spatial.distance
from scipy.special import expit, log_expit, logsumexp, softmax

from bqvi.arrays import Values, add
from bqvi.checks import require_above, require_integer, require_one_of
from bqvi.families import Flat, Gaussian, PointMass, Product
from bqvi.families.gaussian import LOG_2PI
from bqvi.models.conjugate import LocalStep
from bqvi.models.data import Data
from bqvi.models.gaussian_components import EMPIRICAL
from bqvi.models.linear_regression import check_regression
from bqvi.models.regression_prior import RegressionPrior, estimates, expectations, statistics
from bqvi.models.starts import sample_rows, starting_centres
from gp.arrays import Array, to_numpy

EXPERTS = ("linear", "logistic")


class Experts(Protocol):
    """The K regressions behind the gate."""

    def prior(self, n_experts: int, dimension: int) -> Any:
        """Of all experts."""

    def log_densities(self, q: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """E ln p(y_n | x_n, theta_k) or a bound on it, less ln h, (N, K); ``x`` (N, P), ``y`` (N,)."""

    def statistics(self, q: Any, x: np.ndarray, y: np.ndarray, r: np.ndarray) -> Values:
        """What rows with responsibilities ``r`` (N, K) add to the natural parameters."""

    def log_base_measure(self, y: np.ndarray) -> float:
        """sum ln h."""


class _Linear:
    """N(w_k x, v_k)."""

    def __init__(self, regression: RegressionPrior) -> None:
        self.regression = regression

    def prior(self, n_experts: int, dimension: int) -> Any:
        """A batch of K, one output each."""
        return self.regression.for_outputs(np.ones(n_experts)).of(1, dimension)

    def log_densities(self, q: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(E ln lambda_k - E lambda_k (y - w_k x)^2) / 2."""
        linear, squares, precision, logs = expectations(q)
        gaps = np.einsum("np,kpr,nr->nk", x, squares, x, optimize=True) + np.outer(y * y, precision)
        return np.asarray(y[:, None] * (x @ linear[:, 0].T) + 0.5 * (logs - gaps))

    def statistics(self, q: Any, x: np.ndarray, y: np.ndarray, r: np.ndarray) -> Values:
        """sum r (y x^T, x x^T, y^2, 1)."""
        del q
        return statistics((r * y[:, None]).T[:, None, :] @ x, _seconds(r, x), r.T @ (y * y), r.sum(0))

    def log_base_measure(self, y: np.ndarray) -> float:
        """-(N / 2) ln(2 pi)."""
        return float(-0.5 * len(y) * LOG_2PI)


class _Logistic:
    """Bernoulli(sigmoid(w_k x))."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def prior(self, n_experts: int, dimension: int) -> Gaussian:
        """A batch of K."""
        return _normal(np.zeros((n_experts, dimension)), self.scale)

    def _touching(self, q: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E a and xi, (N, K)."""
        mean, second = q.expected_statistics
        return x @ mean.T, np.sqrt(np.einsum("np,kpr,nr->nk", x, second, x, optimize=True))

    def log_densities(self, q: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """ln sigmoid(xi) - xi / 2 + (y - 1/2) E a."""
        logits, xi = self._touching(q, x)
        return np.asarray(log_expit(xi) - 0.5 * xi + (y - 0.5)[:, None] * logits)

    def statistics(self, q: Any, x: np.ndarray, y: np.ndarray, r: np.ndarray) -> Values:
        """sum r ((y - 1/2) x, -l x x^T)."""
        xi = np.maximum(self._touching(q, x)[1], 1e-8)
        return (r * (y - 0.5)[:, None]).T @ x, -_seconds(r * np.tanh(0.5 * xi) / (4.0 * xi), x)

    def log_base_measure(self, y: np.ndarray) -> float:
        """0."""
        del y
        return 0.0


def _normal(mean: np.ndarray, scale: float) -> Gaussian:
    """N(mean, scale^2 I), a batch."""
    d = mean.shape[-1]
    return Gaussian(mean, np.broadcast_to(scale**2 * np.eye(d), (*mean.shape, d)).copy())


def _seconds(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    """sum_n w_nk x_n x_n^T, (K, P, P)."""
    return np.stack([(weights[:, k, None] * x).T @ x for k in range(weights.shape[1])])


class MixtureOfExperts:
    """K regressions of which a softmax of the inputs chooses one; data are (X (N, P), y (N,)).

    Add a column of ones to X for an intercept of gate and experts.

    Parameters
    ----------
    n_experts : K >= 2
    dimension : P >= 1
    experts : 'linear', or 'logistic' for y in {0, 1}
    gate_scale : > 0, prior standard deviation of each coefficient of the gate; default 3
    prior_strength : > 0, of linear experts: a coefficient has standard deviation sqrt(v_k / strength);
        default 0.01
    prior_scale : > 0; of linear experts that of the noise variances, InverseGamma(3 / 2, scale / 2), default
        a tenth of the variance of y; of logistic ones the standard deviation of each coefficient, default 3
    flat : True for flat priors: with family='point', maximum likelihood by generalised EM

    Raises
    ------
    ValueError
        Naming the argument, what was given and what is allowed.
    """

    def __init__(
        self,
        n_experts: int,
        dimension: int,
        experts: str = "linear",
        *,
        gate_scale: float = 3.0,
        prior_strength: float = EMPIRICAL.strength,
        prior_scale: float | None = None,
        flat: bool = False,
    ) -> None:
        self.n_experts = require_integer("n_experts", n_experts, 2)
        self.dimension = require_integer("dimension", dimension, 1)
        require_one_of("experts", experts, EXPERTS)
        require_above("gate_scale", gate_scale, 0.0)
        require_above("prior_strength", prior_strength, 0.0)
        if prior_scale is not None:
            require_above("prior_scale", prior_scale, 0.0)
        self.kind, self.flat = experts, bool(flat)
        self.gate_scale, self.prior_strength, self.prior_scale = gate_scale, prior_strength, prior_scale

    def for_data(self, data: Data) -> Self:
        """The same model, with a scale that was not given settled from ``data``."""
        if self.prior_scale is not None:
            return self
        other = copy.copy(self)
        for name in ("prior", "experts"):
            other.__dict__.pop(name, None)
        variance = float(self.check(data)[1].var())
        linear = EMPIRICAL.spread * variance if variance > 0.0 else 1.0
        other.prior_scale = linear if self.kind == "linear" else 3.0
        return other

    def check(self, data: Data) -> tuple[np.ndarray, np.ndarray]:
        """(X (N, P), y (N,)), finite; y 0 or 1 for logistic experts."""
        x, y = check_regression(data, self.dimension, 1)
        if self.kind == "logistic" and not np.isin(y, (0.0, 1.0)).all():
            raise ValueError(f"data[1] has values {np.unique(y)[:5]}; they must be 0 or 1")
        return x, y[:, 0]

    @cached_property
    def experts(self) -> Experts:
        """The regressions."""
        if self.prior_scale is None:
            raise ValueError("prior_scale is to be taken from data; use model.for_data(data), as fit does")
        if self.kind == "linear":
            return _Linear(RegressionPrior(self.prior_strength, self.prior_scale))
        return _Logistic(self.prior_scale)

    @cached_property
    def prior(self) -> Product:
        """p(G) prod_k p(theta_k)."""
        gate: Any = _normal(np.zeros((self.n_experts - 1) * self.dimension), self.gate_scale)
        experts = self.experts.prior(self.n_experts, self.dimension)
        if self.flat:
            gate, experts = Flat(gate), Flat(experts)
        return Product({"gate": gate, "experts": experts})

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """Experts of K clusters of (x, y) that leak into each other ('k-means++' or 'random' centres)."""
        x, y = data
        table = np.column_stack([x, y])
        spread = table.std(axis=0)
        table = table[:, spread > 0.0] / spread[spread > 0.0] if (spread > 0.0).any() else table
        centres = starting_centres(table[sample_rows(len(x), rng)], self.n_experts, how, rng)
        nearest = scipy.spatial.distance.cdist(table, centres, "sqeuclidean").argmin(1)
        r = 0.1 / self.n_experts + 0.9 * np.eye(self.n_experts)[nearest]
        proper = {name: f.family if isinstance(f, Flat) else f for name, f in self.prior.factors.items()}
        at_zero = PointMass(_normal(np.zeros((self.n_experts - 1) * self.dimension), self.gate_scale))
        gate = proper["gate"].from_natural(
            add(proper["gate"].natural, self._gate_statistics(at_zero, x, r, np.ones(len(x))))
        )
        found = self.experts.statistics(proper["experts"], x, y, r)
        return Product(
            {"gate": gate, "experts": proper["experts"].from_natural(add(proper["experts"].natural, found))}
        )

    @cached_property
    def _curvature(self) -> np.ndarray:
        """H, (K - 1, K - 1)."""
        k = self.n_experts
        return np.asarray(0.5 * (np.eye(k - 1) - 1.0 / k))

    def _gate_logits(self, gate: Any, x: np.ndarray) -> np.ndarray:
        """E a, (N, K), the last 0."""
        mean = gate.expected_statistics[0].reshape(self.n_experts - 1, self.dimension)
        return np.asarray(np.column_stack([x @ mean.T, np.zeros(len(x))]))

    def _gate_bound(self, gate: Any, x: np.ndarray) -> np.ndarray:
        """The bound on E ln softmax(a)_k, (N, K)."""
        k, p = self.n_experts - 1, self.dimension
        mean, second = gate.expected_statistics
        covariance = (second - np.outer(mean, mean)).reshape(k, p, k, p)
        spread = np.einsum("ij,ipjr->pr", self._curvature, covariance)
        logits = self._gate_logits(gate, x)
        level = logsumexp(logits, axis=1) + 0.5 * ((x @ spread) * x).sum(1)
        return np.asarray(logits - level[:, None])

    def _gate_statistics(self, gate: Any, x: np.ndarray, r: np.ndarray, part: np.ndarray) -> Values:
        """sum (r - g + H psi) x^T, and -H (x) x x^T / 2; ``r`` is weighted by ``part`` (N,) already."""
        logits = self._gate_logits(gate, x)
        shown = softmax(logits, axis=1)[:, :-1]
        slopes = r[:, :-1] - part[:, None] * (shown - logits[:, :-1] @ self._curvature)
        return (slopes.T @ x).ravel(), -0.5 * np.kron(self._curvature, (part[:, None] * x).T @ x)

    def _joint(self, q: Product, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """E ln p(y_n, z_n = k) or the bound on it, (N, K)."""
        return np.asarray(self._gate_bound(q["gate"], x) + self.experts.log_densities(q["experts"], x, y))

    def local_step(self, q: Product, rows: Data, weights: Array | None = None) -> LocalStep:
        """Responsibilities of ``rows``, and their statistics."""
        x, y = (to_numpy(part) for part in rows)
        part = np.ones(len(x)) if weights is None else np.asarray(to_numpy(weights), float)
        joint = self._joint(q, x, y)
        level = logsumexp(joint, axis=1)
        r = part[:, None] * np.exp(joint - level[:, None])
        gate = self._gate_statistics(q["gate"], x, r, part)
        return LocalStep((*gate, *self.experts.statistics(q["experts"], x, y, r)), float(part @ level))

    def log_base_measure(self, data: Data) -> float:
        """sum ln h of the experts."""
        return self.experts.log_base_measure(data[1])

    def responsibilities(self, q: Product, data: Data) -> np.ndarray:
        """q(z_n = k), (N, K)."""
        return np.asarray(softmax(self._joint(q, *self.check(data)), axis=1))

    def parameters(self, q: Product) -> dict[str, np.ndarray]:
        """'gate' (K - 1, P), 'coefficients' (K, P), and of linear experts 'variances' (K,), at q's means."""
        gate, experts = q["gate"].mean, q["experts"]
        found = {"gate": np.asarray(gate).reshape(self.n_experts - 1, self.dimension)}
        if self.kind == "logistic":
            return {**found, "coefficients": np.asarray(experts.mean)}
        coefficients, variances = estimates(experts)
        return {**found, "coefficients": coefficients[:, 0], "variances": variances}

    def gate(self, q: Product, x: np.ndarray) -> np.ndarray:
        """softmax(E[G] x) under ``q``, (N, K), at rows ``x`` (N, P)."""
        return np.asarray(softmax(self._gate_logits(q["gate"], np.asarray(x, float)), axis=1))

    def predict(self, q: Product, x: np.ndarray) -> np.ndarray:
        """E[y] at rows ``x`` (N, P) and the means of ``q``, (N,); for logistic experts p(y = 1)."""
        outputs = np.asarray(x, float) @ self.parameters(q)["coefficients"].T
        return np.asarray((self.gate(q, x) * (outputs if self.kind == "linear" else expit(outputs))).sum(1))

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(y | X, theta), nats, z summed out; theta as `parameters` returns it."""
        x, y = self.check(data)
        logits = np.column_stack([x @ np.asarray(theta["gate"]).T, np.zeros(len(x))])
        outputs = x @ np.asarray(theta["coefficients"]).T
        if self.kind == "linear":
            variances = np.asarray(theta["variances"])
            logs = -0.5 * ((y[:, None] - outputs) ** 2 / variances + np.log(variances) + LOG_2PI)
        else:
            logs = log_expit((2.0 * y - 1.0)[:, None] * outputs)
        return float(logsumexp(logits - logsumexp(logits, axis=1, keepdims=True) + logs, axis=1).sum())

    def representation(self, data: Data) -> np.ndarray:
        """Rows for a kernel over data: inputs and output side by side."""
        return np.asarray(np.column_stack([to_numpy(part) for part in data]))
