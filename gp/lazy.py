"""Names of a package that are imported when they are first used (SPEC 1 of Scientific Python)."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

from gp.extras import needing
from gp.suggestions import did_you_mean


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
