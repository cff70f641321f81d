"""A mixture of experts: lines and small networks, weighted by a softmax gate of the input.

    y | x, z = k ~ N(f_k(x), v_k),   p(z = k | x) = softmax(G x)_k

The data follow one line on the left and another on the right, with noise and an overlap between them. Lines
are fitted by variational Bayes and by generalised EM, in which the gate's step is an ascent; networks by
generalised EM, in which the experts' step is an ascent, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import bqvi
from bqvi.models import MixtureOfExperts
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.models.network_experts import NetworkExperts

__all__ = ["experiment"]

_N, _HELD_OUT, _NOISE, _STEEPNESS = 200, 500, 0.3, 4.0
_CASES: dict[str, dict[str, Any]] = {
    "2 lines, Bayes": {"experts": "linear", "k": 2, "family": "full"},
    "2 lines, generalised EM": {"experts": "linear", "k": 2, "family": "point"},
    "4 lines, Bayes": {"experts": "linear", "k": 4, "family": "full"},
    "2 networks, generalised EM": {"experts": "network", "k": 2, "family": "point"},
}
_STEPS, _NETWORK_STEPS, _QUICK_STEPS = 500, 100, 3
_GRID = np.linspace(-2.0, 2.0, 81)
_SHOWN_SEED = 0


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return lines and networks."""
    return [
        Case(
            name,
            {**chosen, "steps": _QUICK_STEPS if quick else (_NETWORK_STEPS if "net" in name else _STEPS)},
        )
        for name, chosen in _CASES.items()
    ]


def _sample(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Inputs with a column of ones (n, 2), and outputs (n,)."""
    t = rng.uniform(-2.0, 2.0, n)
    right = rng.random(n) < 1.0 / (1.0 + np.exp(-_STEEPNESS * t))
    return _with_ones(t), np.where(right, 2.0 - t, -1.0 + 2.0 * t) + _NOISE * rng.normal(size=n)


def _with_ones(t: np.ndarray) -> np.ndarray:
    """(n, 2)."""
    return np.column_stack([t, np.ones(len(t))])


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each input of a grid, with the prediction and the experts' shares."""
    chosen = case.settings
    rng = np.random.default_rng(seed)
    data, held = _sample(_N, rng), _sample(_HELD_OUT, rng)
    made = MixtureOfExperts(chosen["k"], 2, _network() if chosen["experts"] == "network" else None)
    fit = bqvi.fit(
        made, data, family=chosen["family"], starts=3, steps=chosen["steps"], tolerance=1e-3, seed=seed
    )
    model: MixtureOfExperts = fit.problem.model
    gate, theta = model.gate(fit.q, _with_ones(_GRID)), model.parameters(fit.q)
    means = model.experts.means(theta, _with_ones(_GRID))
    shown = {
        f"{name}_{k}": values[:, k] if k < chosen["k"] else np.nan
        for name, values in (("share", gate), ("mean", means))
        for k in range(4)
    }
    return pd.DataFrame(
        {
            "iteration": fit.state.iteration, "input": _GRID,
            "prediction": model.predict(fit.q, _with_ones(_GRID)), **shown, "elbo": fit.elbo,
            "held_out": model.log_likelihood(held, theta) / _HELD_OUT, "seconds": fit.state.seconds,
        }
    )  # fmt: skip


def _network() -> NetworkExperts:
    from torch import nn

    return NetworkExperts(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)))


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the data, the experts where the gate weights them, and the prediction."""
    x, y = _sample(_N, np.random.default_rng(_SHOWN_SEED))
    made, axes, filled = drawing.panels(results[results["seed"] == _SHOWN_SEED], "case", columns=2)
    for ax, rows in filled:
        ax.plot(x[:, 0], y, ".", color="0.7", ms=3)
        for k in range(int(rows["k"].iloc[0])):
            used = rows[f"mean_{k}"].where(rows[f"share_{k}"] > 0.05)
            ax.plot(rows["input"], used, color=drawing.COLOURS[k], lw=2.0, label=f"expert {k + 1}")
        ax.plot(rows["input"], rows["prediction"], color="black", lw=0.8, ls="--", label="mean of y")
        ax.set(xlabel="x", ylabel="y")
    drawing.legend_below(made, axes)
    caption = (
        f"Seed {_SHOWN_SEED}. An expert's mean is drawn where the gate gives it a share of more than 5 %; "
        "dashed: the mean of y given x, over the experts."
    )
    return [Drawing("experts", made, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return bounds and held-out densities."""
    columns = {
        "elbo": "ELBO (nats)", "held_out": "held-out log density (nats a row)", "iteration": "iterations",
        "seconds": "seconds",
    }  # fmt: skip
    first = results.groupby(["case", "seed"], sort=False).head(1)
    caption = (
        "The best of three starts; median [lower quartile, upper quartile]. Densities are at the "
        "parameters' means. The ELBO of a point is the log posterior density, and cannot be compared with "
        "the others."
    )
    return [Table("experts", quartiles(first, columns, digits=4), caption)]


_CLAIMS = (
    Statement("002", "A gate divides the inputs among experts.",
              "the bound prefers the two lines that made the data to four",
              "elbo", {"2 lines, Bayes": ["4 lines, Bayes"]}, higher=True),
)  # fmt: skip


experiment = Experiment(
    name="models-experts",
    title="A mixture of experts",
    summary="""Which inputs does a softmax gate assign to which expert, and how high is the held-out
        density? Experts are lines or small networks, fitted by variational Bayes or by generalised EM.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
)
