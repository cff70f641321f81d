"""Topics and hidden Markov models beside the floor of their arrays.

The floor of a pass is what no array program can leave out: its matrix products, exponentials, digamma
functions, and one multiplication or division each where the recursions have one, in arrays that are there
already, without normalising, checking, or any step of Python between them. Beside it stands what the bars of
`topics` and `hidden_markov` ask for; where these are below the floor, arrays cannot hold them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.special

import bqvi
from benchmarks import topics
from benchmarks.hidden_markov import BARS, DIMENSION, SYMBOLS, timed_fits
from benchmarks.paired import Line, seconds_each
from bqvi.models import LatentDirichletAllocation, document_step

ROUNDS = 3
MOST = 3.5
"""Times the floor that a pass may take, as of the mixtures in `mixtures`."""


def run() -> Iterator[Line]:
    """Measure topics by both methods, and hidden Markov models of the sizes of `hidden_markov`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for online in (False, True):
            yield _topics(online)
        for n, length in ((100, 100), (20, 5000)):
            for states in (5, 8):
                for kind in ("categorical", "Gaussian"):
                    yield _sequences(n, length, states, kind)


def _median(pass_: Callable[[int], None], short: int, long: int) -> float:
    pass_(short)
    return float(np.median([seconds_each(pass_, short, long) for _ in range(ROUNDS)]))


def _line(what: str, ours: float, floor: float, bars: dict[str, float]) -> Line:
    asked = ", ".join(
        f"{1e3 * seconds:.1f} ms ({name}; {'above' if seconds > floor else 'below'} the floor)"
        for name, seconds in bars.items()
    )
    ratio = ours / floor
    measured = f"{ratio:.2f} ({1e3 * ours:.1f} of {1e3 * floor:.1f} ms); the bars ask for {asked}"
    return Line(f"{what}, in NumPy", measured, f"at most {MOST:g} times its floor", ratio <= MOST)


def _topics(online: bool) -> Line:
    train = topics.corpus(topics.DOCUMENTS, 0)
    model = LatentDirichletAllocation(topics.TOPICS, topics.WORDS, word_concentration=1.0 / topics.TOPICS)
    steps = topics.DOCUMENTS // topics.BATCH if online else 1

    def ours(passes: int) -> None:
        settings: dict[str, Any] = {"minibatch": topics.BATCH} if online else {"tolerance": 1e-300}
        method = "sngd" if online else "cavi"
        bqvi.fit(model, train, method, steps=passes * steps, start_from="random", record=[0], **settings)

    shapes: list[tuple[tuple[int, ...], np.dtype]] = []
    sweep = document_step._sweep

    def recorded(tables: np.ndarray, *others: np.ndarray) -> np.ndarray:
        shapes.append((tables.shape, tables.dtype))
        return sweep(tables, *others)

    passes = 6
    with patch.object(document_step, "_sweep", recorded):
        ours(passes)
    tables = [_table(shape, dtype) for shape, dtype in shapes]

    def floor(rounds: int) -> None:
        for _ in range(rounds):
            for table, share, counts in tables:
                np.exp(scipy.special.psi(share))
                likelihood = np.matmul(table, share[:, :, None])[:, :, 0]
                np.matmul((counts / likelihood)[:, None, :], table)

    peers = topics.peers(train)

    def theirs(count: int, name: str) -> None:
        peers[name](count, online, 0)

    seconds = {name: _median(partial(theirs, name=name), 1, 4) for name in peers}
    bars = {f"{bar:g} times {name}'s": seconds[name] / bar for name, bar in topics.BARS.items()}
    what = f"LDA, {'online' if online else 'batch'}, a pass"
    return _line(what, _median(ours, 1, 7), _median(floor, 1, 4) / passes, bars)


def _table(shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    documents, words, n_topics = shape
    rng = np.random.default_rng(0)
    sizes = (shape, (documents, n_topics), (documents, words))
    table, share, counts = (rng.uniform(0.5, 1.5, size).astype(dtype) for size in sizes)
    return table, share, counts


def _sequences(n: int, length: int, states: int, kind: str) -> Line:
    data, ours, theirs = timed_fits(n, length, states, kind)
    floor = _recursions(data.layout.index.shape, states, kind)
    bars = {
        f"{bar:g} times hmmlearn's {name}": _median(partial(theirs, name), 1, 3) / bar
        for name, bar in BARS.items()
    }
    what = f"Baum-Welch, {n} x {length}, K = {states}, {kind}"
    return _line(what, _median(ours, 1, 21), _median(floor, 1, 21), bars)


def _recursions(shape: tuple[int, ...], states: int, kind: str) -> Callable[[int], None]:
    """Forward and backward recursions of pieces (c, C), likelihoods and sums, as bare arrays."""
    steps, pieces = shape
    rng = np.random.default_rng(0)
    a = rng.dirichlet(np.ones(states), states)
    b, alpha, pred, gamma, w = (rng.uniform(0.9, 1.1, (steps, states, pieces)) for _ in range(5))
    symbols, table = rng.integers(SYMBOLS, size=shape), rng.random((states, SYMBOLS))
    size = 1 + DIMENSION + DIMENSION * (DIMENSION + 1) // 2
    statistics, weights = rng.random((steps, size, pieces)), rng.random((states, size))

    def emitted() -> None:
        if kind == "categorical":
            np.take(table, symbols, axis=1)
            for k in range(states):
                np.bincount(symbols.ravel(), gamma[:, k].ravel(), minlength=SYMBOLS)
        else:
            np.exp(np.matmul(weights, statistics))
            np.matmul(gamma, statistics.transpose(0, 2, 1)).sum(axis=0)

    def floor(rounds: int) -> None:
        for _ in range(rounds):
            emitted()
            for before, now, here, likelihood in zip(alpha[:-1], pred[1:], alpha[1:], b[1:], strict=True):
                np.matmul(a, before, out=now)
                np.multiply(now, likelihood, out=here)
            for after, here, old, now, own in zip(w[:0:-1], gamma, alpha, pred, w, strict=False):
                np.matmul(a, after, out=here)
                np.multiply(here, old, out=here)
                np.divide(here, now, out=own)
            np.matmul(alpha[:-1], w[1:].transpose(0, 2, 1)).sum(axis=0)

    return floor
