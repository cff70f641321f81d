"""A variational autoencoder: the one loop against a plain torch loop of the same networks, seeds and batches.

The plain loop is written for this one model: two modules, `torch.optim.Adam`, a closed divergence. It
takes the mini-batches and the noise from the same generator in the same order, so that the curves can be
compared number by number. Data: 784 binary columns, of a generator here.

``python -m benchmarks.autoencoder DIR STEPS`` trains both on MNIST, from a folder with ``mnist_5k.npz``: the
bound on training data and ln p(x) of held-out images along the way, each by its own code.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import bqvi
from acquisition.minibatch import Reshuffled
from benchmarks.paired import Line
from benchmarks.setting import clock, limit_torch
from bqvi.models import VariationalAutoencoder
from experiments.problems import images

LATENT, HIDDEN, SIZE, RATE = 128, 256, 128, 1e-3
CURVE, TIMED, LEFT_OUT = 200, 220, 20
ROWS, DRAWS = 10, 100
"""The number of rows of the table of a long run; the number of draws of z for a held-out image."""


def data() -> np.ndarray:
    """(N, 784) zeros and ones in single precision."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((5000, 10))
    return (z @ rng.standard_normal((10, 784)) > rng.standard_normal((5000, 784))).astype(np.float32)


def networks() -> tuple[nn.Module, nn.Module]:
    """Encoder and decoder, of seed 0."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * LATENT))
    return encoder, nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 784))


def plain(x: np.ndarray, seed: int = 0, pair: tuple[nn.Module, nn.Module] | None = None) -> Iterator[float]:
    """The bound of each step, nats a datum; ``pair`` (encoder, decoder) is trained in place."""
    encoder, decoder = pair or networks()
    rng = np.random.default_rng(seed)
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], RATE)
    n = len(x)
    order, place = rng.permutation(n), 0
    while True:
        # as `Reshuffled` does: the rest of an epoch that fills no mini-batch is left out
        if place + SIZE > n:
            order, place = rng.permutation(n), 0
        rows = torch.from_numpy(x[order[place : place + SIZE]])
        place += SIZE
        mean, log_scale = encoder(rows).chunk(2, 1)
        noise = torch.as_tensor(rng.standard_normal((1, *mean.shape)), dtype=torch.float32)
        z = mean + log_scale.exp() * noise[0]
        fit = -binary_cross_entropy_with_logits(decoder(z), rows, reduction="none").sum()
        divergence = 0.5 * (mean.square() + (2.0 * log_scale).exp() - 1.0 - 2.0 * log_scale).sum()
        bound = fit - divergence
        adam.zero_grad()
        (-bound * (n / SIZE)).backward()
        adam.step()
        yield float(bound.detach()) / SIZE


def held_out(pair: tuple[nn.Module, nn.Module], x: np.ndarray, samples: int, seed: int = 0) -> float:
    """Mean of ln p(x) over rows ``x``, nats: importance sampling with ``samples`` draws from q(z | x)."""
    encoder, decoder = pair
    generator = torch.Generator().manual_seed(seed)
    found = []
    with torch.no_grad():
        for rows in torch.split(torch.from_numpy(x), SIZE):
            mean, log_scale = encoder(rows).chunk(2, 1)
            noise = torch.randn((samples, *mean.shape), generator=generator)
            z = mean + log_scale.exp() * noise
            logits = decoder(z)
            fit = -binary_cross_entropy_with_logits(logits, rows.expand_as(logits), reduction="none").sum(-1)
            weights = fit - 0.5 * (z.square() - noise.square()).sum(-1) + log_scale.sum(-1)
            found.append(torch.logsumexp(weights, 0) - math.log(samples))
    return float(torch.cat(found).mean())


def ours(x: np.ndarray, seed: int = 0) -> Iterator[Any]:
    """The states of `bqvi.fit` on the same data and networks."""
    encoder, decoder = networks()
    return bqvi.fit.steps(
        VariationalAutoencoder(encoder, decoder, latent=LATENT),
        x,
        "pathwise",
        minibatch=Reshuffled(SIZE),
        schedule=bqvi.Adam(RATE),
        steps=10**6,
        record=[0],
        seed=seed,
    )


def run() -> Iterator[Line]:
    """N = 5,000, 784 columns, latent 128, hidden 256, S = 128, Adam 1e-3."""
    x = data()
    limit_torch()
    a = np.array(list(islice(plain(x), CURVE)))
    b = np.array([state.estimates[-1] for state in islice(ours(x), CURVE)]) / len(x)
    gap = float(np.abs(a - b).max())
    measured = f"differs by {gap:.2g} nats at most"
    yield Line(f"VAE against plain torch: bound, {CURVE} steps", measured, "0.1", gap < 0.1)
    loops = (plain(x), ours(x))
    seconds = np.array([[_timed(loop)[1] for loop in loops] for _ in range(TIMED)])[LEFT_OUT:]
    first, second = np.median(seconds, axis=0)
    measured = f"{second / first:.2f} times {first * 1e3:.1f} ms"
    yield Line("VAE against plain torch: processor time a step", measured, "1.15", second / first <= 1.15)


def curves(folder: Path, steps: int) -> Iterator[str]:
    """Rows of a table: bounds over the steps since the last row, held-out ln p(x), processor time a step."""
    x, held = images.split("mnist", folder)
    limit_torch()
    pair = networks()
    model = VariationalAutoencoder(*networks(), latent=LATENT)
    loops = (plain(x, pair=pair), ours(x))
    bounds, seconds = np.empty((steps, 2)), np.empty((steps, 2))
    yield "| step | bound, plain | bqvi | held-out ln p(x), plain | bqvi | ms a step, plain | bqvi | ratio |"
    yield "|---|---|---|---|---|---|---|---|"
    for step in range(steps):
        bounds[step, 0], seconds[step, 0] = _timed(loops[0])
        state, seconds[step, 1] = _timed(loops[1])
        bounds[step, 1] = state.estimates[-1] / len(x)
        if (step + 1) % max(steps // ROWS, 1) == 0:
            since = slice(step + 1 - max(steps // ROWS, 1), step + 1)
            a, b = bounds[since].mean(0)
            first, second = np.median(seconds[since], axis=0) * 1e3
            ends = held_out(pair, held, DRAWS), model.log_evidence(state.q, held, DRAWS, 0).mean()
            yield (
                f"| {step + 1} | {a:.3f} | {b:.3f} | {ends[0]:.3f} | {ends[1]:.3f} "
                f"| {first:.2f} | {second:.2f} | {second / first:.3f} |"
            )
    yield f"\nLargest difference of the bounds of a step: {np.abs(np.diff(bounds)).max():.2g} nats."


def _timed(loop: Iterator[Any]) -> tuple[Any, float]:
    """The next step's result and its CPU seconds; the steps of both loops take turns."""
    began = clock()
    found = next(loop)
    return found, clock() - began


if __name__ == "__main__":
    for row in curves(Path(sys.argv[1]), int(sys.argv[2])):
        print(row, flush=True)
