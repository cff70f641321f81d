"""The gallery: every registered experiment with its title, question, figure, claims and command.

Title and question are the registry's. Figure and verdicts are those of docs/images/gallery, written from
results by `bqvi report --gallery docs/images/gallery`. An experiment that is added to the catalogue appears
here; one that cannot be imported breaks the build, and so does a picture of an experiment that is no more.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

THEMES = {
    "short": "In short",
    "thesis": "Variational inference in the thesis' mixture",
    "models": "Models and data",
    "amortised": "Autoencoders",
    "minibatch": "Mini-batches",
    "gp": "Gaussian processes",
    "quadrature": "Bayesian quadrature",
    "gradients": "Gradients of the ELBO by Bayesian quadrature",
    "vbmc": "Evidence of expensive models",
    "bounds": "Bounds on the evidence by sampling",
}

QUICK = "*The picture is of the quick form: it shows what is drawn and decides nothing.*"
OWN_DATA = "*There is no picture, as the experiment is of data that its user gives.*"
NOT_RUN = "*There is no picture, as the experiment has not been run in full for this page.*"
NO_CLAIM = "No claim is tested; the figure is the result."


MOST = 40
"""Words that a card shows; the rest is behind a click."""


def card(name: str, experiment: Any, pictures: Path, results: dict[str, Any]) -> list[str]:
    """One experiment: its picture and question; behind a click caption, claims, command."""
    needs = "".join(f" --{need} DIR" for need in experiment.needs)
    question = " ".join(experiment.summary.split("\n\n")[0].split())
    words = len(f"{experiment.title} {experiment.asked}".split())
    if words > MOST:
        raise ValueError(
            f"the card of {name} shows {words} words, and may {MOST}: shorten its first sentence"
        )
    shown = results.get(name, {})
    image: list[str] = []
    missing = OWN_DATA if experiment.needs else NOT_RUN
    if (pictures / f"{name}.png").is_file():
        alt = f"{experiment.title} {shown['caption']}".replace("\n", " ")
        image = [f":img-top: ../images/gallery/{name}.png", f":img-alt: {alt}"]
    seeds = f"{_seeds(experiment.seeds)} by default"
    if image and not shown["quick"] and shown["seeds"] != experiment.seeds:
        seeds += f", the picture is of {shown['seeds']}"
    more = question.removeprefix(experiment.asked).strip()
    return [
        f"::::{{grid-item-card}} {experiment.title}", *image, "",
        experiment.asked, "",
        ":::{dropdown} Figure, claims and command", "",
        *([more, ""] if more else []), *(caption(shown) if image else [missing, ""]),
        *([QUICK, ""] if shown.get("quick") else claims(shown)),
        f"`bqvi run {name}{needs}` ({seeds}; `--quick` takes seconds)", ":::", "::::", "",
    ]  # fmt: skip


def caption(shown: dict[str, Any]) -> list[str]:
    """The caption of the figure, with what Markdown would take for markup escaped."""
    text = re.sub(r"([\\*_\[\]<>`$|])", r"\\\1", " ".join(shown["caption"].split()))
    return [f"**Figure.** {text}", ""]


def _seeds(number: int) -> str:
    return f"{number} seed{'s' * (number > 1)}"


def claims(shown: dict[str, Any]) -> list[str]:
    """The verdicts of an experiment's claims, as a list; nothing where it has not been run."""
    found = shown.get("claims", ())
    if not found:
        return [NO_CLAIM, ""] if shown else []
    seeds = _seeds(shown["seeds"])
    if len(found) > 5 and all(claim["verdict"] == "undecided" for claim in found):
        return [f"Of {len(found)} claims, over {seeds}, **all are undecided**.", ""]
    lines = [f"Claims, over {seeds}:", ""]
    for claim in found:
        conditions = f": {'; '.join(claim['conditions'])}" if claim["conditions"] else ""
        lines.append(f"- {claim['statement']} **{claim['verdict']}{conditions}**")
    return [*lines, ""]


def write(app: Sphinx, config: Any) -> None:
    """Write gallery/index.md, where it changed."""
    from experiments import catalogue
    from experiments.harness import registry

    source = Path(app.srcdir)
    pictures = source / "images" / "gallery"
    results = json.loads((pictures / "cards.json").read_text(encoding="utf-8"))
    unknown = sorted({*results, *(path.stem for path in pictures.glob("*.png"))} - set(catalogue.EXPERIMENTS))
    if unknown:
        raise ValueError(f"{pictures} has pictures or verdicts of no experiment: {', '.join(unknown)}")
    lines = [
        "# Gallery of experiments", "",
        "For those who want to see what was measured: each card is an experiment of the registry "
        "(`bqvi list`). Run one with its command; "
        "`bqvi report` makes the page with its figures, tables and claims. "
        "The thesis is [Gutteridge (2021)](../cite.md).", "",
    ]  # fmt: skip
    for theme, title in THEMES.items():
        lines += [f"## {title}", "", ":::::{grid} 1 1 2 2", ":gutter: 3", ""]
        for name, module in catalogue.EXPERIMENTS.items():
            if module.split(".")[1] == theme:
                lines += card(name, registry.load(name), pictures, results)
        lines += [":::::", ""]
    path = source / "gallery" / "index.md"
    path.parent.mkdir(exist_ok=True)
    text = "\n".join(lines)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write before pages are read."""
    app.connect("config-inited", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
