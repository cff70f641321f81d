"""States of sequences in a folder (--data DIR), by a hidden Markov model: symbols, counts and measurements.

The layout of the folder is that of `experiments.problems.texts_and_series`. Symbols have categorical
emissions, counts Poisson's, measurements Gaussians with variances of their own; a missing value is integrated
out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bqvi.models import Sequences, categorical, gaussian_components, poisson
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table, looked_for
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.models import pictures, sequences
from experiments.problems.array_files import checksum
from experiments.problems.texts_and_series import Symbols, find_sequences, read_sequences

__all__ = ["STATES", "cases", "experiment", "run"]

STATES, _QUICK_STATES = (1, 2, 3, 4), (2,)
_STARTS, _QUICK_STARTS = 5, 1
_STEPS, _QUICK_STEPS = 500, 5
_SHOWN_SEED = 0


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each sequence of the folder with each number of states."""
    assert resources.data is not None  # `needs` requires the folder
    starts, steps = (_QUICK_STARTS, _QUICK_STEPS) if quick else (_STARTS, _STEPS)
    return [
        Case(
            f"{path.stem}, K = {k}",
            {
                "data": path.stem, "file": path.name, "sha256": checksum(path), "states": k,
                "starts": starts, "steps": steps,
            },
            path.parent,
        )
        for path in looked_for(find_sequences, resources.data)
        for k in (_QUICK_STATES if quick else STATES)
    ]  # fmt: skip


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each time of a series, or each symbol."""
    assert case.folder is not None  # `cases` sets it
    found = read_sequences(case.folder / case.settings["file"])
    if isinstance(found, Symbols):
        size = len(found.alphabet)
        values = Sequences(found.values, found.lengths)
        fit = sequences.fitted(case, categorical(size, 1.0), values, seed)
        # the first state is that of the most frequent symbol
        lean = np.bincount(found.values, minlength=size).argmax() == np.arange(size)
        rows = sequences.of_symbols(fit, values, lean.astype(float))
        return rows.assign(kind="symbols", name=list(found.alphabet))
    emissions = poisson() if found.is_count else gaussian_components("diagonal")
    fit = sequences.fitted(case, emissions, found.values, seed)
    rows = sequences.of_times(fit, found.times, found.values)
    return rows.assign(kind="counts" if found.is_count else "measurements", name="")


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the posterior of the states of each sequence, with as many as have the highest bound."""
    rows = results[results["seed"] == _SHOWN_SEED]
    rows = rows[rows["elbo"] == rows.groupby("data")["elbo"].transform("max")]
    made, _, filled = drawing.panels(rows, "data", columns=1, size=(7.5, 2.0))
    for ax, own in filled:
        k = int(own["states"].iloc[0])
        posterior = own[[f"state_{i}" for i in range(k)]].to_numpy(float)
        if own["kind"].iloc[0] == "symbols":
            _draw_shares(ax, posterior, own["name"].astype(str).tolist())
        else:
            times, values = own["time"].to_numpy(float), own["value"].to_numpy(float)
            pictures.states(ax, times, values, posterior)
        ax.set_title(f"{own['data'].iloc[0]}, K = {k}")
    caption = (
        f"Seed {_SHOWN_SEED}, with the number of states K that has the highest bound. Series: the shares of "
        "colour behind each time are the posterior probabilities of the states, the heavy line the posterior "
        "mean of their levels. Symbols: the shares of each symbol's occurrences in the states, each in its "
        "colour."
    )
    return [Drawing("states", made, caption)]


def _draw_shares(ax: Any, shares: np.ndarray, names: list[str]) -> None:
    """Draw `shares` (V, K) of symbols in states as stacked bars, those of each state side by side."""
    order = np.lexsort((-shares.max(1), shares.argmax(1)))
    tops = shares[order].cumsum(1)
    for k, share in enumerate(shares[order].T):
        ax.bar(np.arange(len(order)), share, bottom=tops[:, k] - share, color=drawing.COLOURS[k], alpha=0.6)
    ax.set_xticks(np.arange(len(order)), [names[v] for v in order], fontsize=6)
    ax.set_ylabel("share in each state")


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the bound for each number of states."""
    columns: dict[str, Any] = {
        "elbo": "ELBO (nats)",
        "changes": "changes of state in the likeliest path",
        "iteration": "iterations",
        "seconds": "seconds of the best start",
    }
    first = results.groupby(["case", "seed"], sort=False).head(1)
    caption = "The best of several starts. Median [lower quartile, upper quartile] over seeds."
    return [Table("bound", quartiles(first, columns, by=("data", "kind", "states"), digits=5), caption)]


_CLAIMS = (
    Statement("004", "The bound tells that a sequence has states.",
              "with two states the ELBO is above that with one",
              "below", {"2": ["1"]}, shown="negative ELBO (nats)",
              rows=lambda found: found.assign(below=-found["elbo"], name=found["states"].astype(str))),
)  # fmt: skip

experiment = Experiment(
    name="models-sequences-folder",
    title="States of your own sequences",
    summary="""How many states does a hidden Markov model find in the sequences of symbols, counts or
        measurements of the folder that --data names, and at which times? The bound is shown over the number
        of states, and the posterior of the states over time.""",
    cases=cases,
    run=run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="name", each="data"),
    needs=("data",),
)
