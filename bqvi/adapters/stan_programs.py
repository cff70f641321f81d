"""Stan programs with their data, through BridgeStan or httpstan: densities, and variables by name.

Stan's flat vectors of variables have the first index vary fastest, and count from 1.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bqvi.calls.function import VectorLayout

_ATTEMPTS = 5
"""The number of attempts to run Stan's translator, as httpstan limits each to one second."""


def arrays_by_name(titles: Sequence[str], rows: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays (n, shape) of the ``rows`` (n, entries), by name.

    Parameters
    ----------
    titles : the titles of the entries in Stan's notation: "mu", "z.1", "L.2.1".
    """
    shapes = VectorLayout.of([_from_zero(title) for title in titles]).shapes
    found = VectorLayout({name: shape[::-1] for name, shape in shapes.items()}).parted(rows)
    return {name: x.transpose(0, *range(x.ndim - 1, 0, -1)) for name, x in found.items()}


def _from_zero(title: str) -> str:
    """A title with indices counted from 0: "z[0]" for "z.1"."""
    name, *index = title.split(".")
    return f"{name}[{','.join(str(int(i) - 1) for i in index)}]" if index else name


def unconstrained_titles(owners: Sequence[str], constrained: Sequence[str]) -> tuple[str, ...]:
    """The names of unconstrained numbers, equal to the constrained ones' if a parameter has as many of both.

    Parameters
    ----------
    owners : for each unconstrained number the parameter to which it belongs.
    constrained : the titles of the constrained numbers in Stan's notation.

    Returns
    -------
    tuple of str
        The names, counted from 0; the two numbers of a simplex p of three are "p__[0]", "p__[1]".
    """
    own: dict[str, list[str]] = {}
    for title in constrained:
        own.setdefault(title.split(".")[0], []).append(title)
    named = {
        name: map(_from_zero, own[name])
        if owners.count(name) == len(own[name])
        else iter([f"{name}__[{i}]" for i in range(owners.count(name))])
        for name in set(owners)
    }
    return tuple(next(named[name]) for name in owners)


def bridgestan_is_ready() -> bool:
    """Whether BridgeStan is installed together with its sources, which are not downloaded."""
    if importlib.util.find_spec("bridgestan") is None:
        return False
    from bridgestan.compile import get_bridgestan_path, verify_bridgestan_path

    with contextlib.redirect_stdout(io.StringIO()):
        path = get_bridgestan_path(download=False)
    try:
        verify_bridgestan_path(path or os.devnull)
    except ValueError:
        return False
    return True


def _build_folder() -> Path:
    """The folder of programs and their builds: `bqvi/stan` in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "bqvi" / "stan"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class BridgeProgram:
    """A program and its data through BridgeStan, with every constant of the density.

    Parameters
    ----------
    code : the program. folder : the folder of its includes. data : name -> array.
    """

    def __init__(self, code: str, folder: Path | None, data: Mapping[str, Any]) -> None:
        import bridgestan

        key = hashlib.sha256(f"{folder} {code}".encode()).hexdigest()[:16]
        file = _build_folder() / f"{key}.stan"
        if not file.exists() or file.read_text() != code:
            file.write_text(code)
        arguments = [] if folder is None else [f"--include-paths={folder}"]
        try:
            library = bridgestan.compile_model(file, stanc_args=arguments)
        except RuntimeError as error:
            raise ValueError(f"the Stan program does not compile:\n{error}") from None
        text = json.dumps({name: np.asarray(x).tolist() for name, x in data.items()})
        try:
            self._model = bridgestan.StanModel(library, text, warn=False)
        except RuntimeError as error:
            raise ValueError(f"the Stan program does not take the data: {error}") from None
        self.package = f"Stan by BridgeStan {bridgestan.__version__}"
        owners = [title.split(".")[0] for title in self._model.param_unc_names()]
        parameters = self._model.param_names(include_tp=False, include_gq=False)
        self.names = unconstrained_titles(owners, parameters)
        self.columns = self._model.param_names(include_tp=True, include_gq=False)

    def value(self, theta: np.ndarray) -> float:
        """The log density at theta (P,)."""
        return float(self._model.log_density(theta, propto=False, jacobian=True))

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density and its gradient (P,) at theta (P,)."""
        value, gradient = self._model.log_density_gradient(theta, propto=False, jacobian=True)
        return float(value), np.array(gradient)

    def constrained(self, theta: np.ndarray) -> np.ndarray:
        """The parameters and transformed parameters at theta (P,)."""
        return np.asarray(self._model.param_constrain(theta, include_tp=True, include_gq=False))

    def unconstrained(self, values: Mapping[str, Any]) -> np.ndarray:
        """The unconstrained theta (P,) of the parameters ``values`` by name."""
        text = json.dumps({name: np.asarray(x).tolist() for name, x in values.items()})
        return np.asarray(self._model.param_unconstrain_json(text))


def httpstan_is_ready() -> bool:
    """Whether httpstan is installed."""
    return importlib.util.find_spec("httpstan") is not None


class HttpProgram:
    """A program and its data through httpstan's compiled module, without its server.

    Its functions take the data at each call, and do not return the number of unconstrained parameters. This
    number, and the parameter to which each of them belongs, are found by the map to the constrained ones.

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
    import asyncio
    import concurrent.futures

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
