"""ln p(x) under a trained decoder, bracketed: annealing forwards and backwards, and the usual estimate.

Images are simulated by the decoder, so that the z from which an image was simulated is a draw of its
posterior, and annealing backwards from it gives an upper bound (Wu, Burda, Salakhutdinov and Grosse 2017).
Sequential Monte Carlo begins from

    prior        N(0, I), as in that paper
    encoder      q(z | x), mixed with the same Gaussian of four times its variances

The bracket is compared with importance sampling with 100 draws from q(z | x), the usual estimate, and with a
long run of importance sampling from that mixture, which each image's interval should contain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import bqvi
from bqvi.families import DiagonalGaussian
from experiments.amortised.normal import log_mean_weight, values_of
from experiments.amortised.trained import digits, encoded
from experiments.harness import drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from gp.measures import Gaussian, GaussianMixture

__all__ = ["experiment"]

_LATENTS, _QUICK_LATENTS = (2, 10), (2,)
_IMAGES, _QUICK_IMAGES = 10, 2
_STEPS, _QUICK_STEPS = 1500, 20
_CALLS, _QUICK_CALLS = (1000, 4000, 16_000), (1000,)
"""Of the decoder, for each image."""
_LONG, _QUICK_LONG = 200_000, 2000
_CUSTOMARY = 100
_WIDER = 4.0
_NARROW = 0.1
"""The width in nats of the mean over images below which a bracket is narrow."""
_PROPOSALS = ("prior", "encoder")


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each latent dimension with each proposal and budget."""
    given = {
        "images": _QUICK_IMAGES if quick else _IMAGES,
        "steps": _QUICK_STEPS if quick else _STEPS,
        "draws": _QUICK_LONG if quick else _LONG,
    }
    return [
        Case(
            f"{latent} dimensions, {proposal}, {calls} calls",
            given | {"latent": latent, "proposal": proposal, "calls": calls},
        )
        for latent in (_QUICK_LATENTS if quick else _LATENTS)
        for proposal in _PROPOSALS
        for calls in (_QUICK_CALLS if quick else _CALLS)
    ]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each image: bounds, interval and the two estimates by importance sampling, nats."""
    chosen = case.settings
    model, q, _ = digits(chosen["latent"], chosen["steps"], seed)
    rng = np.random.default_rng([seed, 8])
    z = rng.standard_normal((chosen["images"], chosen["latent"]))
    means = model.decode(q, z).reshape(len(z), -1)
    images = (rng.random(means.shape) < means).astype(np.float32)
    joints = [model.log_joint(q, image) for image in images]
    wide = [_mixed(encoded(model, q, image)) for image in images]
    prior = Gaussian(np.zeros(chosen["latent"]), np.ones(chosen["latent"]))
    found = bqvi.evidence_bounds(
        model.log_joints(q, images),
        wide if chosen["proposal"] == "encoder" else [prior] * len(z),
        chosen["calls"] * len(z),
        posterior=z[:, None],
        gradient="autodiff",
        seed=seed,
    )
    long = [_importance(*pair, chosen["draws"], rng) for pair in zip(joints, wide, strict=True)]
    customary = model.log_evidence(q, images, _CUSTOMARY, rng)
    columns = {
        "lower": found.lower, "upper": found.upper, "log_evidence": found.log_evidence,
        "low": found.interval_at(0.95)[:, 0], "customary": customary,
        "long": [mean for mean, _ in long], "long_se": [se for _, se in long],
        "n": found.n_evaluations / len(z),
    }  # fmt: skip
    return pd.DataFrame(columns).assign(iteration=range(len(z)))


def _mixed(encoder: DiagonalGaussian) -> GaussianMixture:
    """An equal mixture of the ``encoder``'s Gaussian and one with larger variances."""
    variances = np.stack([encoder.variance, _WIDER * encoder.variance])
    return GaussianMixture(np.array([0.5, 0.5]), np.stack([encoder.mean] * 2), variances)


def _importance(log_joint: Any, q: GaussianMixture, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """The logarithm of the mean weight of ``n`` draws, and its standard error."""
    z = q.sample(n, rng)
    return log_mean_weight(values_of(log_joint, z) - q.log_density(z))


def _ends(results: pd.DataFrame) -> pd.DataFrame:
    """Means over images, a row for each run."""
    held = results["low"] < results["long"] + 3.0 * results["long_se"]
    parts = results.assign(
        width=results["upper"] - results["lower"],
        below=results["long"] - results["customary"],
        lower=results["lower"] - results["long"],
        upper=results["upper"] - results["long"],
        held=held,
    )
    keys = ["latent", "proposal", "calls", "seed"]
    columns = ["width", "below", "lower", "upper", "held", "long_se", "n"]
    return parts.groupby(keys, sort=False)[columns].mean().reset_index()


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw both bounds less the long run's estimate, against calls."""
    ends = _ends(results)
    latents = list(ends["latent"].unique())
    made, axes = drawing.figure(1, len(latents), size=(3.4, 2.6))
    lines = drawing.line_styles(_PROPOSALS)
    for ax, latent in zip(axes.flat, latents, strict=True):
        of_one = ends[ends["latent"] == latent]
        for proposal, rows in of_one.groupby("proposal", sort=False):
            for side in ("lower", "upper"):
                quartiles = rows.groupby("calls")[side].quantile([0.25, 0.5, 0.75]).unstack()
                colour = lines[proposal].colour
                label = f"from the {proposal}" if side == "lower" else None
                ax.plot(quartiles.index, quartiles[0.5], "o-", ms=3, color=colour, label=label)
                ax.fill_between(quartiles.index, quartiles[0.25], quartiles[0.75], color=colour, alpha=0.2)
        customary = -float(of_one["below"].median())
        ax.axhline(customary, color="grey", lw=1, ls=":", label=f"importance sampling, {_CUSTOMARY} draws")
        ax.axhline(0.0, color="black", lw=1, ls="--")
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=_NARROW)
        ax.set_title(f"{latent} latent dimensions")
        ax.set_xlabel("calls of the decoder an image")
    axes[0, 0].set_ylabel("bound less ln p(x) (nats)")
    drawing.legend_below(made, axes, columns=2)
    caption = (
        "Means over images simulated by a trained decoder: lower and upper bound less the estimate of a long "
        "run of importance sampling; medians and quartiles over networks. Linear between -.1 and .1."
    )
    return [Drawing("brackets", made, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the brackets."""
    rows = [
        {
            "latent": latent,
            "from": proposal,
            "calls an image": f"{rows['n'].median():.0f}",
            "lower less ln p(x)": f"{rows['lower'].median():.3f}",
            "upper less ln p(x)": f"{rows['upper'].median():.3f}",
            "width": f"{rows['width'].median():.3f}",
            "lower end below ln p(x)": f"{rows['held'].mean():.2f}",
            f"ln p(x) less {_CUSTOMARY} draws": f"{rows['below'].median():.3f}",
        }
        for (latent, proposal, _), rows in _ends(results).groupby(["latent", "proposal", "calls"], sort=False)
    ]
    caption = (
        "Means over images, medians over networks; ln p(x) by a long run of importance sampling, whose "
        f"standard error for an image is {results['long_se'].median():.3f} nats in the median. "
        "'Lower end below' is the share of images whose 95 % interval begins below that estimate."
    )
    return [Table("brackets", pd.DataFrame(rows), caption)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check the width of the largest budget's bracket, proposal by proposal."""
    ends = _ends(results)
    largest = ends[ends["calls"] == ends["calls"].max()]
    checks = [
        Check(
            f"{latent} dimensions, from the {proposal}",
            bool(rows["width"].median() < _NARROW),
            f"median width {rows['width'].median():.3f} nats, largest {rows['width'].max():.3f}",
        )
        for (latent, proposal), rows in largest.groupby(["latent", "proposal"], sort=False)
    ]
    return [
        Claim(
            "002",
            "Annealing forwards and backwards brackets ln p(x) of images under a trained decoder.",
            f"mean width over images below {_NARROW:g} nats, median over networks",
            checks,
        )
    ]


experiment = Experiment(
    name="amortised-bracket",
    title="Brackets of ln p(x) under a trained decoder",
    summary="""How narrow are lower and upper bounds on ln p(x) of images that a trained decoder
        simulated? By sequential Monte Carlo forwards and backwards, from the prior or from the encoder,
        beside importance sampling.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
    seeds=5,
    quick_seeds=1,
)
