"""Mini-batch strategies on an autoencoder: evaluations to a held-out bound, against random reshuffling.

Strategies that choose by features need rows on which a datum's gradient depends. For an autoencoder these are
the encoder's means, which change during training; all data are therefore encoded again every ten epochs. That
is a forward pass of half the model, where a step takes forward and backward passes of both halves: it is
counted as a sixth of an evaluation for each datum. A strategy begins with the pixels as features.

    reshuffled           a permutation each epoch
    uniform              independent mini-batches
    balanced, pixels     a partition into batches that resemble the data, made once
    balanced, encoder    the same by the encoder's means, made again every ten epochs

At the end of each run the possible gain is measured: the variance of the gradient over mini-batches and draws
of z, and the part of it that is due to draws of z with the mini-batch held fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import bqvi
from acquisition.minibatch import Balanced, Features, Reshuffled, Selection, Strategy, Uniform
from acquisition.minibatch.strategy import Unlearning
from bqvi.gradients import Batch, Pathwise
from bqvi.models import VariationalAutoencoder
from experiments import fitting
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.problems import images

__all__ = ["Renewed", "RenewedState", "experiment"]

_REFERENCE = "reshuffled"
_STRATEGIES = (_REFERENCE, "uniform", "balanced, pixels", "balanced, encoder")
_QUICK = (_REFERENCE, "balanced, encoder")
_LATENT, _HIDDEN, _SIZE, _RATE = 5, 64, 50, 2e-3
_EPOCHS, _QUICK_EPOCHS = 40, 2
_EVERY, _QUICK_EVERY = 10, 1
"""The number of epochs after which data are encoded again."""
_RECORDS, _QUICK_RECORDS = 20, 2
_DRAWS, _QUICK_DRAWS = 50, 2
_REPEATS, _QUICK_REPEATS = 120, 4
_ENCODING = 1.0 / 6.0
"""The evaluations that an encoded datum counts for: a backward pass takes about two forward ones."""
_LEVEL = 0.1
"""The level to be reached, in nats for each image below the best of reshuffling."""


@dataclass(frozen=True)
class RenewedState:
    """The current strategy, its state, and the number of its draws."""

    strategy: Strategy
    inner: Any
    drawn: int


@dataclass(frozen=True, eq=False)
class Renewed(Unlearning):
    """A strategy that is made again by ``make`` after a number of draws."""

    size: int
    make: Callable[[], Strategy]
    every: int
    n: int

    def start(self, n: int, rng: np.random.Generator) -> RenewedState:
        """State before the first draw from ``n`` data, by ``rng``."""
        strategy = self.make()
        return RenewedState(strategy, strategy.start(n, rng), 0)

    def draw(self, state: RenewedState, rng: np.random.Generator) -> tuple[Selection, RenewedState]:
        """The next mini-batch after ``state``, by ``rng``."""
        if state.drawn == self.every:
            state = self.start(self.n, rng)
        selection, inner = state.strategy.draw(state.inner, rng)
        return selection, RenewedState(state.strategy, inner, state.drawn + 1)


class _Encoded:
    """Features of the data by the encoder of the latest q; of the pixels before there is one."""

    def __init__(self, model: VariationalAutoencoder, x: images.Images) -> None:
        self.model, self.x = model, x
        self.q: Any = None

    def __call__(self) -> Features:
        """The current features."""
        return Features.of(self.x if self.q is None else self.model.encode(self.q, self.x).mean)

    def look(self, state: Any) -> None:
        """Keep the latest q, as the callback of a run."""
        self.q = state.q


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each strategy."""
    settings = {
        "epochs": _QUICK_EPOCHS if quick else _EPOCHS,
        "every": _QUICK_EVERY if quick else _EVERY,
        "records": _QUICK_RECORDS if quick else _RECORDS,
        "draws": _QUICK_DRAWS if quick else _DRAWS,
        "repeats": _QUICK_REPEATS if quick else _REPEATS,
    }
    return [Case(name, settings | {"strategy": name}) for name in (_QUICK if quick else _STRATEGIES)]


def _strategy_named(name: str, features: _Encoded, epochs: int) -> Strategy:
    """The strategy, its features made again after so many ``epochs`` where they are the encoder's."""
    if name == _REFERENCE:
        return Reshuffled(_SIZE)
    if name == "uniform":
        return Uniform(_SIZE)
    if name == "balanced, pixels":
        return Balanced(_SIZE, features())
    n = len(features.x)
    return Renewed(_SIZE, lambda: Balanced(_SIZE, features()), epochs * (n // _SIZE), n)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Train, with the held-out evidence at each record; the last row has the gradient's variances."""
    chosen = case.settings
    train, held = images.split("digits", None)
    model = VariationalAutoencoder(latent=_LATENT, dimension=train.shape[1], hidden=_HIDDEN)
    features = _Encoded(model, train)
    strategy = _strategy_named(chosen["strategy"], features, chosen["every"])
    epoch = len(train) // _SIZE
    fit = bqvi.fit(
        model,
        train,
        Pathwise(),
        minibatch=strategy,
        schedule=bqvi.Adam(_RATE),
        start_from="random",
        steps=chosen["epochs"] * epoch,
        record=bqvi.Record(
            chosen["epochs"] * epoch // chosen["records"],
            metrics={"held_out": lambda q: model.log_evidence(q, held, chosen["draws"], 0).mean()},
        ),
        run=bqvi.Run(callback=features.look),
        seed=seed,
    )
    kept = ("iteration", "seconds", "setup_seconds", "evaluations", "held_out")
    found = pd.DataFrame(fitting.columns_of(fit.trace, kept))
    if isinstance(strategy, Renewed):
        renewed = np.maximum(found["iteration"] - 1, 0) // strategy.every
        found["evaluations"] += _ENCODING * len(train) * renewed
    variance, of_draws = _variances(model, fit.q, train, strategy, chosen["repeats"], seed)
    last = found.index == found.index[-1]
    return found.assign(variance=np.where(last, variance, np.nan), of_draws=np.where(last, of_draws, np.nan))


def _variances(
    model: VariationalAutoencoder, q: Any, x: images.Images, strategy: Strategy, repeats: int, seed: int
) -> tuple[float, float]:
    """The variance of the whole gradient: in total, and from draws of z at one mini-batch."""
    rng = np.random.default_rng([seed, 1])
    state = strategy.start(len(x), rng)
    pairs = []
    for _ in range(repeats):
        selection, state = strategy.draw(state, rng)
        batch = Batch(x[selection.indices], len(selection.indices), selection.weights)
        two = [Pathwise()(model, q, batch, rng).values for _ in range(2)]
        pairs.append([np.concatenate([np.ravel(part) for part in one]) for one in two])
    table = np.array(pairs)
    of_draws = 0.5 * np.square(table[:, 0] - table[:, 1]).sum(1).mean()
    return float(table[:, 0].var(0, ddof=1).sum()), float(of_draws)


def _costs(results: pd.DataFrame) -> pd.DataFrame:
    """A row for each run: evaluations and seconds to the level of its seed, and the last record."""
    reference = results[results["strategy"] == _REFERENCE]
    levels = reference.groupby("seed")["held_out"].max() - _LEVEL
    rows = []
    for (case, seed), one in results.groupby(["case", "seed"], sort=False):
        level = levels.get(seed, np.nan)
        rows.append(
            {
                "case": case,
                "seed": seed,
                "evaluations_to": _reached(one["evaluations"], one["held_out"], level),
                "seconds_to": _reached(one["seconds"] + one["setup_seconds"], one["held_out"], level),
                "best": one["held_out"].max(),
                "variance": one["variance"].iloc[-1],
                "of_draws": one["of_draws"].iloc[-1],
            }
        )
    return pd.DataFrame(rows)


def _reached(cost: pd.Series, value: pd.Series, level: float) -> float:
    """The cost at which a line through the records first comes to the level; infinite if it never does."""
    x, y = cost.to_numpy(float), value.to_numpy(float)
    above = np.flatnonzero(y >= level)
    if not len(above):
        return float("inf")
    i = int(above[0])
    if i == 0:
        return float(x[0])
    return float(x[i - 1] + (x[i] - x[i - 1]) * (level - y[i - 1]) / (y[i] - y[i - 1]))


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the held-out evidence over evaluations, less that of reshuffling."""
    later = results[results["iteration"] > 0]
    reference = later[later["strategy"] == _REFERENCE].set_index(["seed", "iteration"])["held_out"]
    same = pd.MultiIndex.from_frame(later[["seed", "iteration"]])
    later = later.assign(gain=later["held_out"].to_numpy() - reference.reindex(same).to_numpy())
    made, axes = drawing.figure(1, 2)
    lines = drawing.line_styles(results["case"])
    others = later[later["strategy"] != _REFERENCE]
    shown = (
        (later, "held_out", "held-out log p (nats)"),
        (others, "gain", "gain on reshuffling (nats)"),
    )
    for panel, (rows, column, label) in zip(axes[0], shown, strict=True):
        drawing.curves(
            panel, rows, "evaluations", column, lines=lines, steps=False, x_label="evaluations", y_label=label
        )
    axes[0, 1].axhline(0.0, color="black", lw=0.8)
    drawing.legend_below(made, axes, columns=3)
    caption = (
        f"Digits, S = {_SIZE}, Adam {_RATE:g}; right: at the same step, less that of reshuffling with the "
        f"same start. {drawing.band_caption(results)}"
    )
    return [Drawing("held-out", made, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the cost to the level, and the variances."""
    costs = _costs(results)
    reference = costs[costs["case"] == _REFERENCE].set_index("seed")
    lines = []
    for case, rows in costs.groupby("case", sort=False):
        own = rows.set_index("seed")
        ratio = own["evaluations_to"] / reference["evaluations_to"]
        chosen = own["variance"] - own["of_draws"]
        lines.append(
            {
                "strategy": case,
                "evaluations to the level": f"{own['evaluations_to'].median():.0f}",
                "of reshuffling's": _mean(ratio, 3),
                "seconds to it": f"{own['seconds_to'].median():.2f}",
                "best held-out log p, less reshuffling's": _mean(own["best"] - reference["best"], 3),
                "variance": f"{own['variance'].median():.3g}",
                "share of draws of z": f"{(own['of_draws'] / own['variance']).median():.2f}",
                "choice's part, of reshuffling's": _mean(
                    chosen / (reference["variance"] - reference["of_draws"]), 2
                ),
            }
        )
    caption = (
        f"The level is {_LEVEL:g} nats an image below the best of reshuffling on the same seed. Medians over "
        f"{results['seed'].nunique()} seeds; where ± stands, means with their standard errors, seed by seed. "
        "Variances are of the gradient at the end of the run, summed over all weights."
    )
    return [Table("costs", pd.DataFrame(lines), caption)]


def _mean(values: pd.Series, digits: int) -> str:
    if len(values) < 2 or not np.isfinite(values).all():
        return f"{values.median():.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


_CLAIMS = (
    Statement("7.2", "Mini-batches that resemble the data train an autoencoder in fewer evaluations.",
              "evaluations to the level are fewer than with reshuffling, seed by seed",
              "evaluations_to", dict.fromkeys(_STRATEGIES[2:], (_REFERENCE,)), shown="evaluations",
              rows=_costs),
)  # fmt: skip


experiment = Experiment(
    name="amortised-minibatches",
    title="Mini-batches of an autoencoder",
    summary="""Do mini-batches of digits that are balanced train an autoencoder in fewer
        evaluations than random reshuffling? Features are the pixels, or the encoder's means, computed
        again every ten epochs. A table has the share of the gradient's variance that the choice of data
        makes.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
    seeds=8,
    quick_seeds=1,
)
