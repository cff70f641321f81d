"""Latent Dirichlet allocation beside scikit-learn and Gensim: seconds of the processor, and perplexity.

2,000 documents of 100 words, V = 2,000, K = 20. All have the same priors and the same number of passes;
perplexity is by document completion on 500 other documents, for all with the same code.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import scipy.sparse

import bqvi
from benchmarks.paired import Line, faster, seconds_each
from bqvi.families import Dirichlet, Product
from bqvi.models import LatentDirichletAllocation

TOPICS, WORDS, DOCUMENTS, LENGTH = 20, 2000, 2000, 100
PASSES, BATCH, ROUNDS = 10, 256, 3
BARS = {"scikit-learn": 4.5, "Gensim": 7.5}
"""Times as fast as a peer."""


def run() -> Iterator[Line]:
    """Measure steps with all data, and with mini-batches."""
    train, test = corpus(DOCUMENTS, 0), corpus(500, 1)
    model = LatentDirichletAllocation(TOPICS, WORDS, word_concentration=1.0 / TOPICS)

    def ours(passes: int, online: bool, seed: int) -> Product:
        settings: dict[str, object] = {"steps": passes, "tolerance": 1e-300, "start_from": "random"}
        if online:
            settings = {"steps": passes * (DOCUMENTS // BATCH), "minibatch": BATCH, "start_from": "random"}
        method = "sngd" if online else "cavi"
        found = bqvi.fit(model, train, method, record=[0], seed=seed, **settings)  # type: ignore[arg-type]
        return found.q

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for online in (False, True):
            fits = {"ours": ours, **peers(train)}
            yield from _compared(model, test, fits, online)


def peers(train: scipy.sparse.csr_array) -> dict[str, Callable[..., Product]]:
    """Fits of ``train`` by name: of some passes, with mini-batches or not, from a seed."""
    rows = [train[[d]] for d in range(DOCUMENTS)]
    documents = [[(int(w), int(n)) for w, n in zip(row.indices, row.data, strict=True)] for row in rows]

    def scikit_learns(passes: int, online: bool, seed: int) -> Product:
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

    def gensims(passes: int, online: bool, seed: int) -> Product:
        from gensim.models import LdaModel

        peer = LdaModel(
            documents,
            TOPICS,
            id2word={word: str(word) for word in range(WORDS)},
            passes=passes,
            chunksize=BATCH if online else DOCUMENTS,
            update_every=int(online),
            eta=1.0 / TOPICS,
            iterations=100,
            eval_every=None,
            random_state=seed,
        )
        return Product({"topics": Dirichlet(peer.state.get_lambda())})

    return {"scikit-learn": scikit_learns, "Gensim": gensims}


def _compared(
    model: LatentDirichletAllocation,
    test: scipy.sparse.csr_array,
    fits: Mapping[str, Callable[..., Product]],
    online: bool,
) -> Iterator[Line]:
    seconds: dict[str, list[float]] = {name: [] for name in fits}
    perplexity: dict[str, list[float]] = {name: [] for name in fits}
    for seed in range(ROUNDS):
        for name, fit in fits.items():
            seconds[name].append(seconds_each(partial(fit, online=online, seed=seed), 1, 1 + PASSES))
            perplexity[name].append(model.perplexity(fit(1 + PASSES, online, seed), test))
    what = f"LDA, {'online, S = 256' if online else 'batch'}, 2,000 documents, V = 2,000, K = 20"
    for peer, bar in BARS.items():
        yield faster(f"{what}: a pass", seconds["ours"], seconds[peer], peer, bar)
        mine, theirs = (float(np.mean(perplexity[name])) for name in ("ours", peer))
        passes = f"the same: perplexity after {1 + PASSES} passes"
        yield Line(passes, f"{mine:.0f}", f"at most {theirs:.0f}", bool(mine <= theirs))


def corpus(n: int, seed: int) -> scipy.sparse.csr_array:
    """``n`` documents of the topics that all corpora share."""
    topics = np.random.default_rng(7).dirichlet(np.full(WORDS, 0.1), TOPICS)
    rng = np.random.default_rng(seed)
    proportions = rng.dirichlet(np.full(TOPICS, 0.2), n)
    return scipy.sparse.csr_array(np.stack([rng.multinomial(LENGTH, p) for p in proportions @ topics]))
