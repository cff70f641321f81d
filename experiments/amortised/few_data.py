"""Few data: a decoder with a prior on its weights, beside one that is maximised over.

The plain autoencoder maximises over the decoder's weights and begins to fit the images that it has; the fully
Bayesian one (source 004) integrates over them, by local or global reparameterisation. Trained on 200 digits;
held out are those that the other experiments hold out, with ln p(x) by importance sampling and, where weights
are random, the mean over ten draws of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import bqvi
from bqvi.gradients import Pathwise
from bqvi.models import VariationalAutoencoder, WeightPrior
from experiments.harness import drawing
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.problems import images

KINDS: dict[str, WeightPrior | None] = {
    "plain": None,
    "Bayesian, local": WeightPrior(0.3),
    "Bayesian, global": WeightPrior(0.3, "global"),
}
N, LATENT, HIDDEN, SIZE, RATE = 200, 10, 64, 100, 2e-3
STEPS, QUICK_STEPS, RECORDS = 4000, 5, 8
TEST_DRAWS, WEIGHT_DRAWS = 50, 10
QUICK_DRAWS = 2


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return the three decoders."""
    del resources
    steps = QUICK_STEPS if quick else STEPS
    given = {"steps": steps, "record": steps if quick else steps // RECORDS}
    given |= {"draws": QUICK_DRAWS if quick else TEST_DRAWS}
    return [Case(kind, given | {"kind": kind}) for kind in KINDS]


def run(case: Case, seed: int) -> pd.DataFrame:
    """Train on 200 images of the seed, with the held-out evidence at each record."""
    chosen = case.settings
    train, held = images.split("digits", None)
    train = train[np.random.default_rng(seed).choice(len(train), N, replace=False)]
    prior = KINDS[chosen["kind"]]
    model = VariationalAutoencoder(latent=LATENT, dimension=train.shape[1], hidden=HIDDEN, weights=prior)
    draws = 1 if prior is None else WEIGHT_DRAWS

    def held_out(q: Any) -> float:
        return float(model.log_evidence(q, held, chosen["draws"], 0, draws).mean())

    fit = bqvi.fit(
        model,
        train,
        Pathwise(),
        minibatch=SIZE,
        schedule=bqvi.Adam(RATE),
        start_from="random",
        steps=chosen["steps"],
        record=chosen["record"],
        elbo_samples=2,
        metrics={"held_out": held_out},
        seed=seed,
    )
    kept = {name: fit.trace[name] for name in ("iteration", "seconds", "evaluations", "held_out")}
    return pd.DataFrame(kept | {"elbo": np.asarray(fit.trace["elbo"]) / N})


def draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the held-out evidence over steps."""
    made, axes = drawing.figure(1, 1, size=(4.5, 3.0))
    later = results[results["iteration"] > 0]
    drawing.curves(
        axes[0, 0], later, "iteration", "held_out", steps=False, x_label="step",
        y_label="held-out log p (nats an image)",
    )  # fmt: skip
    drawing.legend_below(made, axes)
    caption = f"{N} training images. {drawing.band_caption(results)}"
    return [Drawing("held-out", made, caption)]


def tables(results: pd.DataFrame) -> list[Table]:
    """Return the best record and the last of each."""
    lines = []
    for case, rows in results.groupby("case", sort=False):
        best = rows.groupby("seed")["held_out"].max()
        last = rows.sort_values("iteration").groupby("seed")["held_out"].last()
        lines.append(
            {
                "decoder": case, "seeds": len(best), "at the end": f"{last.median():.2f}",
                "at its best record": f"{best.median():.2f}",
                "seconds": f"{rows.groupby('seed')['seconds'].max().median():.1f}",
            }
        )  # fmt: skip
    caption = (
        "Held-out log p, nats an image, medians over seeds. The best record is chosen on the same images."
    )
    return [Table("ends", pd.DataFrame(lines), caption)]


experiment = Experiment(
    name="amortised-few-data",
    title="A decoder with random weights on few data",
    summary="""Autoencoders of 200 digits: the decoder's weights maximised over, or with a prior and a
    Gaussian posterior, by local and by global reparameterisation; held-out evidence over steps.""",
    cases=cases,
    run=run,
    draw=draw,
    tables=tables,
)
