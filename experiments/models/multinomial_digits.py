"""Batch and stochastic VI for a mixture of multinomials: digits read as counts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from bqvi.models import MultinomialMixture
from experiments import fitting
from experiments.harness import comparison, drawing, evidence, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.problems import data

__all__ = ["experiment"]

_SIZES = (10, 50, 200, 1000)
_COMPONENTS = 20
_PASSES, _QUICK_PASSES = 20, 3
_MOST_STEPS = 1500
_NEAR = 500.0
"""The ELBO gap to the end of batch VI, in nats, that counts as reached: 0.3 nats a datum, which is 312
counts."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return batch VI, and SVI at each S, with as many passes over the data (at most 1500 steps)."""
    passes = _QUICK_PASSES if quick else _PASSES
    n = len(_digits()[0])
    batch = Case("batch VI", {"method": "cavi", "minibatch": n, "steps": passes, "components": _COMPONENTS})
    return [
        batch,
        *(
            Case(
                f"SVI, S = {size}",
                {
                    "method": "sngd", "minibatch": size, "components": _COMPONENTS,
                    "steps": min(passes * n // size, _MOST_STEPS),
                },
            )
            for size in _SIZES
        ),
    ]  # fmt: skip


@cache
def _digits() -> tuple[data.Floats, np.ndarray]:
    return data.digit_counts()


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Run one case from the k-means++ start of the seed."""
    chosen = case.settings
    counts, labels = _digits()
    model = MultinomialMixture(chosen["components"], counts.shape[1])
    choices = {} if chosen["method"] == "cavi" else {"minibatch": chosen["minibatch"]}
    return fitting.frame(
        model,
        counts,
        chosen["method"],
        metrics={
            "rand": lambda q: adjusted_rand_score(labels, model.responsibilities(q, counts).argmax(axis=1))
        },
        start_from=model.initial(counts, "k-means++", np.random.default_rng(seed)),
        steps=chosen["steps"],
        record=fitting.spread_records(chosen["steps"], 25),
        seed=seed,
        **choices,
    )


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the ELBO gap against the costs."""
    rows = evidence.with_gap(results, ("components",))
    made, _ = comparison.figure(rows, measures=("elbo_gap",))
    caption = (
        f"The gap to the best ELBO of all runs, K = {_COMPONENTS}. SVI with steps (t + 10)^-0.7; batch VI is "
        f"CAVI. {drawing.band_caption(results)}"
    )
    return [Drawing("batch-sizes", made, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the end of each case, and its costs to near the end of batch VI."""
    summed = _ends(results)
    columns = {
        "elbo_gap": "final ELBO gap (nats)",
        "behind": "final ELBO behind batch VI (nats)",
        "rand": "adjusted Rand index",
        "iterations_to": "iterations to near",
        "evaluations_to": "data evaluations to near",
        "seconds_to": "seconds to near",
        "ms_per_iteration": "ms an iteration",
    }
    caption = (
        f"Median [lower quartile, upper quartile]. Near: at most {_NEAR:g} nats behind where batch VI ends "
        "from the same start, until the end; inf: never."
    )
    return [Table("costs", quartiles(summed, columns), caption)]


def _ends(results: pd.DataFrame) -> pd.DataFrame:
    """A row for each run: how far it ended behind batch VI from the same start, and its costs to near."""
    rows = evidence.with_gap(results, ("components",))
    rows = evidence.with_lag(rows, rows["method"] == "cavi")
    return evidence.runs(rows, "behind", level=_NEAR, keep=("elbo_gap", "rand"))


_STOCHASTIC = [f"SVI, S = {size}" for size in _SIZES]
_CLAIMS = (
    Statement("003", "Stochastic VI reaches the bound of batch VI.",
              f"it ends at most {_NEAR:g} nats behind batch VI from the same start",
              "behind", _STOCHASTIC, level=_NEAR, shown="nats behind", rows=_ends),
    Statement("003", "Stochastic VI needs fewer evaluations of data than batch VI.",
              f"it comes within {_NEAR:g} nats of the end of batch VI, and stays there, after fewer",
              "evaluations_to", dict.fromkeys(_STOCHASTIC, ("batch VI",)), shown="evaluations", rows=_ends),
    Statement("003", "Stochastic VI takes less time than batch VI.",
              f"it comes within {_NEAR:g} nats of the end of batch VI, and stays there, in fewer seconds",
              "seconds_to", dict.fromkeys(_STOCHASTIC, ("batch VI",)), shown="seconds", rows=_ends),
)  # fmt: skip


experiment = Experiment(
    name="multinomial-digits",
    title="Mixture of multinomials: batch VI and SVI on counts",
    summary="""Does stochastic VI reach the bound of batch VI on a mixture of multinomials? The data are
    1797 images of digits, each 64 pixels of 0 to 16 read as counts of 64 words (K = 20, alpha_0 = 1 /
    K, gamma_0 = 0.1). Batch VI is coordinate ascent, stochastic VI its natural gradient on mini-batches; both
    use the same loop as the mixture of Gaussians. All start at the k-means++ centres that the seed gives and
    have as many passes over the data (S = 10: fewer).""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
)
