"""Fits on two processes have the numbers of one; what is sent is counted."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import bqvi
from bqvi.families import Gaussian
from bqvi.inference.data_parallel import AllReduced, DataParallel
from bqvi.models import GaussianMixture, LogisticRegression

distributed = pytest.importorskip("torch.distributed")


def data(folder: Path) -> np.ndarray:
    """A memory map of three clusters, made once."""
    path = folder / "rows.npy"
    if not path.exists():
        rng = np.random.default_rng(0)
        np.save(path, rng.normal(size=(301, 2)) + 4.0 * rng.integers(3, size=(301, 1)))
    return np.load(path, mmap_mode="r")


def labelled(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(x), (np.asarray(x).sum(axis=1) > 6.0).astype(float)


def fits(folder: Path, parallel: bool) -> dict[str, np.ndarray]:
    """Coordinate ascent, stochastic natural gradients, and pathwise gradients of another model."""
    x = data(folder)
    mixture = GaussianMixture(3, "full")
    model = DataParallel(mixture) if parallel else mixture
    pathwise = bqvi.gradients.Pathwise(samples=2)
    found = {
        "cavi": bqvi.fit(model, x, steps=8, seed=1),
        "sngd": bqvi.fit(model, x, method="sngd", minibatch=20, steps=8, seed=1),
        "pathwise": bqvi.fit(
            LogisticRegression(2),
            labelled(x),
            method=AllReduced(pathwise) if parallel else pathwise,
            minibatch=31,
            start_from=Gaussian(np.zeros(2), np.eye(2)),
            steps=5,
            seed=1,
        ),
    }
    return {name: numbers(fit) for name, fit in found.items()}


def numbers(fit) -> np.ndarray:
    return np.concatenate([*(np.ravel(np.asarray(part)) for part in fit.q.natural), fit.trace["elbo"]])


def begin(folder: Path, rank: int) -> None:
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'store'}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=300),
    )


def test_two_processes_have_the_numbers_of_one(tmp_path):
    alone = fits(tmp_path, parallel=False)
    here = Path(__file__).resolve()
    search = os.pathsep.join([str(here.parent), str(here.parents[2]), os.environ.get("PYTHONPATH", "")])
    code = f"from pathlib import Path; import test_data_parallel as t; t.second(Path({str(tmp_path)!r}))"
    other = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": search})
    try:
        begin(tmp_path, 0)
        together = fits(tmp_path, parallel=True)
        wrong = np.array(data(tmp_path))
        wrong[-1] = np.nan
        with pytest.raises(ValueError, match="process 1 of 2 has failed"):
            DataParallel(GaussianMixture(3, "full")).check(wrong)
        failed(tmp_path, mine=False)
        unequal(tmp_path, 301)
        timed(tmp_path, mine=True)
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()
        assert other.wait(timeout=300) == 0
    for name, known in alone.items():
        assert np.allclose(together[name], known, rtol=1e-9, atol=1e-9), name
    second = np.load(tmp_path / "second.npz")
    assert all(np.array_equal(second[name], together[name]) for name in alone)


class Failing(LogisticRegression):
    """A model whose terms have no value in one of the processes."""

    def log_likelihood_terms(self, theta, rows):
        terms = super().log_likelihood_terms(theta, rows)
        return terms * np.nan if distributed.get_rank() == 1 else terms


def failed(folder: Path, mine: bool) -> None:
    """A draw without a value in one process ends the run in both, and neither waits for the other."""
    message = "the log joint of the Failing is nan" if mine else "process 1 of 2 has failed"
    method = AllReduced(bqvi.gradients.Pathwise(samples=2))
    with pytest.raises(bqvi.RunError, match=message):
        bqvi.fit(Failing(2), labelled(data(folder)), method=method, minibatch=31, steps=5, seed=1)


def second(folder: Path) -> None:
    """What the second process does."""
    begin(folder, 1)
    np.savez(folder / "second.npz", **fits(folder, parallel=True))
    wrong = np.array(data(folder))
    wrong[-1] = np.nan
    with pytest.raises(ValueError, match=r"NaN|nan"):
        DataParallel(GaussianMixture(3, "full")).check(wrong)
    failed(folder, mine=True)
    unequal(folder, 290)
    timed(folder, mine=False)
    distributed.destroy_process_group()


def unequal(folder: Path, count: int) -> None:
    """Processes with different numbers of rows say so, both of them and before a step is made."""
    x, message = np.asarray(data(folder))[:count], "301 in process 0, 290 in process 1"
    with pytest.raises(ValueError, match=message):
        bqvi.fit(DataParallel(GaussianMixture(3, "full")), x, steps=3)
    method = AllReduced(bqvi.gradients.Pathwise(samples=2))
    start = Gaussian(np.zeros(2), np.eye(2))
    with pytest.raises(bqvi.RunError, match=message):
        bqvi.fit(
            LogisticRegression(2), labelled(x), method=method, minibatch=31, start_from=start, steps=5, seed=1
        )


def timed(folder: Path, mine: bool) -> None:
    """Limits in seconds are refused before any work, also where only one of the processes has them."""
    x, model = data(folder), DataParallel(GaussianMixture(3, "full"))
    with pytest.raises(ValueError, match=r"max_seconds is 5.*2 processes"):
        bqvi.fit(model, x, run=bqvi.Run(max_seconds=5.0))
    with pytest.raises(
        ValueError, match=r"max_seconds is 5.*2 processes" if mine else "process 0 of 2 has failed"
    ):
        bqvi.fit(model, x, steps=3, run=bqvi.Run(max_seconds=5.0 if mine else None))
    method = AllReduced(bqvi.gradients.Pathwise(samples=2))
    with pytest.raises(ValueError, match=r"max_seconds is 5.*2 processes"):
        bqvi.fit(LogisticRegression(2), labelled(x), method=method, run=bqvi.Run(max_seconds=5.0))


def test_without_a_group_there_is_one_process(tmp_path):
    x = data(tmp_path)
    alone = bqvi.fit(GaussianMixture(3, "full"), x, steps=4, seed=0)
    found = bqvi.fit(DataParallel(GaussianMixture(3, "full")), x, steps=4, seed=0)
    assert found.elbo == alone.elbo


def test_what_it_is_not_for():
    with pytest.raises(TypeError, match="no local step"):
        DataParallel(LogisticRegression(2))
    with pytest.raises(TypeError, match="keeps evaluations"):
        AllReduced(bqvi.gradients.BayesianQuadrature())


def test_messages_on_a_device(tmp_path):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or not distributed.is_nccl_available():
        pytest.skip("there is no CUDA device, or no NCCL")
    distributed.init_process_group("nccl", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        from bqvi.inference.data_parallel import _message

        sums = _message([np.arange(3.0), np.ones((2, 2))])
        assert np.array_equal(sums[1], np.ones((2, 2)))
    finally:
        distributed.destroy_process_group()
