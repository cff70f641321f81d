"""Models on the same data: the bound, held-out log predictive density, seconds.

Every row is a model of one data set, standardised; four fifths are training data, a fifth is predicted. The
bound has all its constants and compares models; that of a point estimate is ln p(X, theta) and cannot be
compared with it. Densities of Bayesian models are posterior predictive ones, of point estimates those at the
point.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import bqvi
from bqvi.models import DirichletProcessMixture, FactorAnalysis, GaussianMixture, MixtureOfFactorAnalysers
from bqvi.models.merging import merged
from bqvi.models.predictive import log_predictive
from experiments.harness import drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.summaries import quartiles

__all__ = ["experiment"]

_SETS = {"penguins": 3, "iris": 3, "wine": 3, "digits": 10}
"""Data, and their labels."""
_DIGIT_AXES = 10
_FACTORS = 2
_STARTS, _QUICK_STARTS = 5, 1
_STEPS = 500
_TOLERANCE = 1e-3
_LEAST = 0.01


def _mixture(**settings: Any) -> Callable[[int], Any]:
    return lambda k: GaussianMixture(k, concentration=1.0, **settings)


_MODELS: dict[str, tuple[Callable[[int], Any], str]] = {
    "one Gaussian": (lambda _: GaussianMixture(1, "full"), "full"),
    "VB, full": (_mixture(covariance="full"), "full"),
    "VB, tied": (_mixture(covariance="tied"), "full"),
    "VB, diagonal": (_mixture(covariance="diagonal"), "full"),
    "VB, spherical": (_mixture(covariance="spherical"), "full"),
    "MAP, full": (_mixture(covariance="full"), "point"),
    "EM, tied": (_mixture(covariance="tied", flat=True), "point"),
    "DP, full": (lambda k: DirichletProcessMixture("full", 2 * k), "full"),
    "DP, full, merged": (lambda k: DirichletProcessMixture("full", 2 * k), "full"),
    "DP, diagonal, merged": (lambda k: DirichletProcessMixture("diagonal", 2 * k), "full"),
    "factor analysis": (lambda _: FactorAnalysis(_FACTORS), "full"),
    "PPCA": (lambda _: FactorAnalysis(_FACTORS, "spherical"), "full"),
    "mixture of FA": (lambda k: MixtureOfFactorAnalysers(k, _FACTORS), "full"),
    "mixture of PPCA": (lambda k: MixtureOfFactorAnalysers(k, _FACTORS, "spherical"), "full"),
}
"""The model with as many components as labels, and q's family."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return every model on every data set; a quick run leaves out the digits."""
    starts = _QUICK_STARTS if quick else _STARTS
    return [
        Case(f"{name}, {model}", {"data": name, "model": model, "labels": k, "starts": starts})
        for name, k in _SETS.items()
        if not (quick and name == "digits")
        for model in _MODELS
    ]


@cache
def _table(name: str) -> np.ndarray:
    """Standardised rows (N, D); the digits on their first principal components, in units of the first's."""
    from sklearn import datasets

    if name == "penguins":
        from palmerpenguins import load_penguins

        x = load_penguins().iloc[:, 2:6].dropna().to_numpy(dtype=float)
    else:
        x = getattr(datasets, f"load_{name}")().data
    centred = x - x.mean(axis=0)
    if name != "digits":
        return np.asarray(centred / centred.std(axis=0))
    axes = np.linalg.svd(centred, full_matrices=False)[2][:_DIGIT_AXES]
    found = centred @ axes.T
    return np.asarray(found / found[:, 0].std())


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the one row of a case."""
    chosen = case.settings
    x = np.random.default_rng(seed).permutation(_table(chosen["data"]))
    cut = len(x) * 4 // 5
    train, held = x[:cut], x[cut:]
    make, family = _MODELS[chosen["model"]]
    choices: dict[str, Any] = {"family": family, "steps": _STEPS, "tolerance": _TOLERANCE, "seed": seed}
    fit = bqvi.fit(make(chosen["labels"]), train, starts=chosen["starts"], **choices)
    model, seconds = fit.problem.model, fit.state.seconds
    if "merged" in chosen["model"]:
        fit = bqvi.fit(model, train, start_from=merged(model, fit.q, train), **choices)
        seconds += fit.state.seconds
    weights = [1.0] if isinstance(model, FactorAnalysis) else model.expected_weights(fit.q)
    components = int((np.asarray(weights) > _LEAST).sum())
    return pd.DataFrame(
        [
            {
                "iteration": fit.state.iteration, "elbo": fit.elbo, "seconds": seconds,
                "held_out": _held_out(model, fit.q, held), "components": components,
                "point": family == "point",
            }
        ]
    )  # fmt: skip


def _held_out(model: Any, q: Any, held: np.ndarray) -> float:
    """Mean log predictive density, nats; of factors at the means of their loadings and variances."""
    if isinstance(model, FactorAnalysis | MixtureOfFactorAnalysers):
        return model.log_likelihood(held, model.parameters(q)) / len(held)
    return float(log_predictive(model, q, held).mean())


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the bound against the held-out density, a panel for each data set."""
    caption = (
        "Each point is a model on one seed's split. The bound is in nats for each training datum; point "
        "estimates, whose ELBO is another quantity, are left out."
    )
    return [Drawing("bound-and-held-out", _scatter(results[~results["point"]]), caption)]


def _scatter(results: pd.DataFrame) -> Figure:
    made, axes, filled = drawing.panels(results, "data", columns=4, size=(2.7, 2.6))
    names = list(dict.fromkeys(results["model"]))
    lines = drawing.line_styles(names)
    marks = dict(zip(names, itertools.cycle("o^sDvP*X<>hp"), strict=False))
    for ax, rows in filled:
        n = len(_table(str(rows["data"].iloc[0]))) * 4 // 5
        for name, found in rows.groupby("model", sort=False):
            ax.plot(
                found["elbo"] / n, found["held_out"], marks[name], color=lines[name].colour, label=name,
                markersize=4, alpha=0.8,
            )  # fmt: skip
        ax.set_xlabel("ELBO (nats a datum)")
    axes[0, 0].set_ylabel("held-out log density (nats)")
    drawing.legend_below(made, axes)
    return made


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return one table for each data set."""
    columns = {
        "elbo": "ELBO (nats)",
        "held_out": "held-out log density (nats a datum)",
        "components": "components above 1 %",
        "seconds": "seconds",
    }
    caption = (
        "Median [lower quartile, upper quartile] over splits; seconds of the best start. K is the number of "
        "labels, twice that for a Dirichlet process (DP). EM: flat prior; its ELBO is the log likelihood. "
        "MAP: the log joint. Factor analysis and probabilistic principal components (PPCA) have two factors; "
        "their held-out density is at q's mean."
    )
    return [
        Table(f"models-of-{name}", quartiles(rows, columns, by=("model",), digits=5), f"{name}. {caption}")
        for name, rows in results.groupby("data", sort=False)
    ]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check that the bound chooses models with a high held-out density."""
    checks = []
    for name, rows in results[~results["point"]].groupby("data", sort=False):
        means = rows.groupby("model")[["elbo", "held_out"]].mean()
        best = int(means["elbo"].to_numpy().argmax())
        held = means["held_out"].to_numpy()
        loss = float(held.max() - held[best])
        checks.append(Check(str(name), loss <= 0.1, f"{means.index[best]}, {loss:.3f} nats"))
    return [
        Claim(
            "004",
            "The ELBO compares models.",
            "the model of the highest mean bound predicts held-out data at most 0.1 nats a datum worse than "
            "the best",
            checks,
        )
    ]


experiment = Experiment(
    name="models-table",
    title="Models by bound, held-out density and seconds",
    summary="""Which model has the highest bound, which the highest held-out density, and how many
        seconds do they take? Gaussian mixtures of four shapes, Dirichlet process mixtures, factor
        analysis, and point estimates on penguins, iris, wine and digits.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
