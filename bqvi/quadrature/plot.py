"""A figure of an integral: estimates and standard deviations against evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bqvi.canvas import COLOURS, estimates, limit_to_end, shown_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bqvi.quadrature.integral import Integral


def trace(integral: Integral, ax: Axes | None = None, truth: float | None = None) -> Axes:
    """Draw the estimate, with bands of one and two standard deviations, against the evaluations.

    Parameters
    ----------
    integral : the result that is drawn. ax : axes to draw in, or ``None`` for new ones.
    truth : a value of the integral to draw beside them, or ``None``.
    """
    ax = shown_figure(6.0, 3.6).add_subplot() if ax is None else ax
    n = integral.trace["n_evaluations"]
    means = integral.trace["mean"].reshape(len(n), -1)
    sds = integral.trace["sd"].reshape(len(n), -1)
    means[-1:], sds[-1:] = integral.mean, integral.sd  # the last row is without the final marginalisation
    for o in range(means.shape[1]):
        label = "estimate" if means.shape[1] == 1 else f"output {o}"
        estimates(ax, n, means[:, o], sds[:, o], COLOURS[o % len(COLOURS)], label)
    if truth is not None:
        ax.axhline(truth, color="black", lw=1, ls="--", label="truth")
    limit_to_end(ax, means, sds)
    ax.ticklabel_format(axis="y", useOffset=False, style="plain")
    ax.set_xlabel("evaluations")
    ax.set_ylabel("integral, with one and two sd")
    remark = "" if integral.credible else ", not credible"
    ax.set_title(f"{integral.method}: {_estimate(integral)}{remark}", fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    return ax


def _estimate(integral: Integral) -> str:
    if np.ndim(integral.mean):
        return f"{len(integral.mean)} outputs after {integral.n_evaluations} evaluations"
    return f"{integral.mean:.5g} $\\pm$ {integral.sd:.2g} after {integral.n_evaluations} evaluations"
