"""States of sequences by a hidden Markov model: the Nile, sunspots, letters, and a folder's (--data DIR).

    Nile        yearly flow, Gaussian emissions: the change around 1898
    sunspots    yearly numbers, Gaussian emissions with variances of their own: quiet and active years
    letters     symbols of an English text (of Python's own documentation), categorical emissions: with two
                states, vowels and consonants (Cave and Neuwirth 1980)

Variational Bayes over emissions and transitions; the likeliest path is Viterbi's. The layout of a folder is
that of `experiments.problems.texts_and_series`: symbols have categorical emissions, counts Poisson's,
measurements Gaussians with variances of their own; a missing value is integrated out.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import bqvi
from bqvi.models import HiddenMarkovModel, Sequences, categorical, gaussian_components, poisson
from bqvi.models.components import Components
from experiments.harness import drawing, statements
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table, looked_for
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.models import pictures
from experiments.problems.array_files import checksum
from experiments.problems.texts_and_series import Symbols, find_sequences, read_sequences

__all__ = [
    "ALPHABET", "LETTERS", "MOST", "STATES", "cases", "experiment", "fitted", "held_out", "run", "series",
]  # fmt: skip

ALPHABET = "abcdefghijklmnopqrstuvwxyz "
_VOWELS = "aeiou"
_PAGES = ("exceptions", "objects", "execmodel", "import")
LETTERS = 6000
_SETS: dict[str, tuple[int, ...]] = {"Nile": (1, 2, 3), "sunspots": (2, 3, 4), "letters": (1, 2, 3)}
MOST = 4
"""States in any case."""
STATES, _QUICK_STATES = (1, 2, 3, 4), (2,)
"""For each sequence of a folder."""
_SHOWN = {"Nile": 2, "sunspots": 3, "letters": 2}
_STARTS, _QUICK_STARTS = 10, 1
_STEPS, _QUICK_STEPS = 1000, 20
_TOLERANCE = 1e-3
_SHOWN_SEED = 0


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each series, and each sequence of the folder, with each number of states."""
    starts, steps = (_QUICK_STARTS, _QUICK_STEPS) if quick else (_STARTS, _STEPS)
    shared = {"starts": starts, "steps": steps}
    made = [
        Case(f"{name}, K = {k}", {"data": name, "states": k, **shared})
        for name, numbers in _SETS.items()
        for k in numbers
    ]
    for path in looked_for(find_sequences, resources.data) if resources.data else ():
        found = {"data": path.name, "sha256": checksum(path), **shared}
        made += [
            Case(f"{path.name}, K = {k}", {**found, "states": k}, path.parent)
            for k in (_QUICK_STATES if quick else STATES)
        ]
    return made


@cache
def series(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Times and values (T,)."""
    if name == "letters":
        from pydoc_data.topics import topics

        text = " ".join(topics[name] for name in _PAGES).lower()
        words = " ".join("".join(c if c in ALPHABET else " " for c in text).split())
        symbols = np.array([ALPHABET.index(c) for c in words[:LETTERS]])
        return np.arange(len(symbols)), symbols
    import statsmodels.api as sm

    table: Any = sm.datasets.nile if name == "Nile" else sm.datasets.sunspots
    frame = table.load_pandas().data
    column = "volume" if name == "Nile" else "SUNACTIVITY"
    values = frame[column].to_numpy(dtype=float)
    # counts are shown as square roots, whose noise does not grow with them
    return frame[frame.columns[0]].to_numpy(dtype=float), values if name == "Nile" else np.sqrt(values)


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each time of a series, or each symbol of the alphabet."""
    if case.folder is not None:
        return _of_the_folder(case, seed)
    name = case.settings["data"]
    times, values = series(name)
    emissions = categorical(len(ALPHABET), 1.0) if name == "letters" else gaussian_components("diagonal")
    fit = fitted(case, emissions, values, seed)
    if name != "letters":
        rows = _of_times(fit, times, values)
    else:
        rows = _of_symbols(fit, values, np.isin(list(ALPHABET), list(_VOWELS)))
    return rows.assign(held_out=held_out(case, emissions, values, seed))


def _of_the_folder(case: Case, seed: int) -> pd.DataFrame:
    """The rows of a sequence of a folder, with its kind and the names of its symbols."""
    assert case.folder is not None
    found = read_sequences(case.folder / case.settings["data"])
    if isinstance(found, Symbols):
        size = len(found.alphabet)
        values = Sequences(found.values, found.lengths)
        fit = fitted(case, categorical(size, 1.0), values, seed)
        # the first state is that of the most frequent symbol
        lean = np.bincount(found.values, minlength=size).argmax() == np.arange(size)
        rows = _of_symbols(fit, values, lean.astype(float))
        return rows.assign(kind="symbols", name=list(found.alphabet), held_out=np.nan)
    fit = fitted(case, poisson() if found.is_count else gaussian_components("diagonal"), found.values, seed)
    kind = "counts" if found.is_count else "measurements"
    return _of_times(fit, found.times, found.values).assign(kind=kind, held_out=np.nan)


def held_out(case: Case, emissions: Components, values: np.ndarray, seed: int) -> float:
    """Return the mean log predictive density, nats, of the last fifth of ``values`` (T,).

    Each value is predicted from all before it, at the mean of q given the first four fifths.

    Parameters
    ----------
    case : with the settings of `fitted`. emissions : of the states. values : (T,). seed : of the starts.
    """
    cut = len(values) * 4 // 5
    fit = fitted(case, emissions, values[:cut], seed)
    model, theta = fit.problem.model, fit.q.mean
    gain = model.log_likelihood(values, theta) - model.log_likelihood(values[:cut], theta)
    return float(gain) / (len(values) - cut)


def fitted(case: Case, emissions: Components, values: Any, seed: int) -> bqvi.Fit:
    """Return the best fit of several starts; the case's settings are `states`, `starts` and `steps`.

    Parameters
    ----------
    case : with these settings. emissions : of the states. values : one sequence, or several. seed : of the
        starts.
    """
    chosen = case.settings
    return bqvi.fit(
        HiddenMarkovModel(chosen["states"], emissions),
        values,
        starts=chosen["starts"],
        steps=chosen["steps"],
        tolerance=_TOLERANCE,
        seed=seed,
    )


def _of_symbols(fit: bqvi.Fit, values: Any, lean: np.ndarray) -> pd.DataFrame:
    """Return for each symbol its number of occurrences and their shares in the states.

    The states come by the share of their symbols for which `lean` (V,) is 1, the largest first.

    Parameters
    ----------
    fit : of a model with K states. values : symbols (T,). lean : 0 or 1 for each symbol, (V,).
    """
    posterior = np.concatenate(fit.problem.model.posteriors(fit.q, values))
    symbols = np.asarray(values)
    counts = np.stack([posterior[symbols == v].sum(0) for v in range(len(lean))])
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1e-300)
    order = np.argsort(-counts.T @ lean / np.maximum(counts.sum(0), 1e-300))
    return _rows(fit, values, np.arange(len(lean)), counts.sum(1), shares[:, order])


def _of_times(fit: bqvi.Fit, times: np.ndarray, values: np.ndarray) -> pd.DataFrame:
    """Return for each time of a series its value and the posterior of the states, by rising level.

    Parameters
    ----------
    fit : of a model with K states. times, values : (T,).
    """
    posterior = fit.problem.model.posteriors(fit.q, values)[0]
    seen = ~np.isnan(values)
    levels = posterior[seen].T @ values[seen] / np.maximum(posterior[seen].sum(0), 1e-300)
    return _rows(fit, values, times, values, posterior[:, np.argsort(levels)])


def _rows(
    fit: bqvi.Fit, values: Any, times: np.ndarray, shown: np.ndarray, states: np.ndarray
) -> pd.DataFrame:
    moves = sum(int((np.diff(path) != 0).sum()) for path in fit.problem.model.viterbi(fit.q, values))
    k = states.shape[1]
    return pd.DataFrame(
        {
            "iteration": fit.state.iteration, "time": times, "value": shown,
            **{f"state_{i}": states[:, i] if i < k else np.nan for i in range(MOST)},
            "elbo": fit.elbo, "changes": moves, "length": np.size(values), "seconds": fit.state.seconds,
        }
    )  # fmt: skip


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the posterior of the states of each series, and of each sequence of the folder."""
    caption = (
        f"Seed {_SHOWN_SEED}. The shares of colour behind each year are the posterior probabilities of the "
        "states; the heavy line is the posterior mean of the states' levels. Sunspots are square roots of "
        "the yearly numbers. Letters: the share of each letter's occurrences that is in the first state."
    )
    rows = results[results["seed"] == _SHOWN_SEED]
    made = [Drawing("states", _states(rows), caption)]
    if not (rows := rows[~rows["data"].isin(_SETS)]).empty:
        more = (
            f"Seed {_SHOWN_SEED}, with the number of states K that has the highest bound. Symbols: the "
            "shares of each symbol's occurrences in the states, each in its colour."
        )
        made.append(Drawing("folder", _states_of_the_folder(rows), more))
    return made


def _states_of_the_folder(rows: pd.DataFrame) -> Figure:
    best = rows["elbo"] == rows.groupby("data")["elbo"].transform("max")
    made, _, filled = drawing.panels(rows[best], "data", columns=1, size=(7.5, 2.0))
    for ax, own in filled:
        k = int(own["states"].iloc[0])
        posterior = own[[f"state_{i}" for i in range(k)]].to_numpy(float)
        if own["kind"].iloc[0] == "symbols":
            _draw_shares(ax, posterior, own["name"].astype(str).tolist())
        else:
            pictures.states(ax, own["time"].to_numpy(float), own["value"].to_numpy(float), posterior)
        ax.set_title(f"{own['data'].iloc[0]}, K = {k}")
    return made


def _draw_shares(ax: Any, shares: np.ndarray, names: list[str]) -> None:
    """Draw `shares` (V, K) of symbols in states as stacked bars, those of each state side by side."""
    order = np.lexsort((-shares.max(1), shares.argmax(1)))
    tops = shares[order].cumsum(1)
    for k, share in enumerate(shares[order].T):
        ax.bar(np.arange(len(order)), share, bottom=tops[:, k] - share, color=drawing.COLOURS[k], alpha=0.6)
    ax.set_xticks(np.arange(len(order)), [names[v] for v in order], fontsize=6)
    ax.set_ylabel("share in each state")


def _states(rows: pd.DataFrame) -> Figure:
    made, axes = drawing.figure(3, 1, size=(7.5, 2.0))
    for ax, (name, k) in zip(axes[:, 0], _SHOWN.items(), strict=True):
        found = rows[rows["case"] == f"{name}, K = {k}"]
        posterior = found[[f"state_{i}" for i in range(k)]].to_numpy(float)
        values = found["value"].to_numpy(float)
        if name == "letters":
            order = np.argsort(-posterior[:, 0], kind="stable")
            colours = [drawing.COLOURS[0 if ALPHABET[v] in _VOWELS else 1] for v in order]
            ax.bar(np.arange(len(order)), posterior[order, 0], color=colours)
            ax.set_xticks(np.arange(len(order)), ["␣" if ALPHABET[v] == " " else ALPHABET[v] for v in order])
            ax.set(ylabel="in the first state", title="letters: vowels in blue")
            continue
        pictures.states(ax, found["time"].to_numpy(float), values, posterior)
        ax.set_title(f"{name}, {k} states")
        ax.set_ylabel("flow" if name == "Nile" else "root of number")
    return made


def _first(results: pd.DataFrame) -> pd.DataFrame:
    return results.groupby(["case", "seed"], sort=False).head(1)


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the bound for each number of states."""
    columns = {
        "elbo": "ELBO (nats)",
        "held_out": "held-out log density (nats a value)",
        "changes": "changes of state in the likeliest path",
        "iteration": "iterations",
        "seconds": "seconds of the best start",
    }
    caption = (
        "The best of several starts. Held out: the last fifth, each value given all before it, by a "
        "fit of the first four fifths. Median [lower quartile, upper quartile] over seeds."
    )
    return [Table("bound", quartiles(_first(results), columns, digits=5), caption)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check the change of the Nile, and that vowels are found."""
    nile = results[results["case"] == "Nile, K = 2"]
    lower = nile[nile["state_0"] > 0.5].groupby("seed")["time"].min()
    found = float(((lower - 1899).abs() <= 1).mean())
    letters = results[results["case"] == "letters, K = 2"]
    vowels = [ALPHABET.index(v) for v in _VOWELS]
    first = np.array(
        [(rows["state_0"].to_numpy()[vowels] > 0.5).all() for _, rows in letters.groupby("seed")]
    )
    return [
        Claim(
            "004",
            "A hidden Markov model decodes the states of a sequence.",
            "the lower flow of the Nile begins within a year of 1899; all vowels share a state",
            [
                Check("Nile", found >= 0.9, f"{found:.0%} of the seeds"),
                Check("letters", float(first.mean()) >= 0.9, f"{first.mean():.0%} of the seeds"),
            ],
        ),
        *statements.claims(results[~results["data"].isin(_SETS)], [_OF_A_FOLDER], by="name", each="data"),
    ]


_OF_A_FOLDER = Statement(
    "004", "The bound tells that a sequence has states.", "with two states the ELBO is above that with one",
    "below", {"2": ["1"]}, shown="negative ELBO (nats)",
    rows=lambda found: found.assign(below=-found["elbo"], name=found["states"].astype(str)),
)  # fmt: skip


experiment = Experiment(
    name="models-sequences",
    title="States of sequences",
    summary="""How many states does a hidden Markov model find in the flow of the Nile, in sunspots and in the
        letters of a text, and at which times? The bound is shown over the number of states, and the posterior
        of the states over time; with a data folder of its symbols, counts and measurements as well.""",
    cases=cases,
    run=run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
