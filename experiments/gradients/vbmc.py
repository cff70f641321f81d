"""Inference with a surrogate: Bayesian quadrature of the gradient beside variational Bayesian Monte Carlo.

`bqvi.vbmc` learns the log joint too, but returns a mixture of Gaussians and an estimate of the evidence. Both
are therefore compared by the ELBO of the returned q, less that of the best *Gaussian*:

    elbo_gap       ELBO of the best Gaussian less that of q, nats; below 0 q is better than any Gaussian
    limit          the smallest possible gap, -KL(best Gaussian || posterior): its ELBO less ln Z
    said_error     the ELBO that VBMC reports less that of its q
    evidence_error the ln Z that VBMC reports less ln Z

The ELBO of a Gaussian is on the points of `references`; that of a mixture is the mean of ln p - ln q over
`_DRAWS` independent draws of it, without importance weights. ln Z is 2 pi .7 of the banana in closed form;
importance sampling from a multivariate t around the best Gaussian of the others; the two forms of the schools
have the same. The mixture's is not known (its posterior has 6 modes, of which q has one): its limit is left
out.

VBMC begins with a plausible box of three standard deviations of the start to either side of its mean, and
continues from each budget to the next, also after convergence.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_t

import bqvi
from experiments.gradients.inference import at_budgets
from experiments.gradients.references import optimum, problem, target_named
from experiments.gradients.runs import surrogate_run, without_gradient
from experiments.harness import drawing, statements
from experiments.harness.experiment import (
    Case,
    Drawing,
    Experiment,
    Resources,
    Table,
)
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.problems.gradient_targets import GradientTarget

__all__ = ["experiment", "log_evidence"]

_NAMES = ("banana", "logistic", "mixture", "wine", "schools-centred", "schools-noncentred")
_BQ, _BQ_VALUES, _VBMC, _VBMC_VALUES = "BQ", "BQ, values only", "VBMC, gradients", "VBMC, values only"
_METHODS = (_BQ, _BQ_VALUES, _VBMC, _VBMC_VALUES)
_LINE_STYLES = drawing.line_styles(_METHODS)
_BUDGETS = (50, 100, 200)
_WIDTH = 3.0
"""Half the width of the plausible box, in standard deviations of the start."""
_DRAWS = 2**14
_IMPORTANCE_DRAWS = 2**17
_DEGREES = 5
_THRESHOLD = 1e-3
"""The gap in nats within which its axis is linear."""
_WORST = 1e4
"""The largest gap that is drawn."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each method on each target."""
    names, budgets = (("banana",), (15, 25)) if quick else (_NAMES, _BUDGETS)
    return [
        Case(f"{name}: {method}", {"target": name, "method": method, "budgets": list(budgets)})
        for name in names
        for method in _METHODS
    ]


@cache
def log_evidence(name: str) -> tuple[float, float]:
    """ln Z and its standard error, nats; NaN where it is not known."""
    if name == "mixture":
        return float("nan"), float("nan")
    if name == "banana":
        return math.log(2.0 * math.pi * 0.7), 0.0
    target = target_named("schools-noncentred" if name.startswith("schools") else name)
    q = optimum(target.name)
    proposal = multivariate_t(q.mean, q.covariance, _DEGREES, seed=20240302)
    theta = proposal.rvs(_IMPORTANCE_DRAWS)
    log_weights = _log_density(target, theta) - proposal.logpdf(theta)
    found = float(logsumexp(log_weights)) - math.log(_IMPORTANCE_DRAWS)
    return found, float(np.exp(log_weights - found).std() / math.sqrt(_IMPORTANCE_DRAWS))


def _log_density(target: GradientTarget, theta: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = target.log_density(torch.from_numpy(theta)).numpy()
    return found


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return gap, evaluations, seconds, and for VBMC its reported evidence, at each budget."""
    name, method, budgets = (case.settings[key] for key in ("target", "method", "budgets"))
    posed = problem(name)
    if method in (_VBMC, _VBMC_VALUES):
        found = _vbmc(name, method == _VBMC, budgets, seed)
    else:
        model = without_gradient(posed.target) if method == _BQ_VALUES else None
        records = surrogate_run(posed, seed, budgets[-1], model=model, records=budgets[:-1])
        found = at_budgets(records, budgets)[["evaluations", "seconds", "elbo_gap", "budget"]]
        found = found.dropna(subset=["budget"]).assign(said_error=np.nan, evidence_error=np.nan, sd=np.nan)
    return found.assign(limit=posed.best - log_evidence(name)[0])


def _vbmc(name: str, gradients: bool, budgets: Sequence[int], seed: int) -> pd.DataFrame:
    target, rows, found, seconds = target_named(name), [], None, 0.0
    for budget in budgets:
        began = time.perf_counter()
        found = bqvi.vbmc(
            _log_joint(target, gradients), plausible_lower=target.mean - _WIDTH * target.scale,
            plausible_upper=target.mean + _WIDTH * target.scale, gradient="autodiff" if gradients else None,
            budget=budget, seed=seed, resume=found, tolerance=None,
        )  # fmt: skip
        seconds += time.perf_counter() - began
        q = replace(found.posterior, draws=None)
        theta = q.sample(_DRAWS, 0)
        elbo = float(np.mean(_log_density(target, theta) - q.log_prob(theta)))
        rows.append(
            {
                "evaluations": found.n_evaluations,
                "seconds": seconds,
                "elbo_gap": problem(name).best - elbo,
                "budget": budget,
                "said_error": found.elbo - elbo,
                "evidence_error": found.log_evidence - log_evidence(name)[0],
                "sd": found.log_evidence_sd,
            }
        )
    return pd.DataFrame(rows)


def _log_joint(target: GradientTarget, gradients: bool) -> Callable[[Any], Any]:
    """Of one vector: a float, or for autodiff a tensor."""
    if gradients:
        return lambda theta: target.log_density(theta[None])[0]
    return lambda theta: float(_log_density(target, np.asarray(theta)[None])[0])


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the gap against evaluations."""
    shown = results.assign(elbo_gap=results["elbo_gap"].clip(upper=_WORST))
    figure, axes, panels = drawing.panels(shown)
    for ax, rows in panels:
        drawing.curves(
            ax, rows, "evaluations", "elbo_gap", by="method", lines=_LINE_STYLES, steps=False, x_scale="log",
            y_scale="symlog", linthresh=_THRESHOLD, x_label="evaluations", y_label="ELBO gap (nats)",
        )  # fmt: skip
        ax.axhline(0.0, color="grey", linewidth=0.8)
        ax.axhline(rows["limit"].iloc[0], color="grey", linewidth=0.8, linestyle=":")
        drawing.label_budgets(ax, rows["budget"].astype(int))
    drawing.legend_below(figure, axes)
    caption = (
        "ELBO of the best Gaussian less that of the q returned, a Gaussian (BQ) or a mixture (VBMC), against "
        "evaluations; below 0 (grey) it is better than any Gaussian; dotted: q is the posterior, where ln Z "
        f"is known. The axis is linear within {_THRESHOLD:g} nats; gaps above {_WORST:g} are drawn as that. "
        f"{drawing.band_caption(results)}"
    )
    return [Drawing("gaps", figure, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate gaps and what VBMC reports."""
    rows = results.assign(budget=results["budget"].astype(int))
    by = ("target", "method", "budget")
    gap = quartiles(rows, {"elbo_gap": "ELBO gap (nats)", "seconds": "seconds"}, by=by, digits=2)
    limits = rows.groupby(list(by), sort=False)["limit"].first()
    gap["least possible"] = limits.map(lambda x: f"{x:.2g}" if np.isfinite(x) else "").to_numpy()
    made = [
        Table(
            "gaps",
            gap,
            "ELBO of the best Gaussian less that of the q returned, and the least that this can be: median "
            "[quartiles] over seeds. VBMC's q is a mixture, and its seconds are those of one call a point.",
        )
    ]
    stated = rows[rows["said_error"].notna()]
    if len(stated):
        columns = {
            "said_error": "reported ELBO less that of q (nats)",
            "evidence_error": "reported ln Z less ln Z (nats)",
            "sd": "reported sd of ln Z (nats)",
        }  # fmt: skip
        caption = (
            "What VBMC reports of its q and of the evidence: median [quartiles] over seeds; nan: not known."
        )
        made.append(Table("said", quartiles(stated, columns, by=by, digits=2), caption))
    return made


def _stated(results: pd.DataFrame) -> pd.DataFrame:
    last = results[results["budget"] == results["budget"].max()]
    return last.assign(evidence=last["evidence_error"].abs(), said=last["said_error"].abs())


_CLAIMS = (
    Statement("7.3.1", "A mixture from a surrogate is better than any Gaussian.",
              "the ELBO of VBMC's q is above that of the best Gaussian at the end",
              "elbo_gap", [_VBMC, _VBMC_VALUES], shown="gap"),
    Statement("7.3.2", "With gradients quadrature of the ELBO's gradient finds the best Gaussian.",
              "its gap is at most .01 nats at the end",
              "elbo_gap", [_BQ], level=0.01, shown="gap", rows=_stated),
    Statement("7.3.1", "Entropy by draws is accurate: the ELBO that VBMC reports is that of its q.",
              "they differ by at most .1 nats at the end",
              "said", [_VBMC, _VBMC_VALUES], level=0.1, shown="difference", rows=_stated),
    Statement("7.3.1", "The evidence that VBMC reports is right.", "it errs by at most .1 nats at the end",
              "evidence", [_VBMC, _VBMC_VALUES], level=0.1, shown="error",
              rows=lambda results: _stated(results).dropna(subset=["evidence"])),
)  # fmt: skip


experiment = Experiment(
    name="bq-vbmc",
    title="Inference with a surrogate: beside VBMC",
    summary="""Which ELBO is reached from a surrogate of the log joint, with q a Gaussian by Bayesian
    quadrature of the ELBO's gradient, and a mixture by variational Bayesian Monte Carlo? Each with
    gradients and from values alone, by evaluations, and with the evidence that VBMC reports.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=partial(statements.claims, statements=_CLAIMS, by="method", each="target"),
    seeds=5,
)
