"""Merges of components that share one cluster, which coordinate ascent does not merge.

The responsibilities of component k are added to those of j, and a step of coordinate ascent follows, after
which the merge is kept if the bound is higher.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bqvi.arrays import add
from bqvi.families import Product
from bqvi.models.component_mixture import Mixture
from bqvi.models.contracts import elbo, update_target
from bqvi.models.data import Data
from bqvi.models.weighted import Weighted


def merged(model: Mixture, q: Product, data: Data, weights: np.ndarray | None = None) -> Product:
    """``q`` after all merges that raise the bound; with the largest components first where that raises it.

    Parameters
    ----------
    model : a mixture, its prior settled
    q : a posterior of it, in the prior's family
    data : what ``q`` was fitted to, checked
    weights : (N,), what each row counts; default 1

    Returns
    -------
    Product
        For `fit` to go on from (``start_from``); its bound is not below that of ``q``.
    """
    of_rows: Any = model if weights is None else Weighted(model)
    rows = data if weights is None else (data, weights)

    def responsibilities(q: Product) -> np.ndarray:
        return model.responsibilities(q, data)[:, : model.n_components]

    def after(r: np.ndarray) -> tuple[Product, float]:
        """The posterior after a step of coordinate ascent from responsibilities (N, K), and its bound."""
        r = r if weights is None else weights[:, None] * r
        given = _given(model, q, data, r)
        stepped = given.from_natural(update_target(of_rows, of_rows.local_step(given, rows)))
        return stepped, elbo(of_rows, stepped, rows)

    best, found = elbo(of_rows, q, rows), True
    # With components in another order the stick-breaking weights have to be fitted again, and a step of
    # coordinate ascent does not always reach the previous bound.
    ordered, value = after(responsibilities(q))
    if value >= best:
        q, best = ordered, value
    while found:
        found, r = False, responsibilities(q)
        for j, k in _pairs(r, weights):
            joined = r.copy()
            joined[:, j] += joined[:, k]
            joined[:, k] = 0.0
            other, value = after(joined)
            if value > best:
                q, best, found = other, value, True
                break
    return q


def _given(model: Mixture, q: Product, data: Data, r: np.ndarray) -> Product:
    """The posterior given weighted responsibilities ``r`` (N, K), missing values as ``q`` expects them.

    Of stick-breaking weights the largest component is the first: the bound is highest then.
    """
    if model.mixing.name == "sticks":
        r = r[:, np.argsort(-r.sum(0), kind="stable")]
    name = model.components.name
    natural = add(model.prior[name].natural, model.expected(q).statistics(data, r))
    weights = model.mixing.start(r.sum(0))
    factors = {} if weights is None else {model.mixing.name: weights}
    return Product({**factors, name: q[name].from_natural(natural)})


def _pairs(r: np.ndarray, weights: np.ndarray | None) -> Iterator[tuple[int, int]]:
    """Pairs of components that share data, those that share most first."""
    weighed = r if weights is None else weights[:, None] * r
    shared, counts = r.T @ weighed, weighed.sum(0)
    alive = np.flatnonzero(counts > 0.5)  # a component with less than half of an observation is empty
    if len(alive) < 2:
        return
    shared = shared[np.ix_(alive, alive)] / np.sqrt(np.outer(counts[alive], counts[alive]))
    np.fill_diagonal(shared, -1.0)
    neighbours = np.argsort(-shared, axis=1)[:, :3]
    pairs = {(min(i, j), max(i, j)) for i in range(len(alive)) for j in neighbours[i] if i != j}
    for i, j in sorted(pairs, key=lambda pair: -shared[pair]):
        yield int(alive[i]), int(alive[j])
