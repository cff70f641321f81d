"""Signal to noise of the encoder's gradient over the draws of an importance-weighted bound.

Rainforth et al. (2018): a tighter bound leaves the encoder's gradient less signal, whose ratio to the noise
falls like L^-1/2 for IWAE; Tucker et al. (2019): DReG removes the term that does it. Of one mini-batch and
networks trained for a while, each gradient is estimated again and again; the ratio of mean and standard
deviation is taken for each weight, and its median over the weights of a network is shown. Of a weight whose
mean is not resolved by R repetitions the ratio comes out near R^-1/2, not 0; it is drawn as a dotted line.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import bqvi
from bqvi.gradients import IWAE, Batch, DReG
from bqvi.models import VariationalAutoencoder
from experiments.harness import drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.problems import images

KINDS: dict[str, Any] = {"IWAE": IWAE, "DReG": DReG}
DRAWS, QUICK_DRAWS = (1, 5, 20, 50, 100), (1, 5)
STEPS, QUICK_STEPS = 500, 2
REPEATS, QUICK_REPEATS = 200, 4
SIZE, LATENT, HIDDEN = 20, 10, 64


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return both gradients."""
    del resources
    settings = {
        "draws": QUICK_DRAWS if quick else DRAWS,
        "steps": QUICK_STEPS if quick else STEPS,
        "repeats": QUICK_REPEATS if quick else REPEATS,
    }
    return [Case(kind, settings | {"kind": kind}) for kind in KINDS]


@cache
def _trained(steps: int, seed: int) -> tuple[VariationalAutoencoder, Any]:
    train, _ = images.split("digits", None)
    model = VariationalAutoencoder(latent=LATENT, dimension=train.shape[1], hidden=HIDDEN)
    return model, bqvi.fit(model, train, "iwae", samples=5, steps=steps, start_from="random", seed=seed).q


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each L."""
    chosen = case.settings
    model, q = _trained(chosen["steps"], seed)
    train, _ = images.split("digits", None)
    rng = np.random.default_rng(seed)
    batch = Batch(train[rng.choice(len(train), SIZE, replace=False)], SIZE)
    encoder = [name.startswith("encoder") for name in q.leaf_names]
    rows = []
    for samples in chosen["draws"]:
        found = [KINDS[chosen["kind"]](samples)(model, q, batch, rng) for _ in range(chosen["repeats"])]
        ratios = {
            name: _ratio([[g for g, e in zip(one.values, encoder, strict=True) if e == of] for one in found])
            for name, of in (("encoder", True), ("decoder", False))
        }
        bound = float(np.mean([one.bound or 0.0 for one in found])) / SIZE
        rows.append({"iteration": samples, "samples": samples, "elbo": bound} | ratios)
    return pd.DataFrame(rows)


def _ratio(gradients: list[list[Any]]) -> float:
    """Median over weights of |mean| / standard deviation, of those that ever move."""
    table = np.array([np.concatenate([g.numpy().ravel() for g in one]) for one in gradients])
    spread = table.std(0, ddof=1)
    moving = spread > 0.0
    return float(np.median(np.abs(table.mean(0)[moving]) / spread[moving]))


def draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the ratio over L for both networks."""
    made, axes = drawing.figure(1, 2, sharey=True)
    for ax, network in zip(axes.flat, ("encoder", "decoder"), strict=True):
        drawing.curves(
            ax, results, "samples", network, steps=False, x_label="draws L", x_scale="log", y_scale="log",
            y_label="signal to noise",
        )  # fmt: skip
        ax.axhline(1.0 / math.sqrt(results["repeats"].iloc[0]), color="0.5", lw=0.8, ls=":")
        ax.set_title(network)
    drawing.legend_below(made, axes)
    caption = (
        "Median over the weights of |mean| / sd of the gradient of one mini-batch. Dotted: what is not "
        f"resolved. {drawing.band_caption(results)}"
    )
    return [Drawing("ratio", made, caption)]


def tables(results: pd.DataFrame) -> list[Table]:
    """Return the medians."""
    made = results.groupby(["case", "samples"], sort=False)[["encoder", "decoder", "elbo"]].median()
    caption = "Medians over seeds of the signal-to-noise ratios; the bound in nats an image."
    return [Table("ratios", made.round(3).reset_index(), caption)]


def claims(results: pd.DataFrame) -> list[Claim]:
    """Check what becomes of the encoder's signal."""
    medians = results.groupby(["case", "samples"])["encoder"].median()
    first, second, *_ = tried = sorted(set(results["samples"]))
    last = tried[-1]
    ends = {kind: (float(medians[kind, first]), float(medians[kind, last])) for kind in KINDS}
    told = {kind: f"{a:.3f} at L = {first}, {b:.3f} at L = {last}" for kind, (a, b) in ends.items()}
    return [
        Claim(
            "002",
            "Tighter bounds leave the encoder's gradient less signal; doubly reparameterised ones do not.",
            "the encoder's ratio falls with L for IWAE and does not for DReG",
            [
                Check("IWAE falls", ends["IWAE"][1] < ends["IWAE"][0], told["IWAE"]),
                Check("DReG does not fall", ends["DReG"][1] >= ends["DReG"][0], told["DReG"]),
                Check(
                    f"DReG does not fall from L = {second} on",
                    ends["DReG"][1] >= float(medians["DReG", second]),
                    f"{medians['DReG', second]:.3f} at L = {second}",
                ),
            ],
        )
    ]


experiment = Experiment(
    name="amortised-signal",
    title="Signal to noise of an encoder's gradient",
    summary="""The gradients of the importance-weighted bound, IWAE's and DReG's, over the number of draws:
    the ratio of mean and standard deviation for the weights of encoder and decoder, on digits.""",
    cases=cases,
    run=run,
    draw=draw,
    tables=tables,
    claims=claims,
)
