"""Nested records of arrays and numbers, as text and arrays and back; tensors are restored as arrays.

A state consists of dataclasses, distributions, tuples, lists, mappings, arrays, numbers and text. `flattened`
writes it as a skeleton in JSON, with arrays by number; `restored` makes it again from the classes that the
reader gives. No code of a file is run, and another class is an error. A field marked
``metadata={"derived": True}`` is determined by the others and left out.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bqvi import families
from gp.arrays import is_torch, to_numpy
from gp.files import write_arrays

DERIVED: dict[str, Any] = {"derived": True}
"""Metadata of a field that is not saved."""


class RecordError(ValueError):
    """A skeleton that does not agree with the given classes."""


def flattened(value: Any, arrays: list[np.ndarray]) -> Any:
    """The skeleton of ``value``; its arrays are appended to ``arrays``.

    Raises
    ------
    TypeError
        ``value`` holds an object of a kind that is not saved.
    """
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray) or is_torch(value):
        arrays.append(to_numpy(value))
        return {"array": len(arrays) - 1}
    return _nested(value, arrays)


def _nested(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.random.Generator):
        return {"generator": flattened(value.bit_generator.state, arrays)}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [flattened(part, arrays) for part in value]}
    if isinstance(value, Mapping):
        return {"mapping": [[str(name), flattened(part, arrays)] for name, part in value.items()]}
    if type(value).__module__.startswith("bqvi.families."):
        return {"family": type(value).__name__, "parts": flattened(vars(value), arrays)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {name: flattened(getattr(value, name), arrays) for name in _saved(type(value))}
        return {"record": type(value).__name__, "fields": parts}
    raise TypeError(f"a {type(value).__name__} has no place in a saved run")


def restored(skeleton: Any, arrays: Sequence[np.ndarray], classes: Mapping[str, type]) -> Any:
    """The value of which `flattened` made the skeleton.

    Parameters
    ----------
    skeleton, arrays : the result of `flattened`.
    classes : all dataclasses that may occur, by name.

    Raises
    ------
    RecordError
        The skeleton names another class, another field, or an array that is not there.
    """
    if not isinstance(skeleton, dict):
        return skeleton
    if "array" in skeleton:
        if not 0 <= skeleton["array"] < len(arrays):
            raise RecordError("an array is missing")
        return arrays[skeleton["array"]]
    if "generator" in skeleton:
        return _generator(restored(skeleton["generator"], arrays, classes))
    if "mapping" in skeleton:
        return {name: restored(part, arrays, classes) for name, part in skeleton["mapping"]}
    if "record" in skeleton or "family" in skeleton:
        return _record(skeleton, arrays, classes)
    for kind in (tuple, list):
        if kind.__name__ in skeleton:
            return kind(restored(part, arrays, classes) for part in skeleton[kind.__name__])
    raise RecordError(f"nothing is known of {', '.join(skeleton)}")


def write_record(
    path: str | Path, header: Mapping[str, Any], record: Any, compressed: bool = True, answer: Any = None
) -> None:
    """Write a record to an .npz file at ``path``, ``compressed`` or not; ``header`` is what JSON can hold.

    An ``answer`` is written beside it, for `record_of`.
    """
    arrays: list[np.ndarray] = []
    skeletons = {"state": flattened(record, arrays), "answer": flattened(answer, arrays)}
    whole = {**header, "arrays": len(arrays), **skeletons}
    write_arrays(path, whole, {f"array{i}": x for i, x in enumerate(arrays)}, compressed=compressed)


def record_of(
    path: str | Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    classes: Mapping[str, type],
    part: str = "state",
) -> Any:
    """The record that `write_record` wrote, from the ``header`` and the ``arrays`` of the file at ``path``.

    Its ``part`` "answer" is that which was written beside it.

    Raises
    ------
    ValueError
        The file was written by another version of bqvi, or changed.
    """
    try:
        values = [arrays[f"array{i}"] for i in range(header["arrays"])]
        return restored(header[part], values, classes)
    except (RecordError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} was written by another version of bqvi, or is damaged: {error}") from None


def fingerprint(arrays: Any) -> str:
    """A checksum of some hundred rows spread over ``arrays``, which almost surely differs for other numbers.

    Parameters
    ----------
    arrays : an array of any shape, dense or sparse, a tensor, a tuple of these, or None, which has "".
    """
    if arrays is None:
        return ""
    if isinstance(arrays, tuple):
        return " ".join(fingerprint(part) for part in arrays)
    some = np.unique(np.linspace(0, arrays.shape[0] - 1, 100).astype(int)) if any(arrays.shape[:1]) else ...
    rows = arrays[some]
    dense = rows.toarray() if hasattr(rows, "toarray") else to_numpy(rows)
    return f"{zlib.crc32(np.ascontiguousarray(dense).tobytes()):08x}"


def named(*classes: type) -> dict[str, type]:
    """The classes by name."""
    return {one.__name__: one for one in classes}


def classes_in(value: Any) -> dict[str, type]:
    """The dataclasses in ``value``, by name."""
    return named(*_classes(value))


def _classes(value: Any) -> Iterator[type]:
    if isinstance(value, tuple | list):
        for part in value:
            yield from _classes(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _classes(part)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value)
        for name in _saved(type(value)):
            yield from _classes(getattr(value, name))


def _saved(record: type) -> Iterator[str]:
    return (
        field.name
        for field in dataclasses.fields(record)
        if field.init and not field.metadata.get("derived", False)
    )


def _record(skeleton: Mapping[str, Any], arrays: Sequence[np.ndarray], classes: Mapping[str, type]) -> Any:
    if "family" in skeleton:
        made = object.__new__(getattr(families, skeleton["family"]))
        vars(made).update(restored(skeleton["parts"], arrays, classes))
        return made
    name, parts = skeleton["record"], skeleton["fields"]
    if name not in classes:
        raise RecordError(f"there is no record {name}")
    fields = set(_saved(classes[name]))
    if set(parts) != fields:
        odd = ", ".join(sorted(set(parts) ^ fields))
        raise RecordError(f"the record {name} has other fields ({odd})")
    return classes[name](**{field: restored(part, arrays, classes) for field, part in parts.items()})


def _generator(state: Any) -> np.random.Generator:
    kinds = {kind.__name__: kind for kind in np.random.BitGenerator.__subclasses__()}
    if not isinstance(state, dict) or state.get("bit_generator") not in kinds:
        raise RecordError("there is no such kind of generator")
    bits = kinds[state["bit_generator"]]()
    bits.state = state
    return np.random.Generator(bits)
