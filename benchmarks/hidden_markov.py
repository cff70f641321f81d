"""Baum-Welch beside hmmlearn: seconds of the processor for an iteration.

100 sequences of 100 and 20 of 5,000; K = 5 and 8; 27 symbols, and Gaussians in three dimensions with full
covariances.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import bqvi
from benchmarks.paired import Line, faster, seconds_each
from bqvi.models import HiddenMarkovModel, Sequences, categorical, gaussian_components
from experiments.problems.data import simulate_states

SYMBOLS, DIMENSION, ROUNDS = 27, 3, 3
BARS = {"scaling": 2.0, "log": 12.0}
"""Times as fast as an implementation of hmmlearn's."""


def run() -> Iterator[Line]:
    """Measure all sizes."""
    logging.getLogger("hmmlearn").setLevel(logging.CRITICAL)
    for n, length in ((100, 100), (20, 5000)):
        for states in (5, 8):
            for kind in ("categorical", "Gaussian"):
                yield from _compared(n, length, states, kind)


def _compared(n: int, length: int, states: int, kind: str) -> Iterator[Line]:
    _, ours, theirs = timed_fits(n, length, states, kind)
    ours(1)
    theirs("scaling", 1)  # imports the peer
    seconds: dict[str, list[float]] = {"ours": [], "scaling": [], "log": []}
    for _ in range(ROUNDS):
        seconds["ours"].append(seconds_each(ours, 1, 11))
        for name in ("scaling", "log"):
            seconds[name].append(seconds_each(partial(theirs, name), 1, 4))
    for name, bar in BARS.items():
        what = f"Baum-Welch, {n} x {length}, K = {states}, {kind}"
        yield faster(what, seconds["ours"], seconds[name], f"hmmlearn's {name}", bar)


def timed_fits(
    n: int, length: int, states: int, kind: str
) -> tuple[Sequences, Callable[[int], None], Callable[[str, int], None]]:
    """Return sequences, and two fits by a number of iterations: ours, and that by a peer's implementation."""
    lengths = np.full(n, length)
    values = simulated(lengths, states, kind)
    emissions = categorical(SYMBOLS, 1.0) if kind == "categorical" else gaussian_components("full")
    model, data = HiddenMarkovModel(states, emissions), Sequences(values, lengths)

    def ours(steps: int) -> None:
        settings: dict[str, Any] = {"family": "point", "start_from": "random", "record": [0]}
        bqvi.fit(model, data, steps=steps, tolerance=1e-300, **settings)

    def theirs(implementation: str, steps: int) -> None:
        peer(kind, states, steps, implementation).fit(values, lengths)

    return data, ours, theirs


def peer(kind: str, states: int, steps: int, implementation: str) -> Any:
    """hmmlearn's model of a ``kind``, which takes as many ``steps``."""
    from hmmlearn import hmm

    settings = {"n_iter": steps, "tol": -1e300, "implementation": implementation, "random_state": 0}
    if kind == "categorical":
        return hmm.CategoricalHMM(states, n_features=SYMBOLS, **settings)
    return hmm.GaussianHMM(states, covariance_type="full", **settings)


def simulated(lengths: np.ndarray, states: int, kind: str) -> np.ndarray:
    """Values of sequences, (T, 1) symbols or (T, 3)."""
    rng = np.random.default_rng(0)
    transitions = 0.9 * np.eye(states) + 0.1 * rng.dirichlet(np.ones(states), states)
    z = simulate_states(np.full(states, 1.0 / states), transitions, lengths, rng)
    if kind == "categorical":
        cumulative = rng.dirichlet(np.full(SYMBOLS, 0.3), states).cumsum(axis=1)
        below = (rng.random(len(z))[:, None] > cumulative[z]).sum(axis=1)
        return np.asarray(below.clip(0, SYMBOLS - 1)[:, None])
    means = 3.0 * rng.standard_normal((states, DIMENSION))
    return np.asarray(means[z] + rng.standard_normal((len(z), DIMENSION)))
