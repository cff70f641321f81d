"""A Stan program through BridgeStan, with every constant of its density."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bqvi.adapters.stan_arrays import unconstrained_titles


def is_ready() -> bool:
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
    """A program and its data; see `bqvi.adapters.stan_model`.

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
