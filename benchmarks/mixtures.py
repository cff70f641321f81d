"""Gaussian mixtures with unknown covariances beside scikit-learn: EM, VB and Dirichlet processes.

An iteration of EM is also set beside its floor: the products and exponentials of its blocks alone, on one
block that stays in the cache.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import bqvi
from benchmarks.paired import Line, alone, faster, seconds_each
from benchmarks.peak import peak
from bqvi.models import DirichletProcessMixture, GaussianMixture, Mixture
from bqvi.models.mixture import BLOCK_ENTRIES


def run() -> Iterator[Line]:
    """Measure all sizes: CPU time an iteration, as the difference of two runs, without starts and checks."""
    yield from _sizes(200_000, 10, 20, 7.0, rounds=3)
    yield from _sizes(10_000, 10, 20, 4.5, rounds=9)
    yield from _sizes(1_000_000, 8, 16, 7.0, rounds=3)
    yield from _process(200_000, 10, 30, 5.0)
    yield _beside_floor(200_000, 10, 20, 3.5)
    yield _memory(1_000_000, 8, 16)


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
    ours = _ours(model, family, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = [(seconds_each(ours, 1, 5), seconds_each(peer, 1, 3)) for _ in range(rounds)]
    size = f"N = {len(x) // 1000}k, D = {x.shape[1]}, K = {model.n_components}, full covariances"
    mine, theirs = np.transpose(pairs)
    return faster(f"{what} iteration, {size}", mine, theirs, "scikit-learn", bar)


def _ours(model: Mixture, family: str, x: np.ndarray) -> Callable[[int], None]:
    """A fit of a given number of iterations."""
    start = model.initial(x, "random", np.random.default_rng(1))

    def fit(steps: int) -> None:
        bqvi.fit(model, x, "cavi", family=family, steps=steps, tolerance=1e-300, record=[0], start_from=start)

    return fit


def _beside_floor(n: int, d: int, k: int, bar: float) -> Line:
    x = _data(n, d, k)
    model = GaussianMixture(k, "full", concentration=1.0).for_data(x)
    ours, floor = _ours(model, "point", x), partial(_products_and_exponentials, n, d, k)
    mine, least = np.transpose([(seconds_each(ours, 1, 9), seconds_each(floor, 1, 9)) for _ in range(5)])
    above = float(np.median(mine / least))
    return Line(
        f"the same EM, N = {n // 1000}k, D = {d}, K = {k}, beside its products and exponentials alone",
        f"{above:.2f} times as long ({np.median(mine) * 1e3:.1f} ms, {np.median(least) * 1e3:.1f} ms)",
        f"at most {bar:g} times",
        above <= bar,
    )


def _products_and_exponentials(n: int, d: int, k: int, passes: int) -> None:
    """Those of a pass over N rows: T has D + D (D + 1) / 2 columns, and there is a column of ones."""
    import torch

    width = d + d * (d + 1) // 2 + 1
    size = BLOCK_ENTRIES // width
    rng = np.random.default_rng(0)
    slope, columns = rng.standard_normal((k, width)), rng.standard_normal((width, size))
    rho = np.empty((k, size))
    logarithms = -rng.exponential(10.0, (k, size))
    for _ in range(passes * n // size):
        np.matmul(slope, columns, out=rho)
        torch.exp(torch.from_numpy(logarithms), out=torch.from_numpy(rho))
        rho @ columns.T


def _memory(n: int, d: int, k: int) -> Line:
    """Measure the peak of a process of its own, read off at its end."""
    x = _data(n, d, k)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npy"
        np.save(path, x)
        beyond = alone(_measure, path, k) - x.nbytes / 2**30
    return Line(
        f"EM and VB, N = {n // 1000}k, D = {d}, K = {k}, full covariances: memory beyond the data",
        f"{beyond:.2f} GiB, the program's own among it",
        "under 1 GiB",
        beyond < 1.0,
    )


def _measure(path: Path, k: int) -> float:
    """The largest memory of fits of a saved table, GiB."""
    x = np.load(path)
    for family in ("point", "full"):
        bqvi.fit(GaussianMixture(k, "full", concentration=1.0), x, family=family, steps=3, tolerance=1e-300)
    return peak() / 2**10
