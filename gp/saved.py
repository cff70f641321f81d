"""Posteriors in files: an .npz of plain arrays, and a JSON header that says what they are the parts of.

A posterior consists of dataclasses of this package (kernel, mean, observations, factor, hyperparameters),
numbers and arrays. Each is written by its fields, once, however many others share it; nothing is computed
when it is loaded, so that predictions have equal digits. No code is stored: a kernel or a mean of the user's
own is refused, and can be pickled.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from gp.arrays import is_torch
from gp.files import read_arrays, write_arrays

_VERSION = 1


def save(posterior: Any, path: str | Path) -> None:
    """Write a posterior to one .npz file at ``path``, atomically; :func:`gp.load` reads it.

    Raises
    ------
    TypeError
        A part of it is no object of this package, as a kernel of the user's own: pickle it.
    """
    writer = _Writer()
    header = {"gp": _VERSION, "posterior": writer.tree(posterior), "objects": writer.objects}
    write_arrays(path, header, writer.arrays)


def load(path: str | Path) -> Any:
    """Return the posterior that ``posterior.save(path)`` wrote, with equal digits; tensors lie on the CPU.

    Parameters
    ----------
    path : the file.

    Raises
    ------
    ValueError
        The file is no saved posterior of this package, or is damaged. OSError if it cannot be opened.
    """
    header, arrays = read_arrays(path, "posterior")
    if header.get("gp") != _VERSION:
        raise ValueError(f"{path} is no posterior of gp.fit or GaussianProcess.condition of this version")
    return _Reader(arrays, header["objects"]).value(header["posterior"])


class _Writer:
    """The objects, by their fields, and the arrays of a posterior."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.arrays: dict[str, np.ndarray] = {}
        self._places: dict[int, tuple[Any, Any]] = {}

    def tree(self, value: Any) -> Any:
        """What JSON can hold in the place of a value."""
        if value is None or isinstance(value, bool | str | int):
            return value
        if type(value) is float:
            return value
        if isinstance(value, tuple | list):
            return {type(value).__name__: [self.tree(each) for each in value]}
        if id(value) not in self._places:
            self._places[id(value)] = (value, self._written(value))
        return self._places[id(value)][1]

    def _written(self, value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic) or is_torch(value):
            kind = "tensor" if is_torch(value) else "scalar" if isinstance(value, np.generic) else "array"
            values = value.detach().cpu().numpy() if kind == "tensor" else np.asarray(value)
            name = f"a{len(self.arrays)}"
            self.arrays[name] = values
            return {kind: name}
        own = type(value).__module__.startswith("gp.") and (is_dataclass(value) or isinstance(value, float))
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        if not own:
            raise TypeError(
                f"a {name.replace(':', '.')} cannot be saved: files hold kernels, means and "
                "arrays of this package; use pickle"
            )
        if isinstance(value, float):
            return {"number": [name, float(value)]}
        parts = {each.name: self.tree(getattr(value, each.name)) for each in fields(value)}
        self.objects.append([name, parts])
        return {"object": len(self.objects) - 1}


class _Reader:
    """The values of a file; an object that several share is made once."""

    def __init__(self, arrays: dict[str, np.ndarray], objects: list[Any]) -> None:
        self._arrays, self._objects = arrays, objects
        self._done: dict[int, Any] = {}

    def value(self, tree: Any) -> Any:
        """The value that a tree stands for."""
        if not isinstance(tree, dict):
            return tree
        ((kind, what),) = tree.items()
        if kind in ("tuple", "list"):
            parts = [self.value(each) for each in what]
            return tuple(parts) if kind == "tuple" else parts
        if kind == "number":
            return _class(what[0])(what[1])
        if kind == "object":
            if what not in self._done:
                self._done[what] = self._object(*self._objects[what])
            return self._done[what]
        values = self._arrays[what]
        if kind == "tensor":
            import torch

            return torch.from_numpy(values)
        return values[()] if kind == "scalar" else values

    def _object(self, name: str, parts: dict[str, Any]) -> Any:
        kind = _class(name)
        made = object.__new__(kind)
        for each in fields(kind):
            object.__setattr__(made, each.name, self.value(parts[each.name]))
        return made


def _class(name: str) -> Any:
    """A class of this package, and no other object."""
    module, _, qualified = name.partition(":")
    kind = getattr(import_module(module), qualified, None) if module.startswith("gp.") else None
    if not (isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, float))):
        raise ValueError(f"the file holds a {name}, which is no part of a posterior")
    return kind
