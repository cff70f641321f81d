"""A network as a function of its parameters and its input, without state of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

Tensor = torch.Tensor
_WITH_STATE = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)
_RANDOM = (nn.modules.dropout._DropoutNd,)


class Network:
    """A copy of a module, on a device.

    Parameters
    ----------
    name : by which errors and parameters call it
    module : any `torch.nn.Module` whose output depends on its parameters and its input alone
    device, dtype : where and in what it computes

    Raises
    ------
    TypeError
        It is no module.
    ValueError
        It keeps running statistics (batch normalisation), or draws random numbers of torch's global
        generator (dropout): a run could not be resumed to the same numbers.
    """

    def __init__(self, name: str, module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(f"{name} is {module!r:.100}; it must be a torch.nn.Module, or None")
        for part in module.modules():
            if isinstance(part, _WITH_STATE) and part.track_running_stats:
                raise ValueError(
                    f"{name} has a {type(part).__name__}, whose running statistics are no parameters; use "
                    "torch.nn.LayerNorm or GroupNorm, or track_running_stats=False"
                )
            if isinstance(part, _RANDOM) and part.p > 0.0:
                raise ValueError(
                    f"{name} has a {type(part).__name__}, which draws from torch's global generator; leave "
                    "it out"
                )
        self.name = name
        self.hold(copy.deepcopy(module).to(device=device, dtype=dtype).requires_grad_(False))

    def hold(self, module: nn.Module) -> None:
        """Compute with ``module`` from now on, which belongs to the network."""
        self.module = module
        names = {id(p): name for name, p in module.named_parameters()}
        self._places = [
            (f"{self.name}.{names[id(p)]}", part._parameters, own)
            for part in module.modules()
            for own, p in part._parameters.items()
            if p is not None
        ]

    def start(self, rng: np.random.Generator | None = None) -> dict[str, Tensor]:
        """Its parameters by name: as they were given, or drawn anew by each layer's own rule."""
        module = self.module
        if rng is not None:
            module = redrawn(module, int(rng.integers(2**62)))
        return {f"{self.name}.{name}": p.detach().clone() for name, p in module.named_parameters()}

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
        """ValueError unless the output for ``x`` has ``shape``.

        Parameters
        ----------
        parameters, x : of a trial.
        given, what : input and output in words.
        """
        try:
            found = self(parameters, x)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise ValueError(f"{self.name} fails for {given} of shape {tuple(x.shape)}: {error}") from error
        if not isinstance(found, Tensor) or tuple(found.shape) != shape:
            told = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
            raise ValueError(
                f"{self.name} gives {told} for {given} of shape {tuple(x.shape)}; it must be {shape}: {what}"
            )


def redrawn(module: nn.Module, seed: int) -> nn.Module:
    """A copy whose layers have drawn their parameters anew; torch's global generator is as it was."""
    found = copy.deepcopy(module)
    with _own_generator(seed):
        for part in found.modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
    return found.requires_grad_(False)


def perceptron(inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    """One hidden layer of rectified units, its weights drawn with seed 0."""
    with _own_generator(0):
        return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


@contextmanager
def _own_generator(seed: int) -> Iterator[None]:
    """Torch draws from ``seed``, and afterwards goes on as if it had not."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
