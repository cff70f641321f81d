"""A variational autoencoder: the one loop against a plain torch loop of the same networks, seeds and batches.

The plain loop is what one writes for this one model: two modules, `torch.optim.Adam`, a closed divergence. It
takes the mini-batches and the noise from the same generator in the same order, so that the curves can be
compared number by number. Data: 784 binary columns, of a generator here; a folder with ``mnist_5k.npz`` takes
its place where the variable BQVI_DATA names one.
"""

from __future__ import annotations

import os
import time
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
from bqvi.models import VariationalAutoencoder

LATENT, HIDDEN, SIZE, RATE = 128, 256, 128, 1e-3
CURVE, TIMED, LEFT_OUT = 200, 220, 20


def data() -> np.ndarray:
    """(N, 784) zeros and ones in single precision."""
    folder = os.environ.get("BQVI_DATA")
    if folder:
        with np.load(Path(folder) / "mnist_5k.npz") as stored:
            images = stored[stored.files[0]].reshape(-1, 784) / 255.0
        return np.asarray(images > np.random.default_rng(0).random(images.shape), np.float32)
    rng = np.random.default_rng(0)
    z = rng.standard_normal((5000, 10))
    return (z @ rng.standard_normal((10, 784)) > rng.standard_normal((5000, 784))).astype(np.float32)


def networks() -> tuple[nn.Module, nn.Module]:
    """Encoder and decoder, of seed 0."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * LATENT))
    return encoder, nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 784))


def plain(x: np.ndarray, seed: int = 0) -> Iterator[float]:
    """The bound of each step, nats a datum."""
    encoder, decoder = networks()
    rng = np.random.default_rng(seed)
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], RATE)
    n = len(x)
    order, place = rng.permutation(n), 0
    while True:
        if place + SIZE > n:  # as `Reshuffled`: what is left of an epoch is left out
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


def ours(x: np.ndarray, seed: int = 0) -> Iterator[Any]:
    """The states of `bqvi.fit` on the same."""
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
    torch.set_num_threads(1)
    a = np.array(list(islice(plain(x), CURVE)))
    b = np.array([state.estimates[-1] for state in islice(ours(x), CURVE)]) / len(x)
    gap = float(np.abs(a - b).max())
    told = f"differs by {gap:.2g} nats at most"
    yield Line(f"VAE against plain torch: bound, {CURVE} steps", told, "0.1", gap < 0.1)
    loops = (plain(x), ours(x))
    seconds = np.array([[_seconds(loop) for loop in loops] for _ in range(TIMED)])[LEFT_OUT:]
    first, second = np.median(seconds, axis=0)
    told = f"{second / first:.2f} times {first * 1e3:.1f} ms"
    yield Line("VAE against plain torch: processor time a step", told, "1.15", second / first <= 1.15)


def _seconds(loop: Iterator[Any]) -> float:
    """Of the processor, for a step: the steps of both loops take turns."""
    began = time.process_time()
    next(loop)
    return time.process_time() - began
