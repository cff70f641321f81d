"""The ways in which topics are fitted, to simulated documents and to texts of a folder, and their traces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bqvi.models import LatentDirichletAllocation
from experiments import fitting
from experiments.harness.experiment import Case

__all__ = ["CASES", "fitted", "traces"]

CASES: dict[str, dict[str, Any]] = {
    "batch": {"method": "cavi"},
    "batch, alpha and eta learnt": {"method": "cavi", "learnt": True},
    "SVI, S = 20": {"method": "sngd", "minibatch": 20},
    "SVI, S = 100": {"method": "sngd", "minibatch": 100},
}


def fitted(case: Case, topics: int, counts: Any, held: Any, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the trace of a fit to counts (N, V), and E[beta], (K, V).

    The trace has the perplexity of `held` (m, V); the case's settings are `method`, `learnt`, `passes` and,
    on mini-batches, `minibatch`.
    """
    chosen = case.settings
    learnt: dict[str, Any] = {"learn_concentration": "symmetric", "learn_word_concentration": True}
    model = LatentDirichletAllocation(topics, counts.shape[1], **(learnt if chosen["learnt"] else {}))
    n = counts.shape[0]
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


def traces(results: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that are no word of a topic."""
    return results[results["topic"] == -1]
