"""Births of components: the data of one component are divided among several where that raises the bound.

Coordinate ascent does not divide a component in two where intermediate states have a lower bound, so that a
mixture which starts with few occupied components keeps them. Here the data of one component are divided by
k-means, the parts are assigned to components without data, and a few steps of coordinate ascent follow:

    eta_j <- eta_0 + statistics of part 1,      eta_k <- eta_0 + statistics of part 2, ..       (k was empty)

A birth is kept if the bound is then higher, so that the bound never falls (after Hughes and Sudderth 2013,
who create many components at once from a sample).
"""

from __future__ import annotations

import warnings
from operator import itemgetter

import numpy as np

from bqvi.arrays import Seed, generator
from bqvi.checks import require_integer
from bqvi.families import Product
from bqvi.models.component_mixture import Mixture
from bqvi.models.components import posterior_of
from bqvi.models.conjugate import elbo
from bqvi.models.data import Data, take
from bqvi.models.merging import LEAST, largest_first, require_own_parameters, stepped
from bqvi.models.starts import starting_centres

PARTS = (2, 4)
"""The numbers of parts that are tried: two halves of many clusters need not raise the bound."""
STEPS = 10
"""The number of steps of coordinate ascent after a birth, before bounds are compared."""
OWN = 0.5
"""The responsibility above which a row belongs to a component."""


def born(model: Mixture, q: Product, data: Data, *, seed: Seed = 0, steps: int = STEPS) -> Product:
    """The posterior ``q`` after all births that raise the bound.

    Parameters
    ----------
    model : a mixture with a settled prior, whose components do not share parameters (no tied covariance)
    q : its posterior, in the prior's family, with some components without data
    data : the data to which ``q`` was fitted, as checked by the model
    seed : the seed of the divisions
    steps : the number of steps of coordinate ascent after a birth, >= 1

    Returns
    -------
    Product
        A start for `fit` (``start_from``), whose bound is not below that of ``q``.
    """
    require_own_parameters(model, q)
    if model.incomplete:
        raise ValueError("data has NaN, with which no component is divided; leave births out, or impute")
    require_integer("steps", steps, 1)
    rng = generator(seed)
    best, rejected = elbo(model, q, data), set[int]()
    while True:
        r = model.responsibilities(q, data)[:, : model.n_components]
        counts = r.sum(0)
        parents = [int(j) for j in np.argsort(-counts) if counts[j] > 2.0 * LEAST and int(j) not in rejected]
        if counts.min() > LEAST or not parents:
            ordered = largest_first(model, q, counts)
            return ordered if elbo(model, ordered, data) >= best else q
        spare = np.flatnonzero(counts <= LEAST)
        tried = [
            divided(model, data, r, parents[0], spare[: n - 1], rng) for n in PARTS if len(spare) >= n - 1
        ]
        others = [_settled(model, _given(model, q, data, r), data, steps) for r in tried if r is not None]
        value, other = max(
            ((elbo(model, other, data), other) for other in others), default=(-np.inf, q), key=itemgetter(0)
        )
        if value > best:
            q, best = other, value
            rejected.clear()
        else:
            rejected.add(parents[0])


def _settled(model: Mixture, q: Product, data: Data, steps: int) -> Product:
    for _ in range(steps):
        q = stepped(model, q, data)
    return q


def divided(
    model: Mixture, data: Data, r: np.ndarray, j: int, spare: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    """The responsibilities (N, K) after dividing the rows of component ``j`` among it and ``spare`` ones.

    None where there are too few rows, or k-means leaves a part empty. ``r`` (N, K) are those before.
    """
    own, parts = np.flatnonzero(r[:, j] > OWN), len(spare) + 1
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


def _given(model: Mixture, q: Product, data: Data, r: np.ndarray) -> Product:
    """The posterior given responsibilities ``r``."""
    factors = dict(q.factors)
    factors[model.components.name] = posterior_of(model.components, data, r)
    if model.mixing.name:
        factors[model.mixing.name] = model.mixing.start(r.sum(0))
    return largest_first(model, Product(factors), r.sum(0))
