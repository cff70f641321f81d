"""Hyperparameters at which the evidence (times a weak prior) is largest, and their uncertainty.

The linear coefficients of the mean, and the overall scale of the kernel where the noise is learnt or absent,
are in closed form (:mod:`gp.regression.problem`). The other parameters, in units of the data, are found by
L-BFGS-B with exact gradients, from the best of many starting points, within priors and bounds
(:mod:`gp.priors`).

Uncertainty is that of a Laplace approximation: the curvature of the log evidence at the optimum plus one over
the prior's variance. The result names the parameters that the data do not determine: those with a large
standard deviation, and those for which an end of the prior is about as likely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from gp.arrays import Array, as_like, require_aligned, shown, to_numpy
from gp.checks import as_noise, as_values, require_integer, require_memory, require_one_of, require_seed
from gp.kernels import Kernel, SquaredExponential
from gp.kernels.parameters import per_column, scaled, unpack
from gp.means import Constant, Mean
from gp.names import suggesting
from gp.observations import Functional, Values, as_functional, on_host, pieces, taken
from gp.priors import Priors
from gp.regression.interop import as_kernel
from gp.regression.posterior import Posterior, condition, flat, refuse_contradictions
from gp.regression.problem import CONSTANT, DataUnits, EvidenceProblem, SearchCoordinates
from gp.regression.screening import InUnits, curvature, screened
from gp.regression.settings import FIT
from gp.threads import of_few
from gp.user_warnings import warn_user

_SMALLEST_SPREAD = 1e-120
"""The smallest spread; it and its reciprocal have squares whose sums are floating-point numbers."""


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """The result of a fit with its uncertainty; ``print`` shows it as a table.

    Attributes
    ----------
    problem : the data and the model.
    coordinates : units and priors of the P parameters that were searched.
    psi : (P,), the optimum: logarithms of unit-free numbers (locations: numbers).
    log_evidence, scale, coefficients : at the optimum; the overall scale and the mean's linear
        coefficients were found in closed form (the scale is 1 where the noise is known).
    jitter : added to the diagonal for the factorisation, as a fraction of each variance.
    converged : whether the search ended at an optimum. message : the message of the search.
    n_evaluations : the number of evaluations of the evidence, over all starts.
    """

    problem: EvidenceProblem
    coordinates: SearchCoordinates
    psi: np.ndarray
    log_evidence: float
    scale: float
    coefficients: Any
    jitter: float
    converged: bool
    message: str
    n_evaluations: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fitted parameters, (Q,): first the variance found in closed form, if one was."""
        first = (self.coordinates.reference_name,) if self.problem.profiled else ()
        return (*first, *self.coordinates.names)

    @property
    def values(self) -> Any:
        """Values (Q,) of the parameters in the user's units, in the order of ``names``."""
        values = self.coordinates.values(self.psi, self.scale)
        if not self.problem.profiled:
            return values
        place = self.coordinates.reference
        unit = 1.0 if place is None else np.exp(self.coordinates.origin[place])
        return np.append(unit * self.scale, values)

    @cached_property
    def precision(self) -> Any:
        """Laplace precision (P, P) of psi: curvature of the log evidence and of the prior.

        Directions in which the evidence is not concave count as flat. Costs 2 P evaluations of the
        evidence, once.
        """
        values, vectors = np.linalg.eigh(curvature(self.problem, self.coordinates, self.psi))
        prior = np.diag(self.coordinates.prior.sd**-2)
        return (vectors * np.maximum(values, 0.0)) @ vectors.T + prior

    @cached_property
    def sd(self) -> Any:
        """Laplace standard deviations (Q,): of log ``values``; of locations, in the unit of x.

        With p_i the power of the root of the scale s in a value, its logarithm is psi_i + p_i / 2 log s.
        Given psi, log s has its mode log s_hat(psi) and the variance 2 / n, so that with C the covariance of
        psi and g = d log s_hat / d psi

            Var log value_i = (e_i + p_i / 2 g)^T C (e_i + p_i / 2 g) + p_i^2 / (2 n).
        """
        step = self.coordinates.step[self.coordinates.free]
        rows, powers = np.diag(step), np.zeros(len(step))
        if self.problem.profiled:
            rows, powers = np.eye(len(step) + 1)[:, 1:] * step, np.append(2.0, self.coordinates.scale_powers)
            slope = self.problem.objective.scale_slope(self.coordinates.vector(self.psi))
            rows += powers[:, None] / 2 * self.coordinates.pull_back(slope)
        covariance = np.linalg.inv(self.precision)
        return np.sqrt(np.sum(rows @ covariance * rows, axis=1) + powers**2 / (2 * len(self.problem.y)))

    @cached_property
    def reasons(self) -> dict[str, str]:
        """For each parameter that the data do not determine, by name, a sentence that says why.

        These are the parameters outside the plateau of their prior, which the prior limits; those for which
        an end of the prior (in effect zero or infinity) lowers the evidence by less than 2 nats with the
        others held fixed; and those whose standard deviation is more than 70 % of the prior's.
        """
        prior, evidence = self.coordinates.prior, InUnits(self.problem, self.coordinates)
        sd = np.sqrt(np.diag(np.linalg.inv(self.precision)))
        found = {}
        for index, name in enumerate(self.coordinates.names):
            ends = np.tile(self.psi, (2, 1))
            ends[:, index] = prior.lower[index], prior.upper[index]
            if self.psi[index] < prior.lower[index]:
                found[name] = "the prior alone keeps it from smaller values"
            elif self.psi[index] > prior.upper[index]:
                found[name] = "the prior alone keeps it from larger values"
            elif max(evidence.value(end) for end in ends) > self.log_evidence - FIT.open_ended:
                found[name] = "an end of its prior would do as well"
            elif sd[index] > FIT.undetermined * prior.sd[index]:
                found[name] = "the data leave it about as vague as its prior"
        if self.n_repeated:
            found["noise"] = self.why_noise_vanished()
        return {name: found[name] for name in self.names if name in found}

    @cached_property
    def n_repeated(self) -> int:
        """The number of rows that repeat another, targets included, if that made a learnt noise vanish.

        Each exact copy multiplies the evidence by noise^(-1/2) as the noise goes to zero, without bound. The
        hyperparameters are then determined by the copies instead of by all rows.
        """
        prior = self.coordinates.prior
        if self.problem.noise is not None or self.psi[-1] >= prior.lower[-1]:
            return 0
        return sum(
            len(block) - len(np.unique(np.column_stack([block.x, self.problem.y[part]]), axis=0))
            for block, part in pieces(self.problem.observed)
            if isinstance(block, Values)
        )

    def why_noise_vanished(self) -> str:
        """Say how many rows are copies of another, and what to do about it."""
        return (
            f"{self.n_repeated} of {len(self.problem.y)} rows repeat another, targets and all, and so the "
            "evidence grows without bound as the noise vanishes: keep one of each where they are copies, "
            "copies='merge'"
        )

    def __str__(self) -> str:
        values = self.values
        lines = [
            f"log evidence {self.log_evidence:.4f}, jitter {self.jitter:.3g}, "
            f"{'converged' if self.converged else 'NOT converged: ' + self.message}, "
            f"{self.n_evaluations} evaluations"
        ]
        for name, value, sd in zip(self.names, values, self.sd, strict=True):
            why = self.reasons.get(name)
            note = f"  not determined by the data: {why}" if why else ""
            lines.append(f"  {name:32s} {value:12.5g}   sd of log (or in units) {sd:.3g}{note}")
        return "\n".join(lines)


@suggesting
def fit(
    x: Array | Functional | Sequence[Functional],
    y: Array | Sequence[Array],
    kernel: Kernel | None = None,
    mean: Mean | None = None,
    noise: Array | Literal["learn"] | None = "learn",
    *,
    method: Literal["map", "evidence"] = "map",
    priors: Priors | None = None,
    copies: Literal["count", "merge"] = "count",
    n_starts: int | None = None,
    max_iterations: int = 200,
    seed: int | np.random.Generator = 0,
) -> Posterior:
    """Fit a Gaussian process's hyperparameters to values, or gradients too, and condition it on them.

    Parameters
    ----------
    x : points (n, D), NumPy or torch, n >= 1. Their scale does not matter. Or values and gradients, as
        ``GaussianProcess.condition`` takes them: ``[gp.Values(x), gp.Gradients(x)]``.
    y : (n,), observed values; for several blocks a list with one array each, gradients (n, D).
    kernel : the kernel whose parameters are fitted; their present values are one of the starting points. By
        default a squared exponential. Lengthscales that are not given, as in ``Matern52()``, are one per
        dimension; an array of them is fitted entry by entry, a number as one for all dimensions.
    mean : its linear coefficients are found in closed form. A constant by default; wrap it in
        ``gp.means.Fixed`` to leave it as it is.
    noise : ``"learn"`` a common noise variance; ``None`` for none; or known variances, a number or (n,). With
        known noise the overall scale has no closed form and is searched like the other parameters. A common
        noise is that of values: gradients are exact, unless (n,) has variances for them.
    method : ``"map"`` maximises evidence times prior, ``"evidence"`` the evidence within the same
        bounds. They differ only outside the plateaus of the priors.
    priors : :class:`gp.priors.Priors`; weak by default.
    copies : how rows that equal another in x, targets and noise are treated. ``"count"`` treats each as an
        observation of its own; such rows agree to the last digit, so the evidence is then highest where
        the noise is zero. ``"merge"`` keeps one of each, and the posterior is conditioned on those: for
        rows that are copies of one record, and for rounded targets. Squared errors are then smaller, and
        the predictive densities at further copies are lower.
    n_starts : number of starting points from each of which a short climb is made; the best is continued. By
        default 3 up to five dimensions and 3 more for each further one, but at most 12, and at least 6 beyond
        200 points: the evidence has more optima with more inputs, and they lie further apart with more
        data. The starts of a larger number contain those of a smaller one.
    max_iterations : the largest number of iterations of each search.
    seed : seed of the random starting points, an integer or a generator.

    Returns
    -------
    A posterior of the kind of ``x``; its ``hyperparameters`` (:class:`Hyperparameters`) hold the
    evidence, the uncertainty of each parameter and which ones the data do not determine.

    Warns
    -----
    RuntimeWarning : if the search did not converge; if one to twenty values are all equal, up to
        rounding; if rows that repeat, targets and all, made the noise vanish.

    Raises
    ------
    ValueError, TypeError
        For entries that are not finite, no data, a point with two values where there is no noise, or
        arguments of other kinds.

    Examples
    --------
    A sine from fifteen noisy values; the noise has standard deviation .1:

    >>> import gp
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = np.linspace(0, 6, 15)[:, None]
    >>> posterior = gp.fit(x, np.sin(x[:, 0]) + 0.1 * rng.standard_normal(15))
    >>> mean, variance = posterior.mean_and_variance(np.array([[1.5]]))
    >>> bool(abs(mean[0] - np.sin(1.5)) < 3 * np.sqrt(variance[0]))
    True
    """
    require_one_of("method", method, ("map", "evidence"))
    require_one_of("copies", copies, ("count", "merge"))
    if isinstance(noise, str):
        require_one_of("noise", noise, ("learn",))
    require_integer("n_starts", 1 if n_starts is None else n_starts, 1)
    require_integer("max_iterations", max_iterations, 1)
    require_seed("seed", seed)
    if mean is not None and not isinstance(mean, Mean):
        raise TypeError(f"mean = {shown(mean)}: give a mean function, such as those of gp.means")
    if priors is not None and not isinstance(priors, Priors):
        raise TypeError(f"priors = {priors!r}: give gp.priors.Priors")
    require_aligned(x, y)
    observed = as_functional(x)
    if len(observed) == 0:
        raise ValueError(
            "x has no points: hyperparameters cannot be fitted to nothing; give at least one, or "
            "use GaussianProcess(kernel).condition(x, y), which works without"
        )
    require_memory(len(observed))
    y = as_values("y", flat(y), len(observed), observed.x)
    with of_few(len(observed)):
        if copies == "merge":
            observed, y, noise = _merged(observed, y, noise)
        if n_starts is None:
            few = 6 if len(observed) > 200 else FIT.few_starts
            n_starts = min(max(few, 3 + 3 * (observed.x.shape[1] - 5)), FIT.most_starts)
        units = _checked_units(observed, y)
        problem = _problem(observed, y, kernel, mean, noise, units=units)
        for block, part in pieces(problem.observed):
            if problem.exact and isinstance(block, Values):  # smaller differences of targets are rounding
                refuse_contradictions(block.x, problem.y[part], np.full(len(block), 1e-6 * units.output))
        coordinates = SearchCoordinates.of(problem, units, priors or Priors())
        rng = np.random.default_rng(seed)
        best = screened(problem, coordinates, method == "map", n_starts, max_iterations, rng)
        solution = problem.objective.evidence(coordinates.vector(best.psi))
        hyperparameters = Hyperparameters(
            problem=problem,
            coordinates=coordinates,
            psi=best.psi,
            log_evidence=solution.value,
            scale=solution.scale,
            coefficients=solution.coefficients[:, 0],
            jitter=solution.factor.jitter,
            converged=best.converged,
            message=best.message,
            n_evaluations=best.n_evaluations,
        )
        for warning in _warnings(hyperparameters):
            warn_user(warning, RuntimeWarning)
        return posterior_at(hyperparameters, best.psi, observed, y)


def _checked_units(observed: Functional, y: Array) -> DataUnits:
    """The units of the data; ValueError where their squares over- or underflow."""
    units = DataUnits.of(on_host(observed), to_numpy(y))
    for name, spread in (("y", units.output), *(("x", each) for each in units.inputs)):
        if not _SMALLEST_SPREAD < spread < 1 / _SMALLEST_SPREAD:
            raise ValueError(
                f"{name} has a spread of {spread:.3g}, whose square is out of the range of floating-point "
                "numbers: give it in another unit"
            )
    return units


def _warnings(found: Hyperparameters) -> Iterator[str]:
    """The warnings about a fit."""
    if not found.converged:
        yield (
            f"the hyperparameters did not converge ({found.message}): raise max_iterations, or simplify the "
            "kernel"
        )
    y = found.problem.y
    values = y[found.problem.noisy > 0]
    few = len(y) <= FIT.few_equal and len(values) > (len(values) < len(y))  # one beside gradients is none
    if few and np.ptp(values) <= CONSTANT * np.abs(values).max():
        yield (
            f"y: all {len(values)} values are {values[0]:.6g}, as of a constant function, and of one that "
            "varies between them: the standard deviations are those of the former; give more values, or "
            "condition a GaussianProcess whose kernel has the variance and lengthscale that you expect"
        )
    if found.n_repeated:
        yield (
            f"y: {found.why_noise_vanished()}, or give noise, or a prior of it that ends higher, "
            "priors=Priors(noise=Plateau(...))"
        )


def _merged(observed: Functional, y: Array, noise: Any) -> tuple[Functional, Array, Any]:
    """Return the observations without those values that repeat another, their noise included."""
    noise = noise if isinstance(noise, str) else as_noise(noise, len(y), y)
    each = to_numpy(noise).reshape(-1) if getattr(noise, "ndim", 0) == 1 else np.zeros(len(y))
    chosen = []
    for block, part in pieces(observed):
        rows = np.arange(len(block.x))
        if isinstance(block, Values):
            table = np.column_stack([to_numpy(block.x), to_numpy(y[part]), each[part]])
            rows = np.sort(np.unique(table, axis=0, return_index=True)[1])
        chosen.append(rows)
    merged, index = taken(observed, chosen)
    return merged, y[index], noise[index] if getattr(noise, "ndim", 0) == 1 else noise


def posterior_at(
    hyperparameters: Hyperparameters, psi: np.ndarray, observed: Functional, y: Array, factor: float = 1.0
) -> Posterior:
    """Return the posterior at other hyperparameters psi (P,), given the data of the fit.

    Parameters
    ----------
    hyperparameters : those of a fit, with its problem. psi : logarithms, (P,).
    observed : the n functionals of the data. y : their values, (n,).
    factor : multiplies the overall scale of kernel and noise.
    """
    problem, vector = hyperparameters.problem, hyperparameters.coordinates.vector(psi)
    solution = problem.objective.evidence(vector)
    learnt = problem.noise is None
    kernel = unpack(problem.kernel, vector[:-1] if learnt else vector)
    noise: Any = float(np.exp(vector[-1])) if learnt else problem.noise
    mean, coefficients = problem.mean, solution.coefficients[:, 0]
    mean = mean.with_coefficients(coefficients) if coefficients.size else mean
    if problem.profiled:
        scale = factor * solution.scale
        kernel, noise = scaled(kernel, scale), scale * noise
    noise = as_like(noise, y) if np.ndim(noise) == 1 else noise
    return replace(condition(kernel, mean, observed, y, noise), hyperparameters=hyperparameters)


def _problem(
    observed: Functional,
    y: Array,
    kernel: Kernel | None,
    mean: Mean | None,
    noise: Array | str | None,
    *,
    units: DataUnits,
) -> EvidenceProblem:
    values = np.asarray(to_numpy(y), dtype=float)
    known = None if isinstance(noise, str) else to_numpy(as_noise(noise, len(values), y))
    without = known is not None and not np.any(known)
    if kernel is None:
        kernel = SquaredExponential(units.inputs, units.output**2)
    return EvidenceProblem(
        x=on_host(observed),
        y=values,
        kernel=per_column(as_kernel(kernel), len(units.inputs)),
        mean=Constant() if mean is None else mean,
        noise=None if known is None else known if known.ndim else float(known),
        profiled=(known is None or without) and units.output_varies,
    )
