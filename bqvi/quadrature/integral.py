"""The result of a quadrature: an integral, its standard deviation, and the evaluations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bqvi import notebook
from bqvi.calls import EvaluationError, Evaluations, Function
from bqvi.calls.faults import Failures
from bqvi.calls.returned import doubts, log_weights
from bqvi.importance import effective_size, normalised
from bqvi.posterior import Posterior
from bqvi.quadrature.credibility import verdict
from bqvi.quadrature.surrogate import CandidateProcess
from bqvi.runs import Checkpoint, Trace
from bqvi.runs.door_result import CheckedResult
from gp import integrals
from gp.arrays import Array, as_like, is_torch, to_numpy
from gp.measures import Empirical, Gaussian, GaussianMixture, Measure, Uniform
from gp.measures.pushed import pushed
from gp.user_warnings import warn_user_of_each

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gp.expectation import Expectation


DOOR = "integrate"


@dataclass(frozen=True)
class EstimateRow:
    """The estimate after some evaluations."""

    n_evaluations: int
    """Evaluations of the integrand so far."""
    seconds: float
    """Time so far, that of the integrand included."""
    mean: Array
    """Estimate, a number or (o,)."""
    sd: Array
    """Its standard deviation, a number or (o,)."""


@dataclass(frozen=True, eq=False, repr=False)
class Integral(CheckedResult):
    """The integral of f against a measure. ``print`` it.

    Attributes
    ----------
    mean : the estimate: a number, or (o,) for a vector-valued integrand.
    sd : its standard deviation, of the same shape. It contains the uncertainty of the hyperparameters and the
        integral of a peak that the nodes may have missed.
    n_evaluations : n, of the integrand. n_failed : those among them without a value, where it counts as zero.
    nodes : (n, D), of the measure's kind of array. values : (n,) or (n, o), as returned by f.
    trace : the estimates after each step.
    method : the method used. stopped : 'budget', 'tolerance', 'seconds' or 'exhausted' (a finite measure).
    covariance : (o, o), of the outputs; ``None`` for a number.
    converged : whether the checks passed, and the tolerance, if there is one, was reached. With a surrogate:
        whether mean and sd are the surrogate's own. For sampling methods: whether no single point has most of
        the sum, and the largest values have no Pareto tail with a shape above .7. It is False where f raised
        an exception of its code or of the system and the run went on.
    checks : the outcome of the checks, sentences. reasons : why it has not converged, sentences of these.
    warnings : how many evaluations raised an exception and count as zero, with the first of these; doubts.
    effective_sample_size : effective sample size of the importance weights; ``None`` without weights.
    pareto_k : shape k of the Pareto tail of |f| at draws from the measure; -inf where there is none.
    log_mean, log_sd : ln of the mean and the standard deviation of the ln, where f was given as its logarithm
        or the method is WSABI; they are finite where the mean itself underflows.
    hidden : the nats that modes too narrow to be seen would add to ``log_mean`` on average, beside the sds.
    checkpoint : the state of the run; ``resume`` takes the whole result.
    surrogate : the fitted surrogate, with ``expectation(measure)`` for other measures; or ``None``.
    posterior : where f was given as its logarithm, the density f p over its integral, p that of the measure,
        by draws of the surrogate (`bqvi.Posterior`); its ``log_prob`` is that of the Gaussian with their
        moments. ``None`` of a finite measure.
    """

    mean: Array
    sd: Array
    n_evaluations: int
    nodes: Array
    values: Array
    trace: Trace
    method: str
    stopped: str
    covariance: Array = None
    converged: bool = True
    checks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    effective_sample_size: float | None = None
    pareto_k: float = -np.inf
    log_mean: float | None = None
    log_sd: float | None = None
    hidden: float = 0.0
    checkpoint: Checkpoint | None = None
    surrogate: IntegrandProcess | None = None
    n_failed: int = 0
    posterior: Posterior | None = None

    def _draw(self, ax: Axes, truth: float | None) -> Axes:
        from bqvi.canvas import trace

        n = self.trace["n_evaluations"]
        means, sds = (self.trace[name].reshape(len(n), -1) for name in ("mean", "sd"))
        means[-1:], sds[-1:] = self.mean, self.sd  # the last row is without the final marginalisation
        outputs = means.shape[1]
        labels = ["estimate"] if outputs == 1 else [f"output {o}" for o in range(outputs)]
        trace(ax, n, dict(zip(labels, zip(means.T, sds.T, strict=True), strict=True)), truth)
        estimate = f"{self.mean:.5g} $\\pm$ {self.sd:.2g}" if outputs == 1 else f"{outputs} outputs"
        ax.set(xlabel="evaluations", ylabel="integral, with one and two sd")
        ax.set_title(
            f"{self.method}: {estimate} after {self.n_evaluations} evaluations{self._remark}", fontsize=10
        )
        return ax

    def __repr__(self) -> str:
        estimate = f"{_short(self.mean)} +- {_short(self.sd)}"
        if self.log_mean is not None and not 0.0 < abs(self.mean) < np.inf:
            estimate = f"exp({self.log_mean:.6g} +- {self.log_sd:.3g})"
        return f"Integral({estimate}, {self.method}, {self._counted}, stopped: {self.stopped}{self._remark})"

    def __str__(self) -> str:
        lines = [f"{self.mean} +- {self.sd}  ({self.method}, {self._counted})"]
        if self.log_mean is not None:
            lines.append(f"ln: {self.log_mean:.6g} +- {self.log_sd:.3g}")
        lines += [*self.checks, *self.warnings]
        if self.effective_sample_size is not None:
            lines.append(f"effective sample size {self.effective_sample_size:.1f}")
        return "\n".join(lines)

    def _rows(self) -> dict[str, str]:
        rows = {
            "integral": f"{_short(self.mean)} ± {_short(self.sd)}",
            "method": self.method,
            "stopped": self.stopped,
            "converged": notebook.yes_or_no(self.converged, " ".join(self.checks)),
        }
        if self.log_mean is not None:
            rows["logarithm"] = f"{self.log_mean:.6g} ± {self.log_sd:.3g}"
        return rows


def _short(values: Array) -> str:
    """A number to six digits; the first of several."""
    numbers = np.atleast_1d(values)
    if np.ndim(values) == 0:
        return f"{float(values):.6g}"
    shown = ", ".join(f"{number:.6g}" for number in numbers[:4])
    return f"[{shown}{', ...' if len(numbers) > 4 else ''}]"


def with_failures(found: Integral, failures: Failures, place: Callable[[np.ndarray], str]) -> Integral:
    """The result with the number of failures, and a warning, which is also raised, of the exceptions.

    After an exception of the integrand's code or of the system the result has not converged. ``place`` names
    a node in words.
    """
    warnings = failures.warnings(found.n_evaluations, place, "zero")
    warn_user_of_each(warnings)
    found = replace(found, n_failed=failures.n_failed, warnings=(*found.warnings, *warnings))
    if not failures.of_the_code:
        return found
    count = f"{failures.of_the_code} of {found.n_evaluations} evaluations"
    of_the_code = f"The result has not converged: {count} raised an error of the code or of the system."
    others = [f"With zeros there: {reason}" for reason in found.checks]
    return replace(found, converged=False, checks=(of_the_code, *others))


_DEEP = 50.0
"""How far below zero values, all negative, look like a log density's: 22 decades of the density."""


def _doubts(function: Function, x: np.ndarray, values: np.ndarray) -> tuple[str, ...]:
    """Warnings that the values (n, o) at x (n, D), of f or of ln f, look like those of the other."""
    if function.range.logarithmic:
        return doubts(function, values[:, 0], x)
    low, high = float(values.min()), float(values.max())
    if values.shape[1] > 1 or not (low < -_DEEP and low + 1.0 < high < 0.0):
        return ()
    return (
        f"All values are negative, from {low:.4g} to {high:.4g}, as those of a log density are: for the "
        "integral of its exponential integrate it with log=True; its mean, as in an ELBO, is right.",
    )


_SMALLEST = 1e-120
"""Values between this and its reciprocal have squares whose sums are floating-point numbers."""
_EXPONENT = 300.0
"""e^x is a floating-point number for |x| up to twice this."""


def unlogged(logs: np.ndarray) -> tuple[np.ndarray, float]:
    """Return exp(logs - shift), (n, o), and the shift that makes the largest value 1."""
    shift = float(np.max(logs, initial=-np.inf))
    shift = shift if np.isfinite(shift) else 0.0
    return np.exp(logs - shift), shift


def in_units(function: Function, returned: np.ndarray) -> tuple[np.ndarray, float]:
    """Return values f e^-shift (n, o) and the shift, from the values that the function returned.

    Of values of f the shift is 0 unless squares would over- or underflow.
    """
    if function.range.logarithmic:
        return unlogged(returned)
    largest = float(np.max(np.abs(returned), initial=0.0))
    if largest == 0 or _SMALLEST < largest < 1 / _SMALLEST:
        return returned, 0.0
    return returned / largest, float(np.log(largest))


def shifted_back(values: np.ndarray, shift: float) -> np.ndarray:
    """Return values e^shift; infinite where that is beyond the range of numbers, and 0 where it is below."""
    if abs(shift) <= _EXPONENT:
        return np.exp(shift) * values
    with np.errstate(divide="ignore", over="ignore"):
        return np.sign(values) * np.exp(np.log(np.abs(values)) + shift)


def with_zeros(function: Function, made: Evaluations) -> Evaluations:
    """Return evaluations (n, o) in which f is zero where it failed, unless ``function.errors`` is "raise"."""
    made = made if function.range.outputs else replace(made, values=made.values[:, None])
    return made if function.errors == "raise" else replace(made, failed=np.zeros(len(made), dtype=bool))


def as_wide(values: np.ndarray, more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values (n, o) of f at some nodes and (m, o) at others, with as many outputs each.

    One column of zeros, for nodes that all failed and count as zero, is extended to the number of outputs.

    Raises
    ------
    EvaluationError
        f returned another number of outputs than before.
    """
    outputs = max(values.shape[1], more.shape[1])
    found = []
    for part in (values, more):
        nothing = part.shape[1] == 1 and not (np.isfinite(part) & (part != 0.0)).any()
        if part.shape[1] != outputs and not nothing:
            raise EvaluationError(
                f"the integrand returned {more.shape[1]} numbers for a point, and {values.shape[1]} before; "
                "it must return as many everywhere"
            )
        found.append(part if part.shape[1] == outputs else np.repeat(part, outputs, axis=1))
    return found[0], found[1]


def described(
    function: Function,
    x: np.ndarray,
    returned: np.ndarray,
    rows: tuple[EstimateRow, ...],
    drawn: np.ndarray | slice = slice(None),
    **rest: Any,
) -> Integral:
    """The result with nodes and values.

    Parameters
    ----------
    function : f. x : the nodes (n, D). returned : what it returned there, (n, o). rows : the trace.
    drawn : the nodes that are draws from the measure, of whose values the tail is described.
    rest : the other fields; by default the checks are those of an average of the draws.
    """
    weights = None if function.log_weight is None else log_weights(function, x[drawn])
    shape, averaged, why = verdict(in_units(function, returned[drawn])[0], weights)
    values, like = returned[:, 0] if returned.shape[1] == 1 else returned, function.like
    usual = {"converged": averaged, "checks": (why,) if why else ()}
    doubted = _doubts(function, x, returned)
    warn_user_of_each(doubted)
    rest["warnings"] = (*rest.get("warnings", ()), *doubted)
    return Integral(
        nodes=as_like(x, like) if is_torch(like) else x,
        values=as_like(values, like) if is_torch(like) else values,
        trace=Trace(rows),
        effective_sample_size=None if weights is None else float(effective_size(normalised(weights))),
        pareto_k=shape,
        **(usual | rest),
    )


def moments(mean: np.ndarray, covariance: np.ndarray, shift: float, logs: bool) -> dict[str, Any]:
    """The fields mean, sd and covariance of a result, from numbers in units of e^shift.

    With ``logs`` also ln of a positive mean and the standard deviation of the ln, asinh(sd / mean), which is
    near sd / mean where that is small: one of it above ln mean reaches ln(mean + sd), also where the sd is
    many times the mean, as of a surrogate that has found no mass. For a mean that is not positive the two are
    -inf and inf.
    """
    sd = np.sqrt(np.diag(covariance))
    found = {
        "mean": number(shifted_back(mean, shift)),
        "sd": number(shifted_back(sd, shift)),
        "covariance": shifted_back(covariance, 2 * shift) if len(mean) > 1 else None,
    }
    if not logs:
        return found
    first, error = float(mean[0]), float(sd[0])
    log_mean = float(np.log(first) + shift) if first > 0 else -np.inf
    return {
        **found,
        "log_mean": log_mean,
        "log_sd": float(np.arcsinh(error / first)) if first > 0 else np.inf,
    }


def number(values: np.ndarray) -> float | np.ndarray:
    """One output as a number, and several as an array."""
    return float(values[0]) if len(values) == 1 else values


@dataclass(frozen=True, eq=False)
class IntegrandProcess:
    """A surrogate of f in the user's coordinates, for integrals of f against other measures.

    They can be differentiated in the parameters of the measure. As a function of x the surrogate is

        f(x) = centre + unit g(A (x - shift)),      g the surrogate in its chart, A = R^T L^-1,

    so the measure is pushed forward by an affine map, and gradients are pulled back through it. Charts that
    are not linear do not map Gaussians to measures with an embedding; the best linear candidate is therefore
    used alone, with its hyperparameters at their optimum.

    Attributes
    ----------
    surrogate : a candidate with a linear chart. shift : (D,). linear : A, (D, D).
    centre, unit : (o,), centre and unit of the values.
    """

    surrogate: CandidateProcess
    shift: Array
    linear: Array
    centre: Array
    unit: Array

    def expectation(self, measure: Measure, output: int = 0) -> Expectation:
        """Return the integral of an output against a measure on the same space, with gradients.

        Raises
        ------
        gp.embeddings.UnknownPairError, TypeError
            where the measure has no embedding in the chart of the surrogate.
        """
        from gp.expectation import Expectation, expectation

        v = pushed(measure, self.shift, self.linear)
        found = expectation(self.surrogate.posterior(output), v)
        unit, centre = float(self.unit[output]), float(self.centre[output])
        gradient = self._pulled_back(measure, found.gradient, unit, centre)

        def uncertainty() -> tuple[Array, Array]:
            slope = self._pulled_back(measure, found.variance_gradient, unit**2, 0.0)
            return unit**2 * found.variance, slope

        return Expectation(centre + unit * found.mean, gradient, uncertainty)

    def integral(self, measure: Measure, output: int = 0) -> integrals.Integral:
        """Return the integral as ``gp.Integral``; differentiable where the measure holds tensors."""
        v = pushed(measure, self.shift, self.linear)
        posterior = self.surrogate.posterior(output)
        like = measure.parameters()[0]
        found = (posterior.in_tensors(like) if is_torch(like) else posterior).integral(v)
        unit, centre = float(self.unit[output]), float(self.centre[output])
        return integrals.Integral(centre + unit * found.mean, unit**2 * found.variance)

    def mean(self, x: Array, output: int = 0) -> Array:
        """Return the mean of f at points x (n, D), (n,)."""
        v = (np.asarray(to_numpy(x), dtype=float) - self.shift) @ self.linear.T
        return self.centre[output] + self.unit[output] * self.surrogate.posterior(output).mean(v)

    def _pulled_back(self, measure: Measure, gradient: Array, unit: float, centre: float) -> Array:
        """Gradients in the parameters of v's measure as those in the parameters of x's."""
        a = self.linear
        parts = [unit * to_numpy(part) for part in gradient]
        if isinstance(measure, Gaussian):
            parts = [parts[0] @ a, a.T @ parts[1] @ a]
        elif isinstance(measure, GaussianMixture):
            parts = [centre + parts[0], parts[1] @ a, a.T @ parts[2] @ a]
        elif isinstance(measure, Empirical):
            parts = [parts[0] @ a, centre + parts[1]]
        else:
            assert isinstance(measure, Uniform)  # only uniform measures are pushed forward
            parts = [part * np.diag(a) for part in parts]
        return type(gradient)._make(parts)
