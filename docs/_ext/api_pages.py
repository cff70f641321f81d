"""The pages of the API: one a package, from its `__all__`, so that a new public name cannot be missing."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

PACKAGES = {
    "Front doors": ("bqvi",),
    "Variational inference": (
        "bqvi.inference", "bqvi.gradients", "bqvi.families", "bqvi.models", "bqvi.posterior", "bqvi.sklearn",
    ),
    "Evidence and integrals": ("bqvi.variational_bmc", "bqvi.quadrature", "bqvi.sampled_bounds"),
    "Runs and calls": ("bqvi.runs", "bqvi.adapters", "bqvi.calls"),
    "Gaussian processes": (
        "gp", "gp.kernels", "gp.means", "gp.measures", "gp.embeddings", "gp.expectation", "gp.conditioning",
    ),
    "Where to evaluate next": ("acquisition", "acquisition.pointwise", "acquisition.minibatch"),
    "Experiments": ("experiments.harness.experiment",),
}  # fmt: skip
"""Packages by chapter. A name is documented where it is listed first."""


def names(package: ModuleType) -> list[str]:
    """The public names of a package, without the packages among them."""
    public = getattr(package, "__all__", None) or [n for n in vars(package) if not n.startswith("_")]
    own = [n for n in public if not inspect.ismodule(getattr(package, n))]
    return [n for n in own if hasattr(package, "__all__") or _defined(package, n)]


def _defined(package: ModuleType, name: str) -> bool:
    return getattr(getattr(package, name), "__module__", None) == package.__name__


def page(name: str, seen: set[int]) -> str:
    """The page of a package: what it is, and its names with their first lines."""
    package = importlib.import_module(name)
    summary = (package.__doc__ or "").strip().splitlines()[0]
    lines = [f"# {name}", "", summary, "", f"```{{eval-rst}}\n.. currentmodule:: {name}\n"]
    here = [(n, getattr(package, n)) for n in names(package)]
    groups = {
        "Functions": [n for n, o in here if inspect.isroutine(o)],
        "Classes": [n for n, o in here if inspect.isclass(o)],
    }
    for title, members in groups.items():
        fresh = [n for n in members if id(getattr(package, n)) not in seen]
        seen |= {id(getattr(package, n)) for n in fresh}
        if fresh:
            lines += [f".. rubric:: {title}", "", ".. autosummary::", "   :nosignatures:", ""]
            lines += [*(f"   {n}" for n in fresh), ""]
            directive = "autofunction" if title == "Functions" else "autoclass"
            lines += [*(f".. {directive}:: {n}\n" for n in fresh)]
    return "\n".join([*lines, "```", ""])


def write(app: Sphinx, config: Any) -> None:
    """Write the pages and their contents, where they changed."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    seen: set[int] = set()
    index = ["# API", "", "Every public name, from the `__all__` of its package.", ""]
    for chapter, packages in PACKAGES.items():
        index += [f"```{{toctree}}\n:caption: {chapter}\n:maxdepth: 1\n"]
        for name in packages:
            _replace(folder / f"{name}.md", page(name, seen))
            index += [name]
        index += ["```", ""]
    _replace(folder / "index.md", "\n".join(index))


def _replace(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before pages are looked for."""
    app.connect("config-inited", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
