"""How many components: the bound, and held-out data, over K for every shape of covariance.

The ELBO has all its constants, so it compares numbers of components and shapes; with a weak prior it falls
where components are not needed. Beside it is the log posterior predictive density of held-out data.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

import bqvi
from bqvi.models import GaussianMixture
from bqvi.models.predictive import log_predictive
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.problems import data

__all__ = ["experiment"]

_SHAPES = ("full", "tied", "diagonal", "spherical")
_SETS = {"seven clusters": 10, "penguins": 8}
"""Data, and the most components tried. The clusters are the thesis', whose covariances are the identity."""
_LABELS = {"seven clusters": 7, "penguins": 3}
_QUICK_MOST = 3
_STARTS, _QUICK_STARTS = 5, 1


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return every shape on each data set."""
    return [
        Case(
            f"{name}, {shape}",
            {
                "data": name, "covariance": shape, "most": _QUICK_MOST if quick else most,
                "starts": _QUICK_STARTS if quick else _STARTS,
            },
        )
        for name, most in _SETS.items()
        for shape in _SHAPES
    ]  # fmt: skip


@cache
def _data(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out rows; half each of simulated data, four fifths of the penguins."""
    rng = np.random.default_rng(seed)
    if name == "seven clusters":
        x = data.thesis(1400, rng).x
        return x[:700], x[700:]
    x = rng.permutation(data.penguins().x)
    cut = len(x) * 4 // 5
    return x[:cut], x[cut:]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each K."""
    chosen = case.settings
    train, held = _data(chosen["data"], seed)
    rows = []
    for k in range(1, chosen["most"] + 1):
        model = GaussianMixture(k, chosen["covariance"], concentration=1.0)
        fit = bqvi.fit(model, train, starts=chosen["starts"], tolerance=1e-3, steps=500, seed=seed)
        score = float(log_predictive(fit.problem.model, fit.q, held).mean())
        seconds = fit.state.seconds
        rows.append(
            {"iteration": k, "components": k, "elbo": fit.elbo, "held_out": score, "seconds": seconds}
        )
    return pd.DataFrame(rows)


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the bound and the held-out density over K."""
    made, axes = drawing.figure(2, len(_SETS), sharex="col")
    lines = drawing.line_styles(_SHAPES)
    for column, name in enumerate(_SETS):
        rows = results[results["data"] == name]
        best = rows.groupby("seed")["elbo"].transform("max")
        rows = rows.assign(behind=rows["elbo"] - best)
        for ax, y, label in zip(
            axes[:, column],
            ("behind", "held_out"),
            ("ELBO less the best (nats)", "held-out log density (nats)"),
            strict=True,
        ):
            drawing.curves(
                ax, rows, "components", y, by="covariance", lines=lines, steps=False, y_label=label,
                x_label="components K",
            )  # fmt: skip
            ax.axvline(_LABELS[name], color="0.5", lw=0.8, ls=":")
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes[0, column].set_title(name)
        axes[0, column].set_ylim(bottom=max(-1500.0, float(rows["behind"].min()) - 20.0))
    drawing.legend_below(made, axes)
    caption = (
        "Variational Bayes with the default priors, concentration 1, the best of several starts. Dotted: the "
        f"number of labels. {drawing.band_caption(results)}"
    )
    return [Drawing("bound", made, caption)]


def _chosen(results: pd.DataFrame) -> pd.DataFrame:
    """Of each data set and seed, the model with the highest bound and the one best on held-out data."""
    rows = []
    for (name, seed), group in results.groupby(["data", "seed"], sort=False):
        bound, held = (group.iloc[int(group[column].to_numpy().argmax())] for column in ("elbo", "held_out"))
        names = [f"{best['covariance']}, K = {best['components']}" for best in (bound, held)]
        rows.append(
            {
                "data": name, "seed": seed, "by the bound": names[0], "by held-out data": names[1],
                "components": bound["components"], "lost": held["held_out"] - bound["held_out"],
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the choices by the bound and by held-out data."""
    chosen = _chosen(results)
    lines = []
    for name, rows in chosen.groupby("data", sort=False):
        line = {"data": name, "seeds": len(rows)}
        for column in ("by the bound", "by held-out data"):
            counts = rows[column].value_counts()
            line[column] = "; ".join(f"{what} ({n})" for what, n in counts.head(3).items())
        line["held-out nats a datum lost by choosing by the bound"] = f"{rows['lost'].median():.3f}"
        lines.append(line)
    caption = "The models chosen most often, with the number of seeds on which they are."
    return [Table("chosen", pd.DataFrame(lines), caption)]


def _held(results: pd.DataFrame) -> pd.DataFrame:
    """The clusters' choices, and how far from their number that by the bound is."""
    chosen = _chosen(results)
    chosen = chosen[chosen["data"] == "seven clusters"]
    return chosen.assign(case=chosen["data"], off=(chosen["components"] - _LABELS["seven clusters"]).abs())


_CLAIMS = (
    Statement("004", "The ELBO of the fully Bayesian mixture tells how many components there are.",
              "K = 7 has the highest bound of all K and shapes", "off", shown="distance from 7 components",
              rows=_held),
)  # fmt: skip


experiment = Experiment(
    name="models-components-by-bound",
    title="The number of components by the bound",
    summary="""Does the ELBO tell how many components there are? Gaussian mixtures with 1 to 10
        components and four shapes of covariance: the ELBO, with all its constants, beside the log
        posterior predictive density of held-out data.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
)
