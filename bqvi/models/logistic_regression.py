"""Bayesian logistic regression: theta ~ N(0, s^2 I), y_n | x_n ~ Bernoulli(sigmoid(x_n^T theta)).

The expected log likelihood under a Gaussian q is a sum of one-dimensional integrals, x_n^T theta being
Gaussian. Quadrature gives the exact ELBO to rounding, and its natural gradient: with v_n = (2 y_n - 1) x_n,
s = ln sigmoid and the expectations under N(v_n^T m, v_n^T C v_n),

    dE[ln p(y_n | x_n, theta)] / dmu = ((E[s'] - E[s''] v_n^T m) v_n,  E[s''] v_n v_n^T / 2).

ln sigmoid has singularities at +-i pi, so that the trapezoidal rule on the nodes m + s k h of N(m, s^2) is
off by the order of exp(-2 pi^2 / (s h)). Where s is large, it is summed over the logistic density (`_ramps`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.special

from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.models.contracts import LocalStep, LocalTerms
from bqvi.models.data import Data, regression_data
from bqvi.models.log_joint import initial_gaussian
from gp.arrays import LOG_2PI, Array, is_torch, to_numpy
from gp.checks import require_above, require_integer

_BLOCK = 4096
"""The number of rows computed together, which bounds the table of (rows, nodes)."""
_WIDE = 8.0
"""The standard deviation from which the 161 nodes below are fewer than those of a rule on the Gaussian."""
_LOGISTIC_NODES = 0.5 * np.arange(-80, 81)
_LOGISTIC_WEIGHTS = 0.5 * scipy.special.expit(_LOGISTIC_NODES) * scipy.special.expit(-_LOGISTIC_NODES)
"""Nodes on the logistic density, by the trapezoidal rule: its error is exp(-2 pi^2 / .5), the tails 1e-17."""


def expected_derivatives(
    mean: np.ndarray, scale: np.ndarray, step: float = 0.85
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E of ln sigmoid and of its first two derivatives, x ~ N(mean, scale^2): three times (N,).

    With the distance ``step`` between nodes, in units of x, errors are 1e-10; with .5 they are rounding's.

    Wide Gaussians are summed over the logistic density l, of which -ln sigmoid is a mixture of ramps,

        ln sigmoid(x) = -int l(t) max(t - x, 0) dt,

    so that the number of nodes does not grow with ``scale``.
    """
    found = np.empty((3, len(mean)))
    wide = scale > _WIDE
    for narrow, rows in ((True, np.flatnonzero(~wide)), (False, np.flatnonzero(wide))):
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            m, s = mean[part], scale[part]
            found[:, part] = _trapezoidal(m, s, step) if narrow else _ramps(m, s)
    return found[0], found[1], found[2]


def _trapezoidal(mean: np.ndarray, scale: np.ndarray, step: float) -> np.ndarray:
    """The three expectations, (3, N), on nodes of the Gaussian, beyond whose tails are 2e-17."""
    step = min(0.4, step / max(float(scale.max(initial=0.0)), 1e-300))
    half = int(np.ceil(8.5 / step))
    nodes = step * np.arange(-half, half + 1)
    weights = step * np.exp(-0.5 * nodes * nodes) / np.sqrt(2.0 * np.pi)
    x = mean[:, None] + scale[:, None] * nodes
    above = scipy.special.expit(-x)
    return np.stack([-np.logaddexp(0.0, -x) @ weights, above @ weights, -(above * (1.0 - above)) @ weights])


def _ramps(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The three expectations, (3, N), on nodes of the logistic density."""
    gap = _LOGISTIC_NODES - mean[:, None]
    z = gap / scale[:, None]
    below, density = scipy.special.ndtr(z), np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    ramps = gap * below + scale[:, None] * density
    return np.stack(
        [-ramps @ _LOGISTIC_WEIGHTS, below @ _LOGISTIC_WEIGHTS, -(density @ _LOGISTIC_WEIGHTS) / scale]
    )


class LogisticRegression:
    """Logistic regression; data are (X (N, D), y (N,) in {0, 1}). Add a column of ones for an intercept.

    Parameters
    ----------
    dimension : D >= 1
    prior_scale : s > 0, standard deviation of each coefficient; default 1
    """

    def __init__(self, dimension: int, *, prior_scale: float = 1.0) -> None:
        self.dimension = require_integer("dimension", dimension, 1)
        require_above("prior_scale", prior_scale, 0.0)
        self.prior_scale = float(prior_scale)

    def check(self, data: Data) -> Data:
        """(X, y) with N >= 1 rows, finite, labels 0 or 1; as torch float64 unless tensors were given."""
        x, y = regression_data(data, self.dimension)
        labels = np.unique(to_numpy(y))
        if not np.isin(labels, (0.0, 1.0)).all():
            raise ValueError(f"data[1] has labels {labels[:5]}; they must be 0 or 1")
        import torch

        return tuple(part if is_torch(part) else torch.tensor(part, dtype=torch.float64) for part in (x, y))

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Gaussian:
        return initial_gaussian(self.dimension, how, rng)

    def log_prior(self, theta: Array) -> Array:
        """ln N(theta | 0, s^2 I), (L, D) -> (L,)."""
        scaled = theta / self.prior_scale
        constant = self.dimension * (np.log(self.prior_scale) + 0.5 * LOG_2PI)
        return -0.5 * (scaled * scaled).sum(-1) - constant

    def log_likelihood_terms(self, theta: Array, rows: Data) -> Array:
        """ln p(y_n | x_n, theta), (L, D) -> (L, S)."""
        import torch

        x, y = rows
        signs = (2.0 * y - 1.0).to(theta.dtype)
        return torch.nn.functional.logsigmoid(signs * (theta @ x.to(theta.dtype).T))

    @cached_property
    def prior(self) -> Gaussian:
        """N(0, s^2 I)."""
        return Gaussian(np.zeros(self.dimension), self.prior_scale**2 * np.eye(self.dimension))

    def local_step(self, q: Gaussian, rows: Data, weights: Array | None = None) -> LocalStep:
        """dE[ln p(y | X, theta)] / dmu; see the module's docstring."""
        signed, slope, curvature, values = self._expected(q, rows)
        part = np.ones(len(signed)) if weights is None else to_numpy(weights)
        second = 0.5 * (signed * (part * curvature)[:, None]).T @ signed
        return LocalStep(((part * slope) @ signed, second), float(part @ values))

    def representation(self, data: Data) -> np.ndarray:
        """Rows for a kernel over data: (2 y_n - 1) x_n, all that the gradients depend on."""
        x, y = (to_numpy(part) for part in data)
        return np.asarray(x * (2.0 * y - 1.0)[:, None])

    def local_terms(self, q: Gaussian, rows: Data) -> LocalTerms:
        """Of each row the slope and the lower triangle of the curvature: (S, D + D (D + 1) / 2)."""
        signed, slope, curvature, values = self._expected(q, rows)
        i, j = self._triangle
        second = (0.5 * curvature)[:, None] * signed[:, i] * signed[:, j]
        return LocalTerms(np.concatenate([slope[:, None] * signed, second], axis=1), values)

    def term_limits(self, data: Data) -> None:
        """Curvatures are negative semi-definite for all data."""

    def local_total(self, total: np.ndarray, bound: float, limits: None) -> LocalStep:
        """The local step whose terms sum to ``total``, the curvature's positive eigenvalues set to 0."""
        second = np.zeros((self.dimension, self.dimension))
        second[self._triangle] = total[self.dimension :]
        values, vectors = np.linalg.eigh(second)  # eigh reads the lower triangle only
        second = (vectors * np.minimum(values, 0.0)) @ vectors.T
        return LocalStep((total[: self.dimension], second), bound)

    @cached_property
    def _triangle(self) -> tuple[np.ndarray, np.ndarray]:
        return np.tril_indices(self.dimension)

    def _expected(
        self, q: Gaussian | DiagonalGaussian, rows: Data, step: float = 0.85
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """v_n = (2 y_n - 1) x_n, (S, D), and by row: E[s'] - E[s''] v^T m, E[s''], E[s], s = ln sigmoid.

        ``step`` as of `expected_derivatives`.
        """
        x, y = (to_numpy(part) for part in rows)
        signed = x * (2.0 * y - 1.0)[:, None]
        centre = signed @ to_numpy(q.mean)
        scale = np.sqrt(np.einsum("nd,nd->n", signed @ to_numpy(q.covariance), signed))
        values, slope, curvature = expected_derivatives(centre, scale, step)
        return signed, slope - curvature * centre, curvature, values

    def elbo(self, q: Gaussian | DiagonalGaussian, data: Data) -> float:
        """The ELBO of a Gaussian q, exact to quadrature error (about 1e-13 a datum), nats."""
        values = self._expected(q, data, 0.5)[-1]
        spread = np.trace(to_numpy(q.covariance)) / self.prior_scale**2
        prior = self.log_prior(to_numpy(q.mean)) - 0.5 * spread
        return float(values.sum() + prior + float(q.entropy))
