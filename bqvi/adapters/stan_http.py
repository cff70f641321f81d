"""A Stan program through httpstan's compiled module, without its server.

httpstan's functions take the data at each call, and do not return the number of unconstrained parameters.
This number, and the parameter to which each of them belongs, are found by the map to the constrained ones.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib.util
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bqvi.adapters.stan_arrays import unconstrained_titles

_ATTEMPTS = 5
"""The number of attempts to run Stan's translator, as httpstan limits each to one second."""


def is_ready() -> bool:
    """Whether httpstan is installed."""
    return importlib.util.find_spec("httpstan") is not None


class HttpProgram:
    """A program and its data; see `bqvi.adapters.stan_model`.

    Parameters
    ----------
    code : the program. data : name -> array.
    """

    def __init__(self, code: str, data: Mapping[str, Any]) -> None:
        import httpstan

        self._module = _built(code)
        self._data = {name: _plain(x) for name, x in data.items()}
        try:
            every = self._module.constrained_param_names(self._data)
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"the Stan program does not take the data: {error}") from None
        self.package = f"Stan by httpstan {httpstan.__version__}"
        size = self._size(len(every))
        zeros = [0.0] * size
        parameters = every[: len(self._constrained(zeros, False))]
        self.names = self._titles(parameters, zeros)
        self.columns = every[: len(self._constrained(zeros, True))]

    def value(self, theta: np.ndarray) -> float:
        """The log density at theta (P,)."""
        return float(self._module.log_prob(self._data, theta.tolist(), True))

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density and its gradient (P,) at theta (P,)."""
        point = theta.tolist()
        value = self._module.log_prob(self._data, point, True)
        return float(value), np.array(self._module.log_prob_grad(self._data, point, True))

    def constrained(self, theta: np.ndarray) -> np.ndarray:
        """The parameters and transformed parameters at theta (P,)."""
        return np.array(self._constrained(theta.tolist(), True))

    def unconstrained(self, values: Mapping[str, Any]) -> np.ndarray:
        """The unconstrained theta (P,) of the parameters ``values`` by name."""
        given = {name: _plain(np.asarray(x, float)) for name, x in values.items()}
        try:
            return np.array(self._module.transform_inits(self._data, given))
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"values are not those of the program's parameters: {error}") from None

    def _constrained(self, point: list[float], transformed: bool) -> list[float]:
        return self._module.write_array(self._data, point, transformed, False)

    def _size(self, most: int) -> int:
        """The number of unconstrained parameters, at most ``most``, that of the constrained ones."""
        for size in range(most, 0, -1):
            try:
                self._constrained([0.0] * size, False)
            except (RuntimeError, ValueError) as error:
                if "does not match the number" not in str(error):
                    raise ValueError(f"the Stan program fails at zero: {error}") from None
            else:
                return size
        raise ValueError("the Stan program has no parameters: there is nothing to infer")

    def _titles(self, parameters: list[str], zeros: list[float]) -> tuple[str, ...]:
        """The names of the unconstrained parameters; each belongs to the parameter that changes with it."""
        owners = [title.split(".")[0] for title in parameters]
        if len(owners) != len(zeros):
            middle = np.array(self._constrained(zeros, False))
            moves = [
                self._constrained(point, False) - middle for point in (0.1 * np.eye(len(zeros))).tolist()
            ]
            owners = [owners[int(np.argmax(np.abs(move)))] for move in moves]
        return unconstrained_titles(owners, parameters)


def _plain(x: np.ndarray) -> Any:
    """An array as a number or nested lists, which httpstan requires."""
    return (x.astype(int) if x.dtype.kind == "b" else x).tolist()


def _built(code: str) -> Any:
    """The program's module, built if necessary; ValueError with the compiler's message."""
    from httpstan.compile import compile as translate
    from httpstan.models import (
        build_services_extension_module,
        calculate_model_name,
        import_services_extension_module,
    )

    name = calculate_model_name(code)
    try:
        return import_services_extension_module(name)
    except KeyError:
        try:
            _repeated(lambda: translate(code, "model"))
        except ValueError as error:
            raise ValueError(f"the Stan program does not compile:\n{error}") from None
        # in a separate thread, as a notebook already runs an event loop in this one
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(_repeated, lambda: asyncio.run(build_services_extension_module(code))).result()
        return import_services_extension_module(name)


def _repeated(call: Callable[[], object]) -> None:
    """Call until it ends within httpstan's time limit."""
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(subprocess.TimeoutExpired):
            call()
            return
    call()
