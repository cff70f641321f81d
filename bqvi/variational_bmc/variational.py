"""The variational posterior: a mixture of diagonal Gaussians in the surrogate's frame, fitted by its ELBO.

    ELBO(q) = E_q[surrogate mean]  +  H[q],     q = sum_k w_k N(m_k, diag s_k^2)

The first term and its gradients have closed forms (`surrogate.Surrogate.function`). The second is an average
over fixed base points e_kl, a scrambled Sobol set mapped to antithetic normal points, x_kl = m_k + s_k e_kl,

    H = -sum_k w_k / L sum_l log q(x_kl),

so that the ELBO is a smooth function of (w, m, s), which L-BFGS maximises with the exact gradient. The number
of components is determined by the correction: `grown` adds components where importance weights show that q
lacks mass, `pruned` removes those of negligible weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.optimize

from bqvi.variational_bmc.surrogate import Surrogate
from gp.arrays import LOG_2PI
from gp.low_discrepancy import normal_sobol


@dataclass(frozen=True, eq=False)
class DiagonalMixture:
    """A mixture of K diagonal Gaussians: weights (K,), means (K, D) and sds ``scales`` (K, D).

    The density is computed by two matrix products, as covariances are diagonal: in less than a tenth of the
    time of `gp.measures.GaussianMixture`, and each step of L-BFGS constructs a new mixture.
    """

    weights: np.ndarray
    means: np.ndarray
    scales: np.ndarray

    @property
    def count(self) -> int:
        """The number K of components."""
        return len(self.weights)

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """The log density ln q at points u (m, D), (m,)."""
        logs = self.log_parts(u)
        top = logs.max(0)
        found: np.ndarray = top + np.log(np.exp(logs - top).sum(0))
        return found

    def log_parts(self, u: np.ndarray) -> np.ndarray:
        """The terms ln w_k N(u; m_k, s_k) at points u (m, D), (K, m): sums over few components are fast."""
        precision = self.scales**-2.0
        scaled = self.means * precision
        constant = np.log(np.maximum(self.weights, 1e-300)) - np.log(self.scales).sum(1)
        constant = constant - 0.5 * u.shape[1] * LOG_2PI
        constant = constant - 0.5 * np.einsum("kd,kd->k", scaled, self.means)
        return (-0.5 * precision) @ (u * u).T + scaled @ u.T + constant[:, None]

    def widened(self, factor: float) -> DiagonalMixture:
        """The mixture with scales ``factor`` times as large."""
        return DiagonalMixture(self.weights, self.means, factor * self.scales)

    def joined(self, other: DiagonalMixture, share: float) -> DiagonalMixture:
        """The mixture (1 - share) self + share other."""
        return DiagonalMixture(
            np.concatenate([(1.0 - share) * self.weights, share * other.weights]),
            np.concatenate([self.means, other.means]),
            np.concatenate([self.scales, other.scales]),
        )

    @property
    def mean(self) -> np.ndarray:
        """The mean (D,)."""
        return self.weights @ self.means

    @property
    def covariance(self) -> np.ndarray:
        """The covariance (D, D)."""
        centred = self.means - self.mean
        return np.diag(self.weights @ self.scales**2) + (centred.T * self.weights) @ centred


@dataclass(frozen=True, eq=False)
class Entropy:
    """The entropy H with its gradients in unconstrained weights (K,), means (K, D), log scales (K, D)."""

    value: float
    weights: np.ndarray
    means: np.ndarray
    log_scales: np.ndarray


def entropy(q: DiagonalMixture, base: np.ndarray) -> Entropy:
    """The entropy as an average over base points (K, L, D)."""
    count, samples, dimension = base.shape
    x = (q.means[:, None, :] + q.scales[:, None, :] * base).reshape(-1, dimension)
    precision = q.scales**-2.0
    scaled = q.means * precision
    logs = q.log_parts(x)
    top = logs.max(0)
    logs -= top
    responsibilities = np.exp(logs, out=logs)  # (K, K L)
    sums = responsibilities.sum(0)
    log_q = top + np.log(sums)
    responsibilities /= sums
    share = np.repeat(q.weights / samples, samples)  # the share of each point
    slope = responsibilities.T @ scaled - x * (responsibilities.T @ precision)
    weighted = -share[:, None] * slope
    along = weighted.reshape(count, samples, dimension)
    through = share * responsibilities
    mass = through.sum(1)
    first = through @ x
    second = through @ (x * x)
    gaps = first - mass[:, None] * q.means
    squares = second - 2.0 * q.means * first + mass[:, None] * q.means**2
    of_means = along.sum(1) - gaps * precision
    of_scales = q.scales * np.einsum("ksd,ksd->kd", along, base) - (squares * precision - mass[:, None])
    of_weights = -log_q.reshape(count, samples).mean(1) - mass / np.maximum(q.weights, 1e-300)
    return Entropy(-float(share @ log_q), of_weights, of_means, of_scales)


@lru_cache(maxsize=32)
def base_points(count: int, samples: int, dimension: int, seed: int) -> np.ndarray:
    """Standard normal points (K, L, D), antithetic in each component; L is rounded up to a power of 2.

    Each component has a block of the Sobol set, which is balanced by itself; every K-th point would not be.

    Parameters
    ----------
    count : K. samples : the least L. dimension : D. seed : of the scrambled Sobol set.
    """
    half = 2 ** max(int(np.ceil(np.log2(samples / 2))), 0)
    n = count * half
    normal = normal_sobol(dimension, n, seed).reshape(count, half, dimension)
    points = np.concatenate([normal, -normal], axis=1)
    points.flags.writeable = False
    return points


@dataclass(frozen=True, eq=False)
class Box:
    """The bounds of the means of components, (D,) each, and their largest scales, (D,)."""

    lower: np.ndarray
    upper: np.ndarray
    widest: np.ndarray | float = np.inf


def elbo(surrogate: Surrogate, q: DiagonalMixture, base: np.ndarray) -> tuple[float, float, np.ndarray]:
    """E_q of the surrogate, H[q], and the gradient of their sum in (logits, means, log scales), flat."""
    parts = surrogate.function.integrate(q.means, q.scales**2)
    h = entropy(q, base)
    of_weights = parts.values + h.weights
    of_logits = q.weights * (of_weights - q.weights @ of_weights)
    of_means = q.weights[:, None] * parts.means + h.means
    of_scales = 2.0 * q.weights[:, None] * parts.variances * q.scales**2 + h.log_scales
    gradient = np.concatenate([of_logits, of_means.reshape(-1), of_scales.reshape(-1)])
    return float(q.weights @ parts.values), h.value, gradient


def climb(
    surrogate: Surrogate, q: DiagonalMixture, box: Box, seed: int, samples: int, iterations: int
) -> DiagonalMixture:
    """The mixture at the end of L-BFGS from ``q``.

    Parameters
    ----------
    surrogate : the surrogate, in the frame. q : the mixture of K components at which the climb begins.
    box : the bounds of its means and scales. seed : of the base points of the entropy. samples : the least
        number of these for a component. iterations : the most iterations.
    """
    count, dimension = q.means.shape
    base = base_points(count, samples, dimension, seed)

    def mixture(flat: np.ndarray) -> DiagonalMixture:
        logits = flat[:count]
        weights = np.exp(logits - logits.max())
        means, logs = flat[count:].reshape(2, count, dimension)
        return DiagonalMixture(weights / weights.sum(), means, np.exp(logs))

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        expected, h, gradient = elbo(surrogate, mixture(flat), base)
        return -(expected + h), -gradient

    lower = np.concatenate([np.full(count, -9.0), np.tile(box.lower, count)])
    upper = np.concatenate([np.full(count, 0.0), np.tile(box.upper, count)])
    lower = np.append(lower, np.full(count * dimension, np.log(5e-3)))
    widest = np.log(np.minimum(4.0, np.broadcast_to(box.widest, dimension)))
    upper = np.append(upper, np.tile(widest, count))
    # the clip puts small weights exactly on their bound, where L-BFGS-B holds them
    logits = np.log(np.maximum(q.weights, np.finfo(float).tiny))
    start = np.concatenate([logits - logits.max(), q.means.reshape(-1), np.log(q.scales).reshape(-1)])
    start = np.clip(start, lower, upper)
    # nats; an iteration that gains less is the last
    gain = 0.0 if surrogate.data.gradients is None else 0.005
    found = scipy.optimize.minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=list(zip(lower, upper, strict=True)),
        options={
            "maxcor": 20, "maxiter": iterations, "maxfun": 2 * iterations,
            "ftol": gain / max(abs(objective(start)[0]), 1.0),  # SciPy's is relative to the objective
        },
    )  # fmt: skip
    return mixture(found.x)


def pruned(q: DiagonalMixture, least: float) -> DiagonalMixture:
    """The mixture without components of weight below ``least``; that of the largest weight is always kept."""
    kept = q.weights >= min(least, float(q.weights.max()))
    weights = q.weights[kept]
    return DiagonalMixture(weights / weights.sum(), q.means[kept], q.scales[kept])


def grown(q: DiagonalMixture, u: np.ndarray, log_ratio: np.ndarray, count: int) -> DiagonalMixture:
    """With ``count`` more components, where p / q is largest among draws u (m, D) of q.

    Each takes a point of large ratio and weight, apart from those before it, and the scales of the components
    that explain the point, shrunk a little; together they take a part of the weight.
    """
    added: list[np.ndarray] = []
    scales: list[np.ndarray] = []
    parts = q.log_parts(u)
    order = np.argsort(-log_ratio, kind="stable")
    for index in order[: 40 * count]:
        own = q.scales[int(np.argmax(parts[:, index]))] * 0.7
        separate = all(
            np.sum(((u[index] - at) / np.maximum(own, sd)) ** 2) > len(own)
            for at, sd in zip(added, scales, strict=True)
        )
        if separate:
            added.append(u[index])
            scales.append(own)
        if len(added) == count:
            break
    fresh = np.full(len(added), 0.5 / (q.count + len(added)))
    weights = np.concatenate([q.weights * (1.0 - fresh.sum()), fresh])
    return DiagonalMixture(weights, np.concatenate([q.means, added]), np.concatenate([q.scales, scales]))
