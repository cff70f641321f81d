"""`llms.txt`: the pages of the site in one list, with their titles, for programs that read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the list beside the pages."""
    if error is not None or app.builder.name != "html":
        return
    titles = {name: node.astext() for name, node in app.env.titles.items()}
    about = "> Bayesian quadrature and Gaussian processes for ELBOs, their gradients and evidence."
    lines = ["# bqvi", "", about, ""]
    lines += [f"- [{title}]({name}.html)" for name, title in sorted(titles.items())]
    Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write when the site has been built."""
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
