"""A run of the acceptance tasks: how it is made, and how it is saved.

As JSON: where and when it was made, its seeds, and for each task and figure the values seed by seed.
`REFERENCE` is such a file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.acceptance.comparison import FLOORS, MARGINS, Comparison, holm, rank_sum_test
from benchmarks.acceptance.meter import in_fork, kernel
from benchmarks.acceptance.tasks import Figures, Task
from benchmarks.setting import commit, machine

REFERENCE = Path(__file__).with_name("reference.json")
FIGURES = tuple(field.name for field in fields(Figures))
SEEDS, QUICK_SEEDS = 16, 5
SEED_BASE = 7000
"""The first of the `SEEDS` seeds of the reference, on which no choice in the library was made."""
_DETERMINED = ("error", "evaluations")

Values = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class AcceptanceRun:
    """A run of the acceptance tasks and its figures.

    Attributes
    ----------
    commit : the commit of the code, followed by "+" where the libraries had uncommitted changes.
    date : the date in ISO 8601.
    machine : processor, cores, versions, threads, and the kernel's CPU milliseconds.
    seeds : the seeds of all tasks.
    values : task -> figure -> values by seed; NaN where a task has no such figure or a run failed.
    """

    commit: str
    date: str
    machine: Mapping[str, Any]
    seeds: tuple[int, ...]
    values: Values

    def save(self, path: Path) -> None:
        """Write the JSON."""
        content = asdict(self)
        rows = {
            key: "{" + ", ".join(f'"{name}": {_listed(row)}' for name, row in figures.items()) + "}"
            for key, figures in content.pop("values").items()
        }
        head = json.dumps(content, indent=1).removesuffix("\n}")
        body = ",\n  ".join(f"{json.dumps(key)}: {row}" for key, row in rows.items())
        path.write_text(f'{head},\n "values": {{\n  {body}\n }}\n}}\n', encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> AcceptanceRun:
        """Read what `save` wrote."""
        content = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**content, "seeds": tuple(content["seeds"])})

    def joined(self, earlier: AcceptanceRun) -> AcceptanceRun:
        """Return this record, with the tasks that only ``earlier`` has; both have the same seeds."""
        if self.seeds != earlier.seeds:
            raise ValueError(f"seeds differ: {self.seeds} and {earlier.seeds}")
        return AcceptanceRun(
            self.commit, self.date, self.machine, self.seeds, {**earlier.values, **self.values}
        )


def _listed(values: Sequence[float]) -> str:
    return json.dumps([float(f"{value:.7g}") for value in values])


def made(tasks: Iterable[Task], seeds: Sequence[int]) -> AcceptanceRun:
    """Run the tasks, with the progress on standard error."""
    values: dict[str, Mapping[str, Sequence[float]]] = {}
    clocked = float(np.median([kernel() for _ in range(20)]))
    for task in tasks:
        print(task.key, file=sys.stderr, flush=True)
        found = in_fork(_runs, task, seeds) or [_failed()] * len(seeds)
        columns = {name: [float(getattr(each, name)) for each in found] for name in FIGURES}
        columns["error"] = [max(error, task.floor) for error in columns["error"]]
        values[task.key] = columns
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return AcceptanceRun(commit(), now, {**machine(), "kernel_ms": round(clocked, 2)}, tuple(seeds), values)


def _runs(task: Task, seeds: Sequence[int]) -> list[Figures]:
    """Run each seed in a process of its own, forked from one in which the task has run once."""
    _attempt(task, min(seeds) - 1)
    return [in_fork(_attempt, task, seed) or _failed() for seed in seeds]


def _attempt(task: Task, seed: int) -> Figures:
    try:
        return task.run(seed)
    except Exception as error:
        print(f"{task.key}, seed {seed}: {type(error).__name__}: {error}", file=sys.stderr)
        return _failed()


def _failed() -> Figures:
    nan = float("nan")
    return Figures(error=float("inf"), within=0.0, evaluations=nan, overhead=nan, memory=nan)


def compared(run: AcceptanceRun, reference: AcceptanceRun) -> list[Comparison]:
    """Every figure of every task that both have, and of all tasks of a door."""
    keys = [key for key in run.values if key in reference.values]
    groups = [(key, [key]) for key in keys]
    for door in dict.fromkeys(key.split(": ")[0] for key in keys):
        members = [key for key in keys if key.split(": ")[0] == door]
        if len(members) > 1:
            groups.append((f"{door}: all", members))
    rows = [
        _comparison(name, members, figure, run, reference) for name, members in groups for figure in FIGURES
    ]
    rows = [row for row in rows if row is not None]
    kept = [row for row in rows if row is not None]
    flags = holm([row.p for row in kept])
    return [Comparison(**{**vars(row), "flagged": bool(flag)}) for row, flag in zip(kept, flags, strict=True)]


def _comparison(
    name: str, members: Sequence[str], figure: str, run: AcceptanceRun, reference: AcceptanceRun
) -> Comparison | None:
    """None where no task of these has the figure."""
    floor = FLOORS.get(figure, -np.inf)
    pairs = [
        (np.maximum(run.values[key][figure], floor), np.maximum(reference.values[key][figure], floor))
        for key in members
    ]
    pairs = [pair for pair in pairs if not all(np.isnan(side).all() for side in pair)]
    if not pairs:
        return None
    p, direction = rank_sum_test(pairs, MARGINS.get(figure, 1.0))
    door, task = name.split(": ", 1)
    alone = len(members) == 1 and task != "all"
    shown = [tuple(float(value) for value in side) for side in pairs[0]] if alone else [(), ()]
    return Comparison(door, task, figure, shown[0], shown[1], p, direction)


def reproduced(run: AcceptanceRun, reference: AcceptanceRun) -> tuple[int, int]:
    """Runs on the reference's seeds with its error and evaluations to six digits, and how many there are."""
    places = [(i, reference.seeds.index(s)) for i, s in enumerate(run.seeds) if s in reference.seeds]
    same = [
        all(_equal(run.values[key][name][i], reference.values[key][name][j]) for name in _DETERMINED)
        for key in run.values if key in reference.values for i, j in places
    ]  # fmt: skip
    return sum(same), len(same)


def _equal(a: float, b: float) -> bool:
    return bool(np.isclose(a, b, rtol=1e-6, atol=0.0, equal_nan=True))
