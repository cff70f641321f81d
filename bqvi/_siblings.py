"""A check before any other import: Python finds ``gp`` and ``acquisition`` of this project and no others.

``gp`` and ``acquisition`` are common names. A file ``gp.py`` beside a user's script comes before the
installed package of that name, and the error that follows ("'gp' is not a package") does not name the cause.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

SIBLINGS = ("gp", "acquisition")


def require_siblings(folder: Path) -> None:
    """Raise ImportError unless each of `SIBLINGS` is the package in ``folder``, beside this one."""
    for name in SIBLINGS:
        found = _origin(name)
        if found is not None and found != folder / name / "__init__.py":
            kind = "package" if found.name == "__init__.py" else "file"
            raise ImportError(
                f"bqvi comes with a package {name!r}, but Python finds {found} in its place. Rename that "
                f"{kind}, or move it out of the folder of the script or of PYTHONPATH.",
                name=name,
                path=str(found),
            )


def _origin(name: str) -> Path | None:
    """The file of a module, imported or not; None where there is none."""
    if name in sys.modules:
        origin = getattr(sys.modules[name], "__file__", None)
    else:
        spec = importlib.util.find_spec(name)
        origin = None if spec is None else spec.origin
    return Path(origin).resolve() if origin else None


require_siblings(Path(__file__).resolve().parent.parent)
