"""Test bounds of a trained autoencoder: calls of the decoder for the same error, by different rules.

For a held-out image x and the encoder's q(z | x) two numbers are estimated,

    ELBO        E_q[ln p(x | z)], less a divergence that is closed
    evidence    ln E_q[p(x, z) / q(z | x)]

by averages over n plain draws (importance sampling, for the evidence) or n scrambled Sobol points, by
Bayesian quadrature of values, for the ELBO also of values with gradients, and for the evidence by WSABI. The
truth is the average over 65,536 scrambled Sobol points. How many plain draws have the same root mean square
error is read off the error of their averages at n = 16, 64, ..., 16,384.

A decoder's gradient costs about two values more, so that a node with gradient counts as three calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import logsumexp

import bqvi
from bqvi.families import DiagonalGaussian
from experiments.amortised.normal import normal_points, values_of
from experiments.amortised.trained import latent_cases, posed
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from gp.measures import Gaussian

__all__ = ["experiment"]

_IMAGES, _QUICK_IMAGES = 8, 1
_STEPS, _QUICK_STEPS = 1500, 20
_NODES, _QUICK_NODES = (16, 32, 64), (16,)
_PLAIN, _QUICK_PLAIN = (16, 64, 256, 1024, 4096, 16_384), (16, 64)
_POINTS, _QUICK_POINTS = 1 << 16, 1 << 10
"""The number of points of the truth; and the number of plain draws of an image, averaged in parts of n."""
_SCRAMBLINGS = 16
_GRADIENT_CALLS = 3
_DRAWS, _SOBOL = "plain draws", "Sobol"
_QUADRATURE: dict[str, dict[str, dict[str, Any]]] = {
    "ELBO": {"quadrature": {}, "quadrature, gradients": {"gradient": "autodiff"}},
    "evidence": {"quadrature": {"log": True}, "WSABI": {"log": True, "method": "wsabi-l"}},
}
_FEWER = 4.0
"""The factor of calls by which the claim requires a rule to need fewer than plain draws."""

_Function = Callable[[torch.Tensor], torch.Tensor]


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each latent dimension."""
    return latent_cases(
        quick,
        images=(_IMAGES, _QUICK_IMAGES),
        steps=(_STEPS, _QUICK_STEPS),
        nodes=(_NODES, _QUICK_NODES),
        plain=(_PLAIN, _QUICK_PLAIN),
        points=(_POINTS, _QUICK_POINTS),
    )


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return errors in nats: a row for each image, quantity, rule and number of calls."""
    rows: list[dict[str, Any]] = []
    for place, (log_joint, encoder) in enumerate(posed(case, seed)):
        for quantity in _QUADRATURE:
            f = _integrand(log_joint, encoder, quantity)
            found = _errors(f, encoder, quantity, case.settings, [seed, place])
            rows += [{"image": place, "quantity": quantity, **row} for row in found]
    return pd.DataFrame(rows).assign(iteration=range(len(rows)))


def _integrand(log_joint: Any, encoder: DiagonalGaussian, quantity: str) -> _Function:
    """Points (n, D) to ln p(x | z), or to the log of p(x, z) / q(z | x)."""
    mean, variance = torch.as_tensor(encoder.mean), torch.as_tensor(encoder.variance)

    def log_likelihood(z: torch.Tensor) -> torch.Tensor:
        return log_joint.log_prior(z) + 0.5 * (z.square() + math.log(2.0 * math.pi)).sum(-1)

    def log_weight(z: torch.Tensor) -> torch.Tensor:
        log_q = -0.5 * ((z - mean).square() / variance + variance.log() + math.log(2.0 * math.pi)).sum(-1)
        return log_joint.log_prior(z) - log_q

    return log_likelihood if quantity == "ELBO" else log_weight


def _errors(
    f: _Function, encoder: DiagonalGaussian, quantity: str, chosen: Any, seed: list[int]
) -> list[dict[str, Any]]:
    """By each rule, its root mean square over repetitions and its mean."""

    def moved(normal: np.ndarray) -> np.ndarray:
        return np.asarray(encoder.mean + np.sqrt(encoder.variance) * normal)

    def averages(z: np.ndarray, n: int) -> np.ndarray:
        """Of pieces of n points."""
        values = values_of(f, z).reshape(-1, n)
        return values.mean(1) if quantity == "ELBO" else logsumexp(values, 1) - math.log(n)

    latent, rng = len(encoder.mean), np.random.default_rng([*seed, 5])
    truth = averages(moved(normal_points(latent, chosen["points"], [*seed, 6])), chosen["points"])[0]
    draws = moved(rng.standard_normal((chosen["points"], latent)))
    rows = [_row(_DRAWS, n, averages(draws, n) - truth) for n in chosen["plain"]]
    measure = Gaussian(torch.as_tensor(encoder.mean), torch.as_tensor(encoder.variance))
    for n in chosen["nodes"]:
        points = [moved(normal_points(latent, n, [*seed, 7, i])) for i in range(_SCRAMBLINGS)]
        rows.append(_row(_SOBOL, n, averages(np.concatenate(points), n) - truth))
        for name, given in _QUADRATURE[quantity].items():
            found = bqvi.integrate(f, measure, n, seed=seed[0], **given)
            log = quantity == "evidence"
            mean, sd = np.asarray((found.log_mean, found.log_sd) if log else (found.mean, found.sd), float)
            calls = n * (_GRADIENT_CALLS if "gradient" in given else 1)
            rows.append(_row(name, calls, np.array([mean - truth]), float(sd)))
    return rows


def _row(rule: str, calls: int, errors: np.ndarray, sd: float = math.nan) -> dict[str, Any]:
    squares = float(np.mean(errors**2))
    return {"rule": rule, "calls": calls, "error": float(errors.mean()), "square": squares, "sd": sd}


def _by_calls(results: pd.DataFrame) -> pd.DataFrame:
    """Root mean square over images and seeds, mean error and its standard error, for each number of calls."""
    keys = ["case", "quantity", "rule", "calls"]
    groups = results.groupby(keys, sort=False)
    table = groups.agg(square=("square", "mean"), mean=("error", "mean"), images=("error", "size"))
    table["mean_se"] = groups["error"].std() / np.sqrt(table["images"])
    table["inside"] = groups[["error", "sd"]].apply(lambda g: (g["error"].abs() <= 2.0 * g["sd"]).mean())
    table["rms"] = np.sqrt(table["square"])
    found = table.reset_index()
    plain = dict(iter(found[found["rule"] == _DRAWS].groupby(["case", "quantity"])))
    found["plain"] = [
        _draws_for(rms, plain[case, quantity])
        for rms, case, quantity in found[["rms", "case", "quantity"]].itertuples(index=False)
    ]
    return found.assign(ratio=found["plain"] / found["calls"])


def _draws_for(rms: float, plain: pd.DataFrame) -> float:
    """The number of plain draws with the error ``rms``: log-linear between those tried, n^-1/2 beyond."""
    x, y = np.log(plain["calls"].to_numpy(float)), np.log(plain["rms"].to_numpy())
    order = np.argsort(y)
    at = math.log(rms)
    if at < y.min():
        return float(np.exp(x[y.argmin()] + 2.0 * (y.min() - at)))
    if at > y.max():
        return float(np.exp(x[y.argmax()] - 2.0 * (at - y.max())))
    return float(np.exp(np.interp(at, y[order], x[order])))


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the error over calls."""
    found = _by_calls(results)
    latents = list(found["case"].unique())
    made, axes = drawing.figure(len(_QUADRATURE), len(latents), size=(2.6, 2.5), sharex=True, sharey="row")
    lines = drawing.line_styles(found["rule"])
    for (quantity, case), rows in found.groupby(["quantity", "case"], sort=False):
        ax = axes[list(_QUADRATURE).index(str(quantity)), latents.index(case)]
        for rule, one in rows.groupby("rule", sort=False):
            ax.plot(one["calls"], one["rms"], "o-", ms=3, color=lines[rule].colour, label=str(rule))
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"{quantity}, {case}")
    for ax in axes[:, 0]:
        ax.set_ylabel("rms error (nats an image)")
    for ax in axes[-1]:
        ax.set_xlabel("calls of the decoder")
    drawing.legend_below(made, axes)
    number = results[["seed", "image"]].drop_duplicates()
    caption = (
        f"Root mean square error of a test bound of one image, over {len(number)} images of "
        f"{number['seed'].nunique()} networks. A node with gradient counts as {_GRADIENT_CALLS} calls."
    )
    return [Drawing("errors", made, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the error of each rule, and the number of plain draws with the same error."""
    found = _by_calls(results)
    found = found[found["rule"] != _DRAWS]
    made = pd.DataFrame(
        {
            "latent": found["case"],
            "bound": found["quantity"],
            "rule": found["rule"],
            "calls": found["calls"],
            "rms error": found["rms"].map("{:.4f}".format),
            "mean error": [
                f"{a:.4f} ± {b:.4f}" for a, b in zip(found["mean"], found["mean_se"], strict=True)
            ],
            "plain draws for the same": found["plain"].map("{:.0f}".format),
            "ratio": found["ratio"].map("{:.1f}".format),
            "within 2 sd": [
                "" if r == _SOBOL else f"{i:.0%}" for r, i in zip(found["rule"], found["inside"], strict=True)
            ],
        }
    )
    caption = (
        "Nats an image. Errors whose mean is not zero do not average out over the images of a test set. "
        "With plain draws and Sobol points the mean error of the ELBO is zero, and that of ln p(x) is "
        "negative."
    )
    return [Table("calls", made, caption)]


def _with_most_calls(results: pd.DataFrame) -> pd.DataFrame:
    found = _by_calls(results)
    return found[found["calls"] == found[found["rule"] == _SOBOL]["calls"].max()].assign(seed=0)


_CLAIMS = tuple(
    Statement("7.12",
              f"{title} evaluates test bounds from fewer calls of the decoder than importance sampling.",
              "plain draws with the same rms error as the most calls of Sobol points are "
              f"{_FEWER:g} times as many",
              "ratio", [rule], level=_FEWER, higher=True, statistic="mean", shown="times the calls",
              rows=_with_most_calls)
    for rule, title in (("quadrature", "Bayesian quadrature"), (_SOBOL, "Quasi-Monte Carlo"))
)  # fmt: skip


experiment = Experiment(
    name="amortised-test-bounds",
    title="Test bounds of an autoencoder: calls of the decoder",
    summary="""How many calls of a trained decoder do the ELBO and the evidence of a held-out digit take
        for the same standard error? By independent draws from the encoder's Gaussian, Sobol points,
        Bayesian quadrature and WSABI, with 2, 5 and 10 latent dimensions.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="rule", each=("quantity", "case")),
    seeds=3,
    quick_seeds=1,
)
