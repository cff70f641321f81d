"""Bounds on the evidence against particles and temperatures, on a conjugate model and under a decoder.

regression    eight coefficients, 40 data, unit priors and noise: ln Z and draws of the posterior are closed
decoder       five images of 12 binary pixels, simulated by a decoder with fixed weights from two latent
              variables each: ln Z by a grid; those of an image are a draw of their posterior

The proposal is the prior. To the left importance sampling with ever more particles, to the right annealed
importance sampling and sequential Monte Carlo with 16 particles and ever more temperatures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import logsumexp

import bqvi
from bqvi.sampled_bounds.settings import SETTINGS
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import Column, summary
from gp.measures import Gaussian

__all__ = ["COEFFICIENTS", "BracketProblem", "decoder", "experiment", "regression"]

_PROBLEMS = ("regression", "decoder")
_PARTICLES, _QUICK_PARTICLES = (1, 4, 16, 64, 256), (1, 16)
_TEMPERATURES, _QUICK_TEMPERATURES = (1, 2, 4, 8, 16, 32), (1, 8)
_FEW = 16
_LABELS = {"importance": "importance", "ais": "annealed importance", "smc": "sequential Monte Carlo"}
_DATA, COEFFICIENTS = 40, 8
_IMAGES, _PIXELS, _HIDDEN = 5, 12, 8


@dataclass(frozen=True, eq=False)
class BracketProblem:
    """M evidences to bracket.

    Attributes
    ----------
    log_joint : as `bqvi.evidence_bounds` takes it. proposal : the prior, or M of them.
    draws : of the posterior. truth : ln Z, a number or (M,).
    """

    log_joint: Callable[..., Any]
    proposal: Any
    draws: np.ndarray
    truth: Any


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each problem with each number of particles or temperatures."""
    particles, temperatures = (
        (_QUICK_PARTICLES, _QUICK_TEMPERATURES) if quick else (_PARTICLES, _TEMPERATURES)
    )
    return [
        Case(
            f"{problem}: {_LABELS[method]} {count}",
            {"problem": problem, "method": method, "label": _LABELS[method], "count": count},
        )
        for problem in _PROBLEMS
        for method in _LABELS
        for count in (particles if method == "importance" else temperatures)
    ]


def regression(rng: np.random.Generator) -> BracketProblem:
    """A linear regression with unit priors and unit noise."""
    x = rng.normal(size=(_DATA, COEFFICIENTS))
    y = x @ rng.normal(size=COEFFICIENTS) + rng.normal(size=_DATA)
    precision = x.T @ x + np.eye(COEFFICIENTS)
    covariance = np.linalg.inv(precision)
    mean = covariance @ x.T @ y
    constant = -0.5 * (_DATA + COEFFICIENTS) * np.log(2 * np.pi)
    marginal = x @ x.T + np.eye(_DATA)
    truth = -0.5 * (y @ np.linalg.solve(marginal, y) + np.linalg.slogdet(2 * np.pi * marginal)[1])
    inputs, outputs = torch.as_tensor(x), torch.as_tensor(y)

    def log_joint(theta: torch.Tensor) -> torch.Tensor:
        residuals = outputs - theta @ inputs.T
        return constant - 0.5 * (residuals**2).sum(-1) - 0.5 * (theta**2).sum(-1)

    prior = Gaussian(np.zeros(COEFFICIENTS), np.ones(COEFFICIENTS))
    return BracketProblem(log_joint, prior, rng.multivariate_normal(mean, covariance, 10), float(truth))


def decoder(rng: np.random.Generator) -> BracketProblem:
    """Binary images from two latent variables through one hidden layer."""
    hidden = torch.as_tensor(rng.normal(size=(2, _HIDDEN)))
    out = torch.as_tensor(rng.normal(size=(_HIDDEN, _PIXELS)))
    latents = rng.normal(size=(_IMAGES, 1, 2))

    def logits(z: torch.Tensor) -> torch.Tensor:
        return torch.tanh(z @ hidden) @ out

    chances = torch.sigmoid(logits(torch.as_tensor(latents[:, 0]))).numpy()
    images = torch.as_tensor((rng.random((_IMAGES, _PIXELS)) < chances).astype(float))

    def log_joint(z: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        at = logits(z)
        like = (images[which] * at - torch.nn.functional.softplus(at)).sum(-1)
        return like - 0.5 * (z**2).sum(-1) - np.log(2 * np.pi)

    axis = np.linspace(-6.0, 6.0, 121)
    grid = torch.as_tensor(np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2))
    area = 2.0 * np.log(axis[1] - axis[0])
    truth = np.array(
        [logsumexp(log_joint(grid, torch.full((len(grid),), i)).numpy()) + area for i in range(_IMAGES)]
    )
    prior = Gaussian(np.zeros(2), np.ones(2))
    return BracketProblem(log_joint, [prior] * _IMAGES, latents, truth)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the two bounds less ln Z, means over problems, and whether the intervals hold it."""
    settings, rng = case.settings, np.random.default_rng([seed, 1])
    problem = (regression if settings["problem"] == "regression" else decoder)(rng)
    annealed = settings["method"] != "importance"
    count = settings["count"]
    systems = 20 if settings["problem"] == "regression" else 11 * _IMAGES
    size = _FEW if annealed else count
    found = bqvi.evidence_bounds(
        problem.log_joint,
        problem.proposal,
        int(1.3 * systems * size * (1 + SETTINGS.leapfrog * ((count if annealed else 1) - 1))) + 4000,
        settings["method"],
        posterior=problem.draws,
        gradient="autodiff",
        particles=size,
        temperatures=count if annealed else None,
        seed=seed,
    )
    truth = np.atleast_1d(problem.truth)
    low, high = np.atleast_2d(found.interval).T
    held = low < truth if settings["problem"] == "decoder" else (low < truth) & (truth < high)
    row = {
        "lower": float(np.mean(np.atleast_1d(found.lower) - truth)),
        "upper": float(np.mean(np.atleast_1d(found.upper) - truth)),
        "n": found.n_evaluations,
        "held": float(held.mean()),
    }
    return pd.DataFrame([row])


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw both bounds less ln Z: medians over seeds with quartiles."""
    problems = list(results["problem"].unique())
    figure, axes = drawing.figure(len(problems), 2, size=(3.4, 2.5), sharey="row")
    lines = drawing.line_styles(results["label"])
    for i, problem in enumerate(problems):
        for j, methods in enumerate((("importance",), ("ais", "smc"))):
            ax = axes[i, j]
            rows = results[(results["problem"] == problem) & results["method"].isin(methods)]
            for label, group in rows.groupby("label", sort=False):
                for side in ("lower", "upper"):
                    quartiles = group.groupby("count")[side].quantile([0.25, 0.5, 0.75]).unstack()
                    line_style = lines[label]
                    ax.plot(
                        quartiles.index, quartiles[0.5], "o-", ms=3, color=line_style.colour,
                        label=str(label) if side == "lower" else None,
                    )  # fmt: skip
                    band = (quartiles.index, quartiles[0.25], quartiles[0.75])
                    ax.fill_between(*band, color=line_style.colour, alpha=0.2, lw=0)
            ax.axhline(0.0, color="black", lw=1, ls="--")
            ax.set_xscale("log", base=2)
            ax.set_yscale("symlog", linthresh=0.1)
            ax.set_title(problem)
            if i == len(problems) - 1:
                ax.set_xlabel("particles" if j == 0 else f"temperatures, {_FEW} particles")
            if j == 0:
                ax.set_ylabel("bound less ln Z (nats)")
    drawing.legend_below(figure, axes)
    caption = (
        "Lower and upper bound less ln Z, linear between -.1 and .1 nats: medians and quartiles over seeds, "
        "each of which has its own data. For the decoder means over five images."
    )
    return [Drawing("closing", figure, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the bounds and how often the intervals hold ln Z."""
    columns: dict[str, Column] = {
        "evaluations": ("n", "median", ".0f"), "lower less ln Z": ("lower", "median", ".3f"),
        "upper less ln Z": ("upper", "median", ".3f"), "interval holds ln Z": ("held", "mean", ".2f"),
    }  # fmt: skip
    by = {"problem": "problem", "label": "method", "count": "particles or temperatures"}
    caption = (
        "Medians over seeds; the share of 99 % intervals that hold ln Z. For an image one draw of the "
        "posterior is known, so that its interval is one-sided."
    )
    return [Table("bounds", summary(results, by, columns), caption)]


def _width(results: pd.DataFrame) -> pd.DataFrame:
    name = results["label"] + " " + results["count"].astype(str)
    return results.assign(width=results["upper"] - results["lower"], name=name)


_MOST = {"importance": 256, "annealed importance": 32, "sequential Monte Carlo": 32}
_CLAIMS = (
    Statement("bqvi", "More particles, or temperatures, close the bracket.",
              "the two bounds are less than half as far apart as with one",
              "width", {f"{label} {most}": [f"{label} 1"] for label, most in _MOST.items()},
              factor=0.5, shown="nats between the bounds", rows=_width),
    Statement("bqvi", "Annealing with 16 particles closes it further than 256 particles without.",
              "the two bounds are nearer to each other with 32 temperatures",
              "width", {f"{label} 32": ["importance 256"] for label in list(_MOST)[1:]},
              shown="nats between the bounds", rows=_width),
    Statement("bqvi", "The stated interval holds ln Z.", "it does not in at most 5 % of the runs",
              "missed", level=0.05, statistic="mean", shown="share of intervals",
              rows=lambda found: found.assign(missed=1.0 - found["held"], name=found["label"])),
)  # fmt: skip


experiment = Experiment(
    name="bounds",
    title="Bounds on the evidence: particles and temperatures",
    summary="""How narrow is the bracket around ln Z by importance sampling, annealed importance
        sampling and sequential Monte Carlo, on a conjugate regression and on images under a decoder?""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="name", each="problem"),
    seeds=5,
    quick_seeds=1,
)
