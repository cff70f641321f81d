"""States of sequences by a hidden Markov model: flow of the Nile, sunspots, and the letters of a text.

    Nile        yearly flow, Gaussian emissions: the change around 1898
    sunspots    yearly numbers, Gaussian emissions with variances of their own: quiet and active years
    letters     symbols of an English text (of Python's own documentation), categorical emissions: with two
                states, vowels and consonants (Cave and Neuwirth 1980)

Variational Bayes over emissions and transitions; the likeliest path is Viterbi's. (`models-sequences-folder`
does the same on sequences of a folder.)
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import bqvi
from bqvi.models import HiddenMarkovModel, categorical, gaussian_components
from bqvi.models.components import Components
from experiments.harness import drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.summaries import quartiles
from experiments.models import pictures

__all__ = [
    "ALPHABET", "LETTERS", "MOST", "experiment", "fitted", "held_out", "of_symbols",
    "of_times", "series",
]  # fmt: skip

ALPHABET = "abcdefghijklmnopqrstuvwxyz "
_VOWELS = "aeiou"
_PAGES = ("exceptions", "objects", "execmodel", "import")
LETTERS = 6000
_SETS: dict[str, tuple[int, ...]] = {"Nile": (1, 2, 3), "sunspots": (2, 3, 4), "letters": (1, 2, 3)}
MOST = 4
"""States in any case."""
_SHOWN = {"Nile": 2, "sunspots": 3, "letters": 2}
_STARTS, _QUICK_STARTS = 10, 1
_STEPS, _QUICK_STEPS = 1000, 20
_TOLERANCE = 1e-3
_SHOWN_SEED = 0


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each series with each number of states."""
    starts, steps = (_QUICK_STARTS, _QUICK_STEPS) if quick else (_STARTS, _STEPS)
    return [
        Case(f"{name}, K = {k}", {"data": name, "states": k, "starts": starts, "steps": steps})
        for name, numbers in _SETS.items()
        for k in numbers
    ]


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


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each time of a series, or each symbol of the alphabet."""
    name = case.settings["data"]
    times, values = series(name)
    emissions = categorical(len(ALPHABET), 1.0) if name == "letters" else gaussian_components("diagonal")
    fit = fitted(case, emissions, values, seed)
    if name != "letters":
        rows = of_times(fit, times, values)
    else:
        rows = of_symbols(fit, values, np.isin(list(ALPHABET), list(_VOWELS)))
    return rows.assign(held_out=held_out(case, emissions, values, seed))


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


def of_symbols(fit: bqvi.Fit, values: Any, lean: np.ndarray) -> pd.DataFrame:
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


def of_times(fit: bqvi.Fit, times: np.ndarray, values: np.ndarray) -> pd.DataFrame:
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
    """Draw the posterior of the states of each series."""
    caption = (
        f"Seed {_SHOWN_SEED}. The shares of colour behind each year are the posterior probabilities of the "
        "states; the heavy line is the posterior mean of the states' levels. Sunspots are square roots of "
        "the yearly numbers. Letters: the share of each letter's occurrences that is in the first state."
    )
    return [Drawing("states", _states(results[results["seed"] == _SHOWN_SEED]), caption)]


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
        )
    ]


experiment = Experiment(
    name="models-sequences",
    title="States of sequences",
    summary="""How many states does a hidden Markov model find in the flow of the Nile, in sunspots and in the
        letters of a text, and at which times? The bound is shown over the number of states, and the posterior
        of the states over time.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
