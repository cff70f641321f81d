"""What every posterior has: predictions with their standard deviation, a plot, a file.

A file is an .npz of plain arrays, with a JSON header that says what they are the parts of. A posterior
consists of dataclasses of this package (kernel, mean, observations, factor, hyperparameters), numbers and
arrays. Each is written by its fields, and nothing is computed when it is loaded, so that predictions have
equal digits. No code is stored: a kernel or a mean of the user's own is
refused, and can be pickled.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gp.arrays import Array, is_torch, namespace, to_numpy
from gp.files import read_arrays, write_arrays
from gp.names import needing, suggesting
from gp.observations import names_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_VERSION = 1
_POINTS = 300
"""The number of points at which a plot is drawn."""


class PosteriorMethods:
    """Methods that a posterior has by its ``observations``, ``y``, ``noise`` and ``mean_and_variance``."""

    observations: Any
    y: Any
    noise: Any

    @property
    def x(self) -> Array:
        """Points of the observations, (n, D) if all are values (else those of the first block)."""
        return self.observations.x

    def mean_and_variance(self, x: Any) -> tuple[Array, Array]:
        """Return mean (m,) and variance (m,) of f at points x (m, D)."""
        raise NotImplementedError

    def variance(self, x: Any) -> Array:
        """Return the variance of f (without noise) at points x (m, D): (m,), never negative."""
        return self.mean_and_variance(x)[1]

    @suggesting
    def predict(self, x: Array, return_std: bool = False, include_noise: bool = False) -> Any:
        """Return the mean at points x (m, D), (m,), and the standard deviation (m,) if asked for.

        Parameters
        ----------
        x : points, (m, D).
        return_std : whether the result is (mean, sd) instead of the mean.
        include_noise : whether the sd is that of a new observation instead of that of f. Its noise is that
            of the process; where each observation has its own, their average.
        """
        mean, variance = self.mean_and_variance(x)
        if not return_std:
            return mean
        noise = self.noise.mean() if getattr(self.noise, "ndim", 0) else self.noise
        return mean, namespace(variance).sqrt(variance + noise if include_noise else variance)

    def plot(self, ax: Axes | None = None, include_noise: bool = True, column: int = 0) -> Axes:
        """Draw the mean, its 95 % interval and the observations along a column of the inputs.

        Parameters
        ----------
        ax : the axes of matplotlib in which to draw; by default new ones.
        include_noise : whether the interval is that of new observations.
        column : the column that varies; the others have their medians.

        Raises
        ------
        MissingExtraError, ValueError
            matplotlib is not installed: ``pip install "bqvi[plot]"``; or there is no such column.
        """
        with needing():
            from matplotlib import pyplot
        seen = to_numpy(self.x)
        if column not in range(seen.shape[1]):
            raise ValueError(f"column is {column!r}; it must be an integer from 0, below {seen.shape[1]}")
        if ax is None:
            _, ax = pyplot.subplots(layout="constrained")
        ends = seen[:, column].min(), seen[:, column].max()
        margin = 0.05 * (ends[1] - ends[0])
        points = np.tile(np.median(seen, axis=0), (_POINTS, 1)).astype(seen.dtype)
        points[:, column] = np.linspace(ends[0] - margin, ends[1] + margin, _POINTS)
        at = namespace(self.x).asarray(points, device=self.x.device) if points.size else self.x
        mean, sd = (to_numpy(part) for part in self.predict(at, return_std=True, include_noise=include_noise))
        line, label = points[:, column], "95 % of observations" if include_noise else "95 %"
        ax.fill_between(line, mean - 1.96 * sd, mean + 1.96 * sd, alpha=0.25, linewidth=0, label=label)
        ax.plot(line, mean, label="mean")
        ax.plot(seen[:, column], to_numpy(self.y)[: len(seen)], "k.", label="observations")
        names = names_of(self.observations)
        ax.set(xlabel=names[column] if names else f"x[:, {column}]", ylabel="f")
        ax.legend()
        return ax

    def save(self, path: str | Path) -> None:
        """Write the posterior to one .npz file of plain arrays at ``path``, atomically; see :func:`gp.load`.

        Raises
        ------
        TypeError
            The kernel or the mean is of the user's own: pickle it. OSError where it cannot be written.
        """
        arrays: dict[str, np.ndarray] = {}
        tree = _flattened(self, arrays)
        write_arrays(path, {"gp": _VERSION, "posterior": tree}, arrays)


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
    return _restored(header["posterior"], arrays)


def _flattened(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """What JSON can hold in the place of a value, whose arrays are added to ``arrays``."""
    if value is None or isinstance(value, bool | str | int) or type(value) is float:
        return value
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_flattened(each, arrays) for each in value]}
    if isinstance(value, np.ndarray | np.generic) or is_torch(value):
        kind = "tensor" if is_torch(value) else "scalar" if isinstance(value, np.generic) else "array"
        name = f"a{len(arrays)}"
        arrays[name] = to_numpy(value)
        return {kind: name}
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    if not (name.startswith("gp.") and (is_dataclass(value) or isinstance(value, float))):
        raise TypeError(
            f"a {name.replace(':', '.')} cannot be saved: files hold kernels, means and "
            "arrays of this package; use pickle"
        )
    if isinstance(value, float):
        return {"number": [name, float(value)]}
    return {
        "object": [name, {each.name: _flattened(getattr(value, each.name), arrays) for each in fields(value)}]
    }


def _restored(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The value that a tree stands for."""
    if not isinstance(tree, dict):
        return tree
    ((kind, what),) = tree.items()
    if kind in ("tuple", "list"):
        parts = [_restored(each, arrays) for each in what]
        return tuple(parts) if kind == "tuple" else parts
    if kind == "number":
        return _class(what[0])(what[1])
    if kind == "object":
        own = _class(what[0])
        made = object.__new__(own)
        for each in fields(own):
            object.__setattr__(made, each.name, _restored(what[1][each.name], arrays))
        return made
    if kind == "tensor":
        import torch

        return torch.from_numpy(arrays[what])
    return arrays[what][()] if kind == "scalar" else arrays[what]


def _class(name: str) -> Any:
    """A class of this package, and no other object."""
    module, _, qualified = name.partition(":")
    kind = getattr(import_module(module), qualified, None) if module.startswith("gp.") else None
    if not (isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, float))):
        raise ValueError(f"the file holds a {name}, which is no part of a posterior")
    return kind
