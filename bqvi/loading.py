"""What a file has of a run or of a posterior without the function of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bqvi
from bqvi.calls import Coordinates
from bqvi.inference.state import TraceRow
from bqvi.posterior import ModelPosterior, Posterior, WeightedDraws
from bqvi.posterior.posterior import FORMAT, KIND
from bqvi.quadrature import EstimateRow
from bqvi.records import named, record_of
from bqvi.runs import Trace
from bqvi.runs.checkpoint import require_run
from bqvi.variational_bmc.state import Row
from gp.files import read_arrays
from gp.measures import GaussianMixture

_RESULTS = {"evidence_bounds": "EvidenceBounds", "fit": "Fit", "integrate": "Integral", "vbmc": "VBMCResult"}
_RECORDS = named(
    Coordinates, EstimateRow, GaussianMixture, ModelPosterior, Posterior, Row, Trace, TraceRow, WeightedDraws
)


def load(path: str | Path) -> Any:
    """Read a result, or a posterior, that was saved, without the function of its run.

    Parameters
    ----------
    path : of a file that the ``save`` of a result or of a `Posterior` wrote, or a run of
        ``run=bqvi.Run(checkpoint=path)`` that came to its end.

    Returns
    -------
    The posterior; or the result with its numbers, draws, warnings, records and plots, without its surrogate.
    Its run goes on where the door is given it, or the path, as ``resume``, with the function.

    Raises
    ------
    ValueError
        The file is none of these, is damaged, or of a run that has not ended. OSError if it cannot be opened.
    """
    header, arrays = read_arrays(path, "run")
    if (header.get("kind"), header.get("format")) == (KIND, FORMAT):
        return record_of(path, header, arrays, _RECORDS)
    require_run(path, header)
    door, found = header["door"], record_of(path, header, arrays, _RECORDS, "answer")
    if found is None:
        raise ValueError(
            f"{path} holds a run of bqvi.{door} that has not ended, with {header['n_evaluations']} "
            "evaluations: give it as resume, with the function"
        )
    return _result(door, str(path), found)


def _result(door: str, path: str, found: dict[str, Any]) -> Any:
    kind, (shown, text, rows) = getattr(bqvi, _RESULTS[door]), found["shown"]

    def missing(_: object, name: str) -> Any:
        raise AttributeError(
            f"{kind.__name__} has no {name}, or it is not in a file: bqvi.{door} with the function and "
            f"resume={path!r} has the whole result"
        )

    def save(_: object, path_: object) -> None:
        raise ValueError(f"this result was loaded from {path}: copy that file, which has the whole run")

    shows = {"__repr__": lambda _: shown, "__str__": lambda _: text, "_rows": lambda _: rows, "save": save}
    again = {"__reduce__": lambda _: (_result, (door, path, found)), "_path": path, "checkpoint": None}
    members = {**found, **shows, **again, "__getattr__": missing, "__module__": __name__}
    return object.__new__(type(kind.__name__, (kind,), members))
