"""Bayesian logistic regression: theta ~ N(0, s^2 I), y_n | x_n ~ Bernoulli(sigmoid(x_n^T theta)).

The expected log likelihood under a Gaussian q is a sum of one-dimensional integrals, x_n^T theta being
Gaussian; quadrature (`log_sigmoid`) gives the exact ELBO to rounding.
"""

from __future__ import annotations

import numpy as np

from bqvi.checks import require_above, require_finite, require_integer
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.models.data import Data, as_numbers
from bqvi.models.log_joint import initial_gaussian
from bqvi.models.log_sigmoid import expected_log_sigmoid
from gp.arrays import Array, is_torch, to_numpy


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
        if not isinstance(data, tuple) or len(data) != 2:
            raise ValueError(
                f"data is {type(data).__name__}; it must be a tuple (X, y) of shapes (N, D) and (N,)"
            )
        x, y = (as_numbers(f"data[{i}]", part) for i, part in enumerate(data))
        if len(x.shape) != 2 or x.shape[1] != self.dimension or tuple(y.shape) != (x.shape[0],):
            raise ValueError(
                f"data has shapes {tuple(x.shape)} and {tuple(y.shape)}; they must be "
                f"(N, {self.dimension}) and (N,)"
            )
        if x.shape[0] < 1:
            raise ValueError("data has no rows; N must be at least 1")
        require_finite("data[0]", x)
        require_finite("data[1]", y)
        labels = np.unique(to_numpy(y))
        if not np.isin(labels, (0.0, 1.0)).all():
            raise ValueError(f"data[1] has labels {labels[:5]}; they must be 0 or 1")
        import torch

        return tuple(part if is_torch(part) else torch.tensor(part, dtype=torch.float64) for part in (x, y))

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Gaussian:
        """N(0, I), or for 'random' a mean drawn from it."""
        del data
        return initial_gaussian(self.dimension, how, rng)

    def log_prior(self, theta: Array) -> Array:
        """ln N(theta | 0, s^2 I), (L, D) -> (L,)."""
        scaled = theta / self.prior_scale
        constant = self.dimension * (np.log(self.prior_scale) + 0.5 * np.log(2.0 * np.pi))
        return -0.5 * (scaled * scaled).sum(-1) - constant

    def log_likelihood_terms(self, theta: Array, rows: Data) -> Array:
        """ln p(y_n | x_n, theta), (L, D) -> (L, S)."""
        import torch

        x, y = rows
        signs = (2.0 * y - 1.0).to(theta.dtype)
        return torch.nn.functional.logsigmoid(signs * (theta @ x.to(theta.dtype).T))

    def elbo(self, q: Gaussian | DiagonalGaussian, data: Data) -> float:
        """The ELBO of a Gaussian q, exact to quadrature error (about 1e-13 a datum), nats."""
        x, y = (to_numpy(part) for part in data)
        mean, covariance = to_numpy(q.mean), to_numpy(q.covariance)
        signed = x * (2.0 * y - 1.0)[:, None]
        centre = signed @ mean
        scale = np.sqrt(np.einsum("nd,de,ne->n", signed, covariance, signed))
        likelihood = expected_log_sigmoid(centre, scale)
        prior_squares = (mean @ mean + np.trace(covariance)) / self.prior_scale**2
        prior = -0.5 * prior_squares - self.dimension * np.log(self.prior_scale * np.sqrt(2.0 * np.pi))
        return float(likelihood.sum() + prior + float(q.entropy))
