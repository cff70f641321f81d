"""Topics of documents, simulated or in a folder (--data DIR): LDA in one batch and on mini-batches.

The vocabulary of the simulated documents is a square of 5 x 5 pixels; a topic is a row or a column of it, a
document a mixture of few topics (Griffiths and Steyvers 2004). The true topics can therefore be seen in a
picture. The layout of the folder is that of `experiments.problems.texts_and_series`; each seed holds out
another tenth of its documents, and topics are compared with the words' frequencies, one topic for all
documents. Held-out documents are completed: half of the words are seen, the others predicted.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment

from bqvi.models import LatentDirichletAllocation
from bqvi.models.document_step import split_words
from experiments import fitting
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table, looked_for
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.models import pictures
from experiments.problems.array_files import checksum
from experiments.problems.texts_and_series import find_texts, read_texts

__all__ = ["FREQUENCIES", "TOPICS", "cases", "experiment", "run", "true_topics"]

_SIMULATED, FREQUENCIES = "simulated", "word frequencies"
_WAYS: dict[str, dict[str, Any]] = {
    "batch": {"method": "cavi"},
    "batch, alpha and eta learnt": {"method": "cavi", "learnt": True},
    "SVI, S = 20": {"method": "sngd", "minibatch": 20},
    "SVI, S = 100": {"method": "sngd", "minibatch": 100},
}
_SIDE = 5
TOPICS, _QUICK_TOPICS = 2 * _SIDE, 3
"""The second number is for the quick form of a folder."""
_DOCUMENTS, _QUICK_DOCUMENTS, _HELD_OUT, _LENGTH = 1000, 100, 200, 100
_PASSES, _QUICK_PASSES = 40, 2
_SHARE = 0.1
"""Of the documents of a folder, held out."""
_SMOOTHING = 0.1
"""The number added to the count of each word for its frequency: LDA's default word concentration."""
_SHOWN, _WORDS_OF, _SHOWN_SEED = ("batch", "SVI, S = 100"), "batch, alpha and eta learnt", 0
"""The ways whose topics are shown: of the simulated documents, and of texts by their likeliest words."""
_LIKELIEST, _IN_A_ROW = 8, 5
"""Words of a topic, and topics in a row."""


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return each way for the simulated documents, and for each set of texts, with its words' frequencies."""
    shared = {"passes": _QUICK_PASSES if quick else _PASSES, "learnt": False}
    simulated = {"texts": _SIMULATED, "topics": TOPICS, "n": _QUICK_DOCUMENTS if quick else _DOCUMENTS}
    made = [Case(way, {**shared, **simulated, "way": way, **chosen}) for way, chosen in _WAYS.items()]
    for path in looked_for(find_texts, resources.data) if resources.data else ():
        texts = {"texts": path.name, "sha256": checksum(path), "topics": _QUICK_TOPICS if quick else TOPICS}
        made += [
            Case(f"{path.name}: {way}", {**shared, **texts, "way": way, **chosen}, path.parent)
            for way, chosen in {**_WAYS, FREQUENCIES: {}}.items()
        ]
    return made


def true_topics() -> np.ndarray:
    """(10, 25): five rows and five columns."""
    pixels = np.arange(_SIDE**2).reshape(_SIDE, _SIDE)
    topics = np.zeros((TOPICS, _SIDE**2))
    for k, line in enumerate([*pixels, *pixels.T]):
        topics[k, line] = 1.0 / _SIDE
    return topics


@cache
def _simulated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts (n, 25) of documents to learn from, and (200, 25) held out."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(TOPICS, 0.1), n + _HELD_OUT)
    counts = rng.multinomial(_LENGTH, shares @ true_topics())
    return counts[:n], counts[n:]


def _documents(case: Case, seed: int) -> tuple[Any, Any, tuple[str, ...]]:
    """Counts to learn from and held out, and the words."""
    if case.folder is None:
        return *_simulated(case.settings["n"], seed), tuple(map(str, range(_SIDE**2)))
    texts = read_texts(case.folder / case.settings["texts"])
    order = np.random.default_rng(seed).permutation(texts.counts.shape[0])
    cut = int(np.ceil(_SHARE * len(order)))
    return texts.counts[np.sort(order[cut:])], texts.counts[np.sort(order[:cut])], texts.words


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return the trace, followed by a row for each word of each topic, or for the likeliest of a folder."""
    train, held, names = _documents(case, seed)
    if case.settings["way"] == FREQUENCIES:
        return _frequencies(train, held, seed)
    trace, found = _fitted(case, train, held, seed)
    trace = trace.assign(documents=train.shape[0], wrong=np.nan, topic=-1, word="", probability=np.nan)
    words = np.tile(np.arange(len(names)), (len(found), 1))
    if case.folder is None:
        rows, columns = linear_sum_assignment(-true_topics() @ np.log(found.T + 1e-12))
        found = found[columns[np.argsort(rows)]]
        trace.loc[trace.index[-1], "wrong"] = 0.5 * np.abs(found - true_topics()).sum(axis=1).mean()
    else:
        words = np.argsort(-found, axis=1)[:, :_LIKELIEST]
    shown = pd.DataFrame(
        {
            "topic": np.repeat(np.arange(len(words)), words.shape[1]),
            "word": [names[v] for v in words.ravel()],
            "probability": np.take_along_axis(found, words, 1).ravel(),
        }
    )
    end = trace.iloc[-1]
    return pd.concat([trace, shown.assign(iteration=end["iteration"], elbo=end["elbo"])], ignore_index=True)


def _fitted(case: Case, counts: Any, held: Any, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """The trace of a fit to counts (N, V), with the perplexity of `held` (m, V), and E[beta], (K, V)."""
    chosen, n = case.settings, counts.shape[0]
    learnt: dict[str, Any] = {"learn_concentration": "symmetric", "learn_word_concentration": True}
    model = LatentDirichletAllocation(
        chosen["topics"], counts.shape[1], **(learnt if chosen["learnt"] else {})
    )
    size = min(n, chosen["minibatch"]) if "minibatch" in chosen else None
    steps = chosen["passes"] if size is None else chosen["passes"] * n // size
    choices = {} if size is None else {"minibatch": size}
    last: list[np.ndarray] = []

    def perplexity(q: object) -> float:
        last[:] = [np.asarray(q["topics"].mean)]  # type: ignore[index]
        return model.perplexity(q, held, seed=seed)  # type: ignore[arg-type]

    trace = fitting.frame(
        model, counts, chosen["method"], metrics={"perplexity": perplexity}, steps=steps,
        record=fitting.spread_records(steps, 15), seed=seed, tolerance=1e-12, **choices,
    )  # fmt: skip
    return trace, last[0]


def _frequencies(train: Any, held: Any, seed: int) -> pd.DataFrame:
    """The perplexity of one topic for all documents."""
    totals = np.asarray(train.sum(axis=0)).ravel() + _SMOOTHING
    counts = np.asarray(split_words(held, 0.5, seed)[1].sum(axis=0)).ravel()
    mean = float(counts @ np.log(totals / totals.sum())) / counts.sum()
    return pd.DataFrame([{"perplexity": np.exp(-mean), "topic": -1, "word": ""}])


def _traces(results: pd.DataFrame) -> pd.DataFrame:
    """The rows that are no word of a topic."""
    return results[results["topic"] == -1]


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw perplexity against costs, and the topics of one seed, for each set of documents."""
    made = []
    for place, (name, own) in enumerate(results.groupby("texts", sort=False)):
        tail, begin = (f"-{place}", f"{name}. ") if place else ("", "")
        fits = _traces(own[own["way"] != FREQUENCIES])
        caption = (
            f"{begin}Held-out perplexity by document completion, half of each document's words seen. "
            f"{drawing.band_caption(fits, 'way')}"
        )
        made.append(Drawing(f"perplexity{tail}", _curves(own, fits), caption))
        found = own[(own["seed"] == _SHOWN_SEED) & (own["topic"] >= 0)]
        if name == _SIMULATED:
            shown = (
                f"Seed {_SHOWN_SEED}. E[beta] of each topic, on the square of words, beside the topics from "
                "which the documents were simulated; each is beside the true one that it fits best. Right: "
                "the likeliest words of the first topic."
            )
            made.append(Drawing("topics", _pictures(found), shown))
        elif len(found := found[found["way"] == _WORDS_OF]):
            shown = f"{begin}Seed {_SHOWN_SEED}, {_WORDS_OF}: each topic's likeliest words."
            made.append(Drawing(f"words{tail}", _words(found), shown))
    return made


def _curves(own: pd.DataFrame, fits: pd.DataFrame) -> Figure:
    made, axes = drawing.figure(1, 2)
    level = own[own["way"] == FREQUENCIES]["perplexity"].median()
    for ax, x in zip(axes[0], ("evaluations", "seconds"), strict=True):
        drawing.curves(
            ax, fits[fits[x] > 0.0], x, "perplexity", by="way", x_scale="log",
            lines=drawing.line_styles(_WAYS), y_label="held-out perplexity",
            x_label="documents seen" if x == "evaluations" else None,
        )  # fmt: skip
        if np.isfinite(level):
            ax.axhline(level, color="grey", lw=0.8, ls="--", label=FREQUENCIES)
            ax.set_ylim(bottom=min(ax.get_ylim()[0], 0.99 * level))
    drawing.legend_below(made, axes)
    return made


def _pictures(rows: pd.DataFrame) -> Figure:
    found = {
        way: rows[rows["way"] == way]["probability"].to_numpy().reshape(TOPICS, _SIDE**2) for way in _SHOWN
    }
    made, axes = drawing.figure(3, TOPICS + 1, size=(0.85, 0.95), width_ratios=[1.0] * TOPICS + [2.0])
    for line, (name, topics) in zip(axes, {"true": true_topics(), **found}.items(), strict=True):
        for ax, topic in zip(line, topics, strict=False):
            ax.imshow(topic.reshape(_SIDE, _SIDE), cmap="Greys", vmin=0.0, vmax=0.25)
            ax.set(xticks=[], yticks=[])
            ax.grid(False)
        line[0].set_ylabel(name, fontsize=7)
        pictures.top_words(line[-1], topics[0], [str(v) for v in range(_SIDE**2)], 6)
        line[-1].tick_params(labelsize=6)
    return made


def _words(rows: pd.DataFrame) -> Figure:
    groups = list(rows.groupby("topic"))
    made, axes = drawing.figure(-(-len(groups) // _IN_A_ROW), _IN_A_ROW, size=(1.9, 1.7))
    for ax in axes.flat[len(groups) :]:
        ax.set_visible(False)
    for ax, (topic, own) in zip(axes.flat, groups, strict=False):
        pictures.top_words(ax, own["probability"].to_numpy(), own["word"].tolist(), len(own))
        ax.tick_params(labelsize=6)
        ax.locator_params(axis="x", nbins=3)
        ax.set_title(f"topic {int(str(topic)) + 1}", fontsize=7)
    return made


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return how each run ended."""
    rows = _traces(results).groupby(["case", "seed"], sort=False).tail(1)
    columns = {
        "elbo": "final ELBO (nats)",
        "perplexity": "held-out perplexity",
        "wrong": "probability in wrong words",
        "seconds": "seconds",
    }
    caption = (
        "Median [lower quartile, upper quartile]. Wrong words: total variation between a topic and the true "
        "one of simulated documents, the mean over topics. A model with learnt hyperparameters is another "
        "model, with another ELBO; word frequencies have none."
    )
    return [Table("end", quartiles(rows, columns, by=("texts", "way"), digits=4), caption)]


def _after_two_passes(results: pd.DataFrame) -> pd.DataFrame:
    rows = _traces(results)
    return rows[rows["evaluations"] <= 2.0 * rows["documents"]]


_CLAIMS = (
    Statement("003", "SVI needs fewer passes over the data than batch inference.",
              "after two passes its held-out perplexity is lower",
              "perplexity", {"SVI, S = 20": ["batch"]}, rows=_after_two_passes),
    Statement("003", "SVI reaches what batch inference reaches.",
              "final held-out perplexity at most 2 % above that of the batch",
              "perplexity", {"SVI, S = 100": ["batch"]}, factor=1.02, rows=_traces),
    Statement("003", "Topics predict the words of a document better than the words' frequencies.",
              "the held-out perplexity is lower",
              "perplexity", dict.fromkeys(_WAYS, (FREQUENCIES,)), rows=_traces),
)  # fmt: skip


experiment = Experiment(
    name="models-topics",
    title="Topics by latent Dirichlet allocation",
    summary="""Which held-out perplexity does LDA reach by coordinate ascent, with learnt
    hyperparameters, and by stochastic variational inference? On simulated documents whose topics are
    lines of a square of words; with a data folder on its texts as well.""",
    cases=cases,
    run=run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="way", each="texts"),
)
