"""A surrogate of the integrand: a chart, a family of kernels, and hyperparameters found by evidence.

    psi = (logarithms of the family's parameters, such as lengthscales in the chart, log tau)

The covariance is s (k + tau N). Scale s and mean are integrated out (`gp.evidence`, the marginal form,
which has the predictions), so a fit is a search over psi (`gp.search`).
The prior on a lengthscale is flat from a fifth to twelve standard deviations of the measure and decreases
outside, which excludes degenerate lengthscales; that on log tau is flat. A *fitted* tau also
represents variation that the kernel cannot fit, such as a jump: the surrogate then regresses instead of
interpolating, and the standard deviation becomes that of an average. Noise of known variance fixes s tau.

*A candidate* has coordinates in which an integrand may look stationary, and a family of kernels there.

Under a stationary kernel the prior of f is the same everywhere, with lengthscales along the axes. Whether
that is plausible depends on the coordinates, whereas the integral does not: for a bijection v = T(u),

    int f(u) pi(du) = int f(T^-1(v)) (T pi)(dv),

so the coordinates can be chosen by evidence, provided that the kernel has an embedding against T pi.
The charts from standard coordinates u, in which the measure has mean 0 and covariance I, are

    linear    v = R^T u, R a rotation      f varies along few directions, or not along the axes
    cube      v = sqrt 3 (2 Phi(u) - 1)    f tends to constants in the tails; N(0, I) becomes the box
    probit    the inverse of cube          for a box: kernels that have closed forms under N(0, I) alone

The families are kernels of unit variance with one lengthscale for each coordinate.

smooth    exp(-|a|^2 / 2)                    squared exponential: functions with all derivatives
rough     prod_d (1 + b_d) exp(-b_d)         Matern 3/2 by coordinate, b = sqrt(3) |a|: one derivative,
                                             so that functions may have kinks
tilted    the smooth one times               functions whose variance under N(0, I) is only just infinite
          exp((|v|^2 + |v'|^2) / 4)          (:class:`gp.kernels.Tilted`)
sparse    prod_d (1 + w exp(-a_d^2 / 2))     sums of functions of few coordinates: each of the
               / (1 + w),   w = 0.3/D        (D choose j) interactions of j coordinates has variance w^j
                                             (:class:`gp.kernels.Anova` and a constant)

with a_d = (v_d - v'_d) / length_d. All but the tilted one are products over coordinates, and so have closed
forms wherever coordinates are independent. In ten dimensions nearly all the variance of the smooth family is
in interactions of many coordinates; in the sparse family (Durrande et al. 2013) it is in functions of one and
of two coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import pi, sqrt
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from scipy.special import ndtr, ndtri

from bqvi.calls.faults import contradicted
from bqvi.calls.returned import understated_noise
from bqvi.quadrature.settings import ROUGHLY, SEARCH, Effort
from gp import means
from gp.embeddings import KernelEmbedding, embed
from gp.evidence import Evidence, LogPosterior
from gp.fixed_points import Changes, gram_of
from gp.integrals import Integrals
from gp.kernels import (
    Anova,
    ByColumn,
    Constant,
    Kernel,
    Matern32,
    SquaredExponential,
    Sum,
    Tilted,
)
from gp.kernels.base import Pullback
from gp.kernels.parameters import scaled
from gp.linalg import cholesky
from gp.measures import Gaussian, Measure, Uniform
from gp.measures.pushed import pushed
from gp.observations import Functional, Gradients, Observations, Values, covariance
from gp.priors import JointPrior
from gp.search import Search, search

if TYPE_CHECKING:
    from gp.regression.posterior import Posterior


class MeasureChart(Protocol):
    """A bijection from standard coordinates u to v, and the measure of v."""

    @property
    def measure(self) -> Measure:
        """The measure of v."""

    def forward(self, u: np.ndarray) -> np.ndarray:
        """Return v (n, D) for u (n, D)."""

    def backward(self, v: np.ndarray) -> np.ndarray:
        """Return u (n, D) for v (n, D)."""

    def slopes(self, u: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Return df/dv (n, D) for df/du (n, D) at u."""


@dataclass(frozen=True, eq=False)
class AffineChart:
    """v = R^T u.

    `gp.measures.AffineMap` is not used, as it solves with its matrix, in twelve times the time of a product.

    Attributes
    ----------
    measure : the measure of v. rotation : R, (D, D), orthogonal.
    """

    measure: Measure
    rotation: np.ndarray

    def forward(self, u: np.ndarray) -> np.ndarray:
        return u @ self.rotation

    def backward(self, v: np.ndarray) -> np.ndarray:
        """Return v R^T."""
        return v @ self.rotation.T

    def slopes(self, u: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        return gradients @ self.rotation


@dataclass(frozen=True, eq=False)
class Cube:
    """v = sqrt 3 (2 Phi(u) - 1), of mean 0 and variance 1 in each coordinate.

    Attributes
    ----------
    measure : uniform on [-sqrt 3, sqrt 3]^D.
    """

    measure: Uniform

    def forward(self, u: np.ndarray) -> np.ndarray:
        return sqrt(3) * (2 * ndtr(u) - 1)

    def backward(self, v: np.ndarray) -> np.ndarray:
        return ndtri(np.clip((v / sqrt(3) + 1) / 2, 1e-9, 1 - 1e-9))

    def slopes(self, u: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Return gradients / (dv/du)."""
        return gradients / (2 * sqrt(3) * np.exp(-(u**2) / 2) / sqrt(2 * pi))


@dataclass(frozen=True, eq=False)
class Probit:
    """The inverse of `Cube`, from the cube to the space of N(0, I).

    Attributes
    ----------
    measure : N(0, I). cube : the inverse.
    """

    measure: Gaussian
    cube: Cube

    def forward(self, u: np.ndarray) -> np.ndarray:
        return self.cube.backward(u)

    def backward(self, v: np.ndarray) -> np.ndarray:
        return self.cube.forward(v)

    def slopes(self, u: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        """Return gradients / (dv/du)."""
        v = self.forward(u)
        return gradients * (2 * sqrt(3) * np.exp(-(v**2) / 2) / sqrt(2 * pi))


def identity(measure: Measure) -> AffineChart:
    """The chart v = u."""
    return AffineChart(measure, np.eye(measure.dimension))


def rotated(measure: Measure, rotation: np.ndarray) -> AffineChart:
    """Standard coordinates after a rotation R (D, D)."""
    if isinstance(measure, Gaussian):
        # N(0, I) is unchanged by rotation, and a product with R would only add rounding
        return AffineChart(measure, rotation)
    return AffineChart(pushed(measure, np.zeros(measure.dimension), rotation.T), rotation)


def cube(dimension: int) -> Cube:
    """The chart to the cube, in which N(0, I) becomes uniform."""
    upper = sqrt(3) * np.ones(dimension)
    return Cube(Uniform(-upper, upper))


def probit(dimension: int) -> Probit:
    """The chart from the cube, in which the uniform measure becomes N(0, I)."""
    return Probit(Gaussian(np.zeros(dimension), np.eye(dimension)), cube(dimension))


Gram: TypeAlias = Callable[[np.ndarray], tuple[np.ndarray, Pullback]]
"""A function of P parameters p, such as lengthscales, that returns K (m, m), which the caller may change, and
its pull-back: a function of symmetric weights W (m, m) that returns sum_ij W_ij dK_ij/dlog p, (P,)."""


class KernelFamily(Protocol):
    """Kernels with P positive parameters."""

    @property
    def smooth(self) -> bool:
        """Whether its functions have all derivatives."""

    @property
    def kernel(self) -> Callable[[np.ndarray], Kernel]:
        """A function of parameters (P,) that returns the kernel."""

    def gram(self, observed: Functional) -> Gram:
        """Return the covariance of observations at fixed points, as a function of the parameters."""

    def limits(self, dimension: int) -> np.ndarray:
        """Return the limits of the logarithms of the parameters, (5, P).

        The rows are the ends of the flat part of the prior, its standard deviation beyond, and the bounds of
        the search.
        """


@dataclass(frozen=True)
class Family:
    """Kernels k(v, v') of unit variance.

    Attributes
    ----------
    kernel : a function of lengthscales (D,) that returns the kernel.
    smooth : whether its functions have all derivatives.
    first : the index of the first lengthscale among the kernel's parameters.
    """

    kernel: Callable[[np.ndarray], Kernel]
    smooth: bool
    first: int = 0

    def gram(self, observed: Functional) -> Gram:
        width = observed.x.shape[1]
        of_kernel = gram_of(self.kernel(np.ones(width)), observed)
        chosen = slice(self.first, self.first + width)

        def gram(lengthscales: np.ndarray) -> tuple[np.ndarray, Pullback]:
            matrix, pullback = of_kernel(self.kernel(lengthscales))
            return matrix, pullback.among(chosen) if isinstance(pullback, Changes) else (
                lambda weights: pullback(weights)[chosen]
            )

        return gram

    def limits(self, dimension: int) -> np.ndarray:
        one = np.array([*SEARCH.lengthscales, SEARCH.falloff, *SEARCH.bounds])
        return np.tile(one[:, None], dimension)


def _squared_exponential(lengthscales: np.ndarray) -> SquaredExponential:
    return SquaredExponential(lengthscales, 1.0)


def _rough(lengthscales: np.ndarray) -> ByColumn:
    return ByColumn(Matern32(lengthscales, 1.0))


def _sparse(lengthscales: np.ndarray) -> Sum:
    dimension = len(lengthscales)
    w = 2 * SEARCH.pairs / dimension  # functions of two coordinates have `pairs` times the variance
    constant = float((1 + w) ** -dimension)
    return Sum((Constant(constant), Anova(lengthscales, w, 1 - constant)))


def _tilted(lengthscales: np.ndarray) -> Tilted:
    return Tilted(_squared_exponential(lengthscales), 0.5)


SMOOTH = Family(_squared_exponential, smooth=True)
TILTED = Family(_tilted, smooth=False)
ROUGH = Family(_rough, smooth=False)
SPARSE = Family(_sparse, smooth=False, first=1)


_ROWS = 100
"""The most nodes at which slopes are computed at a time."""


@dataclass(frozen=True, eq=False)
class StandardData:
    """The evaluations, in standard coordinates.

    Attributes
    ----------
    u : (n, D)
    values : (n, o), in units in which they vary by about 1.
    slopes : df/du, (n, D, o), or ``None``.
    noise : relative noise variances of the values, (n,), of mean 1.
    noise_variance : the mean of the noise variances in the units of the values, if it is known.
    noisy : whether the values have noise.
    centred : whether the mean is a fitted constant; otherwise it is zero.
    least_noise : the smallest tau that is searched.
    """

    u: np.ndarray
    values: np.ndarray
    slopes: np.ndarray | None = None
    noise: np.ndarray | None = None
    noise_variance: float | None = None
    noisy: bool = False
    centred: bool = True
    least_noise: float = 1e-13

    def __len__(self) -> int:
        return len(self.u)

    def among(self, rows: np.ndarray) -> StandardData:
        """Return the data at some of the nodes."""
        slopes = None if self.slopes is None else self.slopes[rows]
        noise = None if self.noise is None else self.noise[rows]
        return replace(self, u=self.u[rows], values=self.values[rows], slopes=slopes, noise=noise)

    @property
    def outputs(self) -> int:
        """The number o of outputs."""
        return int(self.values.shape[1])

    @property
    def sloped(self) -> np.ndarray:
        """The nodes (k,) whose slopes are known: they are NaN where they were left out."""
        return np.flatnonzero(() if self.slopes is None else np.isfinite(self.slopes).all(axis=(1, 2)))

    @property
    def smooth_only(self) -> bool:
        """Whether only the squared exponential kernel in linear charts is possible."""
        return self.slopes is not None or not self.centred


@dataclass(frozen=True, eq=False)
class View:
    """Data in the coordinates of a chart.

    Attributes
    ----------
    observed : the m observed functionals in the chart. y : (m, o). noise : N, (m,). gram : their covariance.
    basis : the functionals of a constant mean, (m, 1), or ``None``. prior : the prior of psi.
    """

    observed: Functional
    y: np.ndarray
    basis: np.ndarray | None
    noise: np.ndarray
    gram: Gram
    prior: JointPrior

    @staticmethod
    def of(data: StandardData, chart: MeasureChart, family: KernelFamily) -> View:
        """Transform the data to the chart."""
        v, n = chart.forward(data.u), len(data)
        noise = np.ones(n) if data.noise is None else data.noise
        basis, prior = np.ones((n, 1)) if data.centred else None, _prior(data, family)
        if data.slopes is None:
            return View(Values(v), data.values, basis, noise, family.gram(Values(v)), prior)
        known = data.sloped
        slopes = [chart.slopes(data.u, data.slopes[:, :, o])[known].reshape(-1) for o in range(data.outputs)]
        flat = np.stack(slopes, axis=1)
        zeros = np.zeros(len(flat))
        observed = Observations((Values(v), Gradients(v[known])))
        return View(
            observed,
            np.concatenate([data.values, flat]),
            None if basis is None else np.concatenate([basis, zeros[:, None]]),
            np.concatenate([noise, zeros]),
            family.gram(observed),
            prior,
        )


@dataclass(frozen=True, eq=False)
class CandidateProcess:
    """A candidate at hyperparameters psi, given data.

    Attributes
    ----------
    name : name of the candidate. chart, family : its coordinates and its kernels.
    psi : (P + 1,). data : the data given. view : the data in the chart.
    """

    name: str
    chart: MeasureChart
    family: KernelFamily
    psi: np.ndarray
    data: StandardData
    view: View

    def __reduce__(self) -> tuple[Any, ...]:
        """Of what it is made of: Gram matrices at fixed points are functions, which cannot be pickled."""
        return surrogate, (self.name, self.chart, self.family, self.data, self.psi)

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.data.u.shape[1])

    @property
    def kernel(self) -> Kernel:
        """The kernel in the chart."""
        return self.family.kernel(np.exp(self.psi[:-1]))

    @property
    def tau(self) -> float:
        """The relative noise variance."""
        return float(np.exp(self.psi[-1]))

    @cached_property
    def objective(self) -> LogPosterior:
        """The log posterior of psi, for a search."""
        view = self.view
        return LogPosterior(
            lambda logs: view.gram(np.exp(logs)),
            view.noise,
            view.y,
            view.prior,
            view.basis,
            "marginal",
            noise_fitted=True,
            known=self.data.noise_variance,
            factor=cholesky,
        )

    @cached_property
    def process(self) -> Evidence:
        """The process given the data, at psi."""
        return self.objective.evidence(self.psi)

    def understated(self, unit: float, repeats: bool = True) -> tuple[str, ...]:
        """A warning that values, whose ``unit`` is given, vary by more than their noise; () if not.

        The evidence does not tell that from a kink or a jump of f. Differences d of values at one node are
        N(0, 2) in units of their noise, and N(0, 2 factor^2) if it is understated: with ``repeats`` there is
        a warning only if the latter is likelier.
        """
        data = self.data
        variance = data.noise_variance or 0.0
        gain, factor = self.objective.noisier(self.psi) if variance else (0.0, 1.0)
        found = understated_noise(gain, factor, unit * math.sqrt(variance))
        if not (found and repeats) or data.slopes is not None:
            return found
        first, same = np.unique(data.u, axis=0, return_index=True, return_inverse=True)[1:]
        pairs = np.stack([first[same.reshape(-1)], np.arange(len(data))])
        pairs = pairs[:, pairs[0] < pairs[1]]
        variances = variance * self.view.noise[pairs].sum(0)[:, None]
        squares = np.square(np.diff(data.values[pairs], axis=0)[0]) / variances
        return found if 0.5 * squares.sum() * (1.0 - factor**-2.0) > squares.size * math.log(factor) else ()

    def contradicted(self) -> int | None:
        """The node whose slope all others contradict (`bqvi.calls.faults.contradicted`), or None."""
        known, data, slopes = self.data.sloped, self.data, self.data.slopes
        if slopes is None or data.noisy or data.outputs > 1 or len(known) < 3:
            return None

        def without(row: int) -> tuple[np.ndarray, float, np.ndarray]:
            left = np.arange(len(data))[:, None, None] == known[row]
            others = replace(data, slopes=np.where(left, np.nan, slopes))
            again = surrogate(self.name, self.chart, self.family, others, self.psi).climbed(ROUGHLY)
            return again._slope_errors, again.process.scales[0], self.at(again.psi)._slope_errors

        row = contradicted(self._slope_errors, self.process.scales[0], without)
        return None if row is None else int(known[row])

    @property
    def _slope_errors(self) -> np.ndarray:
        """The mean squared errors (k,) of slopes left out, over their variances for unit scale."""
        sets = np.arange(len(self.data), len(self.process.weights)).reshape(-1, self.dimension)
        return self.process.squares_left_out(sets)

    def at(self, psi: np.ndarray) -> CandidateProcess:
        """Return the surrogate with other hyperparameters."""
        return replace(self, psi=np.asarray(psi, dtype=float))

    def integral(self) -> tuple[np.ndarray, float]:
        """The mean (o,) of the integral against the measure of the chart, and its variance for unit scale.

        Outputs have this variance times ``process.output_covariance``, at least the prior's rounding error.
        """
        prior, level = np.full((1, 1), float(self.embedding.double())), np.full(1, float(self.data.centred))
        whitened = self.process.factor.solve(self.with_integral[:, None])
        unit = self.process.unit_covariance(prior, whitened, level)
        least = np.finfo(float).eps * float(prior[0, 0])
        return self.process.expectations(whitened, level)[0], max(float(unit[0, 0]), least)

    @cached_property
    def with_integral(self) -> np.ndarray:
        """The prior covariances of the data with the integral, (m,)."""
        observed = self.view.observed
        if isinstance(observed, Values):
            return self.embedding.mean(observed.x)
        return covariance(self.kernel, observed, Integrals((self.chart.measure,)))[:, 0]

    @cached_property
    def embedding(self) -> KernelEmbedding:
        """The integrals of the kernel against the measure of the chart."""
        return embed(self.kernel, self.chart.measure)

    def posterior(self, output: int = 0) -> Posterior:
        """The Gaussian process of one output in the chart, with scale and mean at their estimates."""
        from gp.regression.process import GaussianProcess

        scale = float(self.process.scales[output])
        kernel, mean = scaled(self.kernel, scale), means.Constant(float(self.process.mean[output]))
        process = GaussianProcess(kernel, mean, scale * self.tau * self.view.noise)
        return process.condition(self.view.observed, self.view.y[:, output])

    def slopes(self) -> np.ndarray:
        """Return df/dv of the mean of each output at the data's points, (n, D, o)."""
        v, kernel, weights = self.chart.forward(self.data.u), self.kernel, self.process.weights
        few = np.array_split(v, len(v) // _ROWS + 1)  # as the covariances of all take D n^2 numbers
        parts = [covariance(kernel, Gradients(rows), self.view.observed) @ weights for rows in few]
        return np.concatenate(parts).reshape(len(v), self.dimension, -1)

    @cached_property
    def log_posterior(self) -> float:
        """Log evidence plus log prior of psi, up to a constant."""
        return self.objective.value_of(self.process, self.psi)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of the search of psi, (P + 1,)."""
        return self.view.prior.bounds

    def climbed(self, effort: Effort) -> CandidateProcess:
        """Return the surrogate at the optimum that a climb from its psi reaches."""
        asked = Search(
            iterations=20 * effort.climbs,
            value_tolerance=1e-5,
            gradient_tolerance=1e-2,
            settled=effort.settled,
            gained=effort.settled,
            longest=SEARCH.longest,
            damping=SEARCH.damping,
            renewed=False,
        )
        return self.at(search(self.objective, [self.psi], self.bounds(), asked).psi)


def surrogate(
    name: str, chart: MeasureChart, family: KernelFamily, data: StandardData, psi: np.ndarray
) -> CandidateProcess:
    """Condition a candidate on data.

    Parameters
    ----------
    name : the candidate's name. chart : the coordinates of the process. family : its kernels.
    data : the nodes (n, D), and values (n, o) in units in which they vary by about 1.
    psi : the logarithms of the hyperparameters, (D + 1,).
    """
    return CandidateProcess(
        name, chart, family, np.asarray(psi, dtype=float), data, View.of(data, chart, family)
    )


def fitted(starts: list[CandidateProcess], effort: Effort, again: bool = False) -> CandidateProcess:
    """Return the best optimum found by climbing from the best few of ``starts``.

    A second climb starts at other lengthscales, as from those of the first it would reach the same optimum;
    ``again`` there is none, as one of ``starts`` is an earlier optimum.
    """
    clipped = [start.at(np.clip(start.psi, *start.bounds())) for start in starts]
    ranked = clipped if len(clipped) == 1 else sorted(clipped, key=_value, reverse=True)
    chosen = ranked[:1]
    for other in ranked[1:]:
        apart = [np.abs(other.psi[:-1] - start.psi[:-1]).max() > 0.3 for start in chosen]
        if len(chosen) < (1 if again else effort.climbs) and all(apart):
            chosen.append(other)
    found = [start.climbed(effort) for start in chosen]
    return found[0] if len(found) == 1 else max(found, key=_value)


def _prior(data: StandardData, family: KernelFamily) -> JointPrior:
    """The prior of psi, with the bounds of the search."""
    most = SEARCH.most_noise_of_noisy if data.noisy else 1.0
    of_noise = np.array([-np.inf, np.inf, 1.0, np.log(data.least_noise), np.log(most)])
    return JointPrior(*np.column_stack([family.limits(data.u.shape[1]), of_noise]))


def starting_points(dimension: int, noisy: bool) -> list[np.ndarray]:
    """Starting points: lengthscales from below to above the spread of the measure, little and much noise."""
    noises = SEARCH.starting_noises_of_noisy if noisy else SEARCH.starting_noises
    return [
        np.append(np.full(dimension, np.log(length * dimension**0.25)), np.log(tau))
        for length in SEARCH.starting_lengthscales
        for tau in noises
    ]


def short_start(dimension: int) -> np.ndarray:
    """A starting point for what others would take for noise: a narrow peak, or a wave that nodes resolve."""
    length = SEARCH.short_lengthscale * dimension**0.25
    return np.log([*np.full(dimension, length), SEARCH.starting_noises[0]])


def _value(candidate: CandidateProcess) -> float:
    try:
        return candidate.log_posterior
    except np.linalg.LinAlgError:
        return -np.inf
