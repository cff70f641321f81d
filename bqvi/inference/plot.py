"""A figure of a fit: its ELBO against the evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bqvi.canvas import COLOURS, estimates, limit_to_end, shown_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bqvi.inference.result import Fit


def trace(fit: Fit, ax: Axes | None = None, truth: float | None = None) -> Axes:
    """Draw the ELBO, with bands of one and two standard errors, against the evaluations.

    Parameters
    ----------
    fit : the fit that is drawn. ax : axes to draw in, or ``None`` for new ones.
    truth : the log evidence, where it is known, to draw beside them.
    """
    if len(fit.trace) == 0:
        raise ValueError("the fit has no records: nothing to draw")
    ax = shown_figure(6.0, 3.6).add_subplot() if ax is None else ax
    n, elbo = fit.trace["n_evaluations"], fit.trace["elbo"]
    counted = bool(np.ptp(n)) or len(n) == 1
    se = np.where(np.isfinite(fit.trace["elbo_sd"]), fit.trace["elbo_sd"], 0.0)
    estimates(ax, n if counted else fit.trace["iteration"], elbo, se, COLOURS[0], "ELBO")
    if truth is not None:
        ax.axhline(truth, color="black", lw=1, ls="--", label="log evidence")
    limit_to_end(ax, elbo[:, None], np.maximum(se, _spread(elbo))[:, None])
    ax.ticklabel_format(axis="y", useOffset=False, style="plain")
    ax.set_xlabel("evaluations" if counted else "steps")
    ax.set_ylabel("ELBO (nats), with one and two se" if se.any() else "ELBO (nats)")
    method = fit.settings.get("estimator", "fit").partition("(")[0]
    error = f" $\\pm$ {se[-1]:.2g}" if se[-1] > 0 else ""
    ax.set_title(f"{method}: {elbo[-1]:.6g}{error} after {fit.n_evaluations} evaluations", fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    return ax


def _spread(elbo: np.ndarray) -> float:
    """A twentieth of the range of the second half of the records: the scale of exact ELBOs."""
    half = elbo[len(elbo) // 2 :]
    half = half[np.isfinite(half)]
    return float(np.ptp(half)) / 20 if len(half) else 0.0
