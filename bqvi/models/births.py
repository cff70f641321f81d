"""Births of components: the data of one component are divided among several where that raises the bound.

Coordinate ascent never lowers the bound and therefore does not divide a component in two, so that a mixture
which starts with few occupied components keeps them. Here the data of one component are divided by k-means,
the parts are assigned to components without data, and a few steps of coordinate ascent follow:

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
"""Numbers of parts that are tried: the halves of many clusters need not raise the bound."""
STEPS = 10
"""Of coordinate ascent after a birth, before it is judged."""
OWN = 0.5
"""Responsibility above which a row is one of the component's own."""


def born(model: Mixture, q: Product, data: Data, *, seed: Seed = 0, steps: int = STEPS) -> Product:
    """``q`` after all births that raise the bound.

    Parameters
    ----------
    model : a mixture, its prior settled; components that share parameters (a tied covariance) cannot be born
    q : a posterior of it, in the prior's family, with some components that have no data
    data : what ``q`` was fitted to, checked
    seed : seed of the divisions
    steps : of coordinate ascent after a birth, >= 1

    Returns
    -------
    Product
        For `fit` to go on from (``start_from``); its bound is not below that of ``q``.
    """
    require_own_parameters(model, q)
    if model.incomplete:
        raise ValueError("data has NaN, with which no component is divided; leave births out, or impute")
    require_integer("steps", steps, 1)
    rng = generator(seed)
    best, hopeless = elbo(model, q, data), set[int]()
    while True:
        r = model.responsibilities(q, data)[:, : model.n_components]
        counts = r.sum(0)
        parents = [int(j) for j in np.argsort(-counts) if counts[j] > 2.0 * LEAST and int(j) not in hopeless]
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
            hopeless.clear()
        else:
            hopeless.add(parents[0])


def _settled(model: Mixture, q: Product, data: Data, steps: int) -> Product:
    for _ in range(steps):
        q = stepped(model, q, data)
    return q


def divided(
    model: Mixture, data: Data, r: np.ndarray, j: int, spare: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    """Responsibilities ``r`` (N, K) once the rows of component ``j`` are divided with those ``spare``.

    None where there are too few rows, or k-means leaves a part of them empty.
    """
    own, parts = np.flatnonzero(r[:, j] > OWN), len(spare) + 1
    if len(own) < parts:
        return None
    # imported here, as it would take a twentieth of the time of `import bqvi`
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
