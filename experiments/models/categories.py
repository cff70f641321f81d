"""The simple mixture: rows of categories, whose columns are independent given the component.

    pi ~ Dir,   z_n ~ Cat(pi),   x_nj | z_n = k ~ Cat(eta_kj)

Penguins as categories: the island, and for each of four measurements the third of the birds to which it
belongs. EM has a flat prior and q a point, variational Bayes Jeffreys' prior of eta_kj and a uniform one of
pi. From one column alone nothing can be learnt about components: EM then has the likelihood of the column's
frequencies for every K.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

import bqvi
from bqvi.models import DirichletWeights, Mixture, categorical
from experiments.harness import drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.summaries import quartiles

__all__ = ["experiment"]

_COLUMNS = ("bill length", "bill depth", "flipper length", "body mass", "island")
_CATEGORIES = 3
_METHODS = {
    "EM": {"family": "point", "concentration": 1.0},
    "variational Bayes": {"family": "full", "concentration": 0.5},
}
_MOST, _QUICK_MOST = 8, 3
_STARTS, _QUICK_STARTS = 10, 2
_SPECIES = 3
_SHOWN_SEED = 0


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return both methods on all columns, and EM on the first alone."""
    size = {"most": _QUICK_MOST if quick else _MOST, "starts": _QUICK_STARTS if quick else _STARTS}
    whole = [Case(name, {**chosen, "columns": len(_COLUMNS), **size}) for name, chosen in _METHODS.items()]
    return [*whole, Case("EM, one column", {**_METHODS["EM"], "columns": 1, **size})]


@cache
def _penguins() -> tuple[np.ndarray, np.ndarray]:
    """Categories 0 to 2 (N, 5), and species (N,)."""
    from palmerpenguins import load_penguins

    measured = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
    table = load_penguins()[["species", "island", *measured]].dropna()
    x = table[measured].to_numpy(dtype=float)
    thirds = (x[:, None, :] > np.quantile(x, [1.0 / 3.0, 2.0 / 3.0], axis=0)).sum(axis=1)
    island, species = (
        np.unique(table[name].to_numpy(dtype=str), return_inverse=True)[1] for name in ("island", "species")
    )
    return np.column_stack([thirds, island]).astype(float), species


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each K, followed by a row for each probability of the fit with K = 3."""
    chosen = case.settings
    x, species = _penguins()
    order = np.random.default_rng(seed).permutation(len(x))
    learnt, held = np.split(order, [len(x) * 4 // 5])
    train, test = x[learnt, : chosen["columns"]], x[held, : chosen["columns"]]
    rows, probabilities = [], np.empty(0)
    for k in range(1, chosen["most"] + 1):
        prior = categorical(_CATEGORIES, chosen["concentration"])
        fit = bqvi.fit(
            Mixture(DirichletWeights(k, 1.0), prior), train, family=chosen["family"],
            starts=chosen["starts"], start_from="random", tolerance=1e-6, steps=2000, seed=seed,
        )  # fmt: skip
        model, theta = fit.problem.model, fit.q.mean
        likelihood = model.log_likelihood(train, theta)
        rows.append(
            {
                "iteration": fit.state.iteration, "components": k, "elbo": fit.elbo,
                "held_out": model.log_likelihood(test, theta) / len(test),
                "above_frequencies": likelihood - _of_frequencies(train),
                "rand": adjusted_rand_score(
                    species[learnt], model.responsibilities(fit.q, train).argmax(axis=1)
                ),
                "seconds": fit.state.seconds,
            }
        )  # fmt: skip
        if k == _SPECIES:
            probabilities = np.asarray(theta["probabilities"])
    component, column, category = np.indices(probabilities.shape)
    entries = pd.DataFrame(
        {
            "component": component.ravel(), "column": column.ravel(), "category": category.ravel(),
            "probability": probabilities.ravel(), "iteration": 0, "elbo": 0.0,
        }
    )  # fmt: skip
    return pd.concat([pd.DataFrame(rows).assign(component=-1), entries], ignore_index=True)


def _of_frequencies(x: np.ndarray) -> float:
    """ln p(x) of independent columns at their frequencies, nats."""
    counts = np.stack([(x == category).sum(axis=0) for category in range(_CATEGORIES)])
    return float((counts * np.log(np.maximum(counts, 1) / len(x))).sum())


def _fits(results: pd.DataFrame) -> pd.DataFrame:
    return results[results["component"] == -1]


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the scores over K, and the components of one seed beside the species."""
    rows = _fits(results)
    caption = (
        "Left: the ELBO of variational Bayes less its best over K. Middle: the log predictive density of the "
        "held-out fifth, a bird; EM gives categories that a component lacks no probability, which counts as "
        "1e-300. Right: agreement of the components with the species. Dotted: the number of "
        f"species. {drawing.band_caption(rows)}"
    )
    shown = (
        f"Seed {_SHOWN_SEED}, K = {_SPECIES}: probabilities of the categories (low, middle and high third; "
        "of the island Biscoe, Dream, Torgersen) from 0, white, to 1, black. Upper row: frequencies within "
        "each species. Lower row: the components of variational Bayes, each below the species that it fits "
        "best."
    )
    return [
        Drawing("components", _over_components(rows), caption),
        Drawing("probabilities", _pictures(results), shown),
    ]


def _over_components(rows: pd.DataFrame) -> Figure:
    made, axes = drawing.figure(1, 3, size=(2.9, 2.5))
    rows = rows[rows["columns"] == len(_COLUMNS)]
    lines = drawing.line_styles(_METHODS)
    bayes = rows[rows["family"] == "full"]
    bayes = bayes.assign(behind=bayes["elbo"] - bayes.groupby("seed")["elbo"].transform("max"))
    panels = (
        (bayes, "behind", "ELBO less the best (nats)"),
        (rows, "held_out", "held-out log density (nats)"),
        (rows, "rand", "adjusted Rand index"),
    )
    for ax, (table, y, label) in zip(axes[0], panels, strict=True):
        drawing.curves(
            ax, table, "components", y, lines=lines, steps=False, y_label=label, x_label="components K"
        )
        ax.axvline(_SPECIES, color="0.5", lw=0.8, ls=":")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0, 0].set_ylim(bottom=max(-60.0, float(bayes["behind"].min()) - 5.0))
    drawing.legend_below(made, axes)
    return made


def _pictures(results: pd.DataFrame) -> Figure:
    x, species = _penguins()
    truth = np.stack(
        [[[(x[species == s, j] == c).mean() for c in range(_CATEGORIES)] for j in range(len(_COLUMNS))]
         for s in range(_SPECIES)]
    )  # fmt: skip
    chosen = results[(results["seed"] == _SHOWN_SEED) & (results["case"] == "variational Bayes")]
    found = chosen[chosen["component"] >= 0]["probability"].to_numpy().reshape(truth.shape)
    distance = np.abs(truth[:, None] - found[None]).sum(axis=(2, 3))
    found = found[linear_sum_assignment(distance)[1]]
    made, axes = drawing.figure(2, _SPECIES, size=(2.2, 1.9))
    names = ("Adelie", "Chinstrap", "Gentoo")
    for line, (kind, tables_) in zip(axes, {"species": truth, "components": found}.items(), strict=True):
        for ax, table, name in zip(line, tables_, names, strict=True):
            ax.imshow(table, cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto")
            ax.set(xticks=range(_CATEGORIES), yticks=range(len(_COLUMNS)), yticklabels=[])
            ax.grid(False)
            if kind == "species":
                ax.set_title(name)
        line[0].set_yticklabels(_COLUMNS)
        line[0].set_ylabel(kind)
    for ax in axes[-1]:
        ax.set_xlabel("category")
    return made


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the fits by method and K."""
    columns = {
        "elbo": "ELBO (nats)",
        "held_out": "held-out log density (nats)",
        "rand": "adjusted Rand index",
        "above_frequencies": "log likelihood above that of independent columns (nats)",
        "seconds": "seconds",
    }
    caption = (
        "Median [lower quartile, upper quartile]. EM's ELBO is the log likelihood; seconds of the best start."
    )
    found = quartiles(_fits(results), columns, by=("case", "components"), digits=4)
    return [Table("fits", found, caption)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check the likelihood of one column, and that the bound chooses a K whose held-out density is high."""
    rows = _fits(results)
    one = float(rows[rows["columns"] == 1]["above_frequencies"].abs().max())
    bayes = rows[(rows["family"] == "full")].groupby("components")[["elbo", "held_out"]].mean()
    best = int(bayes["elbo"].to_numpy().argmax())
    loss = float(bayes["held_out"].max() - bayes["held_out"].iloc[best])
    return [
        Claim(
            "004",
            "The maximisation step of the simple mixture has the expected frequencies (2.7, 2.8).",
            "of one column EM has the likelihood of its frequencies for every K, to 1e-6 nats",
            [Check("all K and seeds", one < 1e-6, f"at most {one:.1e} nats apart")],
        ),
        Claim(
            "004",
            "The ELBO of the fully Bayesian mixture tells how many components there are.",
            "the K of the highest mean bound predicts held-out birds at most 0.1 nats worse than the best",
            [Check("penguins", loss <= 0.1, f"K = {bayes.index[best]}, {loss:.3f} nats")],
        ),
    ]


experiment = Experiment(
    name="models-categories",
    title="The simple mixture of categories",
    summary="""What does a mixture find in rows of categories, and how many components does the ELBO choose?
        Penguins, their measurements in thirds and their island, by EM and by variational Bayes with 1 to 8
        components.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
