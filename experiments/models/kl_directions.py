"""Forward against reverse KL: the direction decides whether a Gaussian covers a density or one of its modes.

    forward   argmin KL(p || q): q has the moments of p                    (mass covering)
    reverse   argmin KL(q || p), which raises the ELBO: `bqvi.fit`         (mode seeking)

Two targets p, both normalised, so that the ELBO is -KL(q || p): two normal densities some distance apart,
and a correlated Gaussian in the plane beside a q with independent coordinates, where both minima are known:
the forward one has the variances of p, the reverse one the inverses of the diagonal of its precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import logsumexp

import bqvi
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.models import LogJoint
from experiments.harness import drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.summaries import quartiles
from experiments.models import pictures

__all__ = ["cases", "experiment", "run"]

_WEIGHTS = np.array([0.6, 0.4])
_SEPARATIONS = (1.0, 2.0, 4.0, 8.0)
_CORRELATION = 0.9
_PLANE = np.array([[1.0, _CORRELATION], [_CORRELATION, 1.0]])
_GRID = np.linspace(-12.0, 12.0, 4001)
_EVALUATIONS, _QUICK_EVALUATIONS = 120, 40
_SHOWN_SEED = 0


def cases(quick: bool, _: Resources) -> list[Case]:
    """Return both directions at each separation, and for the correlated Gaussian."""
    budget = _QUICK_EVALUATIONS if quick else _EVALUATIONS
    made = []
    for direction in ("forward", "reverse"):
        spent = {"evaluations": budget} if direction == "reverse" else {}
        for separation in _SEPARATIONS:
            settings = {"target": "two normals", "separation": separation, "direction": direction}
            made.append(Case(f"{direction}, {separation:g} apart", {**settings, **spent}))
        settings = {"target": "correlated", "separation": 0.0, "direction": direction}
        made.append(Case(f"{direction}, correlated", {**settings, **spent}))
    return made


def _centres(separation: float) -> np.ndarray:
    """The centres of the two normal densities, so that p has mean 0."""
    return np.asarray(separation * (np.array([0.0, 1.0]) - _WEIGHTS[1]))


def _log_density(x: np.ndarray, separation: float) -> np.ndarray:
    """ln p of two unit normals at x (n,)."""
    gap = x[:, None] - _centres(separation)
    return np.asarray(logsumexp(np.log(_WEIGHTS) - 0.5 * gap**2, axis=1) - 0.5 * np.log(2.0 * np.pi))


def _two_normals(separation: float) -> LogJoint:
    centres, logs = torch.tensor(_centres(separation)), torch.tensor(np.log(_WEIGHTS))

    def log_prob(theta: Any) -> Any:
        return torch.logsumexp(logs - 0.5 * (theta - centres) ** 2, -1) - 0.5 * np.log(2.0 * np.pi)

    return LogJoint(log_prob, 1)


def _correlated() -> LogJoint:
    target = torch.distributions.MultivariateNormal(torch.zeros(2).double(), torch.tensor(_PLANE))
    return LogJoint(target.log_prob, 2)


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return the one row of a case: moments of q, and KL both ways."""
    chosen = case.settings
    rng = np.random.default_rng(seed)
    if chosen["target"] == "correlated":
        variances = np.diag(_PLANE)
        if chosen["direction"] == "reverse":
            start = DiagonalGaussian(rng.normal(0.0, 1.0, 2), np.ones(2))
            variances = np.diag(_reverse(_correlated(), start, chosen["evaluations"], seed).covariance)
        q, p = Gaussian(np.zeros(2), np.diag(variances)), Gaussian(np.zeros(2), _PLANE)
        forward, reverse = float(p.kl(q)), float(q.kl(p))
        return _row(0.0, float(np.sqrt(variances[0])), forward, reverse)
    separation = chosen["separation"]
    mean, sd = 0.0, float(np.sqrt(1.0 + _WEIGHTS @ _centres(separation) ** 2))
    if chosen["direction"] == "reverse":
        at = Gaussian(rng.normal(0.0, 0.5 * separation, 1), np.eye(1))
        found = _reverse(_two_normals(separation), at, chosen["evaluations"], seed)
        mean, sd = float(found.mean[0]), float(np.sqrt(found.covariance[0, 0]))
    return _row(mean, sd, *_divergences(mean, sd, separation))


def _reverse(model: LogJoint, start: Any, evaluations: int, seed: int) -> Any:
    """The Gaussian of the highest ELBO that is reached from ``start``."""
    return bqvi.fit(model, None, "bq", start_from=start, budget=evaluations, tolerance=None, seed=seed).q


def _divergences(mean: float, sd: float, separation: float) -> tuple[float, float]:
    """KL(p || q) and KL(q || p) in one dimension, nats, by the trapezoidal rule."""
    log_p = _log_density(_GRID, separation)
    log_q = -0.5 * ((_GRID - mean) / sd) ** 2 - np.log(sd * np.sqrt(2.0 * np.pi))
    step = _GRID[1] - _GRID[0]
    forward = float(np.sum(np.exp(log_p) * (log_p - log_q)) * step)
    reverse = float(np.sum(np.exp(log_q) * (log_q - log_p)) * step)
    return forward, reverse


def _row(mean: float, sd: float, forward: float, reverse: float) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "iteration": 0, "mean": mean, "sd": sd, "forward": forward, "reverse": reverse,
                "elbo": -reverse,
            }
        ]
    )  # fmt: skip


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the densities of one seed, and KL against the separation."""
    caption = (
        "Grey: the target. The Gaussian of least KL(p || q) has the target's moments and covers all its "
        "mass; that of least KL(q || p), found by raising the ELBO, has its mass where the target is not "
        "small. Where the modes are far apart it covers one of them, which depends on the start: each of "
        "its lines is a seed. Last panel: contours at one and two standard deviations of a correlated "
        "Gaussian, with q's coordinates independent."
    )
    return [Drawing("densities", _densities(results), caption)]


def _densities(results: pd.DataFrame) -> Figure:
    made, axes = drawing.figure(1, 1 + len(_SEPARATIONS), size=(2.6, 2.6))
    rows = results[results["target"] == "two normals"]
    for ax, (_, found) in zip(axes[0], rows.groupby("separation", sort=False), strict=False):
        _line(ax, found, float(found["separation"].iloc[0]))
    _plane(axes[0, -1], results[results["target"] == "correlated"])
    axes[0, 0].set_ylabel("density")
    drawing.legend_below(made, axes)
    return made


def _line(ax: Axes, rows: pd.DataFrame, separation: float) -> None:
    x = _GRID[np.abs(_GRID) < separation + 4.0]
    ax.fill_between(x, np.exp(_log_density(x, separation)), color="0.8", linewidth=0, label="target p")
    for direction, colour in zip(("forward", "reverse"), drawing.COLOURS, strict=False):
        found = rows[rows["direction"] == direction].drop_duplicates("sd")[["mean", "sd"]].to_numpy()
        for i, (mean, sd) in enumerate(found):
            q = np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))
            ax.plot(x, q, color=colour, label=_label(direction) if i == 0 else None, linewidth=1.0)
    ax.set_title(f"{separation:g} apart")
    ax.set_xlabel("$\\theta$")


def _label(direction: str) -> str:
    return "least KL(p || q)" if direction == "forward" else "least KL(q || p)"


def _plane(ax: Axes, rows: pd.DataFrame) -> None:
    first = rows[rows["seed"] == _SHOWN_SEED]
    variances = [float(first[first["direction"] == d]["sd"].iloc[0]) ** 2 for d in ("forward", "reverse")]
    covariances = np.stack([*(v * np.eye(2) for v in variances), _PLANE])
    pictures.ellipses(ax, np.zeros((3, 2)), covariances)
    for i, patch in enumerate(ax.patches):
        patch.set_edgecolor((*drawing.COLOURS[:2], "0.6")[i // 2])
    ax.set(title=f"correlation {_CORRELATION:g}", aspect="equal", xlabel="$\\theta_1$", ylabel="$\\theta_2$")


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the moments and both divergences."""
    columns = {"mean": "mean of q", "sd": "sd of q", "forward": "KL(p || q)", "reverse": "KL(q || p)"}
    return [Table("divergences", quartiles(results, columns), "Nats. Median [lower, upper quartile].")]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check mode seeking, mass covering, and the known minimum in the plane."""
    far = results[(results["target"] == "two normals") & (results["separation"] == max(_SEPARATIONS))]
    reverse, forward = (far[far["direction"] == d] for d in ("reverse", "forward"))
    plane = results[(results["target"] == "correlated") & (results["direction"] == "reverse")]
    known = float(np.sqrt(1.0 / np.linalg.inv(_PLANE)[0, 0]))
    off = float((plane["sd"] / known - 1.0).abs().max())
    ratio = float(forward["sd"].min() / reverse["sd"].max())
    return [
        Claim(
            "001",
            "The reverse KL seeks a mode, the forward KL covers the mass.",
            "8 apart, every reverse q is less than half as wide as the forward one",
            [Check("two normals", ratio > 2.0, f"ratio of sds {ratio:.2f}")],
        ),
        Claim(
            "001",
            "With independent coordinates the reverse KL understates the variances of correlated parameters.",
            "every sd is within 1 % of the inverse root of the precision's diagonal",
            [Check("correlated Gaussian", off < 0.01, f"largest relative difference {off:.1e}")],
        ),
    ]


experiment = Experiment(
    name="models-kl-directions",
    title="Forward and reverse KL",
    summary="""How does the Gaussian that minimises KL(q || p), the reverse direction of variational
    inference, differ from that of KL(p || q)? On densities with two modes and on correlated ones.""",
    cases=cases,
    run=run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
