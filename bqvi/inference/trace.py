"""The records of a run: evaluations, seconds and ELBO at the iterations that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from bqvi.checks import require_integer
from gp.arrays import shown

__all__ = ["Metrics", "Recorder", "TraceRow", "require_metrics"]


@dataclass(frozen=True)
class TraceRow:
    """One record; the cost of making it is not in ``seconds``."""

    iteration: int
    """Steps taken before it."""
    seconds: float
    """Time of those steps, less all recording."""
    step_evaluations: int
    """Per-datum evaluations of those steps (of the log joint for a model without data)."""
    samples: int
    """Draws of theta of those steps."""
    elbo: float
    """ELBO of q, nats: exact with all its constants, or an estimate if ``elbo_sd`` > 0."""
    elbo_sd: float
    """Standard deviation of ``elbo``; 0 where it is exact."""
    bound: float
    """The estimator's own bound at this iteration (IWAE's L_L, say), nats; NaN where it has none."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The caller's own measures of q."""
    setup_seconds: float = 0.0
    """Time of the mini-batch strategy before the first step; not in ``seconds``."""
    minibatch_seconds: float = 0.0
    """Time of the strategy in those steps; in ``seconds``."""
    record_evaluations: int = 0
    """Evaluations for the ELBO of this record, in the units of ``step_evaluations``, which leave them out."""
    n_evaluations: int = 0
    """All evaluations so far: of the steps, of this record and of those before it."""


@dataclass(frozen=True)
class Recorder:
    """The iterations that are recorded: one in ``every``, or the chosen ones; the last always."""

    every: int = 1
    chosen: frozenset[int] | None = None
    first: bool = True
    """Whether the start is recorded."""

    @classmethod
    def of(cls, record: int | Iterable[int]) -> Recorder:
        """Make the recorder for an argument of `fit`."""
        if isinstance(record, int | np.integer):
            return cls(every=require_integer("record", record, 1))
        if not isinstance(record, Iterable) or (isinstance(record, np.ndarray) and not record.ndim):
            raise TypeError(f"record is {shown(record)}; it must be an integer of at least 1, or iterations")
        return cls(chosen=frozenset(require_integer("record", t, 0) for t in record))

    def is_due(self, iteration: int) -> bool:
        """Whether ``iteration`` is to be recorded."""
        if iteration == 0:
            return self.first
        if self.chosen is not None:
            return iteration in self.chosen
        return iteration % self.every == 0


Metrics = Mapping[str, Callable[[Any], float]]
"""Functions of q by name, recorded with the ELBO."""


def require_metrics(metrics: object) -> None:
    """Raise an error unless ``metrics`` are functions by name, none of them the name of a column."""
    if not isinstance(metrics, Mapping):
        raise TypeError(f"metrics is a {type(metrics).__name__}; it must be a mapping, name -> function of q")
    columns = [column.name for column in fields(TraceRow) if column.name != "metrics"]
    for name, metric in metrics.items():
        if not isinstance(name, str) or name in columns:
            raise ValueError(
                f"metrics has the name {name!r}; it must be text, and none of {', '.join(columns)}"
            )
        if not callable(metric):
            raise TypeError(f"metrics[{name!r}] is {metric!r}; it must be a function of q")
