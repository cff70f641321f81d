"""A decoder whose weights have a prior: fully Bayesian autoencoding (source 004, "Fully Bayesian AEVB").

p(theta) = N(0, sd^2) for each weight, and q(theta) a Gaussian whose means and standard deviations are free,
or given by a network (`weight_network`), so that KL(q(theta) || p(theta)) is closed. The likelihood is
reparameterised

    global   theta = m + s zeta, one draw for all data and all z of a step
    local    a layer's output h W^T + b at inputs h is N(h m^T, h^2 (s^2)^T) + ..., drawn anew for each datum
             and each z (Kingma, Salimans and Welling 2015): less variance, as the draws of different data are
             independent

E[ln p(x | z, theta)] is the same in both. An importance-weighted bound needs draws that share theta: with
theta drawn anew for each z it bounds ln E[p(x_n | theta)], and their sum over n may exceed ln p(X).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bqvi.arrays import like
from bqvi.checks import require_above, require_one_of
from bqvi.families import DiagonalGaussian
from bqvi.models.networks import Network
from bqvi.models.weight_network import WeightNetwork

_VARIANCE = "_variance"
_TINY = 1e-12
"""Added to variances: a square root has no gradient at 0."""


@dataclass(frozen=True)
class WeightPrior:
    """A prior on the decoder's weights, and how its posterior is drawn from.

    Parameters
    ----------
    sd : > 0, of each weight and bias
    reparameterisation : 'local' (of `torch.nn.Linear` layers) or 'global' (of any)
    start_sd : > 0, the standard deviation of q at the start
    network : gives the means and standard deviations of q; None: they are free
    """

    sd: float = 1.0
    reparameterisation: str = "local"
    start_sd: float = 0.02
    network: WeightNetwork | None = None

    def __post_init__(self) -> None:
        require_above("sd", self.sd, 0.0)
        require_above("start_sd", self.start_sd, 0.0)
        require_one_of("reparameterisation", self.reparameterisation, ("local", "global"))
        if self.network is not None and not isinstance(self.network, WeightNetwork):
            raise TypeError(f"network is {self.network!r:.100}; it must be a WeightNetwork, or None")

    def start(self, place: Tensor) -> DiagonalGaussian:
        """The first q of an array of weights, about ``place``."""
        return DiagonalGaussian(place, torch.full_like(place, self.start_sd**2))

    def kl(self, q: DiagonalGaussian) -> Tensor:
        """KL(q || p) of an array of weights, nats."""
        ratio = (q.variance + q.mean * q.mean) / self.sd**2
        return 0.5 * (ratio - 1.0 - q.log_variance).sum() + q.mean.numel() * float(np.log(self.sd))


class RandomNetwork:
    """A network with random weights.

    Parameters
    ----------
    network : whose weights they are
    prior : how they are drawn

    Raises
    ------
    ValueError
        The reparameterisation is local, and the network has parameters outside of linear layers, or a layer
        with some frozen parameters.
    """

    def __init__(self, network: Network, prior: WeightPrior) -> None:
        self.network = network
        self.local = prior.reparameterisation == "local"
        if self.local:
            self._outputs = copy.copy(network)
            module, self._layers = _with_random_outputs(network)
            self._outputs.hold(module)

    def __call__(self, q: Mapping[str, DiagonalGaussian], x: Tensor, rng: np.random.Generator) -> Tensor:
        """The output for ``x`` (S, ...) at weights from ``q``, by numbers of ``rng``."""
        if not self.local:
            return self.network({name: part.rsample(1, rng)[0] for name, part in q.items()}, x)
        for layer in self._layers:
            layer.rng = rng
        values = {name: part.mean for name, part in q.items()}
        values |= {name + _VARIANCE: part.variance for name, part in q.items()}
        return self._outputs(values, x)


class _RandomLinear(nn.Module):
    """A linear layer whose output is drawn, not its weights."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        for name, p in linear.named_parameters():
            self.register_parameter(name, nn.Parameter(p.detach(), requires_grad=False))
            self.register_parameter(name + _VARIANCE, nn.Parameter(p.detach(), requires_grad=False))
        self.rng = np.random.default_rng(0)

    def forward(self, x: Tensor) -> Tensor:
        """A draw of the output at ``x`` (..., inputs)."""
        own = dict(self.named_parameters())
        mean = nn.functional.linear(x, own["weight"], own.get("bias"))
        spread = own.get("bias" + _VARIANCE)
        variance = nn.functional.linear(x.square(), own["weight" + _VARIANCE], spread)
        noise: Tensor = like(self.rng.standard_normal(tuple(mean.shape)), mean)
        return mean + (variance + _TINY).sqrt() * noise


def _with_random_outputs(network: Network) -> tuple[nn.Module, list[_RandomLinear]]:
    """The module with random layers in the place of its linear ones, and these."""
    module = copy.deepcopy(network.module)
    if isinstance(module, nn.Linear):
        raise ValueError(
            f"{network.name} is a Linear layer by itself; put it into a torch.nn.Sequential for "
            "reparameterisation='local'"
        )
    frozen = {id(p) for name, p in module.named_parameters() if name in network.frozen}
    layers = []
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and not frozen.intersection(map(id, child.parameters())):
                layer = _RandomLinear(child)
                setattr(parent, name, layer)
                layers.append(layer)
    known = frozen.union(id(p) for layer in layers for p in layer.parameters())
    others = [name for name, p in module.named_parameters() if id(p) not in known]
    if others:
        raise ValueError(
            f"{network.name} has parameters outside of Linear layers, or of layers of which others are "
            f"frozen ({', '.join(others[:3])}); use reparameterisation='global'"
        )
    return module, layers
