"""Matplotlib figures that belong to no window: nothing here touches pyplot or its state."""

from __future__ import annotations

from gp.extras import needing

with needing("plot"):
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
"""Okabe and Ito's, told apart by every kind of colour vision; without their yellow, too faint for a line."""


def new_figure(rows: int, columns: int, size: float) -> Figure:
    """A figure for ``rows`` times ``columns`` panels of ``size`` inches each way."""
    figure = Figure(figsize=(size * columns, size * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(size: float = 4.0) -> Axes:
    """The axes of a new figure with one panel of ``size`` inches; the figure is ``axes.figure``."""
    return new_figure(1, 1, size).subplots()
