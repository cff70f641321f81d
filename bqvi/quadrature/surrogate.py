"""A surrogate of the integrand: a chart, a family of kernels, and hyperparameters found by evidence.

    theta = (log lengthscales in the chart, log tau)

The scale and the mean are in closed form (:mod:`profile`), so a fit is a search over theta by
L-BFGS-B with exact gradients: the gradient of the likelihood in K is pulled back through the kernel.
The prior on a lengthscale is flat from a fifth to twelve standard deviations of the measure and falls
off outside, which keeps a fit from collapsing; that on log tau is flat. A *learnt* tau also stands
for what the kernel cannot follow, such as a jump: then the surrogate regresses instead of interpolating
and the standard deviation becomes that of an average. Noise of known variance pins s tau to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bqvi.quadrature.charts import Chart
from bqvi.quadrature.families import Family, Gram
from bqvi.quadrature.profile import Profile, profile
from gp.embeddings import KernelEmbedding, embed
from gp.integrals import Integrals
from gp.kernels import Kernel
from gp.kernels.parameters import scaled
from gp.linalg import NotPositiveDefiniteError
from gp.means import Constant
from gp.measures import Measure
from gp.observations import Functional, Gradients, Observations, Values, covariance
from gp.posterior import Posterior
from gp.process import GaussianProcess

LENGTH_PLATEAU = np.log(0.2), np.log(12.0)
LENGTH_SHOULDER = 0.5
LENGTH_BOUNDS = np.log(0.05), np.log(50.0)
LEAST_NOISE, MOST_NOISE = 1e-13, 1.0
MOST_NOISE_OF_NOISY = 1e4
_KNOWN_SD = 0.02
_FAILED = 1e25


@dataclass(frozen=True, eq=False)
class Data:
    """What has been seen, in standard coordinates.

    Attributes
    ----------
    u : (n, D)
    values : (n, o), in units in which they vary by about 1.
    slopes : df/du, (n, D, o), or ``None``.
    noise : relative noise variances of the values, (n,), of mean 1.
    noise_variance : their mean in the units of the values, if it is known.
    noisy : whether the values have noise at all.
    centred : whether the mean is a constant to be found; otherwise it is zero.
    least_noise : the smallest tau that is searched.
    """

    u: Any
    values: Any
    slopes: Any = None
    noise: Any = None
    noise_variance: float | None = None
    noisy: bool = False
    centred: bool = True
    least_noise: float = LEAST_NOISE

    def __len__(self) -> int:
        return len(self.u)

    @property
    def outputs(self) -> int:
        """The number o of outputs."""
        return int(self.values.shape[1])

    @property
    def smooth_only(self) -> bool:
        """Whether only the squared exponential kernel in linear charts serves."""
        return self.slopes is not None or not self.centred


@dataclass(frozen=True, eq=False)
class View:
    """Data in the coordinates of a chart: what is observed there, its values (m, o), its Gram matrix."""

    observed: Functional
    y: Any
    basis: Any
    noise: Any
    gram: Gram

    @staticmethod
    def of(data: Data, chart: Chart, family: Family) -> View:
        """Carry the data into the chart."""
        v, n = chart.forward(data.u), len(data)
        noise = np.ones(n) if data.noise is None else data.noise
        basis = np.full(n, float(data.centred))
        if data.slopes is None:
            return View(Values(v), data.values, basis, noise, family.gram(Values(v)))
        dimension = v.shape[1]
        slopes = [chart.slopes(data.u, data.slopes[:, :, o]).reshape(-1) for o in range(data.outputs)]
        flat = np.stack(slopes, axis=1)
        zeros = np.zeros(n * dimension)
        observed = Observations((Values(v), Gradients(v)))
        return View(
            observed,
            np.concatenate([data.values, flat]),
            np.concatenate([basis, zeros]),
            np.concatenate([noise, zeros]),
            family.gram(observed),
        )


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A candidate at hyperparameters theta, given data.

    Attributes
    ----------
    name : of the candidate. chart, family : what it is made of.
    theta : (D + 1,). data : what it is conditioned on. view : the data in the chart.
    """

    name: str
    chart: Chart
    family: Family
    theta: Any
    data: Data
    view: View

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.theta) - 1

    @property
    def kernel(self) -> Kernel:
        """The kernel of unit variance, in the chart."""
        return self.family.kernel(np.exp(self.theta[:-1]))

    @property
    def tau(self) -> float:
        """The relative noise variance."""
        return float(np.exp(self.theta[-1]))

    @cached_property
    def profile(self) -> Profile:
        """Scale and mean at theta."""
        return self._profile_of(self.view.gram(np.exp(self.theta[:-1]))[0])

    def _profile_of(self, gram: Any) -> Profile:
        gram.flat[:: len(gram) + 1] += self.tau * self.view.noise
        return profile(gram, self.view.basis, self.view.y)

    def at(self, theta: Any) -> Surrogate:
        """The same at other hyperparameters."""
        return replace(self, theta=np.asarray(theta, dtype=float))

    def integral(self, measures: tuple[Measure, ...] | None = None) -> tuple[Any, Any]:
        """Return means (m, o) of integrals against measures of v, and their covariance (m, m).

        The covariance is for outputs of unit scale: times ``profile.covariance`` for those there are.
        By default the one integral against the measure of the chart.
        """
        if measures is None:
            return self._own_integral()
        targets = Integrals(measures)
        cross = covariance(self.kernel, self.view.observed, targets)
        prior = covariance(self.kernel, targets, targets)
        basis = np.full(len(targets), float(self.data.centred))
        mean, unit = self.profile.predict(cross, basis, prior)
        return mean, np.maximum(unit, 0.0) if len(targets) == 1 else unit

    def _own_integral(self) -> tuple[Any, Any]:
        prior = np.full((1, 1), float(self.embedding().double()))
        basis = np.full(1, float(self.data.centred))
        mean, unit = self.profile.predict(self.with_integral()[:, None], basis, prior)
        return mean, np.maximum(unit, 0.0)

    def with_integral(self) -> Any:
        """Return the prior covariances of the data with the integral, (m,)."""
        observed = self.view.observed
        if isinstance(observed, Values):
            return self.embedding().mean(observed.x)
        return covariance(self.kernel, observed, Integrals((self.chart.measure,)))[:, 0]

    def embedding(self) -> KernelEmbedding:
        """The integrals of the kernel against the measure of the chart."""
        return embed(self.kernel, self.chart.measure)

    def posterior(self, output: int = 0) -> Posterior:
        """The Gaussian process of one output in the chart, with scale and mean at their estimates."""
        scale = float(self.profile.scales[output])
        kernel, mean = scaled(self.kernel, scale), Constant(float(self.profile.mean[output]))
        process = GaussianProcess(kernel, mean, scale * self.tau * self.view.noise)
        return process.condition(self.view.observed, self.view.y[:, output])

    def slopes(self) -> Any:
        """Return df/dv of the mean of each output at the data's points, (n, D, o)."""
        at = Gradients(self.chart.forward(self.data.u))
        cross = covariance(self.kernel, at, self.view.observed)
        return (cross @ self.profile.weights).reshape(len(self.data), self.dimension, -1)

    @cached_property
    def log_posterior(self) -> float:
        """Log likelihood plus log prior of theta, up to a constant."""
        value = self.profile.log_likelihood + _log_prior(self.theta)[0]
        return value + self._pin(self.profile)[0]

    def log_posterior_with_gradient(self) -> tuple[float, Any]:
        """Return it with its gradient in theta, (D + 1,)."""
        gram, pullback = self.view.gram(np.exp(self.theta[:-1]))
        found = self._profile_of(gram)
        weights = found.matrix_gradient()
        prior, prior_gradient = _log_prior(self.theta)
        pin, pin_slope = self._pin(found)
        if pin_slope:
            # d log s = -sum_o w_o^T dK w_o / (nu o s)
            w = found.weights
            weights -= pin_slope / (found.degrees * w.shape[1] * found.common_scale) * w @ w.T
        gradient = prior_gradient
        gradient[:-1] += pullback(weights)
        gradient[-1] += self.tau * (weights.diagonal() @ self.view.noise) + pin_slope
        return found.log_likelihood + prior + pin, gradient

    def _pin(self, found: Profile) -> tuple[float, float]:
        """Log density of log(s tau / known noise), and its slope in log s (and log tau)."""
        known = self.data.noise_variance
        if known is None:
            return 0.0, 0.0
        excess = (np.log(found.common_scale) + self.theta[-1] - np.log(known)) / _KNOWN_SD
        return float(-0.5 * excess**2), float(-excess / _KNOWN_SD)

    def bounds(self) -> tuple[Any, Any]:
        """How far theta is searched: lower and upper ends, (D + 1,)."""
        most = MOST_NOISE_OF_NOISY if self.data.noisy else MOST_NOISE
        lower = np.append(np.full(self.dimension, LENGTH_BOUNDS[0]), np.log(self.data.least_noise))
        return lower, np.append(np.full(self.dimension, LENGTH_BOUNDS[1]), np.log(most))

    def climbed(self, iterations: int, precision: float) -> Surrogate:
        """Return the surrogate at the optimum that L-BFGS-B reaches from here, to a relative precision."""
        lower, upper = self.bounds()

        def objective(theta: Any) -> tuple[float, Any]:
            try:
                value, gradient = self.at(theta).log_posterior_with_gradient()
            except NotPositiveDefiniteError:
                return _FAILED, np.zeros_like(theta)
            return -value, -gradient

        result: Any = minimize(
            objective,
            self.theta,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lower, upper, strict=True)),
            options={"maxiter": iterations, "ftol": precision, "gtol": 1e-2},
        )
        return self.at(result.x)


def surrogate(name: str, chart: Chart, family: Family, data: Data, theta: Any) -> Surrogate:
    """Condition a candidate on data."""
    return Surrogate(name, chart, family, np.asarray(theta, dtype=float), data, View.of(data, chart, family))


def fitted(
    starts: list[Surrogate], climbs: int = 2, iterations: int = 60, precision: float = 1e-6
) -> Surrogate:
    """Return the best optimum found by climbing from the best few of ``starts``."""
    ranked = sorted((start.at(np.clip(start.theta, *start.bounds())) for start in starts), key=_value)
    found = [start.climbed(iterations, precision) for start in ranked[-climbs:]]
    return max(found, key=_value)


def starting_points(dimension: int, noisy: bool) -> list[Any]:
    """Lengthscales from below to above the spread of the measure, without and with much noise."""
    return [
        np.append(np.full(dimension, np.log(length * dimension**0.25)), np.log(tau))
        for length in (0.7, 1.5, 4.0)
        for tau in ((1e-3, 1e-1) if noisy else (1e-10, 1e-3))
    ]


def _value(candidate: Surrogate) -> float:
    try:
        return candidate.log_posterior
    except NotPositiveDefiniteError:
        return -_FAILED


def _log_prior(theta: Any) -> tuple[float, Any]:
    logs = theta[:-1]
    lower, upper = LENGTH_PLATEAU
    excess = (logs - np.minimum(np.maximum(logs, lower), upper)) / LENGTH_SHOULDER
    gradient = np.zeros(len(theta))
    gradient[:-1] = -excess / LENGTH_SHOULDER
    return float(-0.5 * excess @ excess), gradient
