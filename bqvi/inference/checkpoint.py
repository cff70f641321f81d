"""A state on disk: one .npz of plain arrays with a JSON header, no pickles.

A state is nested tuples and records of arrays and numbers. It is written as a flat list of its arrays
and read back into the shape of a *template*, the state that the same call of `fit` starts from; so a
file says nothing about code, and reading one runs none. Arrays keep the template's shape, but for those of a
record whose field is marked ``metadata={"grows": True}``: of these the first dimension is the file's.
A field marked ``metadata={"derived": True}`` is not saved.
"""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bqvi.arrays import Values
from bqvi.files import write_arrays
from bqvi.inference.geometry import Geometry
from bqvi.inference.loop import State
from bqvi.inference.trace import COLUMNS, Row, Trace

FORMAT = 2
_COUNTS = ("iteration", "seconds", "evaluations", "samples", "setup_seconds", "minibatch_seconds")


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """What a file holds."""

    header: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]

    @property
    def settings(self) -> dict[str, str]:
        """The choices that the state belongs to."""
        return dict(self.header["settings"])


def write(
    path: str | Path, state: State, trace: Trace, geometry: Geometry, settings: Mapping[str, str]
) -> None:
    """Write atomically: an interrupted write leaves the previous file as it was."""
    leaves = list(_leaves((geometry.coordinates(state.q), state.schedule, state.minibatch, state.memory)))
    arrays = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    arrays |= {f"trace.{name}": trace[name] for name in trace.columns}
    header = {
        "format": FORMAT,
        "settings": dict(settings),
        "rng": state.rng.bit_generator.state,
        "leaves": len(leaves),
        "columns": list(trace.columns),
        **{name: getattr(state, name) for name in _COUNTS},
    }
    write_arrays(path, header, arrays, _plain)


def read(path: str | Path) -> Checkpoint:
    """Read a file that `write` made.

    Raises
    ------
    ValueError
        It is something else, or of another format.
    """
    with _opened(Path(path)) as stored:
        if "header" not in stored:
            raise ValueError(f"{path} is not a saved fit: it has no header")
        header = json.loads(str(stored["header"]))
        arrays = {name: stored[name] for name in stored.files if name != "header"}
    if header.get("format") != FORMAT:
        raise ValueError(f"{path} has format {header.get('format')}; this version reads {FORMAT}")
    return Checkpoint(header, arrays)


def restore(checkpoint: Checkpoint, template: State, geometry: Geometry) -> tuple[State, Trace]:
    """The saved state and trace, in the shape of ``template``."""
    header = checkpoint.header
    leaves = iter([checkpoint.arrays[f"leaf{i}"] for i in range(header["leaves"])])
    shape = (geometry.coordinates(template.q), template.schedule, template.minibatch, template.memory)
    coordinates, schedule, minibatch, memory = _filled(shape, leaves)
    state = State(
        q=geometry.at(template.q, coordinates),
        rng=_generator(header["rng"]),
        schedule=schedule,
        minibatch=minibatch,
        memory=memory,
        **{name: header[name] for name in _COUNTS if name in header},
    )
    return state, _trace(checkpoint)


def require_shapes(saved: Values, needed: Values) -> None:
    """ValueError unless the arrays ``saved`` have the shapes of those ``needed``."""
    for found, template in zip(saved, needed, strict=True):
        _require_shape(found, template)


def _require_shape(saved: np.ndarray, needed: np.ndarray) -> None:
    if saved.shape != needed.shape:
        raise ValueError(
            f"the saved state has an array of shape {saved.shape} where this model and data have "
            f"{needed.shape}; resume with the model and data that it was saved with"
        )


def _opened(path: Path) -> Any:
    try:
        stored = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile):
        stored = None
    if not isinstance(stored, np.lib.npyio.NpzFile):
        raise ValueError(f"{path} is not a saved fit: it is no .npz file")
    return stored


def _generator(state: Mapping[str, Any]) -> np.random.Generator:
    """A generator of the kind that was saved, where it stood."""
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = _with_arrays(state)
    return np.random.Generator(bits)


def _with_arrays(value: Any) -> Any:
    """JSON's lists as the arrays that they were."""
    if isinstance(value, dict):
        return {name: _with_arrays(part) for name, part in value.items()}
    return np.array(value, dtype=np.uint64) if isinstance(value, list) else value


def _leaves(value: Any) -> Iterator[Any]:
    """Arrays and numbers of nested tuples and records, in order."""
    if value is None:
        return
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    elif dataclasses.is_dataclass(value):
        for field in _saved(value):
            yield from _leaves(getattr(value, field.name))
    else:
        yield value


def _saved(record: Any) -> Iterator[dataclasses.Field[Any]]:
    return (field for field in dataclasses.fields(record) if not field.metadata.get("derived", False))


def _filled(template: Any, leaves: Iterator[np.ndarray], grows: bool = False) -> Any:
    """``template`` with its arrays and numbers replaced by the next ``leaves``."""
    if template is None:
        return None
    if isinstance(template, tuple):
        return tuple(_filled(part, leaves) for part in template)
    if dataclasses.is_dataclass(template) and not isinstance(template, type):
        parts = {
            field.name: _filled(getattr(template, field.name), leaves, field.metadata.get("grows", False))
            for field in _saved(template)
        }
        return dataclasses.replace(template, **parts)
    leaf = next(leaves)
    if isinstance(template, np.ndarray):
        if not grows:
            _require_shape(leaf, template)
        elif leaf.ndim != template.ndim or leaf.shape[1:] != template.shape[1:]:
            raise ValueError(
                f"the saved state has an array of shape {leaf.shape} where this model and data have "
                f"{template.shape}; resume with the model and data that it was saved with"
            )
        return leaf
    return type(template)(leaf)


def _trace(checkpoint: Checkpoint) -> Trace:
    columns = {name: checkpoint.arrays[f"trace.{name}"] for name in checkpoint.header["columns"]}
    if not columns:
        return Trace()
    rows = []
    for i in range(len(columns["iteration"])):
        values = {name: column[i].item() for name, column in columns.items()}
        metrics = {name: value for name, value in values.items() if name not in COLUMNS}
        rows.append(Row(**{name: values[name] for name in COLUMNS if name in values}, metrics=metrics))
    return Trace(tuple(rows))


def _plain(value: Any) -> Any:
    """Numbers and arrays of a generator's state as JSON."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a state holds {type(value).__name__}, which has no place in a header")
