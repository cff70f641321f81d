"""Bayesian mixture of K Gaussians with one known covariance (thesis Section 3, Eqs 3.1 to 3.7).

    pi ~ Dir(alpha_0),   mu_k ~ N(m_0, C_0),   z_n ~ Cat(pi),   x_n | z_n = k ~ N(mu_k, Sigma)

    q(pi, mu) = Dir(pi | alpha) prod_k N(mu_k | m_k, C_k)

    rho_nk = E[ln pi_k] + (x_n - m_0)^T W_k - (m_k - m_0)^T W_k / 2 - Tr(Sigma^-1 C_k) / 2,
    W_k = Sigma^-1 (m_k - m_0),

which is Eq. 3.12 less -(x_n - m_0)^T Sigma^-1 (x_n - m_0) / 2: that term and the normalising constant
depend on no parameter and form the base measure ln h(x_n). In the pass over the data m_0 gives way to the
centre of the means, which keeps digits when the data lie far from it; what that changes is common to
all components and put right in the sums.

What the data add to the natural parameters: N_k to alpha_k, Sigma^-1 sum_n r_nk x_n and -N_k Sigma^-1 / 2
to those of mu_k (Eqs 3.24 to 3.26).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import scipy.linalg

from bqvi.arrays import Seed, generator, transpose
from bqvi.checks import (
    positive_vector,
    require_columns,
    require_covariance,
    require_finite,
    require_integer,
    require_shape,
)
from bqvi.families import Dirichlet, Gaussian, Product
from bqvi.families.gaussian import LOG_2PI
from bqvi.models.conjugate import LocalStep, LocalTerms
from bqvi.models.data import Data, as_numbers, n_rows, take
from bqvi.models.mixture import Affine, blocks, mixture_pass, responsibilities, short_mantissa
from bqvi.models.mixture_terms import MixtureLimits, mixture_terms
from bqvi.models.starts import sample_rows, starting_centres
from gp.arrays import Array, is_torch, to_numpy


class GaussianMixture:
    """Mixture of Gaussians with known covariance; data (N, D).

    Parameters
    ----------
    n_components : K >= 1
    covariance : (D, D), Sigma, shared by all components
    concentration : alpha_0 > 0, a number or (K,); default 1 / K, which empties superfluous components
    prior_mean : (D,), m_0; default 0
    prior_covariance : (D, D), C_0; default 100 times ``covariance``

    Raises
    ------
    ValueError
        Naming the argument, what was given and what is allowed.
    """

    def __init__(
        self,
        n_components: int,
        covariance: np.ndarray,
        *,
        concentration: float | np.ndarray | None = None,
        prior_mean: np.ndarray | None = None,
        prior_covariance: np.ndarray | None = None,
    ) -> None:
        self.n_components = require_integer("n_components", n_components, 1)
        self.covariance = np.asarray(covariance, float)
        require_covariance("covariance", self.covariance)
        dimension = self.dimension
        self.prior_mean = np.zeros(dimension) if prior_mean is None else np.asarray(prior_mean, float)
        require_shape("prior_mean", self.prior_mean, (dimension,))
        require_finite("prior_mean", self.prior_mean)
        self.prior_covariance = (
            100.0 * self.covariance if prior_covariance is None else np.asarray(prior_covariance, float)
        )
        require_shape("prior_covariance", self.prior_covariance, (dimension, dimension))
        require_covariance("prior_covariance", self.prior_covariance)
        alpha = 1.0 / self.n_components if concentration is None else concentration
        self.concentration = positive_vector("concentration", alpha, self.n_components)
        self.precision = np.linalg.inv(self.covariance)

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.covariance.shape[0])

    @cached_property
    def prior(self) -> Product:
        """Dir(alpha_0) prod_k N(m_0, C_0)."""
        shape = (self.n_components, self.dimension)
        means = np.broadcast_to(self.prior_mean, shape)
        covariances = np.broadcast_to(self.prior_covariance, (*shape, self.dimension))
        return Product({"weights": Dirichlet(self.concentration), "means": Gaussian(means, covariances)})

    def check(self, data: Data) -> Data:
        """(N, D), finite; lists and data frames become arrays, memory maps and tensors stay what they are."""
        x = as_numbers("data", data)
        require_columns("data", x, self.dimension)
        for rows in blocks(n_rows(x), 1):
            try:
                require_finite("data", x[rows])
            except ValueError:
                bad = rows.start + int(np.argwhere(~np.isfinite(to_numpy(x[rows])))[0][0])
                raise ValueError(
                    f"data has NaN or infinity in row {bad}; remove or impute that row"
                ) from None
        return x

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """q centred on K rows, as sharp as if each component had N / K data."""
        points = to_numpy(take(data, sample_rows(n_rows(data), rng))).astype(float)
        whitener = scipy.linalg.cholesky(self.precision)  # (x @ whitener.T) has unit covariance
        centres = starting_centres(points @ whitener.T, self.n_components, how, rng)
        share = n_rows(data) / self.n_components
        precision = np.linalg.inv(self.prior_covariance) + share * self.precision
        covariances = np.broadcast_to(np.linalg.inv(precision), (self.n_components, *self.covariance.shape))
        means = scipy.linalg.solve_triangular(whitener, centres.T).T
        weights = Dirichlet(self.concentration + share)
        return Product({"weights": weights, "means": Gaussian(means, covariances.copy())})

    def local_step(self, q: Product, rows: Data, weights: Array | None = None) -> LocalStep:
        """Responsibilities of ``rows`` (S, D) and their statistics; see the module's docstring."""
        affine = self.expected_affine(q)
        sums = mixture_pass(rows, affine, weights)
        absolute = sums.sums + sums.counts[:, None] * affine.shift
        linear = absolute @ self.precision
        quadratic = -0.5 * sums.counts[:, None, None] * self.precision
        return LocalStep((sums.counts, linear, quadratic), sums.log_normaliser)

    def representation(self, data: Data) -> np.ndarray:
        """Rows for a kernel over data: in units of the components' covariance."""
        factor = np.linalg.cholesky(self.precision)
        return np.asarray((to_numpy(data).astype(float, copy=False) - self.prior_mean) @ factor)

    def local_terms(self, q: Product, rows: Data) -> LocalTerms:
        """(r_nk, r_nk (x_n - m_0)) of each row, (S, K + K D), and logsumexp_k rho_nk."""
        x = to_numpy(rows).astype(float, copy=False)
        return mixture_terms(x, self.expected_affine(q), self.prior_mean)

    def term_limits(self, data: Data) -> MixtureLimits:
        """N, and the range of each column of x - m_0."""
        return MixtureLimits.of(data, self.prior_mean)

    def local_total(self, total: np.ndarray, bound: float, limits: MixtureLimits) -> LocalStep:
        """The local step whose terms sum to ``total`` (P,), or the nearest that data can give."""
        counts, sums = limits.feasible(total, self.n_components)
        absolute = sums + counts[:, None] * self.prior_mean
        quadratic = -0.5 * counts[:, None, None] * self.precision
        return LocalStep((counts, absolute @ self.precision, quadratic), bound)

    def responsibilities(self, q: Product, data: Data) -> np.ndarray:
        """r, (N, K) (thesis Eq. 3.23, with the softmax it needs)."""
        return responsibilities(to_numpy(data), self.expected_affine(q))

    def log_base_measure(self, data: Data) -> float:
        """sum_n ln h(x_n), the terms of Eq. 3.28 without parameters."""
        factor = np.linalg.cholesky(self.precision)
        squares = 0.0
        for rows in blocks(n_rows(data), self.dimension):
            whitened = (to_numpy(data[rows]) - self.prior_mean) @ factor
            squares += float(np.vdot(whitened, whitened))
        log_determinant = np.linalg.slogdet(self.covariance)[1]
        return float(-0.5 * (squares + n_rows(data) * (self.dimension * LOG_2PI + log_determinant)))

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(X | pi, mu), nats; theta = {'weights': pi (K,), 'means': mu (K, D)}.

        K need not be the model's, so that the generating mixture can be scored too.
        """
        with np.errstate(divide="ignore"):
            log_weights = np.log(theta["weights"])
        shown = log_weights > -np.inf
        affine = self._affine(log_weights[shown], np.asarray(theta["means"])[shown])
        return mixture_pass(data, affine).log_normaliser + self.log_base_measure(data)

    def component_log_joint(self, theta: Mapping[str, Array], rows: Array) -> Array:
        """ln p(x_n, z_n = k | theta) - ln h(x_n) for draws of theta: (L, S, K).

        theta = {'weights': ln pi (L, K), 'means': mu (L, K, D)}; torch tensors carry gradients.
        """
        slope, offset = self._slope_offset(theta["weights"], theta["means"], self.prior_mean)
        shifted = rows - self._like(self.prior_mean, rows)
        return shifted @ transpose(slope) + offset[:, None, :]

    def expected_affine(self, q: Product) -> Affine:
        """rho_nk under q, as a function of x_n (thesis Eq. 3.12)."""
        log_weights = q["weights"].expected_statistics[0]
        spread = (self.precision * q["means"].covariance).sum((-2, -1))
        return self._affine(log_weights - 0.5 * spread, q["means"].mean)

    def _affine(self, log_weights: np.ndarray, means: np.ndarray) -> Affine:
        """rho relative to the centre of the means, where float32 data keep most digits."""
        shares = np.exp(log_weights - log_weights.max())
        centre = short_mantissa(shares @ means / shares.sum())
        slope, offset = self._slope_offset(log_weights, means, centre)
        tilt = self.precision @ (centre - self.prior_mean)
        level = 0.5 * float(tilt @ (centre - self.prior_mean))
        return Affine(slope, offset, centre, tilt, level)

    def _slope_offset(self, log_weights: Array, means: Array, centre: np.ndarray) -> tuple[Array, Array]:
        gap = means - self._like(centre, means)
        slope = gap @ self._like(self.precision, means)
        return slope, log_weights - 0.5 * (gap * slope).sum(-1)

    @staticmethod
    def _like(parameter: np.ndarray, x: Array) -> Array:
        return x.new_tensor(parameter) if is_torch(x) else parameter


def simulate(
    n: int, weights: np.ndarray, means: np.ndarray, covariance: np.ndarray, seed: Seed
) -> tuple[np.ndarray, np.ndarray]:
    """``n`` draws of a mixture with shared covariance: data (N, D) and labels (N,)."""
    rng = generator(seed)
    labels = rng.choice(len(weights), n, p=weights)
    noise = rng.standard_normal((n, means.shape[1])) @ np.linalg.cholesky(covariance).T
    return means[labels] + noise, labels
