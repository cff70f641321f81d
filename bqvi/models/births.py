"""Births of components: rows of one are divided by k-means among it and components without data.

Coordinate ascent does not divide a component in two where intermediate states have a lower bound, so that a
mixture which starts with few occupied components keeps them (Hughes and Sudderth 2013). The births of
`bqvi.gradients.memoised_moves` begin with such a division, and keep it where the bound rises.
"""

from __future__ import annotations

import warnings

import numpy as np

from bqvi.models.component_mixture import Mixture
from bqvi.models.data import Data, take
from bqvi.models.settings import MOVES
from bqvi.models.starts import starting_centres

__all__ = ["divided"]


def divided(
    model: Mixture, data: Data, r: np.ndarray, j: int, spare: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    """The responsibilities (N, K) after dividing the rows of component ``j`` among it and ``spare`` ones.

    None where there are too few rows, or k-means leaves a part empty.

    Parameters
    ----------
    model : the mixture of K components. data : N rows. r : the responsibilities (N, K) before.
    j : the component that is divided. spare : the numbers of the components that take its rows.
    rng : starts k-means.
    """
    own, parts = np.flatnonzero(r[:, j] > MOVES.own), len(spare) + 1
    if len(own) < parts:
        return None
    # The import is here, as it takes a twentieth of the time of `import bqvi`.
    from scipy.cluster.vq import kmeans2

    points = model.components.representation(take(data, own))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # empty parts are handled below
        _, labels = kmeans2(points, starting_centres(points, parts, "k-means++", rng), minit="matrix")
    if len(np.unique(labels)) < parts:
        return None
    moved = r.copy()
    for part, k in enumerate(spare, start=1):
        rows = own[labels == part]
        moved[rows, k] += moved[rows, j]
        moved[rows, j] = 0.0
    return moved
