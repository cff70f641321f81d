"""What `bqvi.fit` returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bqvi.inference.loop import Problem, State
from bqvi.inference.trace import Trace
from bqvi.runs import Checkpoint


@dataclass(frozen=True, repr=False)
class Fit:
    """What `fit` found, and what it took."""

    q: Any
    """The variational posterior."""
    elbo: float
    """Its ELBO, nats."""
    trace: Trace
    """Iterations, seconds, evaluations, samples, ELBO and metrics along the way."""
    stopped: str
    """Why it ended: 'tolerance', 'steps', 'budget', 'seconds', 'failed', 'interrupted' or 'unfinished'."""
    checkpoint: Checkpoint
    """Where the run stands; pass the fit as ``resume`` to go on from here."""
    problem: Problem
    """What was run."""
    state: State
    """Where q stands: that of the checkpoint, or of its best start."""
    starts: tuple[float, ...] = ()
    """Final ELBO of each start, where there were several."""

    @property
    def settings(self) -> dict[str, str]:
        """The choices, in words."""
        return dict(self.checkpoint.settings)

    @property
    def converged(self) -> bool:
        """Whether the ELBO settled within the tolerance."""
        return self.stopped == "tolerance"

    @property
    def n_evaluations(self) -> int:
        """Evaluations in all, of every start, step and record: per datum, or of a log joint without data."""
        return self.checkpoint.n_evaluations

    def save(self, path: str | Path) -> None:
        """Write the run to an .npz file that ``bqvi.fit(..., resume=path)`` goes on from."""
        self.checkpoint.save(path)

    def __repr__(self) -> str:
        return (
            f"Fit(elbo={self.elbo:.6g}, {type(self.q).__name__}, {self.state.iteration} steps, "
            f"{self.n_evaluations} evaluations, stopped: {self.stopped})"
        )
