"""One run of `bqvi.fit` as the table that an experiment returns.

The table of a run that diverges ends with infinities, since a run that ends early is drawn as constant at its
last value, as if it had converged. All other errors are raised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

import bqvi
from bqvi.gradients import Estimator
from bqvi.inference import Fit
from bqvi.runs import Trace

__all__ = ["KEPT", "STRATEGY", "columns_of", "frame", "spread_records"]

_WORST: Mapping[str, float] = {"elbo": -np.inf, "log_likelihood_error": np.inf}
"""The values of these columns for a run that diverged."""

_RESOLVED = 1e12
"""|ELBO| in nats beyond which its terms, of either sign, leave no correct digit in float64: a run there has
diverged, even if the sum came out large and positive."""

KEPT = ("iteration", "seconds", "evaluations", "samples", "elbo")
STRATEGY = ("setup_seconds", "minibatch_seconds")
"""The columns of the costs of mini-batch strategies, for `keep`."""


def columns_of(trace: Trace, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Columns of the trace of a fit, by their names in an experiment's table.

    There ``evaluations`` are those of the steps, as the records differ between experiments.
    """
    return {name: trace["step_evaluations" if name == "evaluations" else name] for name in names}


def frame(
    model: Any,
    data: Any,
    method: str | Estimator,
    *,
    metrics: Mapping[str, Callable[[Any], float]],
    worst: Mapping[str, float] = _WORST,
    steps: int,
    record: int | Iterable[int],
    keep: Sequence[str] = (),
    warm: bool = True,
    **choices: Any,
) -> pd.DataFrame:
    """Fit, and return the trace with the metrics; infinite from where the run diverged.

    Parameters
    ----------
    model, data, method, steps, **choices
        Of `bqvi.fit`; metrics and record as of its `bqvi.Record`.
    keep : sequence of str
        Further columns of the trace.
    worst : mapping
        Value of a column in a run that diverged: a column with an entry here is never NaN. The others
        keep their last value.
    warm : bool Whether two steps are taken first and discarded, so that the time of imports and buffers is
        not counted.
    """
    # a diverging run may overflow, and one that is short has not converged: the table shows both
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The run has not converged")
        if warm:
            _attempt(lambda: bqvi.fit(model, data, method, steps=2, **choices))
        fit, diverged = _attempt(
            lambda: bqvi.fit(
                model, data, method, steps=steps, record=bqvi.Record(record, metrics=metrics), **choices
            )
        )
    columns = (*KEPT, *keep, *metrics)
    table = pd.DataFrame(columns_of(fit.trace, columns))
    if diverged:
        table = pd.concat([table, _last(table, fit)], ignore_index=True)
    diverged_rows = table["elbo"].abs() > _RESOLVED
    for name in [name for name in worst if name in columns]:
        table[name] = table[name].fillna(worst[name]).mask(diverged_rows, worst[name])
    return table


def _attempt(make: Callable[[], Fit]) -> tuple[Fit, bool]:
    """The fit, and whether it diverged."""
    try:
        return make(), False
    except bqvi.RunError as error:
        if _is_numerical(error.__cause__):
            return error.result(), True
        raise


def _is_numerical(error: BaseException | None) -> bool:
    """Whether ``error`` is due to divergence: numbers that are not finite, or a singular matrix."""
    import torch

    if isinstance(error, bqvi.EvaluationError) and error.no_value:
        return True
    kinds = (ArithmeticError, np.linalg.LinAlgError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
    return isinstance(error, kinds)


def _last(table: pd.DataFrame, fit: Fit) -> pd.DataFrame:
    """A row at the step that failed, with NaN in columns without a value."""
    state = fit.state
    costs = {
        "iteration": state.iteration + 1,
        "seconds": state.seconds,
        "evaluations": state.step_evaluations,
        "samples": state.samples,
        **{name: getattr(state, name) for name in STRATEGY if name in table.columns},
    }
    blank = {name: np.nan for name in table.columns if name not in costs}
    return pd.DataFrame([{**blank, **costs}])[list(table.columns)]


def spread_records(steps: int, number: int = 80) -> Sequence[int]:
    """Return about `number` iterations from 0 to `steps` at even distances on a logarithmic axis."""
    return sorted({0, *np.unique(np.geomspace(1, steps, number).round().astype(int)).tolist()})
