"""A run of Bayesian quadrature on disk: one .npz of plain arrays with a JSON header, no pickles.

A `State` is arrays and numbers, so writing it is listing them. The surrogates are not written: they
follow from the nodes and the hyperparameters.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bqvi.files import write_arrays
from bqvi.quadrature.bayesian import State
from bqvi.quadrature.credibility import Past
from bqvi.quadrature.ensemble import Fits
from bqvi.quadrature.integral import Row

FORMAT = 2


def write(path: str | Path, state: State, settings: dict[str, Any]) -> None:
    """Write atomically: an interrupted write leaves the previous file as it was."""
    arrays: dict[str, Any] = {"u": state.u, "values": state.values, "sobol": state.sobol}
    if state.slopes is not None:
        arrays["slopes"] = state.slopes
    fits = state.fits
    if fits is not None:
        arrays |= {f"theta.{name}": theta for name, theta in fits.thetas.items()}
        if fits.rotation is not None:
            arrays["rotation"] = fits.rotation
    for name in ("mean", "variance", "shift", "promised"):
        arrays[f"past.{name}"] = np.array([getattr(past, name) for past in state.past])
    for name in ("n_evaluations", "seconds", "mean", "sd"):
        arrays[f"row.{name}"] = np.array([getattr(row, name) for row in state.rows])
    header = {
        "format": FORMAT,
        "settings": settings,
        "fitted_at": state.fitted_at,
        "seconds": state.seconds,
        "resting": [] if fits is None else list(fits.resting),
    }
    write_arrays(path, header, arrays)


def read(path: str | Path) -> tuple[State, dict[str, Any]]:
    """Read a file that `write` made; raises ValueError for something else, or another format."""
    if not zipfile.is_zipfile(path) and Path(path).exists():
        raise ValueError(f"{path} is not a saved quadrature: it is no .npz file")
    with np.load(Path(path), allow_pickle=False) as stored:
        if "header" not in stored:
            raise ValueError(f"{path} is not a saved quadrature: it has no header")
        arrays = {name: stored[name] for name in stored.files}
    header = json.loads(str(arrays["header"]))
    if header.get("format") != FORMAT:
        raise ValueError(f"{path} has format {header.get('format')}; this version reads {FORMAT}")
    thetas = {k.removeprefix("theta."): v for k, v in arrays.items() if k.startswith("theta.")}
    fits = Fits(thetas, arrays.get("rotation"), tuple(header["resting"]))
    state = State(
        u=arrays["u"],
        values=arrays["values"],
        slopes=arrays.get("slopes"),
        sobol=arrays["sobol"],
        fits=fits if thetas else None,
        fitted_at=header["fitted_at"],
        past=_past(arrays),
        rows=_rows(arrays),
        seconds=header["seconds"],
    )
    return state, header["settings"]


def _past(arrays: dict[str, Any]) -> tuple[Past, ...]:
    columns = [arrays[f"past.{name}"] for name in ("mean", "variance", "shift", "promised")]
    return tuple(
        Past(mean, variance, float(shift), bool(promised))
        for mean, variance, shift, promised in zip(*columns, strict=True)
    )


def _rows(arrays: dict[str, Any]) -> tuple[Row, ...]:
    columns = [arrays[f"row.{name}"] for name in ("n_evaluations", "seconds", "mean", "sd")]
    return tuple(
        Row(int(n), float(seconds), _plain(mean), _plain(sd))
        for n, seconds, mean, sd in zip(*columns, strict=True)
    )


def _plain(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else value
