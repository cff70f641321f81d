"""A figure of bounds: the log estimates on either side of the log evidence, or the intervals of problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gp.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bqvi.sampled_bounds.result import EvidenceBounds

_BELOW, _ABOVE = "#1f77b4", "#d95f02"


def bracket(found: EvidenceBounds, ax: Axes, truth: Array = None) -> Axes:
    """Draw the bounds.

    Parameters
    ----------
    found : the bounds. ax : the axes to draw in.
    truth : the true ln Z, which is drawn as a line; None if it is not known.
    """
    if np.ndim(found.lower):
        _problems(found, ax, truth)
    else:
        _replicates(found, ax, truth)
    ax.set_title(f"{found.method}: {_title(found)} after {found.n_evaluations} evaluations", fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    return ax


def _title(found: EvidenceBounds) -> str:
    if np.ndim(found.lower):
        return f"ln Z of {len(found.lower)} problems"
    above = "" if found.upper is None else rf" $\leq$ {found.upper:.6g}"
    return rf"{found.lower:.6g} $\leq$ ln Z{above}"


def _replicates(found: EvidenceBounds, ax: Axes, truth: Array) -> None:
    sides = [("lower bound", found.lower, found.log_estimates, _BELOW, 0.0)]
    if found.upper_log_estimates is not None:
        sides.append(("upper bound", found.upper, found.upper_log_estimates, _ABOVE, 1.0))
    for title, mean, logs, colour, height in sides:
        ax.plot(logs, np.full(len(logs), height), "|", color=colour, ms=14, alpha=0.6)
        ax.plot(mean, height, "o", color=colour, label=f"{title} {mean:.4f}")
    low, high = found.interval
    if np.isfinite(high):
        ax.axvspan(low, high, color="grey", alpha=0.15, lw=0, label="99% interval")
    elif np.isfinite(low):
        ax.axvline(low, color="grey", lw=1, label="99.5% limit")
    if truth is not None:
        ax.axvline(truth, color="black", lw=1, ls="--", label="truth")
    ax.set_ylim(-0.7, 0.7 + sides[-1][-1])
    ax.set_yticks([])
    ax.ticklabel_format(axis="x", useOffset=False, style="plain")
    ax.set_xlabel("log estimates of the evidence, nats")


def _problems(found: EvidenceBounds, ax: Axes, truth: Array) -> None:
    order = np.argsort(found.lower)
    place = np.arange(len(order))
    for title, mean, colour in (("lower bound", found.lower, _BELOW), ("upper bound", found.upper, _ABOVE)):
        if mean is not None:
            ax.plot(place, mean[order], ".", color=colour, label=title)
    if found.upper is not None:
        ax.vlines(place, *found.interval[order].T, color="grey", alpha=0.5, lw=1)
    if truth is not None:
        ax.plot(place, np.asarray(truth)[order], "_", color="black", label="truth")
    ax.set_xlabel("problems, in order of the lower bound")
    ax.set_ylabel("ln Z, nats")
