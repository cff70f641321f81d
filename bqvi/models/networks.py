"""Networks as functions of their parameters and input, without state of their own, and random weights.

p(theta) = N(0, sd^2) for each weight, and q(theta) a Gaussian whose means and standard deviations are free,
or the output of a network, so that KL(q(theta) || p(theta)) is closed. The likelihood is reparameterised

    global   theta = m + s zeta, one draw for all data and all z of a step
    local    a layer's output h W^T + b at inputs h is N(h m^T, h^2 (s^2)^T) + ..., drawn anew for each datum
             and each z (Kingma, Salimans and Welling 2015): less variance, as draws are independent

An importance-weighted bound needs draws that share theta: with theta drawn anew for each z it bounds
ln E[p(x_n | theta)], and their sum over n may exceed ln p(X).
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bqvi.arguments import Above, Checked, Such
from bqvi.arrays import like
from bqvi.families import DiagonalGaussian
from gp.arrays import to_numpy


class Network:
    """A copy of a module, on a device.

    Parameters
    ----------
    name : by which errors and parameters call it
    module : any `torch.nn.Module` whose output depends on its parameters and its input alone
    device, dtype : where and in what it computes

    Attributes
    ----------
    frozen : names in the module of the parameters that were given with ``requires_grad=False``: they keep
        their values, and are no parameters of the network
    constants : a checksum of these and of the module's buffers; "" where it has neither

    Raises
    ------
    TypeError
        It is no module.
    ValueError
        It cannot be copied, or the shape of a parameter is not known yet.
    """

    def __init__(self, name: str, module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(f"{name} is {module!r:.100}; it must be a torch.nn.Module, or None")
        for own, p in module.named_parameters():
            if isinstance(p, nn.parameter.UninitializedParameter):
                raise ValueError(
                    f"{name} has the parameter {own}, whose shape is not known yet; call it on a batch first"
                )
        self.name = name
        self.frozen = frozenset(own for own, p in module.named_parameters() if not p.requires_grad)
        try:
            copied = copy.deepcopy(module).to(device=device, dtype=dtype).requires_grad_(False)
        except RuntimeError as error:
            raise ValueError(f"{name} cannot be copied: {error}") from error
        self.hold(copied)
        fixed = [p for own, p in copied.named_parameters() if own in self.frozen]
        parts = [np.ascontiguousarray(to_numpy(one)).tobytes() for one in (*fixed, *copied.buffers())]
        self.constants = f"{zlib.crc32(b''.join(parts)):08x}" if parts else ""

    def hold(self, module: nn.Module) -> None:
        """Compute with ``module`` from now on, which belongs to the network."""
        self.module = module
        names = {id(p): name for name, p in module.named_parameters()}
        self._places = [
            (f"{self.name}.{names[id(p)]}", part._parameters, own)
            for part in module.modules()
            for own, p in part._parameters.items()
            if p is not None and names[id(p)] not in self.frozen
        ]

    def start(self, rng: np.random.Generator | None = None) -> dict[str, Tensor]:
        """Its parameters by name: as they were given, or drawn anew by each layer's own rule."""
        module = self.module
        if rng is not None:
            module = _redrawn(module, int(rng.integers(2**62)))
        named = module.named_parameters()
        return {f"{self.name}.{name}": p.detach().clone() for name, p in named if name not in self.frozen}

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Any:
        """The output for ``x`` (S, ...) at the values of its ``parameters``, named as by `start`."""
        # as `torch.func.functional_call` does, which searches the places of parameters at each call
        before = [(held, own, held[own]) for _, held, own in self._places]
        try:
            for name, held, own in self._places:
                held[own] = parameters[name]  # type: ignore[assignment]
            found = self.module(x)
        finally:
            for held, own, p in before:
                held[own] = p
        return found

    def shaped(
        self, parameters: Mapping[str, Tensor], x: Tensor, given: str, shape: tuple[int, ...], what: str
    ) -> None:
        """ValueError unless the output for ``x`` has ``shape``, and a second call is the same.

        Parameters
        ----------
        parameters, x : of a trial.
        given, what : input and output in words.
        """
        try:
            with _own_generator(0):
                found, before = self(parameters, x), self._written()
                again, after = self(parameters, x), self._written()
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"{self.name} fails for {given} of shape {tuple(x.shape)}: {error}") from error
        if not isinstance(found, Tensor) or tuple(found.shape) != shape:
            returned = (
                f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
            )
            raise ValueError(
                f"{self.name} gives {returned} for {given} of shape {tuple(x.shape)}; it must be {shape}: "
                f"{what}"
            )
        if before != after or not torch.equal(found.nan_to_num(), again.nan_to_num()):
            raise ValueError(
                f"{self.name} does not do the same in two calls with the same {given}: it draws from torch's "
                "global generator (dropout), or writes to a buffer (batch and spectral normalisation); its "
                "output must depend on its parameters and its input alone, or a run could not be resumed"
            )

    def _written(self) -> list[tuple[int, int]]:
        """The values that differ after a buffer has been written to."""
        return [(id(buffer), buffer._version) for buffer in self.module.buffers()]


def _redrawn(module: nn.Module, seed: int) -> nn.Module:
    """A copy whose layers have drawn their parameters anew; torch's global generator is as it was."""
    found = copy.deepcopy(module)
    with _own_generator(seed):
        for part in found.modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
    return found.requires_grad_(False)


def perceptron(inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    """One hidden layer of rectified units, its weights drawn with seed 0.

    Parameters
    ----------
    inputs, outputs, hidden : the numbers of units of the three layers.
    """
    with _own_generator(0):
        return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


@contextmanager
def _own_generator(seed: int) -> Iterator[None]:
    """Let torch draw from ``seed``, and restore the state of its generator afterwards."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


WEIGHTS = "weights"
"""By which parameters of a `WeightPrior.network` are called."""
_VARIANCE = "_variance"
_TINY = 1e-12
"""Added to variances: a square root has no gradient at 0."""


_NETWORK = Such(
    lambda given: given is None or hasattr(given, "posterior"), "an object with a method `posterior`, or None"
)


@dataclass(frozen=True)
class WeightPrior(Checked):
    """A prior on the decoder's weights, and how its posterior is drawn from.

    Parameters
    ----------
    sd : > 0, of each weight and bias
    reparameterisation : 'local' (of `torch.nn.Linear` layers) or 'global' (of any)
    start_sd : > 0, the standard deviation of q at the start
    network : of which q(theta) is the output: its ``posterior(decoder, reference)``, of the decoder's
        `Network` and an empty tensor, is a function of the network's parameters to a `DiagonalGaussian` for
        each array of weights, whose ``start(places, sd, rng)`` are the first parameters, called `WEIGHTS`.
        None: means and standard deviations are free
    """

    sd: Annotated[float, Above(0.0)] = 1.0
    reparameterisation: Literal["local", "global"] = "local"
    start_sd: Annotated[float, Above(0.0)] = 0.02
    network: Annotated[Any, _NETWORK] = None

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
