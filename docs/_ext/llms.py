"""`llms.txt`: the pages of the site by section, with their titles, for programs that read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

SECTIONS = {
    "": "Start, decisions, look-up",
    "how-to": "How to",
    "tutorials": "Tutorials",
    "derivations": "Derivations",
    "gallery": "Experiments",
    "api": "API",
}
"""Headings of the list by the folder of the pages."""


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the list beside the pages."""
    if error is not None or app.builder.name != "html":
        return
    titles = {name: node.astext() for name, node in app.env.titles.items()}
    unknown = {name.rpartition("/")[0] for name in titles} - set(SECTIONS)
    if unknown:
        raise ValueError(
            f"pages in {', '.join(sorted(unknown))} have no section in llms.txt: name it in SECTIONS"
        )
    about = "> Bayesian quadrature and Gaussian processes for ELBOs, their gradients and evidence."
    lines = ["# bqvi", "", about]
    for folder, heading in SECTIONS.items():
        inside = {n: title for n, title in sorted(titles.items()) if n.rpartition("/")[0] == folder}
        lines += ["", f"## {heading}", "", *(f"- [{title}]({name}.html)" for name, title in inside.items())]
    Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write when the site has been built."""
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
