"""The same work on the CPU and on an accelerator: mixture passes, autoencoder steps, batches of a log joint.

``python -m benchmarks devices`` compares with "cuda"; ``python -m benchmarks.devices cuda:1`` with a device
of one's choice. Where torch has no such device the first row says so, and the others have the CPU's figures
alone. Seconds are of the wall, as those of a device are not the processor's, and the CPU has one thread; each
call ends with numbers on the host, so that none is counted before its work is done. There is no bar on the
speed: what has to hold is that the device finds the CPU's values.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

import bqvi
from benchmarks.paired import Line, paired, printed
from benchmarks.setting import heading
from bqvi.calls import Caller, Function
from bqvi.models import GaussianMixture, VariationalAutoencoder

HOST = "cpu"
PASSES = (10_000, 100_000, 1_000_000)
"""Rows, of 8 columns and 16 components."""
MINIBATCHES = (128, 1024, 4096)
"""Of 784 binary columns, hidden 256, latent 64."""
POINTS = (10, 1000, 10_000)
"""At which a logistic regression on 1,000 rows and 20 columns is evaluated with its gradient, in one call."""
SINGLE, DOUBLE = 1e-4, 1e-10
"""How far values may differ, relative to them: sums of single and of double precision in another order."""


def run(device: str = "cuda") -> Iterator[Line]:
    """Each kind of work at three sizes, on the CPU and, where there is one, on ``device``."""
    torch.set_num_threads(1)
    missing = _missing(device)
    if missing:
        yield Line(f"device {device}", f"there is none: {missing}", "none", True)
    devices = (HOST,) if missing else (HOST, device)
    for rows in PASSES:
        work = {name: mixture_pass(rows, name) for name in devices}
        yield _line(f"mixture pass, {rows} x 8, 16 components, single precision", work, SINGLE)
    for size in MINIBATCHES:
        work = {name: autoencoder_step(size, name) for name in devices}
        yield _line(f"autoencoder step, mini-batch of {size}, single precision", work, SINGLE)
    for count in POINTS:
        work = {name: log_joint_batch(count, name) for name in devices}
        yield _line(f"log joint and gradient at {count} points, double precision", work, DOUBLE)


def mixture_pass(rows: int, device: str) -> Callable[[], float]:
    """One pass over data that lie on the device: the bound of the local step, nats."""
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.standard_normal((16, 8))
    x = (centres[rng.integers(16, size=rows)] + rng.standard_normal((rows, 8))).astype(np.float32)
    model = GaussianMixture(16, np.eye(8))
    q = model.initial(x[:1000], "random", rng)
    data = x if device == HOST else torch.from_numpy(x).to(device)
    return lambda: float(model.local_step(q, data).bound)


def autoencoder_step(size: int, device: str) -> Callable[[], float]:
    """Networks on the device, data on the host: the bound that a step with a mini-batch of them estimates."""
    rng = np.random.default_rng(0)
    x = (rng.random((2 * size, 784)) < 0.3).astype(np.float32)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128))
        decoder = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 784))
    model = VariationalAutoencoder(encoder, decoder, latent=64, device=device)
    run = bqvi.fit.steps(
        model, x, "pathwise", minibatch=size, schedule=bqvi.Adam(1e-3), steps=10**6, record=[0], seed=0
    )
    states = iter(run)
    return lambda: float(next(states).estimates[-1])


def log_joint_batch(count: int, device: str) -> Callable[[], float]:
    """Values and gradients of one call on tensors of the device; the sum of the values."""
    rng = np.random.default_rng(0)
    covariates = rng.standard_normal((1000, 20))
    signs = np.sign(covariates @ rng.standard_normal(20) + rng.standard_normal(1000))
    signed = torch.from_numpy(signs[:, None] * covariates).to(device)

    def log_joint(theta: Tensor) -> Tensor:  # (L, 20) -> (L,)
        return nn.functional.logsigmoid(theta @ signed.T).sum(1) - 0.5 * theta.square().sum(1)

    like = torch.empty(0, dtype=torch.float64, device=device)
    caller = Caller(Function(log_joint, "autodiff", True, like=like))
    points = rng.standard_normal((count, 20))
    return lambda: float(caller.evaluate(points).values.sum())


def _missing(device: str) -> str:
    """Why torch cannot use the device, or ""."""
    try:
        torch.empty(1, device=device)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        return str(error).splitlines()[0].strip().rstrip(".")
    return ""


def _line(what: str, work: Mapping[str, Callable[[], float]], tolerance: float) -> Line:
    """Median seconds of each device, and whether their first values agree."""
    values = [call() for call in work.values()]
    off = max(abs(value - values[0]) for value in values) / abs(values[0])
    timed = paired(work, now=time.perf_counter)
    measured = ", ".join(f"{name} {1e3 * timed.median(name):.3g} ms" for name in work)
    for name in list(work)[1:]:
        measured += f", {timed.ratio(HOST, name):.3g} times as fast"
    return Line(what, measured, f"values within {tolerance:g}", off <= tolerance)


def _device_name(device: str) -> str:
    """The name of a CUDA device, for the heading."""
    found = torch.device(device)
    return torch.cuda.get_device_name(found) if found.type == "cuda" and not _missing(device) else device


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    print(f"{heading(['devices'])} Beside it: {_device_name(chosen)}.\n")
    printed(run(chosen))
