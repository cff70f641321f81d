"""Pictures of fitted models; each function draws on matplotlib axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse

from bqvi.families import Dirichlet
from experiments.harness.drawing import COLOURS

__all__ = [
    "columns_of_gaussians", "ellipses", "gaussians_of", "states", "top_words", "weight_deviations", "weights",
]  # fmt: skip

_MEANS, _ENTRIES = ["mean_0", "mean_1"], ["variance_0", "covariance_01", "covariance_01", "variance_1"]


def columns_of_gaussians(means: np.ndarray, covariances: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns of a table of K Gaussians: the first two coordinates of (K, D) and (K, D, D)."""
    entries = covariances[:, :2, :2].reshape(-1, 4)
    return dict(zip([*_MEANS, *_ENTRIES], [*means.T[:2], *entries.T], strict=True))


def gaussians_of(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the means (K, 2) and covariances (K, 2, 2) of a table with `columns_of_gaussians`."""
    return rows[_MEANS].to_numpy(float), rows[_ENTRIES].to_numpy(float).reshape(-1, 2, 2)


def ellipses(
    ax: Axes,
    means: np.ndarray,
    covariances: np.ndarray,
    weights: np.ndarray | None = None,
    radii: Sequence[float] = (1.0, 2.0),
) -> None:
    """Draw the contours of Gaussians in the plane at some standard deviations.

    Parameters
    ----------
    ax : the axes. means : (K, 2). covariances : (K, 2, 2).
    weights : (K,), not negative; the opacity of each Gaussian, relative to the largest; all alike if None.
    radii : in standard deviations.
    """
    shares = np.ones(len(means)) if weights is None else weights
    values, vectors = np.linalg.eigh(covariances)
    lengths = np.sqrt(np.maximum(values, 0.0))
    angles = np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1]))
    for k, share in enumerate(shares / shares.max()):
        for radius in radii:
            width, height = 2.0 * radius * lengths[k, ::-1]
            patch = Ellipse(
                (means[k, 0], means[k, 1]), width, height, angle=float(angles[k]), facecolor="none",
                edgecolor=COLOURS[k % len(COLOURS)], alpha=float(share), linewidth=1.6,
            )  # fmt: skip
            ax.add_patch(patch)
    ax.autoscale_view()


def top_words(ax: Axes, probabilities: np.ndarray, words: Sequence[str], count: int) -> None:
    """Draw the most probable words of a topic as bars, the most probable on top.

    Parameters
    ----------
    ax : the axes. probabilities : (V,), of the words in the topic. words : V texts. count : of words shown.
    """
    best = np.argsort(-probabilities, kind="stable")[:count]
    ax.barh(np.arange(len(best)), probabilities[best], color=COLOURS[0])
    ax.set_yticks(np.arange(len(best)), [words[v] for v in best])
    ax.invert_yaxis()


def states(ax: Axes, times: np.ndarray, values: np.ndarray, posterior: np.ndarray) -> None:
    """Draw a sequence, behind it the probability of each state, stacked to the height of the axes.

    The heavy line is the posterior mean of the states' levels.

    Parameters
    ----------
    ax : the axes. times : (T,), rising. values : (T,), NaN where one is missing.
    posterior : (T, K), the probabilities of the states.
    """
    behind = ax.twinx()
    colours = [COLOURS[k % len(COLOURS)] for k in range(posterior.shape[1])]
    behind.stackplot(times, posterior.T, colors=colours, alpha=0.25, lw=0)
    behind.set_ylim(0.0, 1.0)
    behind.set_yticks([])
    behind.grid(False)
    ax.set_zorder(behind.get_zorder() + 1)
    ax.patch.set_visible(False)
    ax.plot(times, values, color="0.2", lw=0.8, marker=".", markersize=2.5)
    seen = ~np.isnan(values)
    levels = posterior[seen].T @ values[seen] / np.maximum(posterior[seen].sum(0), 1e-300)
    ax.plot(times, posterior @ levels, color="black", lw=1.4)
    ax.set_xlim(times[0], times[-1])


def weights(ax: Axes, means: np.ndarray, deviations: np.ndarray, truth: np.ndarray) -> None:
    """Draw weights of components, such as those of sticks, as bars with a standard deviation each way.

    Parameters
    ----------
    ax : the axes. means, deviations : (K,). truth : (C,), weights to compare with, drawn largest first.
    """
    places = np.arange(1, len(means) + 1)
    ax.bar(places, means, yerr=deviations, color=COLOURS[0], error_kw={"lw": 0.8})
    edges = np.arange(len(truth) + 1) + 0.5
    ax.stairs(np.sort(truth)[::-1], edges, color=COLOURS[1], linestyle="--", label="truth", zorder=3)
    ax.set(xlabel="component", ylabel="weight")


def weight_deviations(q: Dirichlet) -> np.ndarray:
    """Standard deviations (T,) of the weights of sticks under ``q``, (T + 1,) with a tied tail."""
    alpha = np.asarray(q.concentration)
    total = alpha.sum(-1, keepdims=True)
    first, second = alpha / total, alpha * (alpha + 1.0) / (total * (total + 1.0))
    mean, square = (
        np.append(part[:, 0], 1.0) * np.append(1.0, np.cumprod(part[:, 1])) for part in (first, second)
    )
    return np.asarray(np.sqrt(np.maximum(square - mean * mean, 0.0)))
