"""Topics of texts in a folder (--data DIR): LDA in one batch and on mini-batches, and its topics' words.

The layout of the folder is that of `experiments.problems.texts_and_series`. Each seed holds out another tenth
of the documents, which are completed: half of the words are seen, the others predicted. They are compared
with the words' frequencies, one topic for all documents.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table, looked_for
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.models import pictures, topic_fits
from experiments.problems.array_files import checksum
from experiments.problems.texts_and_series import find_texts, read_texts

__all__ = ["FREQUENCIES", "cases", "experiment", "run"]

_TOPICS, _PASSES, _QUICK_TOPICS, _QUICK_PASSES = 10, 40, 3, 2
_SHARE = 0.1
"""Of the documents, held out."""
_SHOWN, _SHOWN_WORDS, _SHOWN_SEED = "batch, alpha and eta learnt", 8, 0
_SHOWN_TOPICS = 5
"""In a row of the figure."""
FREQUENCIES = "word frequencies"
_SMOOTHING = 0.1
"""The number added to the count of each word for its frequency: LDA's default word concentration."""


def cases(quick: bool, resources: Resources) -> list[Case]:
    """Return the ways of `models-topics` on each set of texts, and the words' frequencies."""
    assert resources.data is not None  # `needs` requires the folder
    k, passes = (_QUICK_TOPICS, _QUICK_PASSES) if quick else (_TOPICS, _PASSES)
    made = []
    for path in looked_for(find_texts, resources.data):
        texts = {"texts": path.stem, "file": path.name, "sha256": checksum(path)}
        for name, chosen in {**topic_fits.CASES, FREQUENCIES: {"method": None}}.items():
            settings = {**texts, "way": name, "topics": k, "passes": passes, "learnt": False, **chosen}
            made.append(Case(f"{path.stem}: {name}", settings, path.parent))
    return made


def run(case: Case, seed: int) -> pd.DataFrame:
    """Return the trace, followed by a row for each of the likeliest words of each topic."""
    assert case.folder is not None  # `cases` sets it
    texts = read_texts(case.folder / case.settings["file"])
    order = np.random.default_rng(seed).permutation(texts.counts.shape[0])
    cut = int(np.ceil(_SHARE * len(order)))
    held, train = texts.counts[np.sort(order[:cut])], texts.counts[np.sort(order[cut:])]
    if case.settings["way"] == FREQUENCIES:
        return _frequencies(train, held, seed)
    trace, found = topic_fits.fitted(case, case.settings["topics"], train, held, seed)
    best = np.argsort(-found, axis=1)[:, :_SHOWN_WORDS]
    k = np.arange(len(found))[:, None]
    words = pd.DataFrame(
        {
            "topic": np.repeat(k, best.shape[1]),
            "word": [texts.words[v] for v in best.ravel()],
            "probability": found[k, best].ravel(),
        }
    )
    trace = trace.assign(documents=train.shape[0], topic=-1, word="", probability=np.nan)
    end = trace.iloc[-1]
    return pd.concat([trace, words.assign(iteration=end["iteration"], elbo=end["elbo"])], ignore_index=True)


def _frequencies(train: object, held: object, seed: int) -> pd.DataFrame:
    """The perplexity of one topic for all documents."""
    from bqvi.models.document_step import split_words

    totals = np.asarray(train.sum(axis=0)).ravel() + _SMOOTHING  # type: ignore[attr-defined]
    words = split_words(held, 0.5, seed)[1]  # type: ignore[arg-type]
    counts = np.asarray(words.sum(axis=0)).ravel()
    mean = float(counts @ np.log(totals / totals.sum())) / counts.sum()
    return pd.DataFrame([{"perplexity": np.exp(-mean), "topic": -1, "word": ""}])


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw perplexity against passes, and the likeliest words of topics for each set of texts."""
    rows = topic_fits.traces(results)
    fits = rows[rows["way"] != FREQUENCIES]
    made, axes, filled = drawing.panels(fits.assign(passed=fits["evaluations"] / fits["documents"]), "texts")
    lines = drawing.line_styles(topic_fits.CASES)
    for ax, own in filled:
        drawing.curves(
            ax, own[own["passed"] > 0.0], "passed", "perplexity", by="way", x_scale="log", lines=lines,
            x_label="passes over the documents", y_label="held-out perplexity",
        )  # fmt: skip
        plain = rows[(rows["texts"] == own["texts"].iloc[0]) & (rows["way"] == FREQUENCIES)]
        level = float(plain["perplexity"].median())
        ax.axhline(level, color="grey", lw=0.8, ls="--", label=FREQUENCIES)
        ax.set_ylim(bottom=min(ax.get_ylim()[0], 0.99 * level))
    drawing.legend_below(made, axes, columns=2)
    caption = (
        f"Held-out perplexity by document completion, {_SHARE:.0%} of the documents held out, half of the "
        f"words of each seen. {drawing.band_caption(fits, 'way')}"
    )
    shown = (
        f"Seed {_SHOWN_SEED}, alpha and eta learnt: each topic's likeliest words, and their probabilities."
    )
    words = results[(results["seed"] == _SHOWN_SEED) & (results["way"] == _SHOWN) & (results["topic"] >= 0)]
    return [
        Drawing("perplexity", made, caption),
        *(
            Drawing(f"words-{place}", _words(own), f"{name}. {shown}")
            for place, (name, own) in enumerate(words.groupby("texts", sort=False), 1)
        ),
    ]


def _words(rows: pd.DataFrame) -> Figure:
    groups = list(rows.groupby("topic"))
    made, axes = drawing.figure(-(-len(groups) // _SHOWN_TOPICS), _SHOWN_TOPICS, size=(1.9, 1.7))
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
    rows = topic_fits.traces(results).groupby(["case", "seed"], sort=False).tail(1)
    columns = {"elbo": "final ELBO (nats)", "perplexity": "held-out perplexity", "seconds": "seconds"}
    caption = (
        "Median [lower quartile, upper quartile] over seeds, each with other documents held out. A model "
        "with learnt hyperparameters is another model, with another ELBO; word frequencies have neither."
    )
    return [Table("end", quartiles(rows, columns, by=("texts", "way"), digits=4), caption)]


_CLAIMS = (
    Statement("003", "Topics predict the words of a document better than the words' frequencies.",
              "the held-out perplexity is lower",
              "perplexity", dict.fromkeys(topic_fits.CASES, (FREQUENCIES,)), rows=topic_fits.traces),
    Statement("003", "SVI reaches what batch inference reaches.",
              "its held-out perplexity is less than 1.02 times that of the batch",
              "perplexity", {"SVI, S = 100": ["batch"]}, factor=1.02, rows=topic_fits.traces),
)  # fmt: skip

experiment = Experiment(
    name="models-topics-folder",
    title="Topics of your own texts",
    summary="""Which topics does LDA find in the texts of the folder that --data names, and how high is
        its held-out perplexity beside that of the words' frequencies? By coordinate ascent, with learnt
        hyperparameters, and by stochastic variational inference.""",
    cases=cases,
    run=run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="way", each="texts"),
    needs=("data",),
)
