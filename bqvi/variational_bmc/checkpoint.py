"""A run on disk: one .npz of plain arrays with a JSON header, no pickles.

A `State` is arrays and numbers, so writing it is listing them. The surrogate is not written: it follows from
the evaluations and the hyperparameters.
"""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bqvi.calls import Evaluations
from bqvi.calls.coordinates import Coordinates
from bqvi.files import write_arrays
from bqvi.variational_bmc.frame import Frame
from bqvi.variational_bmc.state import Row, State
from bqvi.variational_bmc.variational import Mixture

FORMAT = 1
_COORDINATES = "coordinates."
_OPTIONAL = ("theta", "mean", "covariance")


def write(path: str | Path, state: State, settings: dict[str, Any]) -> None:
    """Write atomically: an interrupted write leaves the previous file as it was."""
    made = state.evaluations
    arrays: dict[str, Any] = {
        "points": made.points,
        "values": made.values,
        "failed": made.failed,
        "predicted": state.predicted,
        "pending": state.pending,
        "pending_predicted": state.pending_predicted,
        "frame.shift": state.frame.shift,
        "frame.scale": state.frame.scale,
    }
    optional = {"gradients": made.gradients, "noise_variance": made.noise_variance}
    optional |= {name: getattr(state, name) for name in _OPTIONAL}
    if state.q is not None:
        optional |= {"q.weights": state.q.weights, "q.means": state.q.means, "q.scales": state.q.scales}
    arrays |= {name: value for name, value in optional.items() if value is not None}
    if state.coordinates is not None:
        arrays |= {_COORDINATES + name: value for name, value in state.coordinates.to_arrays().items()}
    for column in dataclasses.fields(Row):
        arrays[f"row.{column.name}"] = np.array([getattr(row, column.name) for row in state.rows])
    header = {
        "format": FORMAT,
        "kind": "vbmc",
        "settings": settings,
        "seconds": state.seconds,
        "reach": state.reach,
        "fitted_at": state.fitted_at,
        "reasons": list(made.reasons),
    }
    write_arrays(path, header, arrays)


def read(path: str | Path) -> tuple[State, dict[str, Any]]:
    """Read a file that `write` made; ValueError for something else, or another format."""
    try:
        with np.load(Path(path), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise ValueError(f"{path} is not a saved run of vbmc: {error}") from None
    header = json.loads(str(arrays["header"])) if "header" in arrays else {}
    if header.get("kind") != "vbmc":
        raise ValueError(f"{path} is not a saved run of vbmc")
    if header["format"] != FORMAT:
        raise ValueError(f"{path} has format {header['format']}; this version reads {FORMAT}")
    made = Evaluations(
        arrays["points"],
        arrays["values"],
        arrays.get("gradients"),
        arrays.get("noise_variance"),
        arrays["failed"],
        tuple(header["reasons"]),
    )
    q = Mixture(arrays["q.weights"], arrays["q.means"], arrays["q.scales"]) if "q.means" in arrays else None
    meaning = {k.removeprefix(_COORDINATES): v for k, v in arrays.items() if k.startswith(_COORDINATES)}
    state = State(
        evaluations=made,
        predicted=arrays["predicted"],
        pending=arrays["pending"],
        pending_predicted=arrays["pending_predicted"],
        frame=Frame(arrays["frame.shift"], arrays["frame.scale"]),
        q=q,
        reach=header["reach"],
        fitted_at=header["fitted_at"],
        rows=_rows(arrays),
        seconds=header["seconds"],
        coordinates=Coordinates.from_arrays(meaning) if meaning else None,
        **{name: arrays.get(name) for name in _OPTIONAL},
    )
    return state, header["settings"]


def _rows(arrays: dict[str, Any]) -> tuple[Row, ...]:
    names = [column.name for column in dataclasses.fields(Row)]
    columns = [arrays[f"row.{name}"].tolist() for name in names]
    return tuple(Row(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True))
