"""The gallery: every registered experiment with its title, question, command and figure, from the registry.

A figure is one of docs/images that has the experiment's name, written by `bqvi report --figures`. An
experiment that is added to the catalogue appears here; one that cannot be imported breaks the build.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

THEMES = {
    "short": "In short",
    "thesis": "Variational inference in the thesis' mixture",
    "models": "Models and data",
    "minibatch": "Mini-batches",
    "gp": "Gaussian processes",
    "quadrature": "Bayesian quadrature",
    "gradients": "Gradients of the ELBO by Bayesian quadrature",
    "vbmc": "Evidence of expensive models",
}


def card(name: str, experiment: Any, folder: Path) -> list[str]:
    """One experiment: its figure where there is one, the first paragraph of its summary, its command."""
    needs = "".join(f" --{need} DIR" for need in experiment.needs)
    question = " ".join(experiment.summary.split("\n\n")[0].split())
    pictures = [
        path for ending in ("svg", "png") if (path := folder / "images" / f"{name}.{ending}").is_file()
    ]
    image = [f":img-top: ../images/{path.name}" for path in pictures[:1]]
    image += [f":img-alt: {experiment.title}"] if image else []
    seeds = f"{experiment.seeds} seed{'s' * (experiment.seeds > 1)} by default"
    return [
        f":::{{grid-item-card}} {experiment.title}", *image, "",
        question, "", f"`bqvi run {name}{needs}` ({seeds}; `--quick` takes seconds)", ":::", "",
    ]  # fmt: skip


def write(app: Sphinx, config: Any) -> None:
    """Write gallery/index.md, where it changed."""
    from experiments import catalogue
    from experiments.harness import registry

    source = Path(app.srcdir)
    lines = [
        "# Gallery of experiments", "",
        "Each card is an experiment of the registry (`bqvi list`). Run one with its command; "
        "`bqvi report` makes the page with its figures, tables and claims.", "",
    ]  # fmt: skip
    for theme, title in THEMES.items():
        lines += [f"## {title}", "", "::::{grid} 1 1 2 2", ":gutter: 3", ""]
        for name, module in catalogue.EXPERIMENTS.items():
            if module.split(".")[1] == theme:
                lines += card(name, registry.load(name), source)
        lines += ["::::", ""]
    path = source / "gallery" / "index.md"
    path.parent.mkdir(exist_ok=True)
    text = "\n".join(lines)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write before pages are read."""
    app.connect("config-inited", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
