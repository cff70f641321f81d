"""Pictures of fitted models; each function draws on matplotlib axes, or those of a new figure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bqvi.canvas import COLOURS, new_figure
from bqvi.families import Dirichlet
from bqvi.models.data import as_numbers
from gp.checks import require_integer, require_shape
from gp.imports import needing

with needing():
    from matplotlib.axes import Axes
    from matplotlib.patches import Ellipse


def ellipses(
    means: np.ndarray,
    covariances: np.ndarray,
    ax: Axes | None = None,
    *,
    weights: np.ndarray | None = None,
    radii: Sequence[float] = (1.0, 2.0),
) -> Axes:
    """Draw the contours of Gaussians in the plane at some standard deviations.

    Parameters
    ----------
    means : (K, 2)
    covariances : (K, 2, 2)
    ax : where to draw; of a new figure if None
    weights : (K,), not negative; the opacity of each Gaussian, relative to the largest; all alike if None
    radii : in standard deviations
    """
    means, covariances = np.asarray(means, float), np.asarray(covariances, float)
    require_shape("means", means, (len(means), 2))
    require_shape("covariances", covariances, (len(means), 2, 2))
    shares = np.ones(len(means)) if weights is None else np.asarray(weights, float)
    require_shape("weights", shares, (len(means),))
    ax = new_figure(1, 1, 4.0).subplots() if ax is None else ax
    values, vectors = np.linalg.eigh(covariances)
    lengths = np.sqrt(np.maximum(values, 0.0))
    angles = np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1]))
    for k, share in enumerate(shares / shares.max()):
        for radius in radii:
            width, height = 2.0 * radius * lengths[k, ::-1]
            ax.add_patch(
                Ellipse(
                    (means[k, 0], means[k, 1]),
                    width,
                    height,
                    angle=float(angles[k]),
                    facecolor="none",
                    edgecolor=COLOURS[k % len(COLOURS)],
                    alpha=float(share),
                    linewidth=1.6,
                )
            )
    ax.autoscale_view()
    return ax


def top_words(
    probabilities: np.ndarray, words: Sequence[str] | None = None, ax: Axes | None = None, *, count: int = 10
) -> Axes:
    """Draw the most probable words of a topic as bars, the most probable on top.

    Parameters
    ----------
    probabilities : (V,), of the words in the topic: a row of ``q['topics'].mean``
    words : V texts; the words' numbers if None
    ax : where to draw; of a new figure if None
    count : words shown, at most V
    """
    p = np.asarray(probabilities, float)
    names = [str(v) for v in range(len(p))] if words is None else list(words)
    if p.ndim != 1 or len(names) != len(p):
        raise ValueError(f"words has {len(names)} entries beside probabilities of shape {p.shape}")
    best = np.argsort(-p, kind="stable")[: require_integer("count", count, 1)]
    ax = new_figure(1, 1, 3.0).subplots() if ax is None else ax
    ax.barh(np.arange(len(best)), p[best], color=COLOURS[0])
    ax.set_yticks(np.arange(len(best)), [names[v] for v in best])
    ax.invert_yaxis()
    ax.set_xlabel("probability")
    return ax


def states(
    values: np.ndarray,
    posterior: np.ndarray,
    ax: Axes | None = None,
    *,
    times: np.ndarray | None = None,
    levels: np.ndarray | None = None,
) -> Axes:
    """Draw a sequence, and behind it the probability of each state, stacked to the height of the axes.

    Parameters
    ----------
    values : (T,), of one sequence
    posterior : (T, K), q(z_t = k), as ``model.posteriors(q, data)`` has it for each sequence
    ax : where to draw; of a new figure if None
    times : (T,), rising; 0, 1, .. if None
    levels : (K,), of each state the value it emits on average: the line that is drawn is their posterior mean
    """
    x, r = np.asarray(values, float), np.asarray(posterior, float)
    require_shape("values", x, (len(x),))
    require_shape("posterior", r, (len(x), r.shape[-1]))
    t = np.arange(len(x), dtype=float) if times is None else np.asarray(times, float)
    require_shape("times", t, x.shape)
    ax = new_figure(1, 1, 4.0).subplots() if ax is None else ax
    behind = ax.twinx()
    behind.stackplot(t, r.T, colors=[COLOURS[k % len(COLOURS)] for k in range(r.shape[1])], alpha=0.25, lw=0)
    behind.set_ylim(0.0, 1.0)
    behind.set_yticks([])
    behind.grid(False)
    ax.set_zorder(behind.get_zorder() + 1)
    ax.patch.set_visible(False)
    ax.plot(t, x, color="0.2", lw=0.8, marker=".", markersize=2.5)
    if levels is not None:
        require_shape("levels", np.asarray(levels), (r.shape[1],))
        ax.plot(t, r @ np.asarray(levels, float), color="black", lw=1.4)
    ax.set_xlim(t[0], t[-1])
    return ax


def weights(
    means: np.ndarray, deviations: np.ndarray, ax: Axes | None = None, *, truth: np.ndarray | None = None
) -> Axes:
    """Draw weights of components, such as those of sticks, as bars with a standard deviation each way.

    Parameters
    ----------
    means : (K,)
    deviations : (K,)
    ax : where to draw; of a new figure if None
    truth : (C,), weights to compare with, drawn largest first
    """
    means, deviations = as_numbers("means", means), as_numbers("deviations", deviations)
    if np.ndim(means) != 1:
        raise ValueError(f"means has shape {np.shape(means)}; it must be (K,)")
    require_shape("deviations", deviations, np.shape(means))
    ax = new_figure(1, 1, 4.0).subplots() if ax is None else ax
    places = np.arange(1, len(means) + 1)
    ax.bar(places, means, yerr=deviations, color=COLOURS[0], error_kw={"lw": 0.8})
    if truth is not None:
        largest = np.sort(np.asarray(truth, float))[::-1]
        edges = np.arange(len(largest) + 1) + 0.5
        ax.stairs(largest, edges, color=COLOURS[1], linestyle="--", label="truth", zorder=3)
    ax.set_xlabel("component")
    ax.set_ylabel("weight")
    return ax


def weight_deviations(q: Dirichlet) -> np.ndarray:
    """Standard deviations (T,) of the weights of sticks under ``q``, (T + 1,) with a tied tail."""
    alpha = np.asarray(q.concentration)
    total = alpha.sum(-1, keepdims=True)
    first, second = alpha / total, alpha * (alpha + 1.0) / (total * (total + 1.0))
    mean, square = (
        np.append(part[:, 0], 1.0) * np.append(1.0, np.cumprod(part[:, 1])) for part in (first, second)
    )
    return np.asarray(np.sqrt(np.maximum(square - mean * mean, 0.0)))
