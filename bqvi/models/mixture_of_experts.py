"""Mixture of experts with a softmax gate (Jacobs et al. 1991), by generalised EM or variational Bayes.

    z_n ~ softmax(G x_n),   y_n | z_n = k ~ N(w_k x_n, v_k)

G has K - 1 rows, the last logit is 0. The softmax is not conjugate, so it is bounded by a quadratic in the
logits a that touches it at a local parameter, whose best value is known (Boehning 1992):

    ln sum_k exp a_k <= lse(psi) + g^T (a - psi) + (a - psi)^T H (a - psi) / 2,
    psi = E a,   g = softmax(psi),   H = (I - 1 1^T / K) / 2.

Given the local parameters, q(z_n), q(G) = N and q(w_k, v_k) are conjugate, and the ELBO is a bound on the
evidence that never falls. At a point mass the quadratic touches at the point, so that with flat priors the
ELBO is the log likelihood and the loop a generalised EM: the M step of the gate raises the likelihood without
maximising it. Experts of another kind, as networks, are an `Experts` of the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
import scipy.spatial.distance
from scipy.special import logsumexp, softmax

from bqvi.arrays import Values, add
from bqvi.families import Flat, Gaussian, MatrixNormalInverseWishart, PointMass, Product
from bqvi.families.family import ExponentialFamily, FamilyOrPoint
from bqvi.models.components import sample_rows, starting_centres
from bqvi.models.contracts import LocalStep, altered
from bqvi.models.data import Data, regression_data
from bqvi.models.normal_components import EMPIRICAL
from gp.arrays import LOG_2PI, Array, shown, to_numpy
from gp.checks import require_above, require_integer
from gp.user_warnings import warn_user


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


_ROUNDING = 1e-10
"""The share of a sum of squares that a prior adds where rounding would leave nothing of it."""


def _visible_strength(name: str, strength: np.ndarray | float, x: np.ndarray) -> np.ndarray | float:
    """``strength``, or one that rounding leaves beside inputs ``x`` (N, P) that depend on each other.

    It is raised, with a warning that names it as ``name``, only where the smallest eigenvalue of the
    posterior precision of the coefficients, scaled to a diagonal of ones, is below `_ROUNDING`.
    """
    squares = (x * x).sum(axis=0)
    given = np.broadcast_to(strength, squares.shape)
    size = np.sqrt(squares + given)
    scaled = x / size
    if np.linalg.eigvalsh(scaled.T @ scaled + np.diag(given / size**2))[0] >= _ROUNDING:
        return strength
    raised: np.ndarray = np.maximum(given, _ROUNDING * squares)
    message = (
        f"columns of the inputs depend on each other linearly, and rounding leaves nothing of {name} beside "
        f"their squares; it is raised to at most {raised.max():.3g}. Leave out columns that repeat others, "
        "or divide the columns by their standard deviations"
    )
    warn_user(message)
    return raised


@dataclass(frozen=True)
class LinearExperts:
    """N(w_k x, v_k), v_k ~ InverseGamma(3 / 2, scale / 2), w_k | v_k ~ N(0, (v_k / strength) I)."""

    strength: np.ndarray | float
    scale: float | None
    points_only = False

    def for_data(self, x: np.ndarray, y: np.ndarray) -> Self:
        """With a scale of the noise, and a strength that rounding leaves."""
        strength = _visible_strength("prior_strength", self.strength, x)
        if strength is self.strength and self.scale is not None:
            return self
        return replace(
            self, strength=strength, scale=empirical_scale(y) if self.scale is None else self.scale
        )

    def check(self, y: np.ndarray) -> None:
        """Any y."""

    def prior(self, n_experts: int, dimension: int) -> MatrixNormalInverseWishart:
        if self.scale is None:
            raise ValueError("prior_scale is to be taken from data; use model.for_data(data), as fit does")
        precision = self.strength * np.eye(dimension)
        return MatrixNormalInverseWishart(
            np.zeros((n_experts, 1, 1, dimension)),
            np.broadcast_to(precision, (n_experts, dimension, dimension)).copy(),
            np.full((n_experts, 1, 1), self.scale),
            np.full(n_experts, 3.0),
        )

    def start(self, prior: ExponentialFamily, rng: np.random.Generator) -> FamilyOrPoint:
        return prior

    def log_densities(self, q: FamilyOrPoint, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(E ln lambda_k - E lambda_k (y - w_k x)^2) / 2."""
        linear, halved, half_precision, half_log = q.expected_statistics
        gaps = np.einsum("np,kpr,nr->nk", x, -2.0 * halved, x, optimize=True)
        gaps += np.outer(y * y, -2.0 * half_precision[:, 0, 0])
        return np.asarray(y[:, None] * (x @ linear[:, 0, 0].T) + 0.5 * (2.0 * half_log - gaps))

    def statistics(
        self, q: FamilyOrPoint, x: np.ndarray, y: np.ndarray, r: np.ndarray, prior: ExponentialFamily
    ) -> Values:
        """sum r (y x^T, x x^T, y^2, 1)."""
        cross, squares = (r * y[:, None]).T[:, None, None, :] @ x, r.T @ (y * y)
        return cross, _seconds(r, x), squares[:, None, None], r.sum(0)

    def log_base_measure(self, y: np.ndarray) -> float:
        """-(N / 2) ln(2 pi)."""
        return float(-0.5 * len(y) * LOG_2PI)

    def parameters(self, q: Any) -> dict[str, np.ndarray]:
        family = q.family if isinstance(q, PointMass) else q
        coefficients, variances = family.unpacked(q.mean)
        return {"coefficients": coefficients[:, 0, 0], "variances": variances[:, 0, 0]}

    def log_likelihoods(self, theta: Mapping[str, Array], x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """ln N(y | w_k x, v_k)."""
        return normal_log_densities(y, self.means(theta, x), np.asarray(theta["variances"]))

    def means(self, theta: Mapping[str, Array], x: np.ndarray) -> np.ndarray:
        return np.asarray(x @ np.asarray(theta["coefficients"]).T)


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
    experts : linear ones by default, or any `Experts`
    gate_scale : > 0, prior standard deviation of each coefficient of the gate; default 3
    prior_strength : > 0, of linear experts: a coefficient has standard deviation sqrt(v_k / strength);
        default 0.01
    prior_scale : > 0, of the noise variances of linear experts, InverseGamma(3 / 2, scale / 2); default a
        tenth of the variance of y
    flat : True for flat priors: with family='point', maximum likelihood by generalised EM
    """

    def __init__(
        self,
        n_experts: int,
        dimension: int,
        experts: Experts | None = None,
        *,
        gate_scale: float = 3.0,
        prior_strength: float | None = None,
        prior_scale: float | None = None,
        flat: bool = False,
    ) -> None:
        self.n_experts = require_integer("n_experts", n_experts, 2)
        self.dimension = require_integer("dimension", dimension, 1)
        require_above("gate_scale", gate_scale, 0.0)
        self.gate_scale: np.ndarray | float = gate_scale
        self.flat = bool(flat)
        if experts is None:
            strength = EMPIRICAL.strength if prior_strength is None else prior_strength
            require_above("prior_strength", strength, 0.0)
            if prior_scale is not None:
                require_above("prior_scale", prior_scale, 0.0)
            experts = LinearExperts(strength, prior_scale)
        elif prior_strength is not None or prior_scale is not None:
            raise ValueError(
                "prior_strength and prior_scale are those of linear experts, and experts were given"
            )
        elif isinstance(experts, type) or not hasattr(experts, "log_likelihoods"):
            raise TypeError(f"experts is {shown(experts)}; it must be an Experts, or None for linear ones")
        self.experts: Experts = experts

    singular = (
        "columns of the inputs that depend on each other linearly, or outputs that they explain exactly, "
        "beside which rounding leaves nothing of the prior; leave out columns that repeat others, centre the "
        "columns and the outputs and divide them by their standard deviations, or give a stronger prior"
    )
    """The reasons for which an expert's covariance or noise variance is singular, with advice."""

    @property
    def points_only(self) -> bool:
        """Whether the experts have point estimates only."""
        return self.experts.points_only

    def for_data(self, data: Data) -> Self:
        """The same model, with a scale that was not given settled from ``data``.

        Priors beside which rounding would leave nothing, as inputs depend on each other linearly, are made
        narrower, with a warning.
        """
        x, y = self.check(data)
        settled = self.experts.for_data(x, y)
        precision = np.asarray(self.gate_scale, float) ** -2.0
        seen = precision if self.flat else _visible_strength("the precision of gate_scale", precision, x)
        if settled is self.experts and seen is precision:
            return self
        return altered(self, experts=settled, gate_scale=np.asarray(seen) ** -0.5)

    def check(self, data: Data) -> tuple[np.ndarray, np.ndarray]:
        """(X (N, P), y (N,)), finite, and y as the experts take it."""
        x, y = (np.asarray(to_numpy(part), float) for part in regression_data(data, self.dimension))
        self.experts.check(y)
        return x, y

    @cached_property
    def prior(self) -> Product:
        scales = np.broadcast_to(self.gate_scale, (self.n_experts - 1, self.dimension)).ravel()
        gate: Any = Gaussian(np.zeros(scales.shape), np.diag(scales**2))
        experts = self.experts.prior(self.n_experts, self.dimension)
        if self.flat:
            gate, experts = Flat(gate), Flat(experts)
        return Product({"gate": gate, "experts": experts})

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """Experts of K overlapping clusters of (x, y) ('k-means++' or 'random' centres)."""
        x, y = data
        table = np.column_stack([x, y])
        spread = table.std(axis=0)
        table = table[:, spread > 0.0] / spread[spread > 0.0] if (spread > 0.0).any() else table
        centres = starting_centres(table[sample_rows(len(x), rng)], self.n_experts, how, rng)
        nearest = scipy.spatial.distance.cdist(table, centres, "sqeuclidean").argmin(1)
        r = 0.1 / self.n_experts + 0.9 * np.eye(self.n_experts)[nearest]
        proper = {name: f.family if isinstance(f, Flat) else f for name, f in self.prior.factors.items()}
        first = self.experts.start(proper["experts"], rng)
        found = {
            "gate": self._gate_statistics(PointMass(proper["gate"]), x, r, np.ones(len(x))),
            "experts": self.experts.statistics(first, x, y, r, proper["experts"]),
        }
        return Product({name: f.from_natural(add(f.natural, found[name])) for name, f in proper.items()})

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
        # not E[G G^T] - E[G] E[G]^T, whose rounding errors are multiplied by squares of the inputs
        spread = np.einsum("ij,ipjr->pr", self._curvature, gate.covariance.reshape(k, p, k, p))
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
        x, y = (to_numpy(part) for part in rows)
        part = np.ones(len(x)) if weights is None else np.asarray(to_numpy(weights), float)
        joint = self._joint(q, x, y)
        level = logsumexp(joint, axis=1)
        r = part[:, None] * np.exp(joint - level[:, None])
        gate = self._gate_statistics(q["gate"], x, r, part)
        found = self.experts.statistics(q["experts"], x, y, r, self.prior["experts"])
        return LocalStep((*gate, *found), float(part @ level))

    def log_base_measure(self, data: Data) -> float:
        return self.experts.log_base_measure(data[1])

    def responsibilities(self, q: Product, data: Data) -> np.ndarray:
        """q(z_n = k), (N, K)."""
        return np.asarray(softmax(self._joint(q, *self.check(data)), axis=1))

    def parameters(self, q: Product) -> dict[str, np.ndarray]:
        """'gate' (K - 1, P), and the experts', at q's means.

        Of linear ones 'coefficients' (K, P) and 'variances' (K,).
        """
        gate = np.asarray(q["gate"].mean).reshape(self.n_experts - 1, self.dimension)
        return {"gate": gate, **self.experts.parameters(q["experts"])}

    def gate(self, q: Product, x: np.ndarray) -> np.ndarray:
        """softmax(E[G] x) under ``q``, (N, K), at rows ``x`` (N, P)."""
        return np.asarray(softmax(self._gate_logits(q["gate"], np.asarray(x, float)), axis=1))

    def predict(self, q: Product, x: np.ndarray) -> np.ndarray:
        """E[y] at rows ``x`` (N, P) and the means of ``q``, (N,)."""
        x = np.asarray(x, float)
        return np.asarray((self.gate(q, x) * self.experts.means(self.parameters(q), x)).sum(1))

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(y | X, theta), nats, z summed out; theta as `parameters` returns it."""
        x, y = self.check(data)
        logits = np.column_stack([x @ np.asarray(theta["gate"]).T, np.zeros(len(x))])
        logs = self.experts.log_likelihoods(theta, x, y)
        return float(logsumexp(logits - logsumexp(logits, axis=1, keepdims=True) + logs, axis=1).sum())

    def representation(self, data: Data) -> np.ndarray:
        """Rows for a kernel over data: inputs and output side by side."""
        return np.asarray(np.column_stack([to_numpy(part) for part in data]))
