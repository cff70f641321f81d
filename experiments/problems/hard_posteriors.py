"""Known posteriors that are difficult for a surrogate: several modes, funnels, a hierarchy, a ring.

three_gaussians  means uniform in [-5, 5]^D, standard deviations in [.5, 1], box [-6, 6]^D; closed form
clusters         twenty Gaussians in four clusters in the plane, box [-10, 10]^2; closed form. After the
                 mixture of Silvestrin et al. (2025), "Stacking variational Bayesian Monte Carlo"
ring             a ridge along a circle of radius 8 (the same paper); its radius has a Gaussian law
funnel           v ~ N(0, 9), x_i | v ~ N(0, e^v) (Neal 2003); closed form
turned_funnel    the same, turned by 45 degrees in (v, x_2)
half_plane       N(0, I) in the plane, zero where x + y < 0; closed form
schools          the eight schools (Rubin 1981), centred or not: given (mu, ln tau) the effects are
                 Gaussian and integrate out, which leaves a sum over a grid of two dimensions
gaussian         N(0, C) with standard deviations from .5 to 2, correlated by the seed
tilted           independent logistic-like coordinates, log p = -sum 2 ln(2 cosh(x_i - i / D)) + x_i^2 / 8
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import logsumexp

from experiments.problems.known_posteriors import Problem, of_mixture, unbounded
from gp.measures import GaussianMixture

__all__ = [
    "clusters",
    "funnel",
    "gaussian",
    "half_plane",
    "ring",
    "schools",
    "three_gaussians",
    "tilted",
    "turned_funnel",
]

_LOG_2PI = math.log(2.0 * math.pi)


@cache
def three_gaussians(dimension: int, seed: int) -> Problem:
    """Three Gaussians equally heavy, their means and standard deviations drawn by the seed; ln Z = 0."""
    rng = np.random.default_rng([20261122, seed])
    means = rng.uniform(-5.0, 5.0, (3, dimension))
    sds = rng.uniform(0.5, 1.0, (3, dimension))
    mixture = GaussianMixture(np.full(3, 1 / 3), means, sds**2)
    box = np.full(dimension, 6.0)
    return of_mixture(f"three Gaussians {dimension}, layout {seed}", mixture, -box, box)


@cache
def clusters(seed: int) -> Problem:
    """Twenty Gaussians around four centres that are uniform in [-7, 7]^2; ln Z = 0."""
    rng = np.random.default_rng([20261123, seed])
    centres = rng.uniform(-7.0, 7.0, (4, 2))
    means = centres[np.arange(20) % 4] + 0.7 * rng.standard_normal((20, 2))
    variances = rng.uniform(0.3, 0.6, (20, 2)) ** 2
    weights = rng.dirichlet(np.full(20, 5.0))
    box = np.full(2, 10.0)
    return of_mixture(f"clusters, layout {seed}", GaussianMixture(weights, means, variances), -box, box)


@cache
def ring(sd: float = 0.1, radius: float = 8.0) -> Problem:
    """-(|x| - radius)^2 / (2 sd^2) in the plane, at least ten standard deviations from the origin.

    ln Z = ln(2 pi radius sd sqrt(2 pi)) up to the mass of the Gaussian beyond the origin.
    """

    def log_density(x: np.ndarray) -> np.ndarray:
        return -0.5 * ((np.linalg.norm(x, axis=1) - radius) / sd) ** 2

    def gradient(x: np.ndarray) -> np.ndarray:
        norm = np.linalg.norm(x, axis=1)[:, None]
        return -(norm - radius) / sd**2 * x / np.maximum(norm, 1e-300)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        # the radius has the density r exp(-(r - radius)^2 / (2 sd^2)): drawn by rejection below radius + 9 sd
        found = np.empty(0)
        while len(found) < n:
            r = radius + sd * rng.standard_normal(2 * n)
            found = np.append(found, r[rng.uniform(0.0, radius + 9.0 * sd, 2 * n) < r])
        angle = rng.uniform(0.0, 2.0 * math.pi, n)
        return found[:n, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    log_evidence = math.log(2.0 * math.pi * radius * sd) + 0.5 * _LOG_2PI
    variance = 0.5 * (radius**2 + 3.0 * sd**2)  # E r^2 / 2 under that density
    box = np.full(2, 10.0)
    return Problem(
        f"ring, sd {sd:g}", log_density, gradient, *unbounded(2), -box, box,
        log_evidence, np.zeros(2), variance * np.eye(2), sample,
    )  # fmt: skip


@cache
def funnel(dimension: int) -> Problem:
    """Neal's funnel: v ~ N(0, 9), x_2, ..., x_D ~ N(0, e^v) given v; ln Z = 0."""
    rest = dimension - 1

    def log_density(x: np.ndarray) -> np.ndarray:
        v = x[:, 0]
        squares = np.square(x[:, 1:]).sum(1)
        own = -0.5 * v**2 / 9.0 - math.log(3.0) - 0.5 * rest * v
        return own - 0.5 * np.exp(-v) * squares - 0.5 * dimension * _LOG_2PI

    def gradient(x: np.ndarray) -> np.ndarray:
        v, out = x[:, 0], np.empty_like(x)
        out[:, 1:] = -np.exp(-v)[:, None] * x[:, 1:]
        out[:, 0] = -v / 9.0 - 0.5 * rest + 0.5 * np.exp(-v) * np.square(x[:, 1:]).sum(1)
        return out

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        out = rng.standard_normal((n, dimension))
        out[:, 0] *= 3.0
        out[:, 1:] *= np.exp(0.5 * out[:, :1])
        return out

    covariance = np.diag([9.0, *[math.exp(4.5)] * rest])
    box = np.array([6.0, *[10.0] * rest])
    return Problem(
        f"funnel {dimension}", log_density, gradient, *unbounded(dimension), -box, box,
        0.0, np.zeros(dimension), covariance, sample,
    )  # fmt: skip


@cache
def turned_funnel(dimension: int) -> Problem:
    """The funnel in ((v - x_2) / sqrt 2, (v + x_2) / sqrt 2, x_3, ..., x_D); ln Z = 0."""
    straight = funnel(dimension)
    turn = np.eye(dimension)
    turn[:2, :2] = np.array([[1.0, -1.0], [1.0, 1.0]]) / math.sqrt(2.0)
    box = np.array([11.0, 11.0, *[10.0] * (dimension - 2)])
    return Problem(
        f"turned funnel {dimension}",
        lambda y: straight.log_density(y @ turn),
        lambda y: straight.log_density_gradient(y @ turn) @ turn.T,
        *unbounded(dimension), -box, box, 0.0, np.zeros(dimension), turn @ straight.covariance @ turn.T,
        lambda n, rng: straight.sampler(n, rng) @ turn.T,
    )  # fmt: skip


@cache
def half_plane() -> Problem:
    """N(x; 0, I) in the plane where x_1 + x_2 > 0, zero elsewhere; ln Z = -ln 2."""

    def log_density(x: np.ndarray) -> np.ndarray:
        return np.where(x.sum(1) > 0.0, -0.5 * np.square(x).sum(1) - _LOG_2PI, -np.inf)

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        x = rng.standard_normal((n, 2))
        return np.where(x.sum(1, keepdims=True) > 0.0, x, -x)

    # across the edge |N(0, 1)|, of mean sqrt(2 / pi)
    mean = np.full(2, 1.0 / math.sqrt(math.pi))
    box = np.full(2, 3.0)
    return Problem(
        "half plane", log_density, lambda x: -x, *unbounded(2), -box, box, -math.log(2.0), mean,
        np.eye(2) - np.outer(mean, mean), sample,
    )  # fmt: skip


_EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
_ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def _log_hyperprior(mu: np.ndarray, log_tau: np.ndarray) -> np.ndarray:
    """Of mu ~ N(0, 5^2) and tau half-Cauchy(5), in (mu, ln tau)."""
    of_mu = -0.5 * (mu / 5.0) ** 2 - math.log(5.0) - 0.5 * _LOG_2PI
    of_tau = math.log(2.0 / (5.0 * math.pi)) - np.log1p(np.exp(2.0 * log_tau) / 25.0) + log_tau
    return of_mu + of_tau


@cache
@dataclass(frozen=True)
class _Schools:
    """The eight schools over (mu, ln tau, 8 effects), or (mu, ln tau, 8 eta) with effects mu + tau eta."""

    centred: bool

    def _parts(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """tau (n, 1), and eta and effects (n, 8), of points (n, 10)."""
        mu, tau, rest = x[:, :1], np.exp(x[:, 1:2]), x[:, 2:]
        if self.centred:
            return tau, (rest - mu) / tau, rest
        return tau, rest, mu + tau * rest

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Of points (n, 10), (n,)."""
        _, eta, effects = self._parts(x)
        hierarchy = -0.5 * eta**2 - 0.5 * _LOG_2PI - (x[:, 1:2] if self.centred else 0.0)
        likelihood = -0.5 * ((_EFFECTS - effects) / _ERRORS) ** 2 - np.log(_ERRORS) - 0.5 * _LOG_2PI
        return _log_hyperprior(x[:, 0], x[:, 1]) + (hierarchy + likelihood).sum(1)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Of points (n, 10), (n, 10)."""
        tau, eta, effects = self._parts(x)
        misfit = (_EFFECTS - effects) / _ERRORS**2
        out = np.empty_like(x)
        square = np.exp(2.0 * x[:, 1]) / 25.0
        prior_of_tau = 1.0 - 2.0 * square / (1.0 + square)
        if self.centred:
            out[:, 2:] = misfit - eta / tau
            out[:, 0] = -x[:, 0] / 25.0 + (eta / tau).sum(1)
            out[:, 1] = prior_of_tau + (eta**2 - 1.0).sum(1)
        else:
            out[:, 2:] = -eta + tau * misfit
            out[:, 0] = -x[:, 0] / 25.0 + misfit.sum(1)
            out[:, 1] = prior_of_tau + (misfit * tau * eta).sum(1)
        return out

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (n, 10) of the posterior: (mu, ln tau) from cells of a grid, the effects given them."""
        mu, log_tau, share = _schools_grid()
        chosen = rng.choice(len(share), n, p=share)
        m = mu[chosen] + (rng.random(n) - 0.5) * (mu[1] - mu[0])
        steps = np.unique(log_tau)
        t = log_tau[chosen] + (rng.random(n) - 0.5) * (steps[1] - steps[0])
        precision = _ERRORS**-2.0 + np.exp(-2.0 * t)[:, None]
        mean = (_EFFECTS / _ERRORS**2 + m[:, None] * np.exp(-2.0 * t)[:, None]) / precision
        effects = mean + rng.standard_normal((n, 8)) / np.sqrt(precision)
        rest = effects if self.centred else (effects - m[:, None]) / np.exp(t)[:, None]
        return np.column_stack([m, t, rest])


def schools(centred: bool) -> Problem:
    """(mu, ln tau, 8 effects), or with effects mu + tau eta_i as (mu, ln tau, 8 eta): D = 10."""
    posterior = _Schools(centred)
    some = posterior.sample(50_000, np.random.default_rng(20261122))
    middle = np.array([5.0, 1.5, *[5.0] * 8]) if centred else np.zeros(10)
    reach = np.array([8.0, 2.0, *[12.0] * 8]) if centred else np.array([8.0, 2.0, *[2.0] * 8])
    return Problem(
        f"schools, {'centred' if centred else 'non-centred'}", posterior.log_density, posterior.gradient,
        *unbounded(10), middle - reach, middle + reach, _schools_evidence(), some.mean(0), np.cov(some.T),
        posterior.sample,
    )  # fmt: skip


@cache
def _schools_logs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A grid of (mu, ln tau), flat, mu changing first; log of the marginal density times a cell."""
    mu, log_tau = np.linspace(-30.0, 40.0, 281), np.linspace(-14.0, 7.0, 421)
    t, m = (a.ravel() for a in np.meshgrid(log_tau, mu, indexing="ij"))
    logs = _log_hyperprior(m, t)
    for effect, error in zip(_EFFECTS, _ERRORS, strict=True):
        variance = error**2 + np.exp(2.0 * t)
        logs += -0.5 * ((effect - m) ** 2 / variance + np.log(variance) + _LOG_2PI)
    return m, t, logs + math.log(mu[1] - mu[0]) + math.log(log_tau[1] - log_tau[0])


def _schools_evidence() -> float:
    return float(logsumexp(_schools_logs()[2]))


def _schools_grid() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    m, t, logs = _schools_logs()
    share = np.exp(logs - logsumexp(logs))
    return m, t, share / share.sum()


@cache
def gaussian(dimension: int, seed: int = 0) -> Problem:
    """A normalised Gaussian, mean within [-1, 1]^D; ln Z = 0."""
    rng = np.random.default_rng([20261124, seed])
    turn, _ = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    covariance = (turn * np.linspace(0.5, 2.0, dimension) ** 2) @ turn.T
    mixture = GaussianMixture(np.ones(1), rng.uniform(-1.0, 1.0, (1, dimension)), covariance[None])
    reach = 3.0 * np.sqrt(np.diag(covariance))
    return of_mixture(f"Gaussian {dimension}", mixture, -reach, reach)


@cache
def tilted(dimension: int) -> Problem:
    """Independent coordinates, log-concave and not Gaussian."""
    centres = np.arange(dimension) / dimension
    grid = np.linspace(-30.0, 30.0, 6001)
    step = grid[1] - grid[0]

    def one(x: np.ndarray, centre: np.ndarray | float) -> np.ndarray:
        return -2.0 * np.logaddexp(x - centre, centre - x) - 0.125 * x**2

    logs = np.array([one(grid, c) for c in centres])
    of_each = logsumexp(logs, axis=1)
    share = np.exp(logs - of_each[:, None])
    mean = share @ grid
    variance = share @ grid**2 - mean**2

    def log_density(x: np.ndarray) -> np.ndarray:
        return one(x, centres).sum(1)

    def gradient(x: np.ndarray) -> np.ndarray:
        return -2.0 * np.tanh(x - centres) - 0.25 * x

    def sample(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([rng.choice(grid, n, p=p) + step * (rng.random(n) - 0.5) for p in share])

    reach = np.full(dimension, 3.0)
    return Problem(
        f"tilted {dimension}", log_density, gradient, *unbounded(dimension), -reach, reach,
        float((of_each + math.log(step)).sum()), mean, np.diag(variance), sample,
    )  # fmt: skip
