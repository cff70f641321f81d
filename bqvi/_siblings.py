"""A check before any other import: Python finds ``gp`` and ``acquisition`` of this project and no others.

``gp`` and ``acquisition`` are common names. A file ``gp.py`` beside a user's script comes before the
installed package of that name, and the error that follows ("'gp' is not a package") does not name the cause.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

SIBLINGS = ("gp", "acquisition")


def require_siblings(folder: Path) -> None:
    """Raise ImportError unless each of `SIBLINGS` is the package in ``folder``, beside this one."""
    for name in SIBLINGS:
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve() if spec and spec.origin else None
        if found is not None and found != folder / name / "__init__.py":
            kind = "package" if found.name == "__init__.py" else "file"
            raise ImportError(
                f"bqvi comes with a package {name!r}, but Python finds {found} in its place. Rename that "
                f"{kind}, or move it out of the folder of the script or of PYTHONPATH.",
                name=name,
                path=str(found),
            )


require_siblings(Path(__file__).resolve().parent.parent)
