"""One fit on several processes: each sums over its share of the rows, and the sums are added up.

Every process calls `bqvi.fit` with the same arguments and the same data, which may be a memory map: the r-th
of W processes reads its own rows only, N r / W <= n < N (r + 1) / W. q, random numbers, mini-batches and
records do not depend on the rows of a process; each process computes them itself, so that only sums are sent:

    conjugate models       `DataParallel(model)`: S and its bound, P + 1 float64, one all-reduce a local step
    sampling estimators    `AllReduced(estimator)`: the gradient and its bounds, likewise, one a step

A mini-batch is drawn by all processes, and its rows are divided, so that a fit has the numbers of one
process, to rounding. ``max_seconds`` is refused, as it would end the processes at different steps and leave
some waiting for others. Where one process finds its rows wrong before the first step, all stop; where one
ends later, the others wait until the time-out of the process group.

The process group is torch's (`torch.distributed.init_process_group`, as torchrun prepares it; gloo, or nccl
with a device for each process). Without one there is one process, which has all rows.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bqvi.arrays import Values
from bqvi.families.family import Distribution
from bqvi.gradients.gradient import Batch, Estimator, Gradient, RememberingEstimator
from bqvi.inference.state import Model
from bqvi.models.contracts import LocalStep, is_conjugate, settled
from bqvi.models.data import Data, n_rows, take
from gp.arrays import Array, as_like, to_numpy


def require_same_end(model: Model, method: Any, max_seconds: float) -> None:
    """Raise ValueError for conditions that would end the processes of a fit at different steps.

    Parameters
    ----------
    model, method, max_seconds : as of `bqvi.fit`.

    Raises
    ------
    ValueError
        There are several processes, and ``max_seconds``. Processes without it stop too, when they check their
        rows.
    """
    shared = isinstance(model, DataParallel)
    if not (shared or isinstance(method, AllReduced)) or _place()[1] == 1:
        return
    if shared:
        _summed((_report(True, 0),))
    raise ValueError(
        f"max_seconds is {max_seconds}, with {_place()[1]} processes, which would end at different steps and "
        "wait for one another; use steps or tolerance"
    )


class DataParallel:
    """A conjugate model whose local steps are divided among the processes; `bqvi.fit` takes it as the model.

    Parameters
    ----------
    model : the model of all rows.

    Raises
    ------
    TypeError
        It states no local step: give `bqvi.fit` the model itself, and ``method=AllReduced(estimator)``.
    """

    def __init__(self, model: Any) -> None:
        if not is_conjugate(model):
            raise TypeError(
                f"model is a {type(model).__name__}, which states no local step; give fit the model itself, "
                "and method=AllReduced(estimator)"
            )
        self.model = model

    @property
    def prior(self) -> Any:
        return self.model.prior

    def for_data(self, data: Data) -> Self:
        """The model with the prior that is taken from ``data``, by each process from all rows."""
        other = copy.copy(self)
        other.model = settled(self.model, data)
        return other

    def check(self, data: Data) -> Data:
        """``data`` in the model's form. Each process checks its own rows, and where one raises, all do.

        Raises
        ------
        ValueError
            As the model's own ``check``, in the process whose rows are wrong; in the others it says which.
        """
        try:
            own = take(data, _share(n_rows(data)))
            checked = self.model.check(own)
            whole = data if checked is own else self.model.check(data)
        except BaseException:
            _summed((_report(True, 0),))
            raise
        _require_all(*_summed((_report(False, n_rows(whole)),)))
        return whole

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Any:
        """The model's start: the same in each process, of the same ``data`` and the numbers of ``rng``.

        ``how`` is as the model takes it.
        """
        return self.model.initial(data, how, rng)

    def local_step(self, q: Distribution, rows: Data, weights: Array | None = None) -> LocalStep:
        """The sum of the local steps of the processes on their shares of ``rows``, with ``weights``."""
        own = _share(n_rows(rows))
        if own.start == own.stop:
            statistics, bound = tuple(0.0 * to_numpy(part) for part in self.prior.natural), 0.0
        else:
            found = self.model.local_step(q, take(rows, own), None if weights is None else weights[own])
            statistics, bound = found.statistics, found.bound
        *summed, total = _summed((*statistics, np.array([bound])))
        return LocalStep(tuple(summed), float(total[0]))

    def log_base_measure(self, data: Data) -> float:
        own = self.model.log_base_measure(take(data, _share(n_rows(data))))
        return float(_summed((np.array([own]),))[0][0])

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(X | theta) of ``data`` X, computed by each process for its rows."""
        own = self.model.log_likelihood(take(data, _share(n_rows(data))), theta)
        return float(_summed((np.array([own]),))[0][0])


@dataclass(frozen=True)
class AllReduced:
    """An estimator of gradients whose mini-batches are divided; `bqvi.fit` takes it as the method.

    Each of W processes estimates the gradient from its share of the rows, each row counting W times, with the
    same draws of theta; the mean of these is the gradient from all rows, for an estimator that is linear in
    the log likelihood, such as `Pathwise`.

    Attributes
    ----------
    estimator : an estimator for models with data that keeps no evaluations from step to step.

    Raises
    ------
    TypeError
        The estimator keeps evaluations.
    """

    estimator: Estimator

    divided = True
    """Gradients are of a part of the rows in each process."""

    def __post_init__(self) -> None:
        if isinstance(self.estimator, RememberingEstimator):
            raise TypeError(
                f"estimator is a {type(self.estimator).__name__}, which keeps evaluations; it must be one of "
                "sampling, such as Pathwise"
            )

    @property
    def samples(self) -> int:
        return self.estimator.samples

    def __call__(self, model: Any, q: Distribution, batch: Batch, rng: np.random.Generator) -> Gradient:
        """The mean of the processes' gradients of ``model`` at ``q`` from their shares of ``batch``.

        Random numbers from ``rng`` are the same in each process.
        """
        own, (_, world) = _share(batch.size), _place()
        if own.start == own.stop:
            raise ValueError(f"{batch.size} rows cannot be divided among {world} processes: take more")
        weights = np.ones(batch.size) if batch.weights is None else to_numpy(batch.weights)
        part = replace(
            batch, rows=take(batch.rows, own), size=own.stop - own.start, weights=world * weights[own]
        )
        try:
            found = self.estimator(model, q, part, rng)
        except Exception:
            # the other processes wait for this one's part of the sum, and end with an error of their own
            nothing = (np.full(np.shape(u), np.nan) for u in q.unconstrained)
            _summed((*nothing, np.full(2, np.nan), _report(True, 0)))
            raise
        bounds = np.array([np.nan if x is None else x for x in (found.bound, found.elbo)])
        *sums, reports = _summed((*found.values, bounds, _report(False, weights.sum())))
        _require_all(reports)
        *values, means = (total / world for total in sums)
        return replace(
            found,
            values=tuple(values),
            n_evaluations=found.n_evaluations * batch.size // part.size,
            bound=None if found.bound is None else float(means[0]),
            elbo=None if found.elbo is None else float(means[1]),
            local=None,
            standard_error=None,
        )


def _place() -> tuple[int, int]:
    """Number of this process, and of all."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def _share(n: int) -> slice:
    rank, world = _place()
    return slice(n * rank // world, n * (rank + 1) // world)


def _summed(parts: Values) -> Values:
    """Each array added up over the processes: one message of float64, whatever the number of arrays."""
    if _place()[1] == 1:
        return parts
    totals = _message([np.asarray(to_numpy(part), float) for part in parts])
    return tuple(as_like(total, part) for total, part in zip(totals, parts, strict=True))


def _message(parts: list[np.ndarray]) -> list[np.ndarray]:
    """The array that is sent; nccl sends from the device."""
    import torch
    from torch import distributed

    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    message = torch.as_tensor(np.concatenate([part.ravel() for part in parts])).to(device)
    distributed.all_reduce(message)
    ends = np.cumsum([part.size for part in parts])[:-1]
    pieces = np.split(message.cpu().numpy(), ends)
    return [piece.reshape(part.shape) for piece, part in zip(pieces, parts, strict=True)]


def _report(failed: bool, rows: float) -> np.ndarray:
    """What this process adds to the sum (2, W): whether it failed, and its number of rows, in its column."""
    rank, world = _place()
    report = np.zeros((2, world))
    report[:, rank] = failed, rows
    return report


def _require_all(reports: np.ndarray) -> None:
    """Raise ValueError by the sum (2, W) of reports: others have failed, or have other numbers of rows."""
    failed, rows = np.flatnonzero(reports[0]), reports[1]
    if len(failed):
        raise ValueError(
            f"process {', '.join(map(str, failed))} of {len(rows)} has failed: see its own error"
        )
    if not np.allclose(rows, rows[0], rtol=1e-9):
        listed = ", ".join(f"{count:.0f} in process {rank}" for rank, count in enumerate(rows))
        raise ValueError(f"the processes have different data: {listed}; each must be given all rows")
