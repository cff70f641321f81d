"""Experts that are networks: y ~ N(f(x; w_k), v_k), f a `torch.nn.Module`.

There are point estimates only, by generalised EM (Neal and Hinton 1998): given responsibilities r, the M step
is a few iterations of L-BFGS on

    sum_n r_nk ln p(y_n | x_n, w_k, v_k) + ln p(w_k, v_k),      w_k ~ N(0, scale^2 I),   ln v_k normal.

The point estimate is the mode of a diagonal Gaussian with the prior's variances, and a step is the change of
natural parameters that moves that mode, so that mini-batches and step sizes are those of the other models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
import scipy.optimize
import torch
from torch import nn

from bqvi.arguments import Above, AtLeast, Checked
from bqvi.arrays import Values
from bqvi.families import DiagonalGaussian, PointMass
from bqvi.families.family import FamilyOrPoint
from bqvi.models.mixture_of_experts import empirical_scale, normal_log_densities
from bqvi.models.networks import Network
from gp.arrays import LOG_2PI, Array

_SPREAD = 2.0
"""The prior standard deviation of ln v_k; two of them are a factor of 50 from the median of v_k."""


@dataclass(frozen=True)
class NetworkExperts(Checked):
    """Copies of a network, one for each expert, with weights of their own.

    Parameters
    ----------
    module : `torch.nn.Module`, (N, P) -> (N, 1) or (N,); it is copied, and computes in double precision
    scale : > 0, prior standard deviation of each weight
    iterations : >= 1, of L-BFGS in each M step
    noise : > 0, the prior median of v_k; default a tenth of the variance of y
    """

    module: nn.Module
    scale: Annotated[float, Above(0.0)] = 3.0
    iterations: Annotated[int, AtLeast(1)] = 10
    noise: Annotated[float | None, Above(0.0)] = None
    network: Network = field(init=False, repr=False)
    points_only = True

    def __post_init__(self) -> None:
        super().__post_init__()
        network = Network("module", self.module, torch.device("cpu"), torch.float64)
        object.__setattr__(self, "network", network)

    def for_data(self, x: np.ndarray, y: np.ndarray) -> Self:
        """With a median of the noise taken from ``y`` if none was given."""
        return self if self.noise is not None else replace(self, noise=empirical_scale(y))

    def check(self, y: np.ndarray) -> None:
        """Any y."""

    def prior(self, n_experts: int, dimension: int) -> DiagonalGaussian:
        """Of K rows: the weights, and ln v behind them.

        Raises
        ------
        ValueError
            The network does not take P = ``dimension`` inputs, or gives more than one output.
        """
        self._require_one_output(dimension)
        size = sum(part.numel() for part in self.network.module.parameters())
        if self.noise is None:
            raise ValueError("noise is to be taken from data; use model.for_data(data), as fit does")
        mean = np.column_stack([np.zeros((n_experts, size)), np.full(n_experts, np.log(self.noise))])
        spread = [np.full((n_experts, size), self.scale**2), np.full(n_experts, _SPREAD**2)]
        return DiagonalGaussian(mean, np.column_stack(spread))

    def _require_one_output(self, dimension: int) -> None:
        trial = torch.zeros((3, dimension), dtype=torch.float64)
        try:
            shape = tuple(self.network(self.network.start(), trial).shape)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise ValueError(f"module fails for inputs of shape (3, {dimension}): {error}") from error
        if shape not in ((3,), (3, 1)):
            raise ValueError(f"module gives shape {shape} for 3 inputs; it must be (3, 1) or (3,)")

    def start(self, prior: DiagonalGaussian, rng: np.random.Generator) -> PointMass:
        """Each layer's weights drawn by its own rule, and the prior's median of the noise."""
        place = np.array(prior.mean)
        for row in place:
            drawn = np.concatenate([part.numpy().ravel() for part in self.network.start(rng).values()])
            row[: len(drawn)] = drawn
        return PointMass(DiagonalGaussian(place, prior.variance))

    def _outputs(self, w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """f, (N,), at the weights ``w`` (M,)."""
        parameters, begin = {}, 0
        for name, part in self.network.module.named_parameters():
            parameters[f"module.{name}"] = w[begin : begin + part.numel()].reshape(part.shape)
            begin += part.numel()
        return self.network(parameters, x).reshape(len(x))

    def log_densities(self, q: FamilyOrPoint, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """ln p(y_n | x_n, w_k, v_k) of rows ``x``, ``y``, with ln(2 pi) / 2 left for ``log_base_measure``."""
        return self.log_likelihoods(self.parameters(q), x, y) + 0.5 * LOG_2PI

    def statistics(self, q: Any, x: np.ndarray, y: np.ndarray, r: np.ndarray, prior: Any) -> Values:
        """The change of the mode of ``q`` to the end of the M step on rows ``x``, ``y``."""
        linear, halved = prior.natural
        inputs, outputs = torch.as_tensor(x), torch.as_tensor(y)
        place = np.array(q.mode)
        for k, row in enumerate(place):
            goal = _Goal(self, inputs, outputs, torch.as_tensor(r[:, k]), linear[k], halved[k])
            row[:] = goal.lowered(row, self.iterations)
        halves = np.where(halved < 0.0, halved, -0.5)
        return -2.0 * halves * place - linear, halves - halved

    def log_base_measure(self, y: np.ndarray) -> float:
        """-(N / 2) ln(2 pi)."""
        return float(-0.5 * len(y) * LOG_2PI)

    def parameters(self, q: Any) -> dict[str, np.ndarray]:
        """'weights' (K, M), in the order of ``module.named_parameters()``, and 'variances' (K,)."""
        place = np.asarray(q.mode)
        return {"weights": place[:, :-1], "variances": np.exp(place[:, -1])}

    def log_likelihoods(self, theta: Mapping[str, Array], x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """At weights and variances, of rows ``x``, ``y``."""
        return normal_log_densities(y, self.means(theta, x), np.asarray(theta["variances"]))

    def means(self, theta: Mapping[str, Array], x: np.ndarray) -> np.ndarray:
        """f at rows ``x``, (N, K)."""
        with torch.no_grad():
            weights, rows = np.asarray(theta["weights"]), torch.as_tensor(x)
            return np.stack([self._outputs(torch.as_tensor(w), rows).numpy() for w in weights], axis=1)


@dataclass(frozen=True)
class _Goal:
    """The objective of the M step of one expert: minus its part of the expected log joint."""

    experts: NetworkExperts
    x: torch.Tensor
    y: torch.Tensor
    r: torch.Tensor
    linear: np.ndarray
    halved: np.ndarray
    """Natural parameters of the prior; zeros of a flat one."""

    def __call__(self, place: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective at a ``place`` (M,), with its gradient."""
        at = torch.tensor(place, requires_grad=True)
        gap = self.y - self.experts._outputs(at[:-1], self.x)
        cost = 0.5 * (self.r * (gap * gap * torch.exp(-at[-1]) + at[-1])).sum()
        cost.backward()  # type: ignore[no-untyped-call]
        value = cost.item() - self.linear @ place - self.halved @ place**2
        assert at.grad is not None
        return value, at.grad.numpy() - self.linear - 2.0 * self.halved * place

    def lowered(self, place: np.ndarray, iterations: int) -> np.ndarray:
        """Where so many iterations of L-BFGS end; ``place`` itself where they do not lower it."""
        found = scipy.optimize.minimize(
            self, place, jac=True, method="L-BFGS-B", options={"maxiter": iterations}
        )
        return found.x if found.fun < self(place)[0] else place
