"""Merges of components that share one cluster, which coordinate ascent does not merge.

Two components are merged by adding the statistics of their data,

    eta_j <- eta_j + eta_k - eta_0,      eta_k <- eta_0,

and the data of k are counted for j in the weights' factor. Components that share a covariance are computed
from the data with the responsibilities of k added to those of j. A step of coordinate ascent follows, after
which a merge is kept if the bound is higher.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bqvi.arrays import Values, add, subtract
from bqvi.families import Product
from bqvi.models.component_mixture import Mixture
from bqvi.models.components import posterior_of
from bqvi.models.conjugate import elbo, update_target
from bqvi.models.data import Data
from bqvi.models.settings import MERGES
from bqvi.models.weighted import Weighted


def merged(model: Mixture, q: Product, data: Data, weights: np.ndarray | None = None) -> Product:
    """``q`` after all merges that raise the bound; with the largest components first where that raises it.

    Parameters
    ----------
    model : a mixture, its prior settled; of components that share parameters (a tied covariance) with data
        without missing values
    q : a posterior of it, in the prior's family
    data : what ``q`` was fitted to, checked
    weights : (N,), what each row counts; default 1

    Returns
    -------
    Product
        For `fit` to go on from (``start_from``); its bound is not below that of ``q``.
    """
    if model.incomplete and not _own_parameters(model, q):
        raise ValueError(
            "data has NaN and the components share parameters (a tied covariance), so that none can be "
            "merged; leave merges out, or impute"
        )
    of_rows: Any = model if weights is None else Weighted(model)
    rows = data if weights is None else (data, weights)
    best = elbo(of_rows, q, rows)
    # With components in another order the stick-breaking weights have to be fitted again, and a step of
    # coordinate ascent does not always reach the previous bound.
    ordered = _stepped(of_rows, _largest_first(model, q, _weighed(model, q, data, weights).sum(0)), rows)
    value = elbo(of_rows, ordered, rows)
    if value >= best:
        q, best = ordered, value
    found = True
    while found:
        found = False
        r = _weighed(model, q, data, weights)
        for j, k in _pairs(model.responsibilities(q, data)[:, : model.n_components].T @ r, r.sum(0)):
            joined = _stepped(of_rows, _joined(model, q, data, r, j, k), rows)
            value = elbo(of_rows, joined, rows)
            if value > best:
                q, best, found = joined, value, True
                break
    return q


def _own_parameters(model: Mixture, q: Product) -> bool:
    """Whether each component of ``q`` has parameters of its own."""
    leading = {eta.shape[0] if np.ndim(eta) else 0 for eta in q[model.components.name].natural}
    return leading == {model.n_components}


def _weighed(model: Mixture, q: Product, data: Data, weights: np.ndarray | None) -> np.ndarray:
    """w_n r_nk, (N, K)."""
    r = model.responsibilities(q, data)[:, : model.n_components]
    return np.asarray(r if weights is None else weights[:, None] * r)


def _pairs(shared: np.ndarray, counts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Pairs of components that share data, those that share most first."""
    alive = np.flatnonzero(counts > MERGES.least)
    if len(alive) < 2:
        return
    shared = shared[np.ix_(alive, alive)] / np.sqrt(np.outer(counts[alive], counts[alive]))
    np.fill_diagonal(shared, -1.0)
    neighbours = np.argsort(-shared, axis=1)[:, :3]
    pairs = {(min(i, j), max(i, j)) for i in range(len(alive)) for j in neighbours[i] if i != j}
    for i, j in sorted(pairs, key=lambda pair: -shared[pair]):
        yield int(alive[i]), int(alive[j])


def _joined(model: Mixture, q: Product, data: Data, r: np.ndarray, j: int, k: int) -> Product:
    """The posterior ``q`` with component k merged into j; ``r`` (N, K) are its weighted responsibilities."""
    joined = r.copy()
    joined[:, j] += joined[:, k]
    joined[:, k] = 0.0
    if not _own_parameters(model, q):
        # stick-breaking weights: the largest component first
        joined = joined[:, np.argsort(-joined.sum(0), kind="stable")]
        return _with(model, q, posterior_of(model.components, data, joined).natural, joined.sum(0))
    name = model.components.name
    prior = model.prior[name].natural
    moved = tuple(part.copy() for part in subtract(q[name].natural, prior))
    for part in moved:
        part[j] += part[k]
        part[k] = 0.0
    return _largest_first(model, _with(model, q, add(prior, moved), joined.sum(0)), joined.sum(0))


def _largest_first(model: Mixture, q: Product, counts: np.ndarray) -> Product:
    """``q`` with the largest components first by ``counts`` (K,): the bound of sticks is highest then.

    Components that share parameters keep their order.
    """
    if not _own_parameters(model, q):
        return q
    order = np.argsort(-counts, kind="stable")
    natural = tuple(eta[order] for eta in q[model.components.name].natural)
    other = _with(model, q, natural, counts[order])
    return other if model.mixing.name == "sticks" else q


def _with(model: Mixture, q: Product, natural: Values, counts: np.ndarray) -> Product:
    factors = dict(q.factors)
    factors[model.components.name] = q[model.components.name].from_natural(natural)
    if model.mixing.name:
        factors[model.mixing.name] = model.mixing.start(counts)
    return Product(factors)


def _stepped(model: Any, q: Product, data: Data) -> Product:
    """``q`` after a step of coordinate ascent."""
    return q.from_natural(update_target(model, model.local_step(q, data)))
