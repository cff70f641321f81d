"""Figures of results: curves with bands over seeds, in one style, with colours for every colour vision.

A curve is the median over seeds and a band the interquartile range (`bands` defines both). Figures
are made with matplotlib's objects, without pyplot and its global state; `style` is a context.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    LogFormatterSciNotation,
    LogLocator,
    NullLocator,
    SymmetricalLogLocator,
)
from numpy.typing import NDArray

from bqvi.canvas import COLOURS
from experiments.harness.bands import Band, Scale, band

__all__ = [
    "COLOURS", "DASHES", "LineStyle", "Panels", "add_title", "band_caption", "curves", "figure",
    "label_budgets", "legend_below", "line_styles", "mark_ends", "panels", "set_scale", "style",
]  # fmt: skip

Panels = NDArray[Any]

DASHES = ("-", "--", ":", "-.")

_LABELS: Mapping[str, str] = {
    "iteration": "iteration",
    "seconds": "time (s)",
    "evaluations": "data evaluations",
    "samples": "Monte Carlo samples",
    "elbo": "ELBO (nats)",
    "log_likelihood_error": "log-likelihood error (nats)",
}

_STYLE: Any = {  # matplotlib's stubs declare each key by itself
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.facecolor": "white",
    "font.size": 9.0,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "svg.fonttype": "path",  # the font may be missing on a reader's machine
    "svg.hashsalt": "bqvi",  # drawing a figure again writes the same file
}


@contextmanager
def style() -> Iterator[None]:
    """Apply the look of the project's figures within the context, and only there.

    `bqvi report` calls an experiment's ``draw`` inside it.
    """
    with mpl.rc_context(_STYLE):
        yield


def figure(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] = (3.4, 2.8), **subplots: Any
) -> tuple[Figure, Panels]:
    """Return a figure that belongs to no window, and its axes.

    Parameters
    ----------
    rows, columns : int
    size : (float, float)
        Width and height of one panel, in inches.
    **subplots
        Further arguments of `Figure.subplots`, such as `sharey`.

    Returns
    -------
    Figure
    ndarray of Axes, shape (rows, columns)
    """
    made = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    FigureCanvasAgg(made)
    return made, made.subplots(rows, columns, squeeze=False, **subplots)


def panels(
    results: pd.DataFrame,
    by: str = "target",
    *,
    columns: int = 3,
    size: tuple[float, float] = (3.4, 2.8),
    **subplots: Any,
) -> tuple[Figure, Panels, list[tuple[Axes, pd.DataFrame]]]:
    """Return a figure with a panel for each value of `by`, titled with it, in order of appearance.

    Parameters
    ----------
    results : DataFrame
        With the column `by`.
    by : str
    columns : int
        Most panels in a row.
    size : (float, float)
        Width and height of one panel, in inches.
    **subplots
        Further arguments of `Figure.subplots`.

    Returns
    -------
    Figure
    ndarray of Axes, shape (rows, columns)
        All of them, those that no value is left for hidden.
    list of (Axes, DataFrame)
        Each value's panel and rows.
    """
    groups = list(results.groupby(by, sort=False))
    columns = min(columns, len(groups))
    made, axes = figure(-(-len(groups) // columns), columns, size=size, **subplots)
    for ax in axes.flat[len(groups) :]:
        ax.set_visible(False)
    filled = []
    for ax, (name, rows) in zip(axes.flat, groups, strict=False):
        ax.set_title(str(name))
        filled.append((ax, rows))
    return made, axes, filled


def label_budgets(ax: Axes, n: Iterable[int]) -> None:
    """Put a tick at each number of evaluations that was tried, on an axis that may be logarithmic."""
    ticks = sorted(set(n))
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    # the y axis keeps its minor ticks, as an axis within a decade has no others
    ax.xaxis.set_minor_locator(NullLocator())


@dataclass(frozen=True)
class LineStyle:
    """How a line is drawn."""

    colour: str
    dashes: str


def line_styles(names: Iterable[Hashable]) -> dict[Hashable, LineStyle]:
    """Give each name a line style of its own: seven colours, then the same colours dashed, and so on.

    Call it once for all cases and hand the result to every `curves`, so that a case looks alike in
    all panels.
    """
    distinct = dict.fromkeys(names)
    return {
        name: LineStyle(COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)])
        for i, name in enumerate(distinct)
    }


def curves(
    ax: Axes,
    results: pd.DataFrame,
    x: str,
    y: str,
    by: str = "case",
    *,
    x_label: str | None = None,
    y_label: str | None = None,
    x_scale: Scale = "linear",
    y_scale: Scale = "linear",
    linthresh: float = 1.0,
    lines: Mapping[Hashable, LineStyle] | None = None,
    steps: bool = True,
) -> dict[Hashable, Band]:
    """Draw the median and the interquartile band over seeds, one curve for each value of `by`.

    Parameters
    ----------
    ax : Axes
    results : DataFrame
        With the columns `seed`, `x`, `y` and `by`.
    x, y, by : str
    x_label, y_label : str or None
        Axis labels with units; None takes the column's entry in `_LABELS`, or its name.
    x_scale, y_scale : "linear" | "log" | "symlog"
        "symlog" is for signed errors: logarithmic on both sides, linear within +-`linthresh`.
    linthresh : float
        In units of the axis.
    lines : mapping or None
        Line styles by value of `by` (see `line_styles`); None makes them from the values present.
    steps : bool
        Whether a value holds until the next record, as what a run has reached does. False marks the
        records and joins them by straight lines: for runs that all record at the same few chosen x.

    Returns
    -------
    dict
        The `Band` drawn for each value of `by`.

    Raises
    ------
    ValueError
        If a value of `by` joins several cases, whose runs would pass for one.
    """
    drawn: dict[Hashable, Band] = {}
    chosen = lines if lines is not None else line_styles(results[by])
    for name, rows in results.groupby(by, sort=False):
        _check_one_case(rows, by, name)
        found = band(rows, x, y, points=80, x_scale=x_scale)
        drawn[name] = found
        _draw_band(ax, found, chosen[name], str(name), steps)
    set_scale(ax, "x", x_scale, linthresh)
    set_scale(ax, "y", y_scale, linthresh)
    ax.set_xlabel(x_label if x_label is not None else _LABELS.get(x, x))
    ax.set_ylabel(y_label if y_label is not None else _LABELS.get(y, y))
    return drawn


def _check_one_case(rows: pd.DataFrame, by: str, name: Hashable) -> None:
    cases = list(rows["case"].unique()) if "case" in rows.columns else []
    if len(cases) > 1:
        raise ValueError(
            f"by: {by} = {name!r} joins the cases {', '.join(map(str, cases))}; "
            "choose a column in which they differ, or draw a part of the results"
        )


def _draw_band(ax: Axes, found: Band, line_style: LineStyle, label: str, steps: bool) -> None:
    marked = not steps or len(found.x) == 1  # a single record would be a line without length
    ax.plot(
        found.x, found.median, drawstyle="steps-post" if steps else "default", label=label,
        color=line_style.colour, linestyle=line_style.dashes, marker="o" if marked else "", markersize=3,
    )  # fmt: skip
    ax.fill_between(
        found.x, found.lower, found.upper, step="post" if steps else None,
        color=line_style.colour, alpha=0.2, linewidth=0,
    )  # fmt: skip
    there = np.flatnonzero(np.isfinite(found.median))
    if there.size and there[-1] + 1 < len(found.x):  # a level holds until the record that is infinite
        last = there[-1]
        ax.plot(
            found.x[last + steps], found.median[last], marker="x", color=line_style.colour, markersize=7
        )  # fmt: skip


def set_scale(ax: Axes, axis: Literal["x", "y"], scale: Scale, linthresh: float = 1.0) -> None:
    """Set the scale of an axis, with as many labels of ticks as do not overlap.

    Parameters
    ----------
    ax : Axes
        Its data are drawn already.
    axis, scale : str
    linthresh : float
        Where a symmetrical logarithm begins.
    """
    options = {"linthresh": linthresh} if scale == "symlog" else {}
    (ax.set_xscale if axis == "x" else ax.set_yscale)(scale, **options)
    low, high = ax.get_xlim() if axis == "x" else ax.get_ylim()
    ticks = ax.xaxis if axis == "x" else ax.yaxis
    if scale == "symlog":
        ticks.set_major_locator(_SignedLocator(linthresh))
        ticks.set_major_formatter(_SignedFormatter(linthresh=linthresh))
    if scale == "symlog" or (scale == "log" and high > 100.0 * low):
        # over many decades there are hundreds of minor ticks, which took two thirds of a figure's time
        ticks.set_minor_locator(NullLocator())
    elif scale == "log":
        # the labels of all nine minor ticks of a decade would overlap; matplotlib leaves out some at will
        ticks.set_minor_locator(LogLocator(subs=(2.0, 3.0, 5.0) if high < 4.0 * low else (2.0, 5.0)))
        ticks.set_minor_formatter(FuncFormatter(_digits))
        ticks.set_major_formatter(FuncFormatter(_digits))


class _SignedLocator(SymmetricalLogLocator):
    """With a tick below zero where the axis ends there before the first negative power of ten."""

    def __init__(self, linthresh: float) -> None:
        super().__init__(base=10.0, linthresh=linthresh)
        self.apart = 0.35 * linthresh  # nearer to 0 than that its label would touch the tick's

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """The ticks between two ends."""
        low, ticks = min(vmin, vmax), np.asarray(super().tick_values(vmin, vmax))
        if low < 0.0 and not ((ticks < 0.0) & (ticks >= low)).any():
            power = 10.0 ** np.floor(np.log10(-low))
            below = -power * max(step for step in (1.0, 2.0, 5.0) if step * power <= -low)
            ticks = np.append(ticks, below) if below < -self.apart else ticks
        return np.sort(ticks)


class _SignedFormatter(LogFormatterSciNotation):
    """Powers of ten as such, and what lies below the first of them in digits."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """The label at x."""
        return super().__call__(x, pos) or _digits(x, pos)


def _digits(value: float, position: int | None) -> str:
    """A tick's label in few digits."""
    del position
    return f"{value:g}"


def add_title(made: Figure, words: str) -> None:
    """Put ``words`` above a figure, below the title that it has."""
    made.suptitle("\n".join(filter(None, (made.get_suptitle(), words))), fontsize="small", color="#a63c00")


def mark_ends(axes: Iterable[Axes], least: float | None = None, most: float | None = None) -> None:
    """Mark the levels of y at which all smaller and all larger values are drawn, where an axis reaches them.

    Parameters
    ----------
    axes : iterable of Axes
        All panels of a figure, after their curves.
    least, most : float or None
        The levels to which values were clipped; None where they were not.
    """
    for ax in axes:
        low, high = ax.get_ylim()
        for level, words, side in ((least, "or less", "bottom"), (most, "or more", "top")):
            if level is not None and low < level < high:
                ax.axhline(level, color="0.6", linewidth=0.8, linestyle=(0, (1, 2)))
                ax.text(
                    0.99, level, f"{level:g} {words}", transform=ax.get_yaxis_transform(),
                    horizontalalignment="right", verticalalignment=side, fontsize=6.5, color="0.35",
                )  # fmt: skip


def legend_below(made: Figure, axes: Panels, columns: int = 4) -> None:
    """Put one legend for all panels under the figure, each label once, in as many columns as fit into it.

    Parameters
    ----------
    made : the figure. axes : its panels. columns : the most columns.
    """
    entries: dict[str, Any] = {}
    for ax in axes.flat:
        handles, labels = ax.get_legend_handles_labels()
        entries.update(zip(labels, handles, strict=True))
    renderer = FigureCanvasAgg(made).get_renderer()  # type: ignore[no-untyped-call]
    for ncols in range(max(1, min(columns, len(entries))), 0, -1):
        legend = made.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=ncols)
        if ncols == 1 or legend.get_window_extent(renderer).width <= made.bbox.width:
            return
        legend.remove()


def band_caption(results: pd.DataFrame, by: str = "case") -> str:
    """Return the sentence on the meaning of line and band, and the number of seeds."""
    counts = results.groupby(by)["seed"].nunique()
    least, most = int(counts.min()), int(counts.max())
    number = f"{least}" if least == most else f"{least} to {most}"
    if most == 1:
        words = "Line: the result of 1 seed."
    else:
        words = f"Line: median; band: interquartile range; over {number} seeds."
    diverged = np.isinf(results.select_dtypes("float").to_numpy()).any()
    return words + " A cross ends a line that diverged." * bool(diverged)
