"""Imports: of names when they are first used (SPEC 1 of Scientific Python), and of packages of an extra."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gp.suggestions import all_suggesting, did_you_mean

_EXTRAS = {
    "arviz": ("h5netcdf", "h5py", "xarray"),
    "botorch": ("botorch", "gpytorch", "linear_operator"),
    "jax": ("jax",),
    "numpyro": ("numpyro",),
    "plot": ("matplotlib",),
    "pymc": ("pymc",),
    "ray": ("ray",),
    "sklearn": ("sklearn",),
    "stan": ("bridgestan", "httpstan"),
    "torch": ("torch",),
}


@contextmanager
def needing() -> Iterator[None]:
    """A context for imports of packages that belong to an extra, as in ``pip install "bqvi[plot]"``.

    Raises
    ------
    ImportError
        Where such a package is not installed; the message names the package and the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        for extra, packages in _EXTRAS.items():
            if package in packages:
                raise ImportError(
                    f'this needs {package}, which is not installed: pip install "bqvi[{extra}]"', name=package
                ) from None
        raise


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are imported when they are used.

    Parameters
    ----------
    package : its name. The names are those that its source imports under ``if TYPE_CHECKING``, where type
        checkers read them, and its submodules.
    """
    module = sys.modules[package]
    source = ast.parse(pkgutil.get_data(package, "__init__.py") or b"")
    blocks = [node for node in source.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    origins = {alias.name: node.module or "" for node in imports for alias in node.names}

    def get(name: str) -> Any:
        origin = origins.get(name, package)
        if origin != package:
            with needing():
                found = getattr(importlib.import_module(origin), name)
            all_suggesting({name: found})
            setattr(module, name, found)
            return found
        if not name.startswith("_"):
            try:
                return importlib.import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}{did_you_mean(name, origins)}")

    return get, lambda: sorted({*vars(module), *origins})
