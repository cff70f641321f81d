"""Figures of matplotlib, and the parts that plots of runs have in common.

The ``plot`` methods of results are for interactive use: they draw in figures of pyplot (`shown_figure`),
which a notebook displays and ``plt.show()`` opens. No other function uses pyplot or changes its state.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from gp.names import needing

with needing():
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
"""Colours of Okabe and Ito, distinct for every colour vision; without yellow, too faint for lines."""

_MOST_SPREADS = 60.0
"""What a picture shows beyond the last estimates, in the larger of their error and their range."""


def shown_figure(width: float, height: float) -> Figure:
    """A new figure of pyplot, of so many inches."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")


def trace(
    ax: Axes,
    n: np.ndarray,
    series: Mapping[str, tuple[np.ndarray, np.ndarray]],
    truth: float | None,
    least: float = 0.0,
) -> Axes:
    """Draw estimates against evaluations, with bands of one and two standard deviations.

    Parameters
    ----------
    ax : the axes. n : the numbers of evaluations (R,).
    series : label -> the estimates and their standard deviations (R,).
    truth : the value to draw beside them; None if it is not known.
    least : the vertical axis shows many times the last sd, or this if it is larger.
    """
    for (label, (middle, sd)), colour in zip(series.items(), itertools.cycle(COLOURS)):
        ax.plot(n, middle, "o-", color=colour, ms=3.5, lw=1.2, label=label)
        for width, alpha in ((1, 0.25), (2, 0.12)):
            ax.fill_between(n, middle - width * sd, middle + width * sd, color=colour, alpha=alpha, lw=0)
    if truth is not None:
        ax.axhline(truth, color="black", lw=1, ls="--", label="truth")
    ends = np.array([(middle[-1], sd[-1]) for middle, sd in series.values()])
    last = ends[np.isfinite(ends[:, 1]), 1]
    spread = max(float(last.max(initial=least)), float(np.ptp(ends[:, 0])) / 4)
    if 0 < spread < np.inf:
        (low, high), most = ax.get_ylim(), _MOST_SPREADS * spread
        ax.set_ylim(max(low, float(ends[:, 0].min()) - most), min(high, float(ends[:, 0].max()) + most))
    ax.ticklabel_format(axis="y", useOffset=False, style="plain")
    ax.legend(frameon=False, fontsize=9)
    return ax
