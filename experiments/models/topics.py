"""Topics of simulated documents: LDA in one batch and on mini-batches, and its topics.

The vocabulary is a square of 5 x 5 pixels; a topic is a row or a column of it, a document a mixture of few
topics (Griffiths and Steyvers 2004). The true topics can therefore be seen in a picture. Held-out documents
are completed: half of the words are seen, the others predicted.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment

from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.models import pictures, topic_fits

__all__ = ["TOPICS", "experiment", "true_topics"]

_SIDE = 5
TOPICS, _WORDS = 2 * _SIDE, _SIDE * _SIDE
_DOCUMENTS, _QUICK_DOCUMENTS, _HELD_OUT = 1000, 100, 200
_LENGTH = 100
_PASSES, _QUICK_PASSES = 40, 2
_SHOWN = ("batch", "SVI, S = 100")
_SHOWN_SEED = 0


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return LDA in one batch, with hyperparameters learnt, and on mini-batches, on each data set."""
    n, passes = (_QUICK_DOCUMENTS, _QUICK_PASSES) if quick else (_DOCUMENTS, _PASSES)
    return [
        Case(name, {"learnt": False, **chosen, "n": n, "passes": passes})
        for name, chosen in topic_fits.CASES.items()
    ]


def true_topics() -> np.ndarray:
    """(10, 25): five rows and five columns."""
    pixels = np.arange(_WORDS).reshape(_SIDE, _SIDE)
    topics = np.zeros((TOPICS, _WORDS))
    for k, line in enumerate([*pixels, *pixels.T]):
        topics[k, line] = 1.0 / _SIDE
    return topics


@cache
def _documents(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts (n, 25) of documents to learn from, and (200, 25) held out."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(TOPICS, 0.1), n + _HELD_OUT)
    counts = rng.multinomial(_LENGTH, shares @ true_topics())
    return counts[:n], counts[n:]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the trace, followed by a row for each word of each topic."""
    counts, held = _documents(case.settings["n"], seed)
    trace, last = topic_fits.fitted(case, TOPICS, counts, held, seed)
    rows, columns = linear_sum_assignment(-true_topics() @ np.log(last.T + 1e-12))
    found = last[columns[np.argsort(rows)]]
    wrong = 0.5 * np.abs(found - true_topics()).sum(axis=1)
    trace = trace.assign(wrong=np.nan, topic=-1, word=-1, probability=np.nan)
    trace.loc[trace.index[-1], "wrong"] = wrong.mean()
    k, v = np.indices(found.shape)
    words = pd.DataFrame(
        {
            "topic": k.ravel(),
            "word": v.ravel(),
            "probability": found.ravel(),
            "iteration": trace["iteration"].iloc[-1],
        }
    )
    return pd.concat([trace, words.assign(elbo=trace["elbo"].iloc[-1])], ignore_index=True)


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw perplexity against costs, and the topics of one seed."""
    made, axes = drawing.figure(1, 2)
    rows = topic_fits.traces(results)
    lines = drawing.line_styles(rows["case"])
    for ax, x in zip(axes[0], ("evaluations", "seconds"), strict=True):
        after = rows[rows[x] > 0.0]
        drawing.curves(
            ax, after, x, "perplexity", x_scale="log", lines=lines, y_label="held-out perplexity",
            x_label="documents seen" if x == "evaluations" else None,
        )  # fmt: skip
    drawing.legend_below(made, axes)
    caption = (
        "Held-out perplexity by document completion, half of each document's words seen. "
        f"{drawing.band_caption(rows)}"
    )
    shown = (
        f"Seed {_SHOWN_SEED}. E[beta] of each topic, on the square of words, beside the topics from which "
        "the documents were simulated; each is beside the true one that it fits best. Right: the likeliest "
        "words of the "
        "first topic."
    )
    return [Drawing("perplexity", made, caption), Drawing("topics", _pictures(results), shown)]


def _pictures(results: pd.DataFrame) -> Figure:
    rows = results[(results["seed"] == _SHOWN_SEED) & (results["topic"] >= 0)]
    found = {
        name: rows[rows["case"] == name]["probability"].to_numpy().reshape(TOPICS, _WORDS) for name in _SHOWN
    }
    made, axes = drawing.figure(3, TOPICS + 1, size=(0.85, 0.95), width_ratios=[1.0] * TOPICS + [2.0])
    for line, (name, topics) in zip(axes, {"true": true_topics(), **found}.items(), strict=True):
        for ax, topic in zip(line, topics, strict=False):
            ax.imshow(topic.reshape(_SIDE, _SIDE), cmap="Greys", vmin=0.0, vmax=0.25)
            ax.set(xticks=[], yticks=[])
            ax.grid(False)
        line[0].set_ylabel(name, fontsize=7)
        pictures.top_words(line[-1], topics[0], [str(v) for v in range(_WORDS)], 6)
        line[-1].tick_params(labelsize=6)
    return made


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return how each run ended."""
    rows = topic_fits.traces(results).groupby(["case", "seed"], sort=False).tail(1)
    columns = {
        "elbo": "final ELBO (nats)",
        "perplexity": "held-out perplexity",
        "wrong": "probability in wrong words",
        "seconds": "seconds",
    }
    caption = (
        "Median [lower quartile, upper quartile]. Wrong words: total variation between a topic and the true "
        "one, the mean over topics. A model with learnt hyperparameters is another model, with another "
        "ELBO."
    )
    return [Table("end", quartiles(rows, columns), caption)]


def _after_two_passes(results: pd.DataFrame) -> pd.DataFrame:
    rows = topic_fits.traces(results)
    return rows[rows["evaluations"] <= 2.0 * rows["n"]]


_CLAIMS = (
    Statement("003", "SVI needs fewer passes over the data than batch inference.",
              "after two passes its held-out perplexity is lower",
              "perplexity", {"SVI, S = 20": ["batch"]}, rows=_after_two_passes),
    Statement("003", "SVI reaches what batch inference reaches.",
              "final held-out perplexity at most 2 % above that of the batch",
              "perplexity", {"SVI, S = 100": ["batch"]}, factor=1.02, rows=topic_fits.traces),
)  # fmt: skip


experiment = Experiment(
    name="models-topics",
    title="Topics by latent Dirichlet allocation",
    summary="""Which held-out perplexity does LDA reach by coordinate ascent, with learnt
    hyperparameters, and by stochastic variational inference? On simulated documents whose topics are
    lines of a square of words; `models-topics-folder` does it on texts of your own.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
)
