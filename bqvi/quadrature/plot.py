"""A figure of an integral: how the estimate and its standard deviation went, and how large the values are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gp.extras import needing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bqvi.quadrature.integral import Integral

__all__ = ["trace"]

_COLOURS = ("#1f77b4", "#d95f02", "#2ca02c", "#9467bd", "#8c564b")
_PREFERRED = 60.0
"""The range of the axis: at most so many times the last standard deviation, since the first may be vast."""


def trace(integral: Integral, ax: Axes | None = None, truth: float | None = None) -> Axes:
    """Draw the estimate, with bands of one and two standard deviations, against the evaluations.

    Parameters
    ----------
    integral : what is drawn. ax : axes to draw in, or ``None`` for new ones.
    truth : a value of the integral to draw beside them, or ``None``.
    """
    with needing("plot"):
        import matplotlib.pyplot as plt

    if ax is None:
        ax = plt.figure(figsize=(6.0, 3.6), layout="constrained").add_subplot()
    n = integral.trace["n_evaluations"]
    means = integral.trace["mean"].reshape(len(n), -1)
    sds = integral.trace["sd"].reshape(len(n), -1)
    means[-1:], sds[-1:] = integral.mean, integral.sd  # the last row is without the final marginalisation
    for o in range(means.shape[1]):
        colour = _COLOURS[o % len(_COLOURS)]
        label = "estimate" if means.shape[1] == 1 else f"output {o}"
        ax.plot(n, means[:, o], "o-", color=colour, ms=3.5, lw=1.2, label=label)
        for width, alpha in ((1, 0.25), (2, 0.12)):
            lower, upper = means[:, o] - width * sds[:, o], means[:, o] + width * sds[:, o]
            ax.fill_between(n, lower, upper, color=colour, alpha=alpha, lw=0)
    if truth is not None:
        ax.axhline(truth, color="black", lw=1, ls="--", label="truth")
    _limit(ax, means, sds)
    ax.ticklabel_format(axis="y", useOffset=False, style="plain")
    ax.set_xlabel("evaluations")
    ax.set_ylabel("integral, with one and two sd")
    doubt = "" if integral.credible else ", not credible"
    ax.set_title(f"{integral.method}: {_told(integral)}{doubt}", fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    return ax


def _limit(ax: Axes, means: np.ndarray, sds: np.ndarray) -> None:
    """Keep the last rows legible where the first are far off."""
    last = sds[-1][np.isfinite(sds[-1])]
    spread = max(float(last.max(initial=0.0)), float(np.ptp(means[-1])) / 4)
    if spread == 0:
        return
    lower, upper = ax.get_ylim()
    middle = means[-1]
    most = _PREFERRED * spread
    ax.set_ylim(max(lower, float(middle.min()) - most), min(upper, float(middle.max()) + most))


def _told(integral: Integral) -> str:
    if np.ndim(integral.mean):
        return f"{len(integral.mean)} outputs after {integral.n_evaluations} evaluations"
    return f"{integral.mean:.5g} $\\pm$ {integral.sd:.2g} after {integral.n_evaluations} evaluations"
