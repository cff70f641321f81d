"""Pictures of a posterior and of the run that led to it; each takes matplotlib objects and returns them.

corner    marginals and pairs of parameters
plane     two parameters: the evaluations, the surrogate and the posterior; made of `shade`, `mass`
          and `nodes`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bqvi.calls import Evaluations
from bqvi.calls.coordinates import Coordinates
from bqvi.canvas import COLOURS, new_axes, new_figure
from bqvi.posterior.posterior import Posterior
from gp.extras import needing

with needing("plot"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = (0.9, 0.5)
"""Probabilities inside the contours."""
_COLOUR, _OTHER = COLOURS[:2]


def _require_posterior(given: object) -> Posterior:
    if isinstance(given, Posterior):
        return given
    hint = "; give result.posterior" if hasattr(given, "posterior") else ""
    raise TypeError(f"posterior is a {type(given).__name__}; it must be the posterior of a run{hint}")


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
    names = posterior.coordinates.free_names if parameters is None else tuple(parameters)
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
    _require_posterior(posterior)
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
    levels = _highest(counts)
    if levels[0] < levels[1]:
        middles = [0.5 * (e[:-1] + e[1:]) for e in edges]
        ax.contour(*middles, counts.T, levels=levels, colors=colour, linewidths=0.9)


def _highest(density: np.ndarray) -> list[float]:
    """Levels above which 90 % and 50 % of the mass lie; equal where there is none."""
    ordered = np.sort(density.ravel())[::-1]
    if ordered.sum() == 0.0:
        return [0.0 for _ in _LEVELS]
    reached = np.cumsum(ordered) / ordered.sum()
    index = np.minimum(np.searchsorted(reached, np.array(_LEVELS)), len(ordered) - 1)
    return [float(ordered[k]) for k in index]


def plane(
    posterior: Posterior,
    evaluations: Evaluations,
    ax: Axes | None = None,
    *,
    log_density: Callable[[np.ndarray], np.ndarray] | None = None,
    box: tuple[Sequence[float], Sequence[float]] | None = None,
    new: int = 0,
    cells: int = 80,
) -> Axes:
    """Draw a run with two free parameters: evaluations, the posterior, and a density below them.

    Parameters
    ----------
    posterior : the posterior of a run; its contours are drawn in colour.
    evaluations : the evaluations of the run, in the posterior's coordinates.
    ax : the axes in which to draw; those of a new figure if None.
    log_density : a function of points (n, P) that returns (n,), drawn in grey: the surrogate in the user's
        units, or the true log density.
    box : lower and upper corner of the region shown; the plausible box, widened, if None.
    new : the number of the last evaluations that are marked as new.
    cells : the number of grid points in each direction.
    """
    coordinates = _require_posterior(posterior).coordinates
    if coordinates.dimension != 2:
        raise ValueError(f"the posterior has {coordinates.dimension} free parameters; a plane has 2")
    ax = new_axes(3.6) if ax is None else ax
    i, j = (int(k) for k in coordinates.free)
    low, high = _shown(coordinates) if box is None else (np.asarray(box[0], float), np.asarray(box[1], float))
    step = (high - low) / cells
    x, y = (low[k] + step[k] * (np.arange(cells) + 0.5) for k in (0, 1))
    grid = np.tile(coordinates.lower, (cells * cells, 1))
    grid[:, i], grid[:, j] = (g.ravel() for g in np.meshgrid(x, y))
    if log_density is not None:
        shade(ax, x, y, np.asarray(log_density(grid)).reshape(cells, cells))
    mass(ax, x, y, posterior.log_prob(grid).reshape(cells, cells))
    theta = coordinates.to_user(evaluations.points)
    nodes(ax, theta[:, [i, j]], evaluations.failed, new)
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    ax.set_xlabel(coordinates.names[i])
    ax.set_ylabel(coordinates.names[j])
    return ax


def _shown(coordinates: Coordinates) -> tuple[np.ndarray, np.ndarray]:
    free = coordinates.free
    low, high = coordinates.plausible_lower[free], coordinates.plausible_upper[free]
    margin = 0.15 * (high - low)
    return (
        np.maximum(low - margin, coordinates.lower[free]),
        np.minimum(high + margin, coordinates.upper[free]),
    )


def shade(ax: Axes, x: np.ndarray, y: np.ndarray, logs: np.ndarray) -> None:
    """Fill with grey where the density is high, ten nats from the top down; x (n,), y (m,), logs (m, n)."""
    top = np.max(logs[np.isfinite(logs)], initial=-np.inf)
    if np.isfinite(top):
        levels = np.linspace(-10.0, 0.0, 11)
        ax.contourf(x, y, np.maximum(logs - top, -10.0), levels=levels, cmap="Greys", vmin=-10.0, vmax=8.0)


def mass(ax: Axes, x: np.ndarray, y: np.ndarray, logs: np.ndarray) -> None:
    """Draw contours of a density that hold 90 % and 50 % of what is shown; x (n,), y (m,), logs (m, n)."""
    density = np.exp(logs - logs.max()) if np.isfinite(logs.max()) else np.zeros_like(logs)
    levels = _highest(density)
    if levels[0] < levels[1]:
        ax.contour(x, y, density, levels=levels, colors=_COLOUR)


def nodes(ax: Axes, theta: np.ndarray, failed: np.ndarray, new: int) -> None:
    """Mark evaluations theta (n, 2): the last ``new`` in colour, failed (n,) ones by crosses."""
    fresh = np.arange(len(theta)) >= len(theta) - new
    marks: Sequence[tuple[np.ndarray, str, str]] = (
        (~failed & ~fresh, "o", "black"),
        (~failed & fresh, "o", _OTHER),
        (failed, "x", _OTHER),
    )
    for which, mark, colour in marks:
        ax.plot(*theta[which].T, mark, ms=3, color=colour, ls="none")
