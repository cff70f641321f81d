"""A posterior of weights that is the output (m, ln s) = h_gamma(c) of a network at a summary c of the data.

It is q(theta) of "Fully Bayesian AEVB" (source 004). In one run c is fixed: the optimum is that of free
parameters, and the network changes the path to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bqvi.families import DiagonalGaussian
from bqvi.models.networks import WEIGHTS, Network, perceptron
from gp.checks import require_finite, require_integer


@dataclass(frozen=True, eq=False)
class WeightNetwork:
    """The network of a posterior of weights, for ``WeightPrior(network=...)``.

    Parameters
    ----------
    summary : (C,), the network's summary of the data, of numbers near 1: the means of the columns, say
    hidden : >= 1, units of its hidden layer; the last layer has 2 (hidden + 1) numbers for each weight
    """

    summary: np.ndarray
    hidden: int = 16

    def __post_init__(self) -> None:
        try:
            summary = np.asarray(self.summary, float)
        except (TypeError, ValueError):
            raise TypeError(
                f"summary is {self.summary!r:.100}; it must be an array of numbers (C,)"
            ) from None
        if summary.ndim != 1 or not summary.size:
            raise ValueError(f"summary has shape {summary.shape}; it must be (C,), at least one number")
        require_finite("summary", summary)
        require_integer("hidden", self.hidden, 1)
        object.__setattr__(self, "summary", summary)

    def posterior(self, decoder: Network, reference: Tensor) -> NetworkPosterior:
        """q(theta) as a function of gamma, for the weights of a ``decoder``, computed as ``reference`` is."""
        return NetworkPosterior(self, decoder, reference)


class NetworkPosterior:
    """q(theta) as a function of gamma.

    Parameters
    ----------
    given : the network
    decoder : whose weights theta are
    reference : an empty tensor with the dtype and device to compute in
    """

    def __init__(self, given: WeightNetwork, decoder: Network, reference: Tensor) -> None:
        self._shapes = {name: p.shape for name, p in decoder.start().items()}
        self._sizes = [shape.numel() for shape in self._shapes.values()]
        layers = perceptron(len(given.summary), 2 * sum(self._sizes), given.hidden)
        self._network = Network(WEIGHTS, layers, reference.device, reference.dtype)
        self._summary = reference.new_tensor(given.summary)[None]

    def start(
        self, decoder: Mapping[str, Tensor], sd: float, rng: np.random.Generator | None
    ) -> dict[str, Tensor]:
        """The first gamma: q(theta) about the weights ``decoder`` with standard deviation ``sd``.

        Parameters
        ----------
        decoder : a place for each array of weights.
        sd : > 0.
        rng : generator of the hidden layer; None takes the weights of seed 0.
        """
        gamma = self._network.start(rng)
        slopes, constants = list(gamma)[-2:]
        place = torch.cat([p.flatten() for p in decoder.values()])
        spread = torch.full_like(place, float(np.log(sd)))
        return gamma | {slopes: torch.zeros_like(gamma[slopes]), constants: torch.cat([place, spread])}

    def __call__(self, gamma: Mapping[str, Tensor]) -> dict[str, DiagonalGaussian]:
        means, log_scales = (
            torch.split(half, self._sizes) for half in self._network(gamma, self._summary)[0].chunk(2)
        )
        return {
            name: DiagonalGaussian.from_unconstrained((m.reshape(shape), ls.reshape(shape)))
            for (name, shape), m, ls in zip(self._shapes.items(), means, log_scales, strict=True)
        }
