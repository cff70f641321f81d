"""What every posterior has: predictions with their standard deviation, a plot, a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gp.arrays import Array, namespace, to_numpy
from gp.extras import needing
from gp.saved import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 300
"""The number of points at which a plot is drawn."""


class PosteriorMethods:
    """Methods that a posterior has by its ``x``, ``y``, ``noise`` and ``mean_and_variance``."""

    x: Any
    y: Any
    noise: Any

    def mean_and_variance(self, x: Any) -> tuple[Array, Array]:
        """Return mean (m,) and variance (m,) of f at points x (m, D)."""
        raise NotImplementedError

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
        MissingExtraError
            matplotlib is not installed: ``pip install "bqvi[plot]"``.
        """
        with needing("plot"):
            from matplotlib import pyplot
        if ax is None:
            _, ax = pyplot.subplots(layout="constrained")
        seen = to_numpy(self.x)
        ends = seen[:, column].min(), seen[:, column].max()
        margin = 0.05 * (ends[1] - ends[0])
        points = np.tile(np.median(seen, axis=0), (_POINTS, 1)).astype(seen.dtype)
        points[:, column] = np.linspace(ends[0] - margin, ends[1] + margin, _POINTS)
        at = namespace(self.x).asarray(points, device=self.x.device) if points.size else self.x
        mean, sd = (to_numpy(part) for part in self.predict(at, return_std=True, include_noise=include_noise))
        line = points[:, column]
        ax.fill_between(line, mean - 1.96 * sd, mean + 1.96 * sd, alpha=0.25, linewidth=0, label="95 %")
        ax.plot(line, mean, label="mean")
        ax.plot(seen[:, column], to_numpy(self.y)[: len(seen)], "k.", label="observations")
        ax.set(xlabel=f"x[:, {column}]", ylabel="f")
        ax.legend()
        return ax

    def save(self, path: str | Path) -> None:
        """Write the posterior to one .npz file of plain arrays at ``path``, atomically; see :func:`gp.load`.

        Raises
        ------
        TypeError
            The kernel or the mean is of the user's own: pickle it. OSError where it cannot be written.
        """
        save(self, path)
