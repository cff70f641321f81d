"""Figures of matplotlib, and the parts that plots of runs have in common.

Functions for programs draw in figures that belong to no window (`new_figure`, `new_axes`). The ``plot``
methods of results are for interactive use: they draw in figures of pyplot (`shown_figure`), which a notebook
displays and ``plt.show()`` opens. No other function uses pyplot or changes its state.
"""

from __future__ import annotations

import numpy as np

from gp.extras import needing

with needing("plot"):
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
"""Colours of Okabe and Ito, distinct for every colour vision; without yellow, too faint for lines."""

_MOST_SPREADS = 60.0
"""What a picture shows beyond the last estimates, in the larger of their error and their range."""


def new_figure(rows: int, columns: int, size: float) -> Figure:
    """A figure for ``rows`` times ``columns`` panels of ``size`` inches each way."""
    figure = Figure(figsize=(size * columns, size * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(size: float = 4.0) -> Axes:
    """The axes of a new figure with one panel of ``size`` inches; the figure is ``axes.figure``."""
    return new_figure(1, 1, size).subplots()


def shown_figure(width: float, height: float) -> Figure:
    """A new figure of pyplot, of so many inches."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")


def estimates(ax: Axes, n: np.ndarray, middle: np.ndarray, sd: np.ndarray, colour: str, label: str) -> None:
    """Draw estimates (R,) at n (R,) evaluations with bands of one and two standard deviations.

    Parameters
    ----------
    ax : the axes. n : the numbers of evaluations (R,). middle, sd : the estimates and their standard
        deviations (R,).
    colour, label : of the line; the bands have the colour too.
    """
    ax.plot(n, middle, "o-", color=colour, ms=3.5, lw=1.2, label=label)
    for width, alpha in ((1, 0.25), (2, 0.12)):
        ax.fill_between(n, middle - width * sd, middle + width * sd, color=colour, alpha=alpha, lw=0)


def limit_to_end(ax: Axes, middle: np.ndarray, sd: np.ndarray) -> None:
    """Limit the vertical axis of estimates (R, o) to the last where the first are many sds away from them.

    Parameters
    ----------
    ax : the axes. middle, sd : the estimates and their standard deviations, (R, o).
    """
    last = sd[-1][np.isfinite(sd[-1])]
    spread = max(float(last.max(initial=0.0)), float(np.ptp(middle[-1])) / 4)
    if not 0 < spread < np.inf:
        return
    low, high = ax.get_ylim()
    most = _MOST_SPREADS * spread
    ax.set_ylim(max(low, float(middle[-1].min()) - most), min(high, float(middle[-1].max()) + most))
