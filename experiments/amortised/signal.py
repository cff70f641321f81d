"""Signal to noise of the encoder's gradient over the draws of an importance-weighted bound.

Rainforth et al. (2018): a tighter bound leaves the encoder's gradient less signal, whose ratio to the noise
falls like L^-1/2 for IWAE. Tucker et al. (2019): DReG removes the term that does it, and its ratio rises
like L^1/2. Both show it in a Gaussian example (`experiments.amortised.gaussian_example`), which is run here
beside networks on digits. Both are statements on large L. With one draw DReG is sticking-the-landing, whose
signal and noise both vanish at the posterior. Where q is a Gaussian with the posterior's variance and its
mean is off by d standard deviations, the gradient in the mean is the same number for every draw at L = 1, an
infinite ratio, and, to first order in d,

    ratio = L / (d^2 (2 (L - 1))^1/2)   at L >= 2,

which rises with L; in the logarithm of the standard deviation the ratio at L = 1 is 2^-1/2
(`tests/gradients/test_signal_to_noise.py`). From L = 1 to 2 it thus falls or rises by where q stands.
Networks trained by a bound of five draws keep a slope of the bound of one draw, and have the lowest ratio
near L = 5, whose signal vanishes at the optimum; where one draw was trained on, it is lowest at L = 1.
Whether the ratio of DReG falls is asked from L = 1 and from L = 2, in each setting.

Of one mini-batch and networks trained for a while, each gradient is estimated again and again; the ratio of
mean and standard deviation is taken for each weight, and its median over the weights of a network is shown.
Of a weight whose mean is not resolved by R repetitions the ratio comes out near R^-1/2, not 0; it is drawn as
a dotted line.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as t_distribution

import bqvi
from bqvi.gradients import IWAE, Batch, DReG
from bqvi.models import VariationalAutoencoder
from experiments.amortised.gaussian_example import gaussian_example
from experiments.harness import drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.problems import images

TRAINED = 5
"""Draws of the bound that trains the networks, but where a case says that one draw did."""
ONE = "DReG, trained by one draw"
EXAMPLE = 0
"""In the place of such a number: the Gaussian example, near its optimum."""
KINDS: dict[str, tuple[Any, int]] = {
    "IWAE": (IWAE, TRAINED),
    "DReG": (DReG, TRAINED),
    ONE: (DReG, 1),
    "IWAE, Gaussian example": (IWAE, EXAMPLE),
    "DReG, Gaussian example": (DReG, EXAMPLE),
}
DRAWS, QUICK_DRAWS = (1, 2, 5, 20, 50, 100), (1, 2, 5)
STEPS, QUICK_STEPS = 500, 2
REPEATS, QUICK_REPEATS = 200, 4
SIZE, LATENT, HIDDEN = 20, 10, 64


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return both gradients in each setting, and DReG's where the networks were trained by one draw."""
    del resources
    settings = {
        "draws": QUICK_DRAWS if quick else DRAWS,
        "steps": QUICK_STEPS if quick else STEPS,
        "repeats": QUICK_REPEATS if quick else REPEATS,
    }
    return [Case(kind, settings | {"kind": kind}) for kind in KINDS]


@cache
def _trained(draws: int, steps: int, seed: int) -> tuple[VariationalAutoencoder, Any]:
    train, _ = images.split("digits", None)
    model = VariationalAutoencoder(latent=LATENT, dimension=train.shape[1], hidden=HIDDEN)
    return model, bqvi.fit(model, train, "iwae", samples=draws, steps=steps, start_from="random", seed=seed).q


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each L."""
    chosen = case.settings
    estimator, trained = KINDS[chosen["kind"]]
    rng = np.random.default_rng(seed)
    if trained == EXAMPLE:
        model, q, rows = gaussian_example(SIZE, seed)
    else:
        model, q = _trained(trained, chosen["steps"], seed)
        train, _ = images.split("digits", None)
        rows = train[rng.choice(len(train), SIZE, replace=False)]
    batch = Batch(rows, SIZE)
    encoder = [name.startswith("encoder") for name in q.leaf_names]
    table = []
    for samples in chosen["draws"]:
        found = [estimator(samples)(model, q, batch, rng) for _ in range(chosen["repeats"])]
        ratios = {
            name: _ratio([[g for g, e in zip(one.values, encoder, strict=True) if e == of] for one in found])
            for name, of in (("encoder", True), ("decoder", False))
        }
        bound = float(np.mean([one.bound or 0.0 for one in found])) / SIZE
        table.append({"iteration": samples, "samples": samples, "elbo": bound} | ratios)
    return pd.DataFrame(table)


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
    first, second, *_, last = sorted(set(results["samples"]))
    change = "the 95 % interval over seeds of the mean change of the encoder's log ratio"
    falling = [kind for kind, (estimator, _) in KINDS.items() if estimator is IWAE]
    lasting = [kind for kind in KINDS if kind not in falling]
    return [
        Claim(
            "002",
            "Tighter bounds leave the encoder's gradient less signal.",
            f"{change} is below 0",
            [_change(results, kind, first, last, falls=True) for kind in falling],
        ),
        Claim(
            "002",
            "The encoder's signal by doubly reparameterised gradients does not fall with the draws.",
            f"{change} is above 0; no where it is below, undecided where it holds 0",
            [
                _change(results, kind, start, last, falls=False)
                for start in (first, second)
                for kind in lasting
            ],
        ),
    ]


def _change(results: pd.DataFrame, kind: str, start: int, end: int, falls: bool) -> Check:
    """Whether the log ratio falls, or rises, from one number of draws to another."""
    wide = results[results["case"] == kind].pivot(index="seed", columns="samples", values="encoder")
    change = np.log((wide[end] / wide[start]).to_numpy())
    told = f"{wide[start].median():.3f} to {wide[end].median():.3f}"
    setting = f"{kind} {'falls' if falls else 'does not fall'} from L = {start} to {end}"
    if len(change) < 2:
        return Check(setting, False, told, "one seed")
    mean = float(change.mean())
    half = float(t_distribution.ppf(0.975, len(change) - 1) * change.std(ddof=1) / math.sqrt(len(change)))
    told += f", change of its logarithm {mean:.2f} ± {half:.2f}"
    signed = -mean if falls else mean
    return Check(setting, signed > half, told, "" if abs(mean) > half else "the interval holds 0")


experiment = Experiment(
    name="amortised-signal",
    title="Signal to noise of an encoder's gradient",
    summary="""How does the ratio of mean and standard deviation of the gradient change with the number
        of draws of the importance-weighted bound? IWAE's gradient and DReG's, for the parameters of
        encoder and decoder, on digits and in the Gaussian example of the papers. With one draw DReG is
        sticking-the-landing: from there to two draws its ratio falls or rises by the bound that has trained
        the networks.""",
    cases=cases,
    run=run,
    draw=draw,
    tables=tables,
    claims=claims,
)
