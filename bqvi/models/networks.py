"""A network as a function of its parameters and its input, without state of its own."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from gp.arrays import to_numpy

_WITH_STATE = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)
_RANDOM = (nn.modules.dropout._DropoutNd,)


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
        It keeps running statistics (batch normalisation), or draws random numbers of torch's global
        generator (dropout): a run could not be resumed to the same numbers. Or it cannot be copied.
    """

    def __init__(self, name: str, module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(f"{name} is {module!r:.100}; it must be a torch.nn.Module, or None")
        _require_parameters_alone(name, module)
        self.name = name
        self.frozen = frozenset(own for own, p in module.named_parameters() if not p.requires_grad)
        try:
            copied = copy.deepcopy(module).to(device=device, dtype=dtype).requires_grad_(False)
        except RuntimeError as error:
            raise ValueError(f"{name} cannot be copied: {error}") from error
        self.hold(copied)
        fixed = [p for own, p in copied.named_parameters() if own in self.frozen]
        self.constants = _checksum([*fixed, *copied.buffers()])

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

    def __call__(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """The output for ``x`` (S, ...) at the values of its ``parameters``, named as by `start`."""
        # as `torch.func.functional_call` does, which searches the places of parameters at each call
        before = [(held, own, held[own]) for _, held, own in self._places]
        try:
            for name, held, own in self._places:
                held[own] = parameters[name]  # type: ignore[assignment]
            found: Tensor = self.module(x)
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
                "global generator (dropout), or writes to a buffer (spectral normalisation); its output must "
                "depend on its parameters and its input alone"
            )

    def _written(self) -> list[tuple[int, int]]:
        """The values that differ after a buffer has been written to."""
        return [(id(buffer), buffer._version) for buffer in self.module.buffers()]


def _checksum(tensors: list[Tensor]) -> str:
    """A checksum of the numbers of ``tensors``; "" where there are none."""
    parts = [np.ascontiguousarray(to_numpy(tensor)).tobytes() for tensor in tensors]
    return f"{zlib.crc32(b''.join(parts)):08x}" if parts else ""


def _require_parameters_alone(name: str, module: nn.Module) -> None:
    """Raise ValueError where a layer of ``module`` is known to depend on more than parameters and input."""
    for part in module.modules():
        if isinstance(part, _WITH_STATE) and part.track_running_stats:
            raise ValueError(
                f"{name} has a {type(part).__name__}, whose running statistics are no parameters; use "
                "torch.nn.LayerNorm or GroupNorm, or track_running_stats=False"
            )
        if isinstance(part, _RANDOM) and part.p > 0.0:
            raise ValueError(
                f"{name} has a {type(part).__name__}, which draws from torch's global generator; leave it out"
            )
    for own, p in module.named_parameters():
        if isinstance(p, nn.parameter.UninitializedParameter):
            raise ValueError(
                f"{name} has the parameter {own}, whose shape is not known yet; call the module on a batch "
                "of data first"
            )


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
