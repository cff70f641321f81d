"""The picture of a posterior: marginals and pairs of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bqvi.canvas import COLOURS
from bqvi.posterior.posterior import Posterior
from gp.checks import require_numbers, require_shape
from gp.names import needing

with needing():
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = (0.9, 0.5)
"""Probabilities inside the contours."""
_COLOUR = COLOURS[0]


def _names_of(posterior: Posterior, parameters: Sequence[str] | str | None) -> tuple[str, ...]:
    """The names of the parameters that are shown."""
    if isinstance(parameters, str):
        parameters = (parameters,)
    names = posterior.free_names if parameters is None else tuple(parameters)
    unknown = [name for name in names if name not in posterior.names]
    if unknown or not names:
        raise ValueError(
            f"parameters is {list(names)}; it must be one or more of {', '.join(posterior.names)}"
        )
    return names


def corner(posterior: Posterior, figure: Figure, parameters: Any, truth: Any, n: int, seed: int) -> Figure:
    """Draw a ``posterior`` in a ``figure``; ``parameters``, ``truth``, ``n`` and ``seed`` as its method.

    Above each marginal stand the median and the 5 % and 95 % quantiles, which are marked by dashed lines.
    """
    names = _names_of(posterior, parameters)
    index = [posterior.names.index(name) for name in names]
    x, known = posterior.sample(n, seed)[:, index], None
    if truth is not None:
        known = require_numbers("truth", truth)
        require_shape("truth", known, (len(posterior.names),))
        known = known[index]
    d = len(names)
    axes = figure.subplots(d, d, squeeze=False, sharex="col")
    for i in range(d):
        for j in range(d):
            _panel(axes[i, j], i, j, x, known)
        _titled(axes[i, i], names[i], x[:, i])
        axes[d - 1, i].set_xlabel(names[i])
        if i > 0:
            axes[i, 0].set_ylabel(names[i])
    return figure


def _panel(ax: Axes, i: int, j: int, x: np.ndarray, truth: np.ndarray | None) -> None:
    if j > i:
        ax.set_axis_off()
        return
    if i == j:
        ax.hist(x[:, i], bins=50, density=True, histtype="step", color=_COLOUR)
        ax.set_yticks([])
    else:
        ax.plot(x[:, j], x[:, i], ",", color=_COLOUR, alpha=0.3, rasterized=True)
        _contours(ax, x[:, [j, i]])
    if truth is not None:
        ax.axvline(truth[j], color="0.4", lw=0.8)
        if i != j:
            ax.axhline(truth[i], color="0.4", lw=0.8)


def _titled(ax: Axes, name: str, x: np.ndarray) -> None:
    """Mark the median and the central 90 % of draws (n,), and state them above."""
    low, middle, high = np.quantile(x, (0.05, 0.5, 0.95))
    for value in (low, middle, high):
        ax.axvline(value, color=_COLOUR, lw=0.8, ls="--")
    digits = max(0, min(6, 1 - int(np.floor(np.log10(max(high - low, 1e-300))))))
    ax.set_title(f"{name}: {middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]", fontsize=8)


def _contours(ax: Axes, x: np.ndarray) -> None:
    """Contours of a smoothed histogram that hold 90 % and 50 %."""
    counts, *edges = np.histogram2d(x[:, 0], x[:, 1], bins=30)
    kernel = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16.0
    for axis in (0, 1):
        counts = np.apply_along_axis(np.convolve, axis, counts, kernel, "same")
    levels = highest(counts)
    if levels[0] < levels[1]:
        middles = [0.5 * (e[:-1] + e[1:]) for e in edges]
        ax.contour(*middles, counts.T, levels=levels, colors=_COLOUR, linewidths=0.9)


def highest(density: np.ndarray) -> list[float]:
    """Levels above which 90 % and 50 % of the mass lie; equal where there is none."""
    ordered = np.sort(density.ravel())[::-1]
    if ordered.sum() == 0.0:
        return [0.0 for _ in _LEVELS]
    reached = np.cumsum(ordered) / ordered.sum()
    index = np.minimum(np.searchsorted(reached, np.array(_LEVELS)), len(ordered) - 1)
    return [float(ordered[k]) for k in index]
