"""Small pictures and verdicts of results, as files that the gallery of the documentation shows.

`write` puts two things into a folder: NAME.png, the experiment's first figure in the size of a card, and
cards.json, with what the results behind it say: its caption, the number of seeds, and of each claim the
statement, the verdict, and the conditions where it holds in some settings. A full run replaces what is there.
A quick run decides nothing: its card has a picture and no verdict, and does not replace a full run's.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from experiments.harness import drawing
from experiments.harness import results as results_module
from experiments.harness.experiment import Drawing, Experiment, Gif
from experiments.harness.results import Results

__all__ = ["COLOURS", "INDEX", "WIDTH", "drawings", "thumbnail", "write"]

WIDTH = 640
"""Pixels: twice a card's, for screens of high density."""
COLOURS = 128
INDEX = "cards.json"


def write(experiments: Sequence[Experiment], root: Path, folder: Path) -> list[str]:
    """Write pictures and cards.json.

    Parameters
    ----------
    experiments : sequence of Experiment
    root : Path
        Folder of the results.
    folder : Path
        Made where it does not exist. Cards of other experiments in it are kept.

    Returns
    -------
    list of str
        Names of the experiments that were written: those with results, no run missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / INDEX
    cards = json.loads(index.read_text(encoding="utf-8")) if index.is_file() else {}
    written: list[str] = []
    for experiment in experiments:
        results = results_module.read(root, experiment.name)
        if results is None or results.missing:
            continue
        if results.manifest.quick and not cards.get(experiment.name, {}).get("quick", True):
            continue
        cards[experiment.name] = _card(experiment, results, folder)
        written.append(experiment.name)
    index.write_text(json.dumps(cards, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return written


def _card(experiment: Experiment, results: Results, folder: Path) -> dict[str, object]:
    """Draw the picture, and return what stands beside it."""
    with drawing.style():
        drawn = next(iter(drawings(experiment, results)), None)
        if drawn is not None:
            (folder / f"{experiment.name}.png").write_bytes(thumbnail(drawn))
    quick = results.manifest.quick
    claims = [
        {"statement": claim.statement, "verdict": claim.verdict, "conditions": claim.conditions}
        for claim in (() if quick else experiment.claims(results.frame))
    ]
    caption, seeds = drawn.caption if drawn is not None else "", len(results.manifest.seeds)
    return {"caption": caption, "seeds": seeds, "quick": quick, "claims": claims}


def drawings(experiment: Experiment, results: Results) -> list[Drawing]:
    """The drawings of results; the first names its source, and quick ones say on the figure that they are.

    Parameters
    ----------
    experiment, results : of each other.
    """
    drawn = list(experiment.draw(results.frame))
    if drawn and experiment.source:
        drawn[0] = replace(drawn[0], caption=f"{drawn[0].caption} The source is {experiment.source}.")
    if results.manifest.quick:
        seeds = len(results.manifest.seeds)
        words = f"quick form, {seeds} seed{'s' * (seeds > 1)}: shows what is drawn and decides nothing"
        for each in drawn:
            if isinstance(each.figure, Figure):
                drawing.add_title(each.figure, words)
    return drawn


def thumbnail(drawn: Drawing) -> bytes:
    """Return a drawing as a PNG of `WIDTH` pixels and `COLOURS` colours; of an animation, its last frame."""
    with Image.open(io.BytesIO(_raster(drawn.figure))) as image:
        image.seek(getattr(image, "n_frames", 1) - 1)
        height = round(image.height * WIDTH / image.width)
        small = (
            image.convert("RGB")
            .resize((WIDTH, height), Image.Resampling.LANCZOS)
            .quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
        )
    buffer = io.BytesIO()
    small.save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def _raster(figure: Figure | Gif) -> bytes:
    if isinstance(figure, Gif):
        return figure.data
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=2 * WIDTH / figure.get_figwidth())
    return buffer.getvalue()
