"""The picture of a posterior: marginals and pairs of parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bqvi.canvas import COLOURS, new_figure
from bqvi.posterior.posterior import Posterior
from gp.extras import needing

with needing():
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = (0.9, 0.5)
"""Probabilities inside the contours."""
_COLOUR, _OTHER = COLOURS[:2]


def _rows_of(name: str, given: object, columns: int, vector: bool = False) -> np.ndarray:
    """(n, columns), or (columns,) of a vector, of numbers."""
    try:
        array = np.asarray(given, float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is a {type(given).__name__}; it must be real numbers") from None
    if array.ndim != (1 if vector else 2) or array.shape[-1] != columns:
        shape = f"({columns},)" if vector else f"(n, {columns})"
        raise ValueError(f"{name} has shape {array.shape}; it must be {shape}, one for each parameter")
    return array


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


def corner(
    posterior: Posterior,
    figure: Figure | None = None,
    *,
    parameters: Sequence[str] | None = None,
    truth: Sequence[float] | np.ndarray | None = None,
    draws: np.ndarray | None = None,
    n: int = 5000,
    seed: int = 0,
) -> Figure:
    """Draw the marginals on the diagonal and draws with 50 % and 90 % contours below it.

    Above each marginal stand the median and the 5 % and 95 % quantiles, which are marked by dashed lines.

    Parameters
    ----------
    posterior : the posterior whose draws are shown.
    figure : the figure in which to draw; a new one if None.
    parameters : names of the parameters shown, or one name; the free ones if None.
    truth : (P,), marked by lines.
    draws : (m, P), draws of another posterior, shown in a second colour.
    n : the number of draws shown. seed : seed of the draws.
    """
    names = _names_of(posterior, parameters)
    index = [posterior.names.index(name) for name in names]
    sets = [(posterior.sample(n, seed)[:, index], _COLOUR)]
    if draws is not None:
        sets.append((_rows_of("draws", draws, len(posterior.names))[:, index], _OTHER))
    known = None
    if truth is not None:
        known = _rows_of("truth", truth, len(posterior.names), vector=True)[index]
    d = len(names)
    figure = new_figure(d, d, 1.9) if figure is None else figure
    axes = figure.subplots(d, d, squeeze=False, sharex="col")
    for i in range(d):
        for j in range(d):
            _panel(axes[i, j], i, j, sets, known)
        _titled(axes[i, i], names[i], sets[0][0][:, i])
        axes[d - 1, i].set_xlabel(names[i])
        if i > 0:
            axes[i, 0].set_ylabel(names[i])
    return figure


def _panel(
    ax: Axes, i: int, j: int, sets: Sequence[tuple[np.ndarray, str]], truth: np.ndarray | None
) -> None:
    if j > i:
        ax.set_axis_off()
        return
    for x, colour in sets:
        if i == j:
            ax.hist(x[:, i], bins=50, density=True, histtype="step", color=colour)
        else:
            ax.plot(x[:, j], x[:, i], ",", color=colour, alpha=0.3, rasterized=True)
            _contours(ax, x[:, [j, i]], colour)
    if i == j:
        ax.set_yticks([])
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


def _contours(ax: Axes, x: np.ndarray, colour: str) -> None:
    """Contours of a smoothed histogram that hold 90 % and 50 %."""
    counts, *edges = np.histogram2d(x[:, 0], x[:, 1], bins=30)
    kernel = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16.0
    for axis in (0, 1):
        counts = np.apply_along_axis(np.convolve, axis, counts, kernel, "same")
    levels = highest(counts)
    if levels[0] < levels[1]:
        middles = [0.5 * (e[:-1] + e[1:]) for e in edges]
        ax.contour(*middles, counts.T, levels=levels, colors=colour, linewidths=0.9)


def highest(density: np.ndarray) -> list[float]:
    """Levels above which 90 % and 50 % of the mass lie; equal where there is none."""
    ordered = np.sort(density.ravel())[::-1]
    if ordered.sum() == 0.0:
        return [0.0 for _ in _LEVELS]
    reached = np.cumsum(ordered) / ordered.sum()
    index = np.minimum(np.searchsorted(reached, np.array(_LEVELS)), len(ordered) - 1)
    return [float(ordered[k]) for k in index]
