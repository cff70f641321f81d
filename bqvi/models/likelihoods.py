"""Distributions of a datum given a decoder's output: Bernoulli, Gaussian.

Entries of a datum are independent given the output. L are draws of z, S rows, and ... the shape of a datum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from bqvi.arguments import Above, Checked
from gp.arrays import LOG_2PI, to_numpy
from gp.checks import require_each, require_finite


@runtime_checkable
class Likelihood(Protocol):
    """The distribution of a datum given the decoder's output, as frozen settings."""

    @property
    def start(self) -> Mapping[str, float]:
        """The starts, by name, of parameters of its own that are learnt besides the decoder's."""

    def check(self, x: np.ndarray, row: int) -> None:
        """Raise ValueError where data ``x`` (S, ...), with first row ``row``, are outside the support."""

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the decoder's output for one z, where a datum has ``shape``."""

    def log_prob(self, output: Tensor, x: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """Log density of ``x`` (S, ...) at ``output`` (L, S, ...), entry by entry, (L, S, ...).

        ``own`` are the values of its own parameters.
        """

    def mean(self, output: Tensor) -> Tensor:
        """E[x] at ``output``."""

    def sample(self, output: Tensor, own: Mapping[str, Tensor], rng: np.random.Generator) -> np.ndarray:
        """A draw of x at ``output`` with parameters ``own``, by numbers of ``rng``."""


@dataclass(frozen=True)
class BernoulliLikelihood:
    """The output is the logit of each entry; entries between 0 and 1 count as mixtures of both."""

    @property
    def start(self) -> Mapping[str, float]:
        return {}

    def check(self, x: np.ndarray, row: int) -> None:
        allowed = "entries must be in [0, 1] for a Bernoulli likelihood: scale or binarise the data"
        require_each("data", x, (x >= 0.0) & (x <= 1.0), allowed, row)

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def log_prob(self, output: Tensor, x: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """x ln p + (1 - x) ln(1 - p) of ``x`` at the logits ``output``; ``own`` is empty."""
        return -binary_cross_entropy_with_logits(output, x.expand_as(output), reduction="none")

    def mean(self, output: Tensor) -> Tensor:
        """Probabilities at the logits ``output``."""
        return output.sigmoid()

    def sample(self, output: Tensor, own: Mapping[str, Tensor], rng: np.random.Generator) -> np.ndarray:
        """Zeros and ones at the logits ``output`` by numbers of ``rng``; ``own`` is empty."""
        p = to_numpy(self.mean(output))
        return np.asarray(rng.random(p.shape) < p, float)


@dataclass(frozen=True)
class GaussianLikelihood(Checked):
    """The output is the mean; the noise is the same for all entries.

    Parameters
    ----------
    sd : the standard deviation of the noise, > 0; None to learn it, with start 1
    """

    sd: Annotated[float | None, Above(0.0)] = None

    @property
    def start(self) -> Mapping[str, float]:
        """The log of the noise's standard deviation, where it is learnt."""
        return {"log_sd": 0.0} if self.sd is None else {}

    def check(self, x: np.ndarray, row: int) -> None:
        require_finite("data", x, row)

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def _log_sd(self, own: Mapping[str, Tensor]) -> Any:
        return own["log_sd"] if self.sd is None else math.log(self.sd)

    def log_prob(self, output: Tensor, x: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """Log density of ``x`` about the means ``output``; ``own`` has the log noise if it is learnt."""
        log_sd = self._log_sd(own)
        scale = log_sd.exp() if isinstance(log_sd, Tensor) else math.exp(log_sd)
        return -0.5 * (((x - output) / scale).square() + LOG_2PI) - log_sd

    def mean(self, output: Tensor) -> Tensor:
        return output

    def sample(self, output: Tensor, own: Mapping[str, Tensor], rng: np.random.Generator) -> np.ndarray:
        """The ``output`` with noise by numbers of ``rng``; ``own`` has the log noise if it is learnt."""
        sd = np.exp(to_numpy(torch.as_tensor(self._log_sd(own))))
        return np.asarray(to_numpy(output) + sd * rng.standard_normal(tuple(output.shape)))


NAMED: dict[str, Likelihood] = {"bernoulli": BernoulliLikelihood(), "gaussian": GaussianLikelihood()}
"""The likelihoods by name."""
