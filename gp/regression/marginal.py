"""A posterior marginalised over the hyperparameters by a small weighted set of them.

Hyperparameters are stated in coordinates z in which their prior is N(0, I), psi = psi(z): directions that the
data do not determine are then Gaussian too, and no draw lies beyond the bounds of a prior. Points z_j are
drawn from a multivariate t about the mode of p(y | psi(z)) N(z; 0, I), shaped by the curvature there, and a
quarter of them from the prior, where other modes may be, at scrambled Sobol points, and weighted by

    w_j proportional to  p(y | psi(z_j)) N(z_j; 0, I) / q(z_j)        (importance sampling),

so that the weighted set also represents a skewed posterior. Where few points carry all weight, as with many
columns or few rows, equal weights are those of states of a chain by elliptical slice sampling (Murray, Adams
and MacKay 2010), with ellipses of the prior, which lead from one mode to another. An overall scale s in
closed form is drawn from n s_hat / chi^2_n, as under a flat prior on log s. Linear coefficients of the mean
stay at their values.

Predictive moments are those of the mixture (laws of total mean and variance):

    E f = sum w_j m_j,   Cov f = sum w_j (C_j + (m_j - E f)(m_j - E f)^T).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaincinv, gammaln, logsumexp, ndtri

from gp.arrays import Array, as_like, namespace
from gp.integrals import Integral
from gp.kernels.composite import Sum
from gp.laplace import root
from gp.low_discrepancy import scrambled_sobol
from gp.means import Zero
from gp.measures import Measure
from gp.observations import Functional, Observations
from gp.regression.hyperparameters import Hyperparameters, posterior_at
from gp.regression.paths import Path
from gp.regression.posterior import GradientMoments, Posterior
from gp.regression.predictions import PosteriorMethods
from gp.regression.screening import InUnits, curvature
from gp.regression.settings import FIT
from gp.search import Expansion, search

_LEAST = 1.0  # the least precision of a coordinate, that of its prior
_FARTHEST = 5.0  # the largest coordinate of the mode, in standard deviations of the prior
_STEP = 1e-4  # half the distance of differences of the map's slope


@dataclass(frozen=True, eq=False)
class MarginalPosterior(PosteriorMethods):
    """A mixture of posteriors with different hyperparameters; made by :func:`marginalise`.

    Attributes
    ----------
    posteriors : J posteriors. weights : (J,), positive, of sum 1.
    """

    posteriors: tuple[Posterior, ...]
    weights: np.ndarray

    @property
    def effective_size(self) -> float:
        """1 / sum w_j^2: near J if the Laplace approximation is accurate, and for states of a chain."""
        return float(1 / np.sum(self.weights**2))

    @property
    def y(self) -> Array:
        """The observations, (n,)."""
        return self.posteriors[0].y

    @property
    def observations(self) -> Observations:
        """The n linear functionals that were observed."""
        return self.posteriors[0].observations

    @property
    def noise(self) -> Array:
        """The mean of the noise variances, a number or (n,)."""
        return sum(w * posterior.noise for w, posterior in zip(self.weights, self.posteriors, strict=True))

    def mean(self, x: Array | Functional) -> Array:
        """Return the mean of f at points x (m, D), or of other functionals: (m,)."""
        return self._average([posterior.mean(x) for posterior in self.posteriors])

    def mean_and_variance(self, x: Array | Functional) -> tuple[Array, Array]:
        """Return mean (m,) and variance (m,) at points x (m, D)."""
        moments = [posterior.mean_and_variance(x) for posterior in self.posteriors]
        mean = self._average([mean for mean, _ in moments])
        return mean, self._average([v + (m - mean) ** 2 for m, v in moments])

    def covariance(self, x: Array | Functional, x2: Array | Functional | None = None) -> Array:
        """Return the covariance of f at x (m, D) and at x2 (m2, D), by default x: (m, m2)."""
        other = x if x2 is None else x2
        mean, mean2 = self.mean(x), self.mean(other)
        parts = [
            each.covariance(x, x2) + (each.mean(x) - mean)[:, None] * (each.mean(other) - mean2)[None, :]
            for each in self.posteriors
        ]
        return self._average(parts)

    def gradient(self, x: Array) -> GradientMoments:
        """Return mean (m, D) and covariance (m, D, D) of df/dx at points x (m, D)."""
        moments = [posterior.gradient(x) for posterior in self.posteriors]
        mean = self._average([each.mean for each in moments])
        apart = [each.mean - mean for each in moments]
        spread = [a[:, :, None] * a[:, None, :] for a in apart]
        return GradientMoments(
            mean, self._average([m.covariance + s for m, s in zip(moments, spread, strict=True)])
        )

    def sample_path(self, seed: int | np.random.Generator = 0, n_features: int = 1024) -> Path:
        """Return one function drawn from the mixture by its seed, to be evaluated anywhere later.

        Parameters
        ----------
        seed : of the draw. n_features : as of ``Posterior.sample_path``.
        """
        rng = np.random.default_rng(seed)
        drawn = self.posteriors[int(rng.choice(len(self.posteriors), p=self.weights))]
        return drawn.sample_path(rng, n_features)

    def sample(self, x: Array | Functional, n: int, seed: int | np.random.Generator = 0) -> Array:
        """Return n joint draws of f at points x (m, D), by weight from the set: (n, m); by the seed."""
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(n, self.weights)
        draws = [
            posterior.sample(x, int(count), rng)
            for posterior, count in zip(self.posteriors, counts, strict=True)
            if count > 0
        ]
        stacked = namespace(*draws).concat(draws, axis=0) if draws else self.posteriors[0].sample(x, 0, rng)
        return stacked[rng.permutation(n), :]

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return mean (n,) and sd (n,) of each observation, noise included, given all others.

        The weights of the set are those given the others: w_j over the density of the observation under j.
        """
        xp = namespace(self.y)
        means, sds = (
            xp.stack(list(part)) for part in zip(*(p.leave_one_out() for p in self.posteriors), strict=True)
        )
        logs = 0.5 * ((self.y - means) / sds) ** 2 + xp.log(sds * as_like(self.weights, self.y)[:, None])
        weights = xp.exp(logs - xp.max(logs, axis=0))
        weights = weights / xp.sum(weights, axis=0)
        mean = xp.sum(weights * means, axis=0)
        return mean, xp.sqrt(xp.sum(weights * (sds**2 + (means - mean) ** 2), axis=0))

    def integral(self, measure: Measure) -> Integral:
        """Return mean and variance of the integral of f against a measure (:mod:`gp.measures`)."""
        found = [posterior.integral(measure) for posterior in self.posteriors]
        mean = self._average([each.mean for each in found])
        return Integral(mean, self._average([each.variance + (each.mean - mean) ** 2 for each in found]))

    def extend(self, x: Array | Functional, y: Array, noise: Array | None = None) -> MarginalPosterior:
        """Return the mixture with m more observations, each weight times their density under its posterior.

        Parameters
        ----------
        x : points (m, D), or functionals. y : (m,), their values.
        noise : their noise variances, a number or (m,); by default the number that each posterior has.
        """
        extended = tuple(posterior.extend(x, y, noise) for posterior in self.posteriors)
        gains = [
            float(after.log_marginal_likelihood) - float(before.log_marginal_likelihood)
            for after, before in zip(extended, self.posteriors, strict=True)
        ]
        weights = self.weights * np.exp(np.array(gains) - max(gains))
        return MarginalPosterior(extended, weights / weights.sum())

    def _average(self, parts: list[Array]) -> Array:
        weighted = (float(w) * part for w, part in zip(self.weights, parts, strict=True))
        return sum(weighted, 0.0 * parts[0])


def components(posterior: Posterior | MarginalPosterior) -> tuple[Any, ...]:
    """Return the terms of the posterior's kernel in their order; one, if it is not a sum.

    With a kernel k = k_1 + ... + k_T, f = m + f_1 + ... + f_T is a sum of independent functions, and the
    covariance of f_t with the observations is that of k_t alone (Duvenaud 2014, "Automatic model construction
    with Gaussian processes", section 2.4.5; thesis Eqs 7.7 and 7.8 with k_t in the place of k_*):

        mean        k_t* w,                    w = K^-1 (y - m)
        covariance  k_t** - V_t^T V_t,         V_t = C^-1 k_t*^T,   K = C C^T.

    The means of the terms and the prior mean add up to the posterior mean; their variances do not, as the
    terms are correlated given the data.

    Each is a posterior whose mean, covariances, draws and integrals are those of the term; ``kernel`` is its
    kernel. The observations, their evidence and their residuals are those of the sum. Of a mixture over
    hyperparameters each is such a mixture.
    """
    if isinstance(posterior, MarginalPosterior):
        terms_of_each = zip(*map(components, posterior.posteriors), strict=True)
        return tuple(replace(posterior, posteriors=terms) for terms in terms_of_each)
    kernel = posterior.kernel
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    return tuple(replace(posterior, kernel=term, mean_function=Zero()) for term in terms)


def marginalise(
    posterior: Posterior, n_points: int = 32, seed: int | np.random.Generator = 0
) -> MarginalPosterior:
    """Return a fitted posterior with the uncertainty of its hyperparameters.

    Parameters
    ----------
    posterior : from :func:`gp.fit`.
    n_points : size of the set; a power of 2 is best. Each costs a Cholesky factorisation, or some
        eighty where few of the points carry the weight.
    seed : seed of the points.

    Raises
    ------
    ValueError
        If the hyperparameters of ``posterior`` were given and not fitted.
    """
    fit = getattr(posterior, "hyperparameters", None)
    if fit is None:
        raise ValueError("posterior has no hyperparameters that were fitted: make it with gp.fit(x, y)")
    if len(posterior.y) != len(fit.problem.y):
        raise ValueError(
            f"posterior was fitted to {len(fit.problem.y)} observations and extended to "
            f"{len(posterior.y)}: fit it to all of them first"
        )
    if n_points < 2:
        raise ValueError(f"n_points = {n_points}: give 2 or more")
    places, weights, scales = _weighed(fit, n_points, np.random.default_rng(seed))
    kept = np.flatnonzero(weights > 1e-6 / n_points)
    observed = posterior.observations
    posteriors = tuple(posterior_at(fit, places[j], observed, posterior.y, scales[j]) for j in kept)
    return MarginalPosterior(posteriors, weights[kept] / weights[kept].sum())


@dataclass(frozen=True, eq=False)
class _Standardised:
    """The log evidence plus the log prior, as a function of the coordinates z whose prior is N(0, I)."""

    fit: Hyperparameters

    def expanded(self, z: np.ndarray) -> Expansion:
        psi, slope = self.fit.coordinates.prior.from_standard(z)
        found = InUnits(self.fit.problem, self.fit.coordinates).expanded(psi)
        return Expansion(found.value - 0.5 * float(z @ z), lambda: slope * found.gradient - z)


def _weighed(
    fit: Hyperparameters, n_points: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return places psi (J, P), their weights (J,) of sum one, and factors of the scale (J,)."""
    size, prior, evidence = len(fit.psi), fit.coordinates.prior, InUnits(fit.problem, fit.coordinates)
    uniform = np.clip(scrambled_sobol(size + 2, n_points, rng), 1e-12, 1 - 1e-12)
    n = len(fit.problem.y)
    scales = 0.5 * n / gammaincinv(0.5 * n, uniform[:, -1]) if fit.problem.profiled else np.ones(n_points)
    ends = np.full(size, _FARTHEST)
    mode = search(_Standardised(fit), [prior.standardised(fit.psi)], (-ends, ends)).psi
    spread = root(_curvature(fit, mode), _LEAST) if size else np.zeros((0, 0))
    stretch = np.sqrt(0.5 * FIT.degrees / gammaincinv(0.5 * FIT.degrees, uniform[:, size]))
    first, half, places = n_points // 4, 0.5 * FIT.degrees, ndtri(uniform[:, :size])
    places[first:] = mode + (places * stretch[:, None])[first:] @ spread.T
    squares = np.sum(np.linalg.solve(spread, (places - mode).T) ** 2, axis=0)
    near = -(half + 0.5 * size) * np.log1p(0.5 * squares / half) - np.linalg.slogdet(spread)[1]
    near += gammaln(half + 0.5 * size) - gammaln(half) - 0.5 * size * np.log(half)  # over that of N(0, I)
    far = -0.5 * np.sum(places**2, axis=1)
    log_proposal = logsumexp([near, far], axis=0, b=[[n_points - first], [first]])

    def log_evidence(z: np.ndarray) -> float:
        return float(evidence.value(prior.from_standard(z)[0]))

    logs = np.array([log_evidence(z) for z in places]) + far - log_proposal
    weights = np.exp(logs - np.logaddexp.reduce(logs))
    if 2 / np.sum(weights**2) < n_points - first:
        places = _chain(log_evidence, places[logs.argmax()], rng, n_points)
        weights = np.full(n_points, 1 / n_points)
    return np.array([prior.from_standard(z)[0] for z in places]), weights, scales


def _chain(log_evidence: Any, z: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Return every tenth of the states, (count, P), of a chain for exp(log_evidence(z)) N(z; 0, I) from z."""
    states, value = np.empty((count, len(z))), log_evidence(z)
    for step in range(10 * count):
        ellipse, level = rng.standard_normal(len(z)), value - rng.exponential()
        angle = high = rng.uniform(0.0, 2.0 * np.pi)
        low = high - 2.0 * np.pi
        while not (value := log_evidence(new := z * np.cos(angle) + ellipse * np.sin(angle))) > level:
            low, high = (low, angle) if angle > 0.0 else (angle, high)
            angle = rng.uniform(low, high)
        z = states[step // 10] = new
    return states


def _curvature(fit: Hyperparameters, mode: np.ndarray) -> np.ndarray:
    """Return minus the Hessian (P, P) of the log target at its mode in z.

    With psi' and psi'' the derivatives of the map, and g and H the gradient and minus the Hessian of the log
    evidence in psi, it is psi' H psi' - diag(psi'' g) + I. Directions in which H is not positive count as
    flat.
    """
    prior = fit.coordinates.prior
    psi, slope = prior.from_standard(mode)
    ahead, behind = (prior.from_standard(mode + step)[1] for step in (_STEP, -_STEP))
    gradient = InUnits(fit.problem, fit.coordinates).expanded(psi).gradient
    values, vectors = np.linalg.eigh(curvature(fit.problem, fit.coordinates, psi))
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    bend = np.clip(-(ahead - behind) / (2 * _STEP) * gradient, 0.0, None)
    return slope[:, None] * positive * slope + np.diag(1.0 + bend)
