"""Signal to noise of the encoder's gradient over the draws of an importance-weighted bound.

Rainforth et al. (2018): a tighter bound leaves the encoder's gradient less signal, whose ratio to the noise
falls like L^-1/2 for IWAE. Tucker et al. (2019): DReG removes the term that causes this, and its ratio rises
like L^1/2. Both show it in a Gaussian example (`experiments.amortised.gaussian_example`), which is run here
beside networks on digits. Both are statements on large L. With one draw DReG is sticking-the-landing, whose
signal and noise both vanish at the posterior. Where q is a Gaussian with the posterior's variance and its
mean is off by d standard deviations, the gradient in the mean is the same number for every draw at L = 1, an
infinite ratio, and, to first order in d,

    ratio = L / (d^2 (2 (L - 1))^1/2)   at L >= 2,

by the moments of the variance of L normal numbers, which rises with L; in the logarithm of the standard
deviation the ratio at L = 1 is 2^-1/2. From L = 1 to 2 it thus falls or rises by where q stands.

What a ratio is at fixed networks depends on the bound that trained them, as the signal of a bound vanishes at
its optimum and that of another bound does not: the more draws trained the networks, the larger is the ratio
of one draw there. A number of draws is therefore also measured where it trains, in networks of its own
(`_ALIKE`): this ratio is met in training with L draws, and the code that Tucker et al. published records it
for networks (with 64 draws). Networks that five draws have trained are compared too. There the ratio does not
fall from two draws on, and lies a little lower at a hundred draws than at one: a claim each.

The rate L^1/2 holds once L is large beside E[w^4] / E[w^2]^2, with w the importance weights. That number is
about 8 in the Gaussian example, where the rate is checked between 100 and 500 draws, and some tens to some
hundreds in the networks (medians over images, from 40,000 draws each), where no number of draws that is
measured is large.

Of one mini-batch, each gradient is estimated again and again; the ratio of mean and standard deviation is
taken for each weight, and its median over the weights of a network is shown. Of a weight whose mean is not
resolved by R repetitions the ratio comes out near R^-1/2, not 0; it is drawn as a dotted line.
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
from experiments.amortised.gaussian_example import gaussian_example
from experiments.harness import drawing, evidence
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.problems import images

__all__ = ["KINDS", "claims", "experiment"]

_FIVE, _ONE, _ALIKE, _EXAMPLE = "five draws", "one draw", "as many draws", "Gaussian example"
"""The training of the networks: by the bound of a fixed number of draws, or of the number that is measured
(with the gradient that is measured); or the networks are those of the example, near its optimum."""
KINDS: dict[str, tuple[Any, str]] = {
    "IWAE": (IWAE, _FIVE),
    "DReG": (DReG, _FIVE),
    "DReG, trained by one draw": (DReG, _ONE),
    "DReG, trained by as many": (DReG, _ALIKE),
    "IWAE, Gaussian example": (IWAE, _EXAMPLE),
    "DReG, Gaussian example": (DReG, _EXAMPLE),
}
_DRAWS, _QUICK_DRAWS = (1, 2, 5, 20, 50, 100), (1, 2, 5)
_MANY = 500
"""Further numbers of draws of DReG in the example, from which the rate is computed."""
_STEPS, _QUICK_STEPS = 500, 2
_REPEATS, _QUICK_REPEATS = 200, 4
_SIZE, _LATENT, _HIDDEN = 20, 10, 64
_TOLERATED = 0.1
"""The largest mean decrease of the logarithm of a ratio that does not count as a fall. Set after the changes
of twenty seeds had been seen. On other seeds (20 to 44 and 60 to 69) the ratio in networks that as many draws
have trained changes by 0.098 ± 0.087 from L = 1 to 50. In networks trained by five draws it changes by -0.076
± 0.058 from L = 1 to 100 (seeds 0 to 43): it falls."""
_RATE, _CLOSE = 0.5, 0.1
"""The power of L of the ratio for large L, and the largest deviation that counts as this rate."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each gradient in its networks."""
    settings = {
        "steps": _QUICK_STEPS if quick else _STEPS,
        "repeats": _QUICK_REPEATS if quick else _REPEATS,
    }
    return [
        Case(kind, settings | {"kind": kind, "draws": _QUICK_DRAWS if quick else _draws(*chosen)})
        for kind, chosen in KINDS.items()
    ]


def _draws(estimator: Any, networks: str) -> tuple[int, ...]:
    """The numbers of draws; training with the most takes as long as with all others together."""
    if networks == _ALIKE:
        return _DRAWS[:-1]
    return (*_DRAWS, _MANY) if networks == _EXAMPLE and estimator is DReG else _DRAWS


@cache
def _trained(estimator: Any, steps: int, seed: int) -> tuple[VariationalAutoencoder, Any]:
    train, _ = images.split("digits", None)
    model = VariationalAutoencoder(latent=_LATENT, dimension=train.shape[1], hidden=_HIDDEN)
    return model, bqvi.fit(model, train, estimator, steps=steps, start_from="random", seed=seed).q


def _networks(
    kind: str, samples: int, steps: int, seed: int
) -> tuple[VariationalAutoencoder, Any, np.ndarray]:
    """Model, q and mini-batch of a measurement with ``samples`` draws."""
    estimator, by = KINDS[kind]
    if by == _EXAMPLE:
        return gaussian_example(_SIZE, seed)
    trainer = {_FIVE: IWAE(5), _ONE: IWAE(1), _ALIKE: estimator(samples)}[by]
    train, _ = images.split("digits", None)
    rows = train[np.random.default_rng(seed).choice(len(train), _SIZE, replace=False)]
    return *_trained(trainer, steps, seed), rows


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each L."""
    chosen = case.settings
    estimator, _ = KINDS[chosen["kind"]]
    rng = np.random.default_rng([seed, 3])
    table = []
    for samples in chosen["draws"]:
        model, q, rows = _networks(chosen["kind"], samples, chosen["steps"], seed)
        batch = Batch(rows, _SIZE)
        encoder = [name.startswith("encoder") for name in q.leaf_names]
        found = [estimator(samples)(model, q, batch, rng) for _ in range(chosen["repeats"])]
        ratios = {
            name: _ratio([[g for g, e in zip(one.values, encoder, strict=True) if e == of] for one in found])
            for name, of in (("encoder", True), ("decoder", False))
        }
        bound = float(np.mean([one.bound or 0.0 for one in found])) / _SIZE
        table.append({"iteration": samples, "samples": samples, "elbo": bound} | ratios)
    return pd.DataFrame(table)


def _ratio(gradients: list[list[Any]]) -> float:
    """Median over the weights that change of |mean| / standard deviation."""
    table = np.array([np.concatenate([g.numpy().ravel() for g in one]) for one in gradients])
    spread = table.std(0, ddof=1)
    moving = spread > 0.0
    return float(np.median(np.abs(table.mean(0)[moving]) / spread[moving]))


def _draw(results: pd.DataFrame) -> list[Drawing]:
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
        "Median over the weights of |mean| / sd of the gradient of one mini-batch, in networks that five "
        "draws have trained where nothing else is said. Dotted: the smallest ratio that is resolved. "
        f"{drawing.band_caption(results)}"
    )
    return [Drawing("ratio", made, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the medians."""
    made = results.groupby(["case", "samples"], sort=False)[["encoder", "decoder", "elbo"]].median()
    caption = "Medians over seeds of the signal-to-noise ratios; the bound in nats an image."
    return [Table("ratios", made.round(3).reset_index(), caption)]


def claims(results: pd.DataFrame) -> list[Claim]:
    """Check whether the encoder's signal falls or rises with the number of draws."""
    change = "the 95 % interval over seeds of the mean change of the encoder's log ratio"
    above = (
        f"{change} lies above -{_TOLERATED:g}; no where it reaches below that number and lies below 0, "
        "undecided where it reaches from below that number to above 0"
    )
    below = f"{change} lies below 0"

    def of(estimator: Any, *networks: str) -> list[str]:
        return [kind for kind, (one, by) in KINDS.items() if one is estimator and by in networks]

    return [
        Claim(
            "002",
            "Tighter bounds leave the encoder's gradient less signal.",
            below,
            [_change(results, kind, 0, falls=True) for kind in of(IWAE, _FIVE, _EXAMPLE)],
        ),
        Claim(
            "002",
            "The encoder's signal by doubly reparameterised gradients does not fall with the draws, from one "
            "on, in networks that as many draws or one have trained and in the papers' example.",
            above,
            [_change(results, kind, 0) for kind in of(DReG, _ALIKE, _ONE, _EXAMPLE)],
        ),
        Claim(
            "002",
            "Nor does it fall from two draws on in networks that five draws have trained.",
            above,
            [_change(results, kind, 1) for kind in of(DReG, _FIVE)],
        ),
        Claim(
            "002",
            "In networks that five draws have trained it is lower with a hundred draws than with one.",
            below,
            [_change(results, kind, 0, falls=True) for kind in of(DReG, _FIVE)],
        ),
        Claim(
            "002",
            f"Near an optimum it rises, from many draws on, like their number to the power {_RATE:g}.",
            f"the 95 % interval over seeds of the mean power lies within {_CLOSE:g} of {_RATE:g}",
            [_rate(results, kind) for kind in of(DReG, _EXAMPLE)],
        ),
    ]


def _ratios(results: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The encoder's ratios, a row a seed and a column a number of draws."""
    return results[results["case"] == kind].pivot(index="seed", columns="samples", values="encoder")


def _change(results: pd.DataFrame, kind: str, start: int, falls: bool = False) -> Check:
    """Check that the log ratio rises, or ``falls``, from the ``start``-th number of draws to the last."""
    wide = _ratios(results, kind)
    first, last = wide.columns[start], wide.columns[-1]
    mean, half = evidence.mean_interval(np.log((wide[last] / wide[first]).to_numpy()))
    measured = f"{wide[first].median():.3f} to {wide[last].median():.3f}"
    measured += f", change of its logarithm {mean:.2f} ± {half:.2f}"
    setting = f"{kind} {'falls' if falls else 'does not fall'} from L = {first} to {last}"
    low, high = mean - half, mean + half
    if falls:
        return Check(setting, high < 0.0, measured, "" if low > 0.0 or high < 0.0 else "the interval holds 0")
    lasts = low > -_TOLERATED
    return Check(setting, lasts, measured, "" if lasts or high < 0.0 else f"from {low:.2f} to {high:.2f}")


def _rate(results: pd.DataFrame, kind: str) -> Check:
    """Check that the ratio rises at the rate between the last two numbers of draws."""
    wide = _ratios(results, kind)
    first, last = (int(number) for number in wide.columns[-2:])
    mean, half = evidence.mean_interval(
        np.log((wide[last] / wide[first]).to_numpy()) / math.log(last / first)
    )
    inside = abs(mean - _RATE) + half < _CLOSE
    outside = abs(mean - _RATE) - half > _CLOSE
    measured = f"power {mean:.2f} ± {half:.2f} from L = {first} to {last}"
    return Check(kind, inside, measured, "" if inside or outside else "the interval holds an end")


experiment = Experiment(
    name="amortised-signal",
    title="Signal to noise of an encoder's gradient",
    summary="""How does the ratio of mean and standard deviation of the gradient change with the number
        of draws of the importance-weighted bound? IWAE's gradient and DReG's, for the parameters of
        encoder and decoder, on digits and in the Gaussian example of the papers. With one draw DReG is
        sticking-the-landing: from there to two draws its ratio falls or rises by the bound that has trained
        the networks, so that each number of draws is also measured in networks that it has trained.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=claims,
)
