"""A univariate mixture with uniform weights: direct ascent over all parameters of q, and coordinate ascent.

    mu_k ~ N(0, tau^2),   z_n ~ uniform over K,   x_n | z_n = k ~ N(mu_k, 1)
    q = prod_k N(mu_k | m_k, exp(l_k)) prod_n Cat(z_n | softmax(psi_n))

Direct ascent moves m, l and psi together along the gradient of the ELBO, by Adam, without any closed-form
update. `gd` of `bqvi.fit` moves m and l alone, with each psi at its optimum. Coordinate ascent has its
updates in closed form. All begin at the same q(mu).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

from bqvi.families import Gaussian, Product
from bqvi.models import Mixture, UniformWeights
from bqvi.models.known_covariance import KnownCovariance
from experiments import fitting
from experiments.harness import drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.summaries import quartiles

__all__ = ["direct_elbo", "experiment", "model", "problem"]

_K, _N = 3, 150
_CENTRES = np.array([-4.0, 0.0, 3.0])
_TAU = 5.0
_RATE = 0.1
_METHODS = {
    "coordinate ascent": ("cavi", 60),
    "gradient ascent over q(mu)": ("gd", 400),
    "direct ascent over q(mu) and q(z)": ("direct", 5000),
}
_QUICK_STEPS = 5
_SHOWN_SEED = 0


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return the three ways up."""
    return [
        Case(name, {"method": method, "steps": _QUICK_STEPS if quick else steps})
        for name, (method, steps) in _METHODS.items()
    ]


def model() -> Mixture:
    """The mixture, with tau = 5."""
    return Mixture(UniformWeights(_K), KnownCovariance(np.eye(1), prior_covariance=_TAU**2 * np.eye(1)))


def problem(seed: int) -> tuple[np.ndarray, Product]:
    """Data (N, 1), and q(mu) to begin with: at rows of the data, with variance 1."""
    rng = np.random.default_rng(seed)
    x = _CENTRES[rng.integers(_K, size=_N)] + rng.normal(size=_N)
    at = rng.choice(x, _K, replace=False)
    return x[:, None], Product({"means": Gaussian(at[:, None], np.ones((_K, 1, 1)))})


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the trace, with the centres and standard deviations of q(mu) in its last row."""
    x, start = problem(seed)
    chosen = case.settings
    if chosen["method"] == "direct":
        trace, m, sd = _direct(x[:, 0], start["means"].mean[:, 0], chosen["steps"])
    else:
        last: list[Any] = []

        def kept(q: Any) -> float:
            last[:] = [q]
            return 0.0

        trace = fitting.frame(
            model(), x, chosen["method"], metrics={"kept": kept},
            steps=chosen["steps"], record=fitting.spread_records(chosen["steps"], 40), start_from=start,
            tolerance=1e-12, seed=seed,
        )  # fmt: skip
        trace = trace[["iteration", "seconds", "elbo"]]
        m, sd = last[-1]["means"].mean[:, 0], np.sqrt(last[-1]["means"].covariance[:, 0, 0])
    order = np.argsort(m)
    ends = pd.DataFrame({f"{name}_{k}": [values[j]] for name, values in (("mean", m), ("sd", sd))
                         for k, j in enumerate(order)}, index=trace.index[-1:])  # fmt: skip
    return trace.join(ends)


def direct_elbo(x: Any, m: Any, log_variance: Any, psi: Any) -> Any:
    """The ELBO of x (N,) at m and log_variance (K,) and psi (N, K): torch tensors, nats."""
    import torch

    r, v = torch.softmax(psi, 1), torch.exp(log_variance)
    expected = -0.5 * np.log(2.0 * np.pi) - 0.5 * ((x[:, None] - m) ** 2 + v)
    entropy = -(r * torch.log_softmax(psi, 1)).sum()
    kl = 0.5 * ((m**2 + v) / _TAU**2 - 1.0 - torch.log(v / _TAU**2)).sum()
    return (r * (expected - np.log(_K))).sum() + entropy - kl


def _direct(data: np.ndarray, start: np.ndarray, steps: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Adam on all parameters; responsibilities begin equal."""
    import torch

    x = torch.as_tensor(data)
    given = [torch.as_tensor(start).clone(), torch.zeros(_K).double(), torch.zeros(_N, _K).double()]
    parts = [part.requires_grad_() for part in given]
    optimiser, rows, begin = torch.optim.Adam(parts, _RATE), [], time.process_time()
    shown = set(fitting.spread_records(steps, 40))
    for step in range(steps + 1):
        optimiser.zero_grad()
        bound = direct_elbo(x, *parts)
        if step in shown or step in (0, steps):
            rows.append({"iteration": step, "seconds": time.process_time() - begin, "elbo": bound.item()})
        (-bound).backward()
        if step < steps:
            optimiser.step()
    return pd.DataFrame(rows), parts[0].detach().numpy(), np.exp(0.5 * parts[1].detach().numpy())


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the ELBO over iterations, and q(mu) of each method for one seed."""
    made, axes = drawing.figure(1, 2)
    lines = drawing.line_styles(_METHODS)
    best = results.groupby("seed")["elbo"].transform("max")
    rows = results.assign(behind=best - results["elbo"] + 1e-6)
    drawing.curves(
        axes[0, 0], rows[rows["iteration"] > 0], "iteration", "behind", x_scale="log", y_scale="log",
        lines=lines, y_label="ELBO behind the best (nats)",
    )  # fmt: skip
    ax, grid = axes[0, 1], np.linspace(-7.0, 6.0, 600)
    ax.hist(problem(_SHOWN_SEED)[0][:, 0], 30, density=True, color="0.85", label="data")
    for name, found in results[results["seed"] == _SHOWN_SEED].groupby("case", sort=False):
        end = found.iloc[-1]
        means, sds = (end[[f"{part}_{k}" for k in range(_K)]].to_numpy(float) for part in ("mean", "sd"))
        q = np.exp(-0.5 * ((grid[:, None] - means) / sds) ** 2) / (sds * np.sqrt(2.0 * np.pi))
        ax.plot(grid, q.mean(1), color=lines[name].colour, ls=lines[name].dashes)
    ax.set(xlabel="$\\mu$", ylabel="mean of the q($\\mu_k$)")
    drawing.legend_below(made, axes)
    caption = (
        "Left: the ELBO below the highest of any method on the same data; runs that end some nats below "
        f"are at another optimum. {drawing.band_caption(results)} Right: seed {_SHOWN_SEED}, the data "
        "and the average of the densities q(mu_k)."
    )
    return [Drawing("ascent", made, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return how each way ended."""
    ends = results.groupby(["case", "seed"], sort=False).tail(1)
    columns = {"elbo": "final ELBO (nats)", "iteration": "iterations", "seconds": "seconds"}
    return [Table("end", quartiles(ends, columns, digits=5), "Median [lower quartile, upper quartile].")]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check that direct ascent reaches a bound that coordinate ascent cannot raise, in more iterations."""
    ends = results.groupby(["case", "seed"], sort=False)["elbo"].last().unstack(0)
    first, _, third = _METHODS
    equal = float(((ends[first] - ends[third]).abs() < 0.01).mean())
    need = results[results["elbo"] > results.groupby(["case", "seed"])["elbo"].transform("last") - 0.01]
    steps = need.groupby(["case", "seed"], sort=False)["iteration"].first().unstack(0)
    ratio = float((steps[third] / steps[first]).median())
    return [
        Claim(
            "001",
            "The ELBO is raised by gradient ascent over softmax and log parameters, or by coordinates.",
            "both end within 0.01 nats of each other in at least half of the seeds",
            [Check("same optimum", equal >= 0.5, f"{equal:.0%} of the seeds")],
        ),
        Claim(
            "001",
            "Coordinate ascent needs no step size and fewer iterations.",
            "direct ascent takes at least 3 times as many to within 0.01 nats of its end",
            [Check("median over seeds", ratio >= 3.0, f"{ratio:.1f} times as many")],
        ),
    ]


experiment = Experiment(
    name="models-direct-ascent",
    title="A univariate mixture by direct and by coordinate ascent",
    summary="""How does gradient ascent of the ELBO in softmax and log parameters compare with
        coordinate ascent, on a mixture of three normal densities with uniform weights and unit
        variances?""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
