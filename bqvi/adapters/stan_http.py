"""A Stan program through httpstan's compiled module, without its server.

httpstan's functions take the data anew at each call, and do not tell how many unconstrained parameters there
are. Their number, and which of them belong to which parameter, are found by the map to the constrained ones.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib.util
import subprocess
from collections.abc import Mapping
from typing import Any

import numpy as np

from bqvi.adapters.stan_arrays import TitledColumns, unconstrained_titles

_ATTEMPTS = 5
"""Times that Stan's translator is started: httpstan gives it one second, too short on a loaded machine."""


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
        self.columns = TitledColumns(every[: len(self._constrained(zeros, True))])

    def value(self, theta: np.ndarray) -> float:
        """The log density at theta (P,)."""
        return float(self._module.log_prob(self._data, theta.tolist(), True))

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density and its gradient (P,) at theta (P,)."""
        point = theta.tolist()
        value = self._module.log_prob(self._data, point, True)
        return float(value), np.array(self._module.log_prob_grad(self._data, point, True))

    def constrained(self, theta: np.ndarray) -> np.ndarray:
        """Parameters and transformed parameters at theta (P,)."""
        return np.array(self._constrained(theta.tolist(), True))

    def unconstrained(self, values: Mapping[str, Any]) -> np.ndarray:
        """Theta (P,) of the parameters ``values`` by name."""
        given = {name: _plain(np.asarray(x, float)) for name, x in values.items()}
        try:
            return np.array(self._module.transform_inits(self._data, given))
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"values are not those of the program's parameters: {error}") from None

    def _constrained(self, point: list[float], transformed: bool) -> list[float]:
        found: list[float] = self._module.write_array(self._data, point, transformed, False)
        return found

    def _size(self, most: int) -> int:
        """How many unconstrained parameters there are: no more than constrained ones."""
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
        """Names of the unconstrained parameters: each belongs to the parameter that moves with it."""
        owners = [title.split(".")[0] for title in parameters]
        if len(owners) != len(zeros):
            middle = np.array(self._constrained(zeros, False))
            moves = [
                self._constrained(point, False) - middle for point in (0.1 * np.eye(len(zeros))).tolist()
            ]
            owners = [owners[int(np.argmax(np.abs(move)))] for move in moves]
        return unconstrained_titles(owners, parameters)


def _plain(x: np.ndarray) -> Any:
    """An array as httpstan takes it: a number, or nested lists."""
    if x.dtype.kind == "b":
        x = x.astype(int)
    return x.tolist()


def _built(code: str) -> Any:
    """The program's module, built where it is not yet; ValueError with the compiler's message."""
    from httpstan.models import calculate_model_name, import_services_extension_module

    name = calculate_model_name(code)
    try:
        return import_services_extension_module(name)
    except KeyError:
        _translated(code)
        with concurrent.futures.ThreadPoolExecutor(
            1
        ) as pool:  # an own thread, as a notebook already runs an event loop in this one
            pool.submit(_build, code).result()
        return import_services_extension_module(name)


def _translated(code: str) -> None:
    """Translate the program; ValueError with the translator's message where it is not valid Stan."""
    from httpstan.compile import compile as translate

    for attempt in range(_ATTEMPTS):
        try:
            translate(code, "model")
            return
        except ValueError as error:
            raise ValueError(f"the Stan program does not compile:\n{error}") from None
        except subprocess.TimeoutExpired:
            if attempt == _ATTEMPTS - 1:
                raise


def _build(code: str) -> None:
    from httpstan.models import build_services_extension_module

    for attempt in range(_ATTEMPTS):
        try:
            asyncio.run(build_services_extension_module(code))
            return
        except subprocess.TimeoutExpired:
            if attempt == _ATTEMPTS - 1:
                raise
