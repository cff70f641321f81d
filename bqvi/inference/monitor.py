"""The value of q: its ELBO and the caller's metrics, for the record and never for the gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.memory import Memory
from bqvi.inference.trace import Metrics
from bqvi.models.conjugate import LocalStep, is_conjugate
from bqvi.models.data import Data, n_rows
from bqvi.models.log_joint import is_moving
from gp.arrays import to_numpy
from gp.threads import as_the_user_has_it

if TYPE_CHECKING:
    from bqvi.gradients.black_box import LogJointFunction


class Value(NamedTuple):
    """What q is worth, and what it took to know."""

    elbo: float
    """Nats."""
    standard_error: float
    """0 where the ELBO is exact."""
    evaluations: int
    """Per datum, or of the log joint for a model without data."""


@dataclass(frozen=True)
class Monitor:
    """Evaluates q on all the data.

    The ELBO is exact for conjugate models and for models with an ``elbo`` of their own. Where an estimator
    keeps its evaluations and ``samples`` is None, it is the integral of a Gaussian process on them,
    with its standard deviation, at no further evaluation (`bqvi.gradients.remembered_elbo`). Otherwise
    it is the mean of ``samples`` draws (`DRAWS` for None) of ln p(X, theta) - ln q(theta), with its
    standard error; the draws come from the same noise each time, so that differences are sharper than
    levels. Draws at which the log joint raises, is NaN, infinite or beyond `LARGEST` are left out, up
    to `FAULTY` of them (minus infinity is none: q has mass where the posterior has not); beyond that
    the ELBO is what they make of it, and where it raises at every draw of a block, so does the record.
    """

    model: Any
    data: Data
    samples: int | None = None
    metrics: Metrics = field(default_factory=dict)

    DRAWS = 256
    NOISE = 20210531
    FAULTY = 0.1

    @cached_property
    def base(self) -> float:
        """sum_n ln h(x_n), for models that leave it out."""
        measure = getattr(self.model, "log_base_measure", None)
        return 0.0 if measure is None else float(measure(self.data))

    def value(self, q: Any, local: LocalStep | None = None, memory: Any = None) -> Value:
        """Of q; ``local`` is its local step over all data, if at hand, ``memory`` what an estimator keeps."""
        if is_conjugate(self.model):
            spent = n_rows(self.data) if local is None else 0
            local = local or self.model.local_step(q, self.data)
            return Value(local.bound + self.base - float(q.kl(self.model.prior)), 0.0, spent)
        if hasattr(self.model, "elbo"):
            return Value(self.model.elbo(q, self.data), 0.0, n_rows(self.data))
        if self.samples is None and _is_of_one_function(self.model, q, memory):
            return self._remembered(q, memory)
        return self._sampled(q)

    def _remembered(self, q: Any, memory: Memory) -> Value:
        """NaN with an infinite error where too little is known near q."""
        from bqvi.gradients.remembered_elbo import remembered_elbo

        found = remembered_elbo(q, memory)
        if found is None:
            return Value(math.nan, math.inf, 0)
        return Value(found.value + self.base, found.sd, 0)

    def bound(self, gradient: Gradient | None) -> float:
        """The estimator's own bound with the data's constants; NaN if it has none."""
        if gradient is None or gradient.bound is None:
            return math.nan
        return gradient.bound + self.base

    @as_the_user_has_it()
    def measure(self, q: Any) -> dict[str, float]:
        """The caller's metrics of q."""
        return {name: float(metric(q)) for name, metric in self.metrics.items()}

    @as_the_user_has_it()
    def _sampled(self, q: Any) -> Value:
        import torch

        from bqvi.calls.function import LARGEST
        from bqvi.gradients.black_box import cost, log_joint_function, reference_tensor, torch_posterior

        batch = Batch(self.data, n_rows(self.data))
        samples = self.DRAWS if self.samples is None else self.samples
        with torch.no_grad():
            frozen = torch_posterior(q, reference_tensor(self.model, self.data)).stopped
            log_joint = log_joint_function(self.model, q, batch)
            rng = np.random.default_rng(self.NOISE)
            values, calls = [], 0
            for done in range(0, samples, 32):  # bounds the memory of (draws, data) tables
                theta = frozen.sample(min(32, samples - done), rng)
                found, called = _where_it_returns(log_joint, theta)
                values.append(to_numpy(found - frozen.log_prob(theta)))
                calls += called
        drawn = np.concatenate(values).astype(float, copy=False)
        faulty = ~(drawn < LARGEST)  # NaN too
        if faulty.any() and faulty.mean() <= self.FAULTY:
            drawn = drawn[~faulty]
        with np.errstate(over="ignore", invalid="ignore"):  # a log joint that is infinite at a draw
            error = float(drawn.std(ddof=1) / np.sqrt(len(drawn)))
            return Value(float(drawn.mean()) + self.base, error, cost(self.model, batch, calls))


def _is_of_one_function(model: Any, q: Any, memory: Any) -> bool:
    """Whether ``memory`` holds evaluations of a log joint that does not change with q, a Gaussian."""
    return isinstance(memory, Memory) and isinstance(q, Gaussian | DiagonalGaussian) and not is_moving(model)


def _where_it_returns(log_joint: LogJointFunction, theta: Any) -> tuple[Any, int]:
    """Values (L,) of a block of draws, and how many were asked for.

    If it raises, they are of each draw by itself, NaN for those that do.
    """
    import torch

    size = len(next(iter(theta.values())) if isinstance(theta, dict) else theta)
    try:
        return log_joint(theta), size
    except Exception as error:
        found, failed = [], 0
        for i in range(size):
            one = {k: v[i : i + 1] for k, v in theta.items()} if isinstance(theta, dict) else theta[i : i + 1]
            try:
                found.append(log_joint(one))
            except Exception:
                failed += 1
                found.append(torch.full((1,), torch.nan, dtype=torch.float64))
        if failed == size:  # no fault of a point, but of the function
            raise error
        return torch.cat(found), 2 * size
