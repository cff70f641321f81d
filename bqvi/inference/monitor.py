"""The ELBO of q and the caller's metrics, for records; gradients do not use them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from bqvi.calls import Account
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.families.family import Distribution, ExponentialFamily
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.memory import Memory
from bqvi.inference.state import Metrics, Model
from bqvi.models.amortised import is_amortised
from bqvi.models.conjugate import LocalStep, is_conjugate
from bqvi.models.data import Data, n_rows
from bqvi.models.log_joint import is_moving
from gp.arrays import Array, to_numpy
from gp.threads import users_threads


class Value(NamedTuple):
    """The ELBO of q, and the evaluations for it."""

    elbo: float
    """Nats."""
    elbo_sd: float
    """0 where the ELBO is exact."""
    n_evaluations: int
    """Per datum, or of the log joint for a model without data."""


@dataclass(frozen=True)
class Monitor:
    """Evaluates q on all the data.

    The ELBO is exact for conjugate models and for models with an ``elbo`` of their own. Otherwise, where
    ``samples`` is None, it takes no further evaluation: of an estimator that keeps evaluations it is the
    integral of a Gaussian process on them, with its standard deviation (`bqvi.gradients.remembered`); of
    another the mean of the estimates by the latest tenth of the steps from their own draws, with its
    standard error. It is NaN where there is neither.

    With ``samples`` it is the mean of this number of fresh draws of ln p(X, theta) - ln q(theta), with its
    standard error. All records of a run use the same noise, so that differences have smaller errors than
    levels; another seed has another. Draws at which the log joint raises, is NaN, infinite or beyond
    `LARGEST` are left out, up to a share `FAULTY` of them. Minus infinity is not left out, as q then has mass
    where the posterior has none. Beyond that share the ELBO includes them, and where the log joint raises at
    every draw of a block, the record raises too.
    """

    model: Any
    data: Data
    samples: int | None = None
    metrics: Metrics = field(default_factory=dict)

    FAULTY = 0.1

    KEPT = 256

    @cached_property
    def exact(self) -> bool:
        """Whether the ELBO has a closed form."""
        return is_conjugate(self.model) or hasattr(self.model, "elbo")

    @cached_property
    def cost(self) -> int:
        """Evaluations of a record that is made without a step."""
        rows = n_rows(self.data)
        return rows if self.exact else (self.samples or 0) * max(rows, 1)

    @cached_property
    def base(self) -> float:
        """sum_n ln h(x_n), for models that leave it out."""
        return log_base_measure(self.model, self.data)

    def value(
        self,
        q: ExponentialFamily,
        local: LocalStep | None = None,
        memory: Any = None,
        values: np.ndarray | None = None,
        account: Account | None = None,
        seed: int = 0,
    ) -> Value:
        """The metric of q.

        Parameters
        ----------
        local : the local step at q over all data, if there is one. memory : the memory of an estimator.
        values : estimates of the ELBO by the latest steps, less ln h of the data.
        account : the account of fresh draws. seed : their seed.
        """
        if is_conjugate(self.model):
            spent = n_rows(self.data) if local is None else 0
            local = local or self.model.local_step(q, self.data)
            return Value(local.bound + self.base - float(q.kl(self.model.prior)), 0.0, spent)
        if hasattr(self.model, "elbo"):
            return Value(self.model.elbo(q, self.data), 0.0, n_rows(self.data))
        if self.samples is not None:
            if is_amortised(self.model):
                return self._amortised(q, self.samples, seed)
            return self._sampled(q, self.samples, account or Account(), seed)
        if is_of_one_function(self.model, q, memory):
            return self.remembered(q, memory)
        found = self._of_steps(np.empty(0) if values is None else values)
        # estimates from the same evaluations have errors that do not average out
        return found if memory is None else found._replace(elbo_sd=math.inf)

    def _of_steps(self, values: np.ndarray) -> Value:
        """The mean of estimates (t,) by the latest steps."""
        if not len(values):
            return Value(math.nan, math.inf, 0)
        error = math.inf if len(values) < 2 else float(values.std(ddof=1) / np.sqrt(len(values)))
        return Value(float(values.mean()) + self.base, error, 0)

    def remembered(self, q: Any, memory: Memory) -> Value:
        """The ELBO from kept evaluations; NaN with an infinite error where too few are near q."""
        from bqvi.gradients.remembered import remembered_elbo

        found = remembered_elbo(q, memory)
        if found is None:
            return Value(math.nan, math.inf, 0)
        return Value(found.value + self.base, found.sd, 0)

    def bound(self, gradient: Gradient | None) -> float:
        """The estimator's own bound with the data's constants; NaN if it has none."""
        if gradient is None or gradient.bound is None:
            return math.nan
        return gradient.bound + self.base

    @users_threads()
    def measure(self, q: Distribution) -> dict[str, float]:
        """The caller's metrics of q."""
        return {name: float(metric(q)) for name, metric in self.metrics.items()}

    def _amortised(self, q: Any, samples: int, seed: int) -> Value:
        from bqvi.gradients.amortised import elbo_draws

        values = elbo_draws(self.model, q, self.data, samples, seed)
        return self._of_steps(values)._replace(n_evaluations=self.cost)

    def _sampled(self, q: Distribution, samples: int, account: Account, seed: int) -> Value:
        import torch

        from bqvi.calls.function import LARGEST
        from bqvi.gradients.black_box import reference_tensor, torch_posterior

        batch = Batch(self.data, n_rows(self.data), account=account)
        with torch.no_grad(), users_threads():
            frozen = torch_posterior(q, reference_tensor(self.model, self.data)).stopped
            rng = np.random.default_rng(seed)
            values, spent = [np.empty(0)], 0
            for done in range(0, samples, 32):  # in parts, to bound the memory of (draws, data) tables
                theta = frozen.sample(min(32, samples - done), rng)
                found, calls = _log_joint_at(self.model, q, batch, theta)
                values.append(found - to_numpy(frozen.log_prob(theta))[: len(found)])
                spent += calls
        drawn = np.concatenate(values).astype(float, copy=False)
        faulty = ~(drawn < LARGEST)  # true for NaN too
        if faulty.any() and faulty.mean() <= self.FAULTY:
            drawn = drawn[~faulty]
        with np.errstate(over="ignore", invalid="ignore"):  # the log joint may be infinite at a draw
            return self._of_steps(drawn)._replace(n_evaluations=spent)


def log_base_measure(model: Model, data: Data) -> float:
    """sum_n ln h(x_n), for models that leave it out; 0 for others."""
    measure = getattr(model, "log_base_measure", None)
    return 0.0 if measure is None else float(measure(data))


def is_of_one_function(model: Model, q: Distribution, memory: object) -> bool:
    """Whether ``memory`` holds evaluations of a log joint that does not change with q, a Gaussian."""
    return isinstance(memory, Memory) and isinstance(q, Gaussian | DiagonalGaussian) and not is_moving(model)


def _log_joint_at(model: Any, q: Distribution, batch: Batch, theta: Array) -> tuple[np.ndarray, int]:
    """Values (L,) at draws of theta, and evaluations; fewer than L where the budget does not suffice."""
    from bqvi.gradients.black_box import cost, in_graph, spending
    from bqvi.gradients.evaluations import evaluate_values

    if isinstance(theta, dict) or is_conjugate(model):
        with spending(model, batch, theta):
            found = to_numpy(in_graph(model, q, batch)(theta))
        return found, cost(model, batch, len(found))
    made = evaluate_values(model, q, batch, to_numpy(theta).astype(float, copy=False))
    return made.values, made.n_evaluations
