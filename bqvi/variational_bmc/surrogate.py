"""The surrogate: a Gaussian process on the log joint, in a frame where the posterior is about N(0, I).

    log joint(T u + c) = top - |u|^2 / 2 + phi(u),     phi ~ GP(0, k),   k of `kernel_of`

Where there is a cheap model, whose own surrogate has the posterior mean top_c - |u|^2 / 2 + g(u), phi is the
sum of a g and a Gaussian process for the difference, with a ~ N(1, .5^2): the autoregressive model of Kennedy
and O'Hagan (2000) with one scale. For a = 1 the prior mean is that of the cheap model, for a = 0 that without
a cheap model, and a adds the term .5^2 g(u) g(v) to the kernel (`gp.kernels.Multiple`).

The surrogate has three parts, each in a class or function of its own:

- the *data* (`Data`): values, derivatives where they are given, and the noise of each. Values more than a
  threshold of r nats below the best hardly affect the posterior but would distort the surrogate: beyond r
  depths grow only with their logarithm, r (1 + log(depth / r)), and are noisy (Acerbi 2020, "noise shaping"),
  with sd = r log(depth / r) / 10;
- the *hyperparameters* (`fit`): (l, w, s, b) and, if it is fitted, the noise, by the evidence and weak
  priors. With gradients, a part of the observations is used for the fit, and k has a second term with shorter
  lengthscales once the posterior has been found;
- the *posterior* (`Surrogate`): mean, variance, covariances, and the expectation under diagonal Gaussians.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from bqvi.calls.faults import contradicted
from bqvi.runs.settings import ENGINES
from bqvi.variational_bmc.settings import FITTING, SHAPING
from gp.evidence import Evidence, LogPosterior
from gp.expectation import AnovaSum, AnovaSums, Quadratic
from gp.fixed_points import Changes, Gram, gram_of
from gp.fixed_points.gram import MOST_PAIRED
from gp.kernels import Anova, Constant, Multiple, QuadraticTrend, Sum
from gp.kernels.crossed import crossed
from gp.linalg import Factor
from gp.matrices import cholesky, solve_lower
from gp.observations import Gradients, Observations, Values
from gp.priors import JointPrior
from gp.search import Search, search

_UNKNOWN = 1e12
"""The noise variance of a derivative that could not be computed."""


@dataclass(frozen=True, eq=False)
class Data:
    """The observations of the log joint, in the frame's units.

    Attributes
    ----------
    points : the points (n, D). values : the values (n,).
    gradients : the gradients (m, D) at the first m points, or None.
    noise : the noise variances (n + m D,) of the values and of the gradients.
    top : the maximum of the prior mean.
    noise_fitted : whether a noise common to all values is a hyperparameter, in addition to ``noise``.
    log_slopes : the logarithm (n,) of the derivative of the shaped value in the observed one, at each point.
    log_units : the logarithm (n,) of |det dx / du| at each point, the change of a gradient's volume.
    cheap : the function g, where there is a cheap model.
    rough : whether the kernel has a term with shorter lengthscales.
    """

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray | None
    noise: np.ndarray
    top: float
    noise_fitted: bool
    log_slopes: np.ndarray
    log_units: np.ndarray
    cheap: AnovaSums | None = None
    rough: bool = False

    @property
    def prior(self) -> JointPrior:
        """The prior of the hyperparameters."""
        return prior_of(self.points.shape[1], self.noise_fitted, self.rough)

    @property
    def log_slope(self) -> float:
        """The logarithm of the derivative of all observations as they are here in what was observed."""
        m = 0 if self.gradients is None else len(self.gradients)
        of_gradients = self.points.shape[1] * self.log_slopes[:m] + self.log_units[:m]
        return float(self.log_slopes.sum() + of_gradients.sum())

    def __getstate__(self) -> dict[str, object]:
        """The attributes alone: cached values contain functions, and are computed again."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @cached_property
    def residuals(self) -> np.ndarray:
        """The observations of phi less its prior mean, (N,)."""
        found = self.values - self.top + 0.5 * np.einsum("nd,nd->n", self.points, self.points)
        if self.gradients is not None:
            slopes = self.gradients + self.points[: len(self.gradients)]
            found = np.concatenate([found, slopes.reshape(-1)])
        return found if self.cheap_rows is None else found - self.cheap_rows

    @cached_property
    def cheap_rows(self) -> np.ndarray | None:
        """The observations of g where phi is observed, (N,)."""
        if self.cheap is None:
            return None
        found = self.cheap(self.points)
        if self.gradients is None:
            return found
        slopes = self.cheap.gradient(self.points[: len(self.gradients)])
        return np.concatenate([found, slopes.reshape(-1)])

    def kernel(self, psi: np.ndarray) -> Sum:
        """The kernel of phi with hyperparameters psi, including the scale of g where there is one."""
        kernel = kernel_of(psi, self.points.shape[1], self.rough)
        if self.cheap is None:
            return kernel
        return Sum((*kernel.terms, Multiple(self.cheap, FITTING.cheap_scale**2)))

    @cached_property
    def gram(self) -> Gram:
        """The covariance of all observations as a function of the kernel."""
        return self._gram_of(self.points)

    def _gram_of(self, points: np.ndarray) -> Gram:
        """That of values at ``points`` (k, D), with the gradients at those of them that have one."""
        blocks: list[Values | Gradients] = [Values(points)]
        if self.gradients is not None:
            blocks.append(Gradients(points[: len(self.gradients)]))
        return gram_of(self.kernel(self.prior.lower), Observations(tuple(blocks)))

    def covariance(self, kernel: Sum) -> np.ndarray:
        """The covariance (N, N) of all observations, for one kernel.

        Rows of values without a gradient are computed without what a pull-back needs.
        """
        n, m = len(self.points), 0 if self.gradients is None else len(self.gradients)
        if m == n or (m == 0 and n <= MOST_PAIRED):
            return np.array(self.gram(kernel)[0])
        found = np.empty((len(self.residuals),) * 2)
        for rows in np.array_split(np.arange(m, n), 1 + n * n // 2**19):  # of 4 MiB
            rest = crossed(kernel, self.points[rows], self.points, m)
            found[:, rows], found[rows] = rest.T, rest
        if m:
            of_first = np.r_[:m, n : len(found)]
            found[np.ix_(of_first, of_first)] = self._gram_of(self.points[:m])(kernel)[0]
        return found

    @property
    def thinned(self) -> Data:
        """The data to which hyperparameters are fitted; of many, fewer gradients or fewer values."""
        return self._thinned or self

    @cached_property
    def _thinned(self) -> Data | None:
        found = self.of_all_depths(MOST_PAIRED).with_best_gradients(FITTING.enough)
        return None if found is self else found  # data that referred to themselves would be freed late

    def of_all_depths(self, most: int) -> Data:
        """The data of at most as many values, of all depths; where there are gradients, the same data."""
        n = len(self.values)
        ranks = np.linspace(0, n - 1, most).astype(int)
        few = n <= most or self.gradients is not None
        return self if few else self._at(np.argsort(-self.values, kind="stable")[ranks], 0)

    def with_best_gradients(self, rows: int) -> Data:
        """The data with all values, but gradients only at the points of highest density.

        Parameters
        ----------
        rows : the number of observations. `FittingSettings` has the least number of gradients that are kept
            where there are more values than that.
        """
        if self.gradients is None or len(self.residuals) <= rows:
            return self
        n, dimension = self.points.shape
        m = min(max((rows - n) // dimension, 10), len(self.gradients))
        return self._at(np.argsort(-self.values, kind="stable"), m)

    def _at(self, rows: np.ndarray, m: int) -> Data:
        """The data at the points of ``rows`` (k,), with the gradients at the first m of them."""
        n, dimension = self.points.shape
        gradients, noise = self.gradients, self.noise[:n][rows]
        if gradients is not None:
            gradients = gradients[rows[:m]]
            of_slopes = self.noise[n:].reshape(-1, dimension)[rows[:m]]
            noise = np.concatenate([noise, of_slopes.reshape(-1)])
        return replace(
            self, points=self.points[rows], values=self.values[rows], gradients=gradients, noise=noise,
            log_slopes=self.log_slopes[rows], log_units=self.log_units[rows],
        )  # fmt: skip


def noise_shaped(
    points: np.ndarray,
    values: np.ndarray,
    gradients: np.ndarray | None,
    noise: np.ndarray | None,
    threshold: float,
    noise_fitted: bool = False,
) -> Data:
    """The data with a noise that grows with their depth below the best.

    Parameters
    ----------
    points : u (n, D), in the frame. values : of the log density, (n,). gradients : (n, D), or None.
    noise : the variances (n,) of the values' noise, or None where they are exact. threshold : the depth below
        the best value, nats, from which noise is added.
    noise_fitted : whether a further noise is a hyperparameter.
    """
    top = float(np.max(values))
    depth = top - values
    excess = np.maximum(depth / threshold, 1.0)
    values = top - np.where(depth > threshold, threshold * (1.0 + np.log(excess)), depth)
    shaped = (0.1 * threshold * np.log(excess)) ** 2
    variance = shaped + (0.0 if noise is None else noise / excess**2)
    if gradients is not None:
        unknown = np.isnan(gradients)
        gradients = np.where(unknown, 0.0, gradients / excess[:, None])
        slopes = shaped[:, None] + 1e-8 * gradients**2
        slopes[unknown] = _UNKNOWN
        variance = SHAPING.noise_beside_gradients + np.concatenate([variance, slopes.reshape(-1)])
    return Data(points, values, gradients, variance, top, noise_fitted, -np.log(excess), np.zeros_like(depth))


def prior_of(dimension: int, noise_fitted: bool, rough: bool = False) -> JointPrior:
    """The prior of the logarithms of the hyperparameters psi.

    These are D lengthscales, interaction, variance and quadratic; of a rough kernel, its second term's share;
    if noise is fitted, its variance.

    Parameters
    ----------
    dimension : D. noise_fitted : whether the variance of a noise is a hyperparameter. rough : whether the
        kernel has a second term.
    """
    tail = [(1.0, 1.5), (10.0, 4.0), (0.5, 4.0)]  # medians, and sds of the logarithms
    if rough:
        tail.append(FITTING.share)
    if noise_fitted:
        tail.append(FITTING.noise)
    median, sd = np.array([FITTING.lengthscale] * dimension + tail).T
    return JointPrior.normal(np.log(median), sd)


def kernel_of(psi: np.ndarray, dimension: int, rough: bool = False) -> Sum:
    """The kernel of a vector of logarithms (l, w, s, b): analysis of variance, a quadratic, a constant.

    If ``rough``, a second analysis of variance with shorter lengthscales is added. Its variance is a share of
    that of the first, whose logarithm comes next in psi (`FittingSettings`).
    """
    w, s, b = (float(part) for part in np.exp(psi[dimension : dimension + 3]))
    lengthscale = np.exp(psi[:dimension])
    terms = (Anova(lengthscale, w, s), QuadraticTrend(b, b), Constant(FITTING.top_variance))
    if not rough:
        return Sum(terms)
    share = float(np.exp(psi[dimension + 3]))
    return Sum((*terms, Anova(FITTING.shorter * lengthscale, w, share * s)))


def _slopes(kernel: Sum, dimension: int) -> np.ndarray:
    """Derivatives of the logarithms of the kernel's parameters in psi without the noise, (D + 3 or D + 4, P).

    The two variances of the trend are one hyperparameter; those of the constant and of the cheap model's
    scale are none.
    """
    rough = sum(isinstance(term, Anova) for term in kernel.terms) - 1
    rows = dimension + 3 + rough
    first, trend, known = np.eye(rows, dimension + 2), np.zeros((rows, 2)), np.zeros((rows, 1))
    trend[dimension + 2] = 1.0
    second = first.copy()
    second[dimension + 3 :, -1] = 1.0
    anova = iter((first, second))
    columns = [
        next(anova) if isinstance(term, Anova) else trend if isinstance(term, QuadraticTrend) else known
        for term in kernel.terms
    ]
    return np.concatenate(columns, axis=1)


def rounding_of(psi: np.ndarray, dimension: int) -> float:
    """The noise variance of an exact value."""
    return SHAPING.rounding * float(np.exp(psi[dimension + 1]) + FITTING.top_variance)


def _noises(data: Data, psi: np.ndarray) -> np.ndarray:
    """The noise variances (N,) of all observations, including those added because of rounding."""
    noise = data.noise + rounding_of(psi, data.points.shape[1])
    if data.noise_fitted:
        noise[: len(data.values)] += np.exp(psi[-1])
    return noise


def log_posterior(data: Data) -> LogPosterior:
    """The log evidence and prior of the hyperparameters, with derivatives."""
    n, dimension = data.points.shape
    prior = data.prior
    slopes = _slopes(data.kernel(prior.lower), dimension)

    def gram(psi: np.ndarray) -> tuple[np.ndarray, Changes]:
        matrix, pullback = data.gram(data.kernel(psi))
        assert isinstance(pullback, Changes)  # every part of the kernel has `Changes`
        own = _noises(data, psi) - data.noise
        np.einsum("ii->i", matrix)[:] += own
        noise = np.zeros((int(data.noise_fitted), len(matrix)))
        noise[:, :n] = np.exp(psi[-1])
        rounding = SHAPING.rounding * np.exp(psi[dimension + 1])

        def gradient(weights: np.ndarray) -> np.ndarray:
            of_kernel = slopes @ pullback(weights)
            of_kernel[dimension + 1] += rounding * weights.trace()
            return np.append(of_kernel, noise @ weights.diagonal())

        def times(vectors: np.ndarray) -> np.ndarray:
            of_kernel = np.tensordot(slopes, pullback.times(vectors), 1)
            of_kernel[dimension + 1] += rounding * vectors
            return np.concatenate([of_kernel, noise[:, :, None] * vectors])

        return matrix, Changes(gradient, times)

    return LogPosterior(gram, data.noise, data.residuals[:, None], prior, convention="known")


def with_terms_of(psi: np.ndarray, data: Data) -> np.ndarray:
    """Return the hyperparameters of other data with the share of the second term, or without, as data ask."""
    place, more = data.points.shape[1] + 3, len(data.prior.lower) - len(psi)
    if more > 0:
        return np.insert(psi, place, np.log(FITTING.share[0]))
    return np.delete(psi, place) if more < 0 else psi


def fit(data: Data, start: np.ndarray | None, iterations: int = 40) -> tuple[np.ndarray, float]:
    """The hyperparameters (P,) at the maximum of their posterior near ``start`` (or near the prior's mean).

    The second result is the log posterior there, for values and gradients as observed, so that differently
    shaped data and other frames can be compared. Gradients are thinned.
    """
    data = data.thinned
    objective = log_posterior(data)
    centre = objective.prior.lower
    starts = [centre, _with_trend(centre, data)] if start is None else [start]
    gain = 1e-3 if data.gradients is None else 0.05
    asked = Search(len(starts), iterations, settled=0.5 * gain, gained=gain, longest=2.0)
    found = search(objective, starts, objective.prior.bounds, asked)
    return np.asarray(found.psi), data.log_slope + found.value


def _with_trend(psi: np.ndarray, data: Data) -> np.ndarray:
    """Hyperparameters with which the quadratic trend explains most of the observations."""
    dimension = data.points.shape[1]
    found = psi.copy()
    spread = float(np.var(data.values))
    squares = max(float(np.median(np.einsum("nd,nd->n", data.points, data.points))), 1e-12)
    found[dimension + 2] = np.log(max(spread, 1.0) / (squares * (1.0 + 0.5 * squares)))
    return found


def _function(data: Data, kernel: Sum, weights: np.ndarray) -> AnovaSums:
    """The function of ``weights`` of the observations, (N,)."""
    n, dimension = data.points.shape
    alpha, slopes = weights[:n], (None if data.gradients is None else weights[n:].reshape(-1, dimension))
    polynomials = Sum(tuple(term for term in kernel.terms if isinstance(term, QuadraticTrend | Constant)))
    prior = Quadratic(data.top, np.zeros(dimension), -np.eye(dimension))
    trend = prior + Quadratic.of_kernel(polynomials, data.points, alpha, slopes)
    varying = [term for term in kernel.terms if isinstance(term, Anova)]
    parts = [AnovaSum(data.points, term, trend.times(0.0), alpha, slopes) for term in varying]
    cheap = () if data.cheap is None else data.cheap.times(_scale(data, weights)).parts
    return AnovaSums((*parts, *cheap)).plus(trend)


def _scale(data: Data, weights: np.ndarray) -> float:
    """The posterior mean of the scale a, given ``weights`` of the observations."""
    assert data.cheap_rows is not None
    return 1.0 + FITTING.cheap_scale**2 * float(weights @ data.cheap_rows)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """The Gaussian process given data and hyperparameters.

    Attributes
    ----------
    data : the observations. psi : the hyperparameters. kernel : that of phi.
    evidence : of the residuals r of the observations, (N, 1), with the factor W^-1 of their covariance.
    """

    data: Data
    psi: np.ndarray
    kernel: Sum
    evidence: Evidence

    @classmethod
    def of(cls, data: Data, psi: np.ndarray) -> Surrogate:
        """The surrogate; LinAlgError if the covariance has no Cholesky factor because of rounding."""
        kernel, noise = data.kernel(psi), _noises(data, psi)
        for more in (0.0, 1e-9, 1e-7, 1e-5):
            if more:
                noise = noise + more * data.covariance(kernel).diagonal()
            try:
                matrix = data.covariance(kernel)
                np.einsum("ii->i", matrix)[:] += noise
                factor = Factor(cholesky(matrix, overwrite=True))
            except np.linalg.LinAlgError:
                continue
            return cls(data, psi, kernel, Evidence.of(factor, data.residuals[:, None], convention="known"))
        raise np.linalg.LinAlgError("no small jitter makes the covariance positive definite")

    @cached_property
    def weights(self) -> np.ndarray:
        """The weights (N,) of the observations in the posterior mean, W^T W r."""
        return self.evidence.weights[:, 0]

    @property
    def dimension(self) -> int:
        """The dimension D."""
        return int(self.data.points.shape[1])

    @property
    def fitted_noise(self) -> float:
        """The variance of the noise that was fitted; 0 where none was."""
        return float(np.exp(self.psi[-1])) if self.data.noise_fitted else 0.0

    @property
    def cheap_scale(self) -> tuple[float, float] | None:
        """The posterior mean and standard deviation of the scale a; None without a cheap model."""
        if self.data.cheap_rows is None:
            return None
        known = self.evidence.factor.solve(self.data.cheap_rows)
        left = 1.0 - FITTING.cheap_scale**2 * float(known @ known)
        return _scale(self.data, self.weights), FITTING.cheap_scale * float(np.sqrt(max(left, 0.0)))

    @cached_property
    def function(self) -> AnovaSums:
        """The posterior mean of the log joint as a function, with its gradient and its expectations."""
        return _function(self.data, self.kernel, self.weights)

    def mean(self, u: np.ndarray) -> np.ndarray:
        """The posterior mean of the log joint at u (m, D), (m,)."""
        return self.function(u)

    def whitened(self, u: np.ndarray) -> np.ndarray:
        """Whitened covariances W k of phi at u (m, D), (N, m).

        Inner products of the columns are the reduction of the covariance. Products with W would lose digits.
        """
        slopes, n = 0 if self.data.gradients is None else len(self.data.gradients), len(self.weights)
        found = np.empty((n, len(u)), order="F")  # columns are solved for, and chosen
        parts = 1 + n * len(u) // 2**19  # of 4 MiB
        for part in (slice(i * len(u) // parts, (i + 1) * len(u) // parts) for i in range(parts)):
            covariances = crossed(self.kernel, u[part], self.data.points, slopes).T
            found[:, part] = self.evidence.factor.solve(covariances)
        return found

    def moments(self, u: np.ndarray, whitened: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The posterior mean and variance of the log joint at u (m, D), (m,) each, from ``whitened`` W k."""
        known = self.whitened(u) if whitened is None else whitened
        variance = self.kernel.diagonal(u) - np.einsum("nm,nm->m", known, known)
        prior = self.data.top - 0.5 * np.einsum("md,md->m", u, u)
        prior = prior if self.data.cheap is None else prior + self.data.cheap(u)
        return prior + self.evidence.residual[:, 0] @ known, np.maximum(variance, self.rounding)

    def left_out(self, copies: np.ndarray) -> np.ndarray:
        """The values less their predictions by all other evaluations, in sds of these, (n,).

        With C the covariance of the observations and r their residuals, those of evaluations i have errors
        [C^-1]_ii^-1 [C^-1 r]_i, with covariance [C^-1]_ii^-1. An evaluation is left out with its ``copies``,
        pairs (k, 2) of evaluations at nearly the same point.
        """
        n, dimension = self.data.points.shape
        m = 0 if self.data.gradients is None else len(self.data.gradients)
        z, whitening = np.empty(n), self.evidence.factor.whitening
        for i in range(n):
            out = np.r_[i, copies[:, ::-1][copies == i]]
            rows = np.r_[out, (n + out[out < m, None] * dimension + np.arange(dimension)).reshape(-1)]
            columns, first = whitening[:, rows], np.eye(len(rows))[0]
            factor = cholesky(columns.T @ columns)
            covariances = solve_lower(factor, solve_lower(factor, first), transposed=True)
            z[i] = covariances @ self.weights[rows] / np.sqrt(covariances[0])
        return z

    @cached_property
    def gradient_errors(self) -> np.ndarray:
        """The mean squared errors (m,) of gradients left out alone, in units of their covariances."""
        n, dimension = self.data.points.shape
        sets = np.arange(n, len(self.weights)).reshape(-1, dimension)
        return self.evidence.squares_left_out(sets)

    def contradicted_gradient(self) -> int | None:
        """The gradient that all others contradict (`bqvi.calls.faults.contradicted`), or None."""
        data = self.data
        if data.gradients is None:
            return None
        known, (n, dimension) = data.gradients, data.points.shape

        def without(i: int) -> tuple[np.ndarray, float, np.ndarray]:
            gradients, noise = known.copy(), data.noise.copy()
            gradients[i], noise[n + i * dimension : n + (i + 1) * dimension] = 0.0, _UNKNOWN
            others = replace(data, gradients=gradients, noise=noise)
            psi, _ = fit(others, self.psi)
            return Surrogate.of(others, psi).gradient_errors, 1.0, Surrogate.of(data, psi).gradient_errors

        return contradicted(self.gradient_errors, 1.0, without, ENGINES.sds**2)

    @property
    def rounding(self) -> float:
        """A variance of phi below which it counts as zero."""
        return rounding_of(self.psi, self.dimension)

    def covariance(
        self, u: np.ndarray, v: np.ndarray, whitened_u: np.ndarray, whitened_v: np.ndarray
    ) -> np.ndarray:
        """The posterior covariance of phi at u (m, D) and v (p, D), (m, p), given W k of both."""
        return self.kernel(u, v) - whitened_u.T @ whitened_v
