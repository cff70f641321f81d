"""The output of the acceptance run, and the table of `docs/acceptance.md`: a row for each run kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.acceptance.comparison import FALSE_ALARM, Comparison
from benchmarks.acceptance.record import AcceptanceRun

HISTORY = Path(__file__).parents[2] / "docs" / "acceptance.md"
_UNITS = {
    "error": "error", "within": "within 2 sd", "evaluations": "evaluations", "overhead": "overhead, ms",
    "memory": "memory, MiB", "distance": "distance",
}  # fmt: skip
_HEAD = """# Acceptance figures over time

Made by `python -m benchmarks acceptance --table`; `benchmarks/acceptance` says what is measured, on which
problems, and how two runs are compared. A cell has, over the door's problems and the run's seeds: the
geometric mean of the median errors, the share of errors within 2 sd, the mean of the median evaluations, the
geometric means of the overhead and of the memory. Overhead is in CPU ms for each evaluation (`cavi` and
`minibatch`: for each 1000 data; `gp.fit`: for each fit), in units of a calibration kernel.

"""


def lines(rows: Iterable[Comparison]) -> Iterable[str]:
    """Each figure beside the reference."""
    yield "| door | problem | figure | median [quartiles] | reference | p | moved |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        cells = (row.door, row.task, _UNITS[row.figure], _quartiles(row.run), _quartiles(row.reference))
        yield f"| {' | '.join(cells)} | {row.p:.2g} | {row.verdict} |"


def summary(rows: Sequence[Comparison], same: tuple[int, int]) -> Iterable[str]:
    """What was flagged, and how often the reference was reproduced."""
    flagged = [row for row in rows if row.flagged]
    yield f"{len(rows)} figures; unchanged code has any flag with probability {FALSE_ALARM:g} at most."
    if same[1]:
        yield f"{same[0]} of {same[1]} runs on its seeds gave the reference's error and evaluations."
    for row in flagged:
        yield f"{row.verdict}: {row.door}, {row.task}: {_UNITS[row.figure]} (p = {row.p:.1g})"
    if not flagged:
        yield "Nothing moved beyond seed noise."


def _quartiles(values: Sequence[float]) -> str:
    kept = [value for value in values if not np.isnan(value)]
    if not kept:
        return ""
    low, middle, high = np.quantile(kept, (0.25, 0.5, 0.75), method="inverted_cdf")
    return f"{middle:.3g} [{low:.2g}, {high:.2g}]"


def keep(record: AcceptanceRun, form: str, path: Path) -> None:
    """Add the record's row to the table of ``path``, in the place of one of the same commit and form."""
    doors = list(dict.fromkeys(key.split(": ")[0] for key in record.values))
    head = ["date", "commit", "form", *doors]
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    start = f"| {record.date[:10]} | {record.commit} | {form} |"
    rows = [
        line for line in old if line.startswith("| 2") and line.split(" | ")[1:3] != [record.commit, form]
    ]
    rows.append(f"{start} {' | '.join(_cell(record, door) for door in doors)} |")
    table = [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *rows]
    path.write_text(_HEAD + "\n".join(table) + "\n", encoding="utf-8")


def _cell(record: AcceptanceRun, door: str) -> str:
    members = [figures for key, figures in record.values.items() if key.split(": ")[0] == door]
    error, evaluations, overhead, memory = (
        np.array([np.nanmedian(figures[name]) for figures in members])
        for name in ("error", "evaluations", "overhead", "memory")
    )
    within = np.nanmean([np.nanmean(figures["within"]) for figures in members])
    return (
        f"{_geometric(error):.2g}, {within:.0%}, {evaluations.mean():.0f}, "
        f"{_geometric(overhead):.3g} ms, {_geometric(np.maximum(memory, 1.0)):.2g} MiB"
    )


def _geometric(values: np.ndarray) -> float:
    return float(np.exp(np.log(values).mean()))
