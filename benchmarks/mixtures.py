"""Gaussian mixtures with unknown covariances beside scikit-learn: EM, VB and Dirichlet processes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import bqvi
from benchmarks.paired import Line
from bqvi.models import DirichletProcessMixture, GaussianMixture, Mixture


def run() -> Iterator[Line]:
    """All sizes, CPU time an iteration: the difference of two runs, which leaves out starts and checks."""
    yield from _sizes(200_000, 10, 20, 7.0, rounds=3)
    yield from _sizes(10_000, 10, 20, 4.5, rounds=9)
    yield from _sizes(1_000_000, 8, 16, 7.0, rounds=3)
    yield from _process(200_000, 10, 30, 5.0)


def _data(n: int, d: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    centres = 3.0 * rng.standard_normal((k, d))
    return np.asarray(centres[rng.integers(k, size=n)] + rng.standard_normal((n, d)))


def _sizes(n: int, d: int, k: int, bar: float, rounds: int) -> Iterator[Line]:
    from sklearn.mixture import BayesianGaussianMixture
    from sklearn.mixture import GaussianMixture as PeerMixture

    x = _data(n, d, k)
    for what, peer, family in (("VB", BayesianGaussianMixture, "full"), ("EM", PeerMixture, "point")):
        model = GaussianMixture(k, "full", concentration=1.0).for_data(x)
        yield _line(what, model, family, partial(_peer, peer, k, x=x), x, bar, rounds)


def _process(n: int, d: int, truncation: int, bar: float) -> Iterator[Line]:
    from sklearn.mixture import BayesianGaussianMixture

    x = _data(n, d, 20)
    model = DirichletProcessMixture("full", truncation).for_data(x)
    yield _line("DP", model, "full", lambda s: _peer(BayesianGaussianMixture, truncation, s, x), x, bar, 3)


def _peer(peer: Callable[..., object], k: int, steps: int, x: np.ndarray) -> None:
    fitted = peer(n_components=k, max_iter=steps, tol=0.0, init_params="random_from_data", random_state=0)
    fitted.fit(x)  # type: ignore[attr-defined]


def _line(
    what: str,
    model: Mixture,
    family: str,
    peer: Callable[[int], None],
    x: np.ndarray,
    bar: float,
    rounds: int,
) -> Line:
    start = model.initial(x, "random", np.random.default_rng(1))

    def ours(steps: int) -> None:
        bqvi.fit(model, x, "cavi", family=family, steps=steps, tolerance=1e-300, record=[0], start_from=start)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine, theirs = [], []
        for _ in range(rounds):
            mine.append((_seconds(ours, 5) - _seconds(ours, 1)) / 4.0)
            theirs.append((_seconds(peer, 3) - _seconds(peer, 1)) / 2.0)
    ratio = float(np.median(np.array(theirs) / np.array(mine)))
    each = f"{np.median(mine) * 1e3:.1f} ms, scikit-learn {np.median(theirs) * 1e3:.0f} ms"
    size = f"N = {len(x) // 1000}k, D = {x.shape[1]}, K = {model.n_components}, full covariances"
    return Line(
        f"{what} iteration, {size}", f"{ratio:.1f} times faster ({each})", f"at least {bar:g}", ratio >= bar
    )


def _seconds(work: Callable[[int], None], steps: int) -> float:
    began = time.process_time()
    work(steps)
    return time.process_time() - began
