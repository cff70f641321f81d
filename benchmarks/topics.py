"""Latent Dirichlet allocation beside scikit-learn: seconds of the processor, and perplexity.

2,000 documents of 100 words, V = 2,000, K = 20. Both have the same priors and the same number of passes;
perplexity is by document completion on 500 other documents, for both with the same code.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse

import bqvi
from benchmarks.paired import Line
from bqvi.families import Dirichlet, Product
from bqvi.models import LatentDirichletAllocation

TOPICS, WORDS, DOCUMENTS, LENGTH = 20, 2000, 2000, 100
PASSES, BATCH, ROUNDS = 10, 256, 3


def run() -> Iterator[Line]:
    """All data at each step, and mini-batches."""
    train, test = _corpus(DOCUMENTS, 0), _corpus(500, 1)
    model = LatentDirichletAllocation(TOPICS, WORDS, word_concentration=1.0 / TOPICS)

    def ours(passes: int, online: bool, seed: int) -> Product:
        settings: dict[str, object] = {"steps": passes, "tolerance": 1e-300, "start_from": "random"}
        if online:
            settings = {"steps": passes * (DOCUMENTS // BATCH), "minibatch": BATCH, "start_from": "random"}
        method = "sngd" if online else "cavi"
        found = bqvi.fit(model, train, method, record=[0], seed=seed, **settings)  # type: ignore[arg-type]
        return found.q  # type: ignore[no-any-return]

    def theirs(passes: int, online: bool, seed: int) -> Product:
        from sklearn.decomposition import LatentDirichletAllocation as Peer

        peer = Peer(
            TOPICS,
            learning_method="online" if online else "batch",
            max_iter=passes,
            batch_size=BATCH,
            total_samples=DOCUMENTS,
            random_state=seed,
        )
        peer.fit(train)
        return Product({"topics": Dirichlet(peer.components_)})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for online in (False, True):
            yield from _compared(model, test, ours, theirs, online)


def _compared(
    model: LatentDirichletAllocation,
    test: scipy.sparse.csr_array,
    ours: Callable[[int, bool, int], Product],
    theirs: Callable[[int, bool, int], Product],
    online: bool,
) -> Iterator[Line]:
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    perplexity: dict[str, list[float]] = {"ours": [], "theirs": []}
    for seed in range(ROUNDS):
        for name, fit in (("ours", ours), ("theirs", theirs)):
            short, _ = _timed(fit, 1, online, seed)
            long, q = _timed(fit, 1 + PASSES, online, seed)
            seconds[name].append((long - short) / PASSES)
            perplexity[name].append(model.perplexity(q, test))
    ratio = float(np.median(np.array(seconds["theirs"]) / np.array(seconds["ours"])))
    what = f"LDA, {'online, S = 256' if online else 'batch'}, 2,000 documents, V = 2,000, K = 20"
    mine, peers = (float(np.median(seconds[name])) * 1e3 for name in ("ours", "theirs"))
    measured = f"{ratio:.1f} times faster ({mine:.0f} ms, scikit-learn {peers:.0f} ms)"
    yield Line(f"{what}: a pass", measured, "at least 4.5", ratio >= 4.5)
    mine, peers = (float(np.mean(perplexity[name])) for name in ("ours", "theirs"))
    yield Line(
        f"the same: perplexity after {1 + PASSES} passes",
        f"{mine:.0f}",
        f"at most {peers:.0f}",
        bool(mine <= peers),
    )


def _timed(
    fit: Callable[[int, bool, int], Product], passes: int, online: bool, seed: int
) -> tuple[float, Product]:
    began = time.process_time()
    q = fit(passes, online, seed)
    return time.process_time() - began, q


def _corpus(n: int, seed: int) -> scipy.sparse.csr_array:
    topics = np.random.default_rng(7).dirichlet(np.full(WORDS, 0.1), TOPICS)
    rng = np.random.default_rng(seed)
    proportions = rng.dirichlet(np.full(TOPICS, 0.2), n)
    return scipy.sparse.csr_array(np.stack([rng.multinomial(LENGTH, p) for p in proportions @ topics]))
