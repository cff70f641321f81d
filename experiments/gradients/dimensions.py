"""Inference with a surrogate: evaluations against the dimension.

Logistic regressions with N = `_ROWS` D rows, features N(0, R) with R_ij = `_CORRELATION`^|i - j|,
coefficients N(0, I) in the prior and N(0, `_SIGNAL` I / D) in truth. From N(0, I), the posterior is 1 to 3 D
nats away.

There is no quadrature in the measure: with a = X m and s_n^2 = x_n^T C x_n the ELBO of N(m, C) is

    sum_n E[ln sigma(y_n a_n + s_n z)] - (|m|^2 + tr C) / 2 + ln|C| / 2 + D / 2,        z ~ N(0, 1),

integrals in one dimension (Gauss-Hermite). Its optimum is found by

    C^-1 <- I + X^T diag(-E[(ln sigma)'']) X,        m <- m + C (X^T E[(ln sigma)'] - m),

half of the way at a time.

Laplace's approximation is a point: L-BFGS finds the mode, and gradients to both sides of it along each
coordinate give the curvature there.

Step size and number of samples of natural gradients and Adam are the best of `runs.GRIDS`, extended below its
smallest step, for each dimension and budget on two seeds that are not reported.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import torch
from scipy.linalg import toeplitz
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from bqvi.families import Gaussian
from experiments.gradients.inference import CLAIMS, LEAST, gap_panels, gaps
from experiments.gradients.runs import STEPPED, TUNING_SEEDS, budget_cases, run_to_budgets, tune_on
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.problems.gradient_targets import GradientTarget
from gp.laplace import curvature

__all__ = ["LAPLACE", "Regression", "experiment", "regression"]

_DIMENSIONS = (10, 25, 50, 100)
_BUDGETS = (50, 100, 200, 300)
_SURROGATES = {"BQ, 2 nodes": 2, "BQ, 10 nodes": 10}
LAPLACE = "Laplace's approximation"
_LINE_STYLES = drawing.line_styles((*_SURROGATES, *STEPPED, LAPLACE))
_ROWS = 5
_CORRELATION = 0.5
_SIGNAL = 4.0
_RATE = 0.5
"""The length of steps to the optimum; with 1 they overshoot in 100 dimensions."""
_SETTLED = 1e-12
_MOST = 500
_NODES = 40
_DIFFERENCE = 1e-4
"""The distance from the mode of the points whose gradients give the curvature; sds are .1 to 1."""
_WORST = 1e4
"""Gaps above are drawn as this."""


@dataclass(frozen=True, eq=False)
class Regression:
    """A logistic regression, whose ELBO is known to machine precision."""

    signed: np.ndarray
    """The rows y_n x_n, (N, D)."""

    @property
    def target(self) -> GradientTarget:
        """Started from N(0, I)."""
        signed, d = torch.from_numpy(self.signed), self.signed.shape[1]

        def log_density(theta: torch.Tensor) -> torch.Tensor:
            likelihood = torch.nn.functional.logsigmoid(theta @ signed.T).sum(1)
            return likelihood - 0.5 * theta.square().sum(1)

        return GradientTarget(f"D = {d}", log_density, np.zeros(d), np.ones(d))

    def elbo(self, q: Gaussian) -> float:
        """Without the constants of prior and entropy, which cancel."""
        d = self.signed.shape[1]
        z, weights = self._arguments(q)
        likelihood = float((log_expit(z) @ weights).sum())
        volume = float(np.linalg.slogdet(q.covariance)[1])
        return likelihood - 0.5 * float(q.mean @ q.mean + np.trace(q.covariance) - volume - d)

    def gap(self, q: Gaussian) -> float:
        """Nats below the best Gaussian; infinite where q is none in floating point."""
        with np.errstate(all="ignore"):
            found = _best(self.signed.shape[1]) - self.elbo(q)
        return found if np.isfinite(found) else float("inf")

    def best(self) -> Gaussian:
        """The Gaussian with the largest ELBO."""
        d = self.signed.shape[1]
        mean, precision = np.zeros(d), np.eye(d)
        for _ in range(_MOST):
            q = Gaussian(mean, np.linalg.inv(precision))
            z, weights = self._arguments(q)
            falling = expit(-z)  # the derivative of ln sigma
            bend = (falling * (1.0 - falling)) @ weights
            pull = self.signed.T @ (falling @ weights) - mean
            precision = precision + _RATE * (np.eye(d) + (self.signed.T * bend) @ self.signed - precision)
            step = np.linalg.solve(precision, pull)
            mean = mean + _RATE * step
            if float(pull @ step) < _SETTLED:
                break
        return q

    def _arguments(self, q: Gaussian) -> tuple[np.ndarray, np.ndarray]:
        """The arguments of ln sigma at `_NODES` Gauss-Hermite nodes, (N, nodes), and their weights."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        variance = np.einsum("nd,nd->n", self.signed @ q.covariance, self.signed)
        centre: np.ndarray = self.signed @ q.mean
        return centre[:, None] + np.sqrt(variance)[:, None] * nodes, weights / weights.sum()


@cache
def regression(dimension: int) -> Regression:
    """The one of this dimension."""
    rng = np.random.default_rng(dimension)
    root = np.linalg.cholesky(toeplitz(_CORRELATION ** np.arange(dimension)))
    x = rng.standard_normal((_ROWS * dimension, dimension)) @ root.T
    truth = np.sqrt(_SIGNAL / dimension) * rng.standard_normal(dimension)
    positive = rng.random(len(x)) < expit(x @ truth)
    return Regression(np.where(positive, 1.0, -1.0)[:, None] * x)


@cache
def _best(dimension: int) -> float:
    posed = regression(dimension)
    return posed.elbo(posed.best())


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each method at each dimension."""
    dimensions, budgets = ((5,), (20, 50)) if quick else (_DIMENSIONS, _BUDGETS)
    made = []
    for d in dimensions:
        made += budget_cases(f"D = {d}", _name(d), (*_SURROGATES, *STEPPED), budgets, dimension=d)
        settings = {"dimension": d, "budgets": list(budgets), "method": LAPLACE}
        made.append(Case(f"D = {d}: {LAPLACE}", settings))
    return made


def _name(dimension: int) -> str:
    """In the table of step sizes."""
    return f"regression of {dimension}"


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return gap, evaluations and seconds at each budget."""
    posed = regression(case.settings["dimension"])
    if case.settings["method"] == LAPLACE:
        return _laplace(posed)
    return run_to_budgets(posed, seed, case, _SURROGATES)


def _laplace(posed: Regression) -> pd.DataFrame:
    """Where Laplace's approximation ends: the mode by L-BFGS, then 2 D gradients for the curvature there."""
    target, evaluations, began = posed.target, 0, time.perf_counter()

    def evaluated(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal evaluations
        evaluations += len(theta)
        points = torch.from_numpy(theta).requires_grad_()
        values = target.log_density(points)
        (gradients,) = torch.autograd.grad(values.sum(), points)
        return values.detach().numpy(), gradients.numpy()

    def falling(x: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = evaluated(x[None])
        return -float(values[0]), -gradients[0]

    mode = minimize(falling, target.mean, jac=True, method="L-BFGS-B").x
    covariance = np.linalg.inv(curvature(lambda theta: evaluated(theta)[1], mode, _DIFFERENCE))
    row = {"evaluations": evaluations, "seconds": time.perf_counter() - began, "budget": np.nan}
    return pd.DataFrame([{**row, "elbo_gap": posed.gap(Gaussian(mode, covariance))}])


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the gap against evaluations, by dimension."""
    figure = gap_panels(_named(results), _LINE_STYLES, worst=_WORST, columns=4, size=(2.8, 2.6))
    caption = (
        "Gap to the best Gaussian against evaluations of the log joint with its gradient, on logistic "
        f"regressions of D coefficients and {_ROWS} D rows, q a full Gaussian. Bayesian quadrature is "
        "untuned; natural gradients and Adam are tuned for each D and budget, a point each. Laplace's "
        "approximation ends where its mode has been found and differentiated. Gaps below "
        f"{LEAST:g} are drawn as that, gaps above {_WORST:g} and failures as that. "
        f"{drawing.band_caption(results)}"
    )
    return [Drawing("gaps", figure, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate gaps and seconds."""
    return [gaps(_named(results))]


def _named(results: pd.DataFrame) -> pd.DataFrame:
    """With the dimension as target."""
    return results.assign(target=results["dimension"].map("D = {}".format))


def _tune(dimensions: Sequence[int] = _DIMENSIONS) -> None:
    """Fill the table of step sizes where it has gaps: some minutes."""
    for d in dimensions:
        tune_on(dict.fromkeys(TUNING_SEEDS, regression(d)), _name(d), _BUDGETS, beyond=True)


_CLAIMS = (
    *CLAIMS,
    Statement("7.3.2", "Quadrature ends nearer to the best Gaussian than Laplace's approximation.",
              "its gap at the last budget is smaller",
              "elbo_gap", {name: [LAPLACE] for name in _SURROGATES}, shown="gap",
              rows=lambda results: results.assign(budget=results["budget"].max())),
)  # fmt: skip

experiment = Experiment(
    name="bq-dimensions",
    title="Inference with a surrogate, by dimension",
    summary="""Which ELBO gap does Bayesian quadrature with memory reach, untuned, on logistic regressions of
    10 to 100 coefficients? Natural gradients and Adam have the best step size and number of samples for each
    dimension and budget; Laplace's approximation ends by itself. The gap is known to machine precision.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="method", each=("dimension", "budget")),
    quick_seeds=1,
)

if __name__ == "__main__":
    _tune()
