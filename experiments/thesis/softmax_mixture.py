"""The Gaussian mixture over R^D with its E step inside: softmax weights, means, unit covariance.

theta = (K - 1 logits, K means), the last logit 0; p(pi) = Dirichlet(a, .., a), carried to the logits, and
mu_k ~ N(0, scale^2 I). With responsibilities r the bound on the log joint is

    f_r(theta) = ln p(theta) + sum_k N_k ln pi_k - (Q_k - 2 s_k . mu_k + N_k |mu_k|^2) / 2
                 - N d / 2 ln(2 pi) + H[r],

N_k = sum_n r_nk, s_k = sum_n r_nk x_n, Q_k = sum_n r_nk |x_n|^2. r is the best under q(theta), so that the
gradient of E_q[f_r] + H[q] in q with r held fixed is that of the ELBO (thesis Section 5.3). f_r thus changes
at each step, and is known at the points of earlier steps without a pass over the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bqvi.families import Gaussian
from bqvi.families.family import FamilyOrPoint
from bqvi.models.data import Data
from bqvi.models.log_joint import LogJoint, initial_gaussian
from gp.arrays import LOG_2PI, Array, to_numpy
from gp.checks import require_above, require_finite, require_integer
from gp.low_discrepancy import normal_sobol

_POINTS = 512
"""The number of quasi-random logits for E_q[ln pi], which has no closed form."""


@dataclass(frozen=True, eq=False)
class Step:
    """The statistics of an E step."""

    counts: np.ndarray
    """N, (K,)."""
    sums: np.ndarray
    """S, (K, d)."""
    squares: np.ndarray
    """Q, (K,)."""
    entropy: float
    """H[r]."""


class SoftmaxMixture:
    """A `LogJointModel` without data of its own that changes with q: see `at`.

    Parameters
    ----------
    x : (N, d) data, unit covariance about their centres
    n_components : K >= 2
    prior_scale : > 0, of the means
    concentration : a > 0, of the weights; the thesis has 1e-3
    """

    vectorised = True
    differentiable = True

    def __init__(
        self, x: np.ndarray, n_components: int, prior_scale: float = 3.0, concentration: float = 1.0
    ) -> None:
        try:
            self.x = np.asarray(to_numpy(x), float)
        except (TypeError, ValueError):
            raise TypeError(f"x is a {type(x).__name__} of other things; it must be (N, d) numbers") from None
        if self.x.ndim != 2 or self.x.size == 0:
            raise ValueError(f"x has shape {self.x.shape}; it must be (N, d) with N >= 1 and d >= 1")
        require_finite("x", self.x)
        self.n_components = require_integer("n_components", n_components, 2)
        require_above("prior_scale", prior_scale, 0.0)
        require_above("concentration", concentration, 0.0)
        self.prior_scale, self.concentration = float(prior_scale), float(concentration)

    @property
    def dimension(self) -> int:
        """K - 1 + K d."""
        return self.n_components - 1 + self.n_components * int(self.x.shape[1])

    def check(self, data: Data) -> Data:
        """None, as it holds its own data; ValueError where some were given."""
        if data is not None:
            raise ValueError("data was given to a SoftmaxMixture, which holds its own; pass data=None")

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Gaussian:
        """N(0, I), or for 'random' a mean drawn from it."""
        return initial_gaussian(self.dimension, how, rng)

    def step(self, q: Any) -> Step:
        """The E step under a Gaussian q: one pass over the data."""
        k, d = self.n_components, self.x.shape[1]
        mean, covariance = to_numpy(q.mean), to_numpy(q.covariance)
        noise = self._noise @ np.linalg.cholesky(covariance[: k - 1, : k - 1]).T + mean[: k - 1]
        logits = np.column_stack([noise, np.zeros(_POINTS)])
        log_weights = (logits - np.logaddexp.reduce(logits, 1)[:, None]).mean(0)
        centres = mean[k - 1 :].reshape(k, d)
        spread = np.diagonal(covariance)[k - 1 :].reshape(k, d).sum(1)
        squares = np.square(self.x[:, None] - centres).sum(2) + spread
        scores = log_weights - 0.5 * squares
        log_r = scores - np.logaddexp.reduce(scores, 1)[:, None]
        r = np.exp(log_r)
        own = r.T @ np.square(self.x).sum(1)
        return Step(r.sum(0), r.T @ self.x, own, -float(np.sum(r * log_r)))

    @cached_property
    def _noise(self) -> np.ndarray:
        return normal_sobol(self.n_components - 1, _POINTS, 0)

    def at(self, q: FamilyOrPoint) -> LogJoint:
        """The log joint f_r, with r of the E step under q."""
        found = self.step(q)
        counts, sums = torch.from_numpy(found.counts), torch.from_numpy(found.sums)
        constant = found.entropy - 0.5 * found.squares.sum() - 0.5 * self.x.size * LOG_2PI

        def log_density(theta: Tensor) -> Tensor:
            log_weights, means = self._parts(theta)
            fit = log_weights @ counts + (means * sums).sum((1, 2))
            value: Tensor = fit - 0.5 * (means.square().sum(2) @ counts) + constant
            return value + self._log_prior(log_weights, means)

        return LogJoint(log_density, self.dimension)

    def summed_out(self) -> LogJoint:
        """The log joint with z summed out, which f_r bounds from below at every theta."""
        x = torch.from_numpy(self.x)

        def log_density(theta: Tensor) -> Tensor:
            log_weights, means = self._parts(theta)
            squares = (x[None, :, None] - means[:, None]).square().sum(3)
            terms = log_weights[:, None] - 0.5 * squares
            value: Tensor = torch.logsumexp(terms, 2).sum(1) - 0.5 * self.x.size * LOG_2PI
            return value + self._log_prior(log_weights, means)

        return LogJoint(log_density, self.dimension)

    def _parts(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Ln pi (L, K) and mu (L, K, d)."""
        k = self.n_components
        logits = torch.cat([theta[:, : k - 1], theta.new_zeros(len(theta), 1)], 1)
        return torch.log_softmax(logits, 1), theta[:, k - 1 :].reshape(len(theta), k, -1)

    def _log_prior(self, log_weights: Tensor, means: Tensor) -> Tensor:
        """Dirichlet(a, .., a) with the Jacobian of the softmax, and the means'."""
        scaled = means.flatten(1) / self.prior_scale
        normal = math.log(self.prior_scale) + 0.5 * LOG_2PI
        k, a = self.n_components, self.concentration
        dirichlet = math.lgamma(k * a) - k * math.lgamma(a) + a * log_weights.sum(1)
        return dirichlet - 0.5 * scaled.square().sum(1) - scaled.shape[1] * normal

    def log_prior(self, theta: Array) -> Any:
        """Raises TypeError at every theta, as q is not known here; see `at` and `summed_out`."""
        raise TypeError("a SoftmaxMixture has a log joint only at a q; use at(q) or summed_out()")

    def log_likelihood_terms(self, theta: Array, rows: Data) -> Any:
        """No terms, (L, 0), at any theta: the log prior is the whole log joint."""
        return theta.new_zeros((theta.shape[0], 0))
