"""A surrogate of the integrand: a chart, a family of kernels, and hyperparameters found by evidence.

    psi = (logarithms of the family's parameters, such as lengthscales in the chart, log tau)

The covariance is s (k + tau N). Scale s and mean are integrated out (`gp.evidence`, the marginal form,
which has the predictions), so a fit is a search over psi (`gp.search`).
The prior on a lengthscale is flat from a fifth to twelve standard deviations of the measure and decreases
outside, which excludes degenerate lengthscales; that on log tau is flat. A *fitted* tau also
represents variation that the kernel cannot fit, such as a jump: the surrogate then regresses instead of
interpolating, and the standard deviation becomes that of an average. Noise of known variance fixes s tau.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bqvi.calls.returned import understated_noise
from bqvi.quadrature.families import Gram, KernelFamily, MeasureChart
from bqvi.quadrature.settings import ROUGHLY, SEARCH, Effort
from gp.embeddings import KernelEmbedding, embed
from gp.evidence import Evidence, LogPosterior
from gp.integrals import Integrals
from gp.kernels import Kernel
from gp.kernels.parameters import scaled
from gp.linalg import cholesky
from gp.means import Constant
from gp.observations import Functional, Gradients, Observations, Values, covariance
from gp.posterior import Posterior
from gp.priors import JointPrior
from gp.process import GaussianProcess
from gp.search import Search, search

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
        """The node whose slope all others contradict by ten sds, once fitted without it; or None."""
        known, data = self.data.sloped, self.data
        if data.slopes is None or data.noisy or data.outputs > 1 or len(known) < 3:
            return None
        errors = self._slope_errors
        row = int(np.argmax(errors))
        if not errors[row] > 9.0 * self.process.scales[0]:  # three sds in the fit with it
            return None
        worst = int(known[row])
        without = replace(
            data, slopes=np.where(np.arange(len(data))[:, None, None] == worst, np.nan, data.slopes)
        )
        again = surrogate(self.name, self.chart, self.family, without, self.psi).climbed(ROUGHLY)
        others = max(again._slope_errors.max(), again.process.scales[0])
        return worst if self.at(again.psi)._slope_errors[row] > 100.0 * others else None

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
        scale = float(self.process.scales[output])
        kernel, mean = scaled(self.kernel, scale), Constant(float(self.process.mean[output]))
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
            iterations=effort.iterations,
            value_tolerance=effort.precision,
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


def fitted(starts: list[CandidateProcess], effort: Effort) -> CandidateProcess:
    """Return the best optimum found by climbing from the best few of ``starts``.

    A second climb starts at other lengthscales, as from those of the first it would reach the same optimum.
    """
    clipped = [start.at(np.clip(start.psi, *start.bounds())) for start in starts]
    ranked = clipped if len(clipped) == 1 else sorted(clipped, key=_value, reverse=True)
    chosen = ranked[:1]
    for other in ranked[1:]:
        apart = [np.abs(other.psi[:-1] - start.psi[:-1]).max() > 0.3 for start in chosen]
        if len(chosen) < effort.climbs and all(apart):
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
