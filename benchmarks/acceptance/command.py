"""The command line of ``python -m benchmarks acceptance``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.acceptance.record import (
    QUICK_SEEDS,
    REFERENCE,
    SEED_BASE,
    SEEDS,
    AcceptanceRun,
    compared,
    made,
    reproduced,
)
from benchmarks.acceptance.tables import HISTORY, keep, lines, summary
from benchmarks.acceptance.tasks import Task, tasks


def main(arguments: Sequence[str]) -> int:
    """Run the tasks, print and store the figures; return 1 if any is worse by more than seed noise."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.write_reference and (chosen.quick or chosen.seed_base != SEED_BASE or chosen.seeds):
        parser.error("--write-reference takes the full form on the committed seeds")
    count = chosen.seeds or (QUICK_SEEDS if chosen.quick else SEEDS)
    record = made(_selected(chosen), range(chosen.seed_base, chosen.seed_base + count))
    if chosen.out:
        record.save(chosen.out)
    if chosen.write_reference:
        partial = chosen.doors and REFERENCE.exists()
        (record.joined(AcceptanceRun.load(REFERENCE)) if partial else record).save(REFERENCE)
    if chosen.table:
        keep(record, _form(chosen, count), chosen.table)
    reference = AcceptanceRun.load(REFERENCE)
    rows = compared(record, reference)
    _report(record, reference, [*lines(rows), "", *summary(rows, reproduced(record, reference))])
    return 1 if any(row.verdict == "WORSE" for row in rows) else 0


def _report(record: AcceptanceRun, reference: AcceptanceRun, text: Sequence[str]) -> None:
    for name, which in (("This run", record), ("Reference", reference)):
        print(f"{name}: {which.commit}, {which.date}, {which.machine['processor']}, kernel "
              f"{which.machine['kernel_ms']:.2f} ms")  # fmt: skip
    print(f"\n{chr(10).join(text)}")


def _form(chosen: argparse.Namespace, count: int) -> str:
    fresh = "" if chosen.seed_base == SEED_BASE else f" from {chosen.seed_base}"
    return f"{'quick' if chosen.quick else 'full'}, {count} seeds{fresh}"


def _selected(chosen: argparse.Namespace) -> list[Task]:
    return [
        task
        for task in tasks()
        if (task.quick or not chosen.quick) and (not chosen.doors or task.door in chosen.doors)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks acceptance", description=__doc__)
    doors = list(dict.fromkeys(task.door for task in tasks()))
    parser.add_argument("--quick", action="store_true", help="half of the tasks, 5 seeds, two minutes")
    parser.add_argument("--doors", nargs="+", choices=doors, metavar="NAME", help=f"of {', '.join(doors)}")
    parser.add_argument("--seeds", type=int, help=f"how many; by default {SEEDS}, or {QUICK_SEEDS}")
    parser.add_argument(
        "--seed-base", type=int, default=SEED_BASE, help="the first seed; others are fresh ones"
    )
    parser.add_argument("--out", type=Path, help="write the run as JSON")
    parser.add_argument(
        "--table", type=Path, nargs="?", const=HISTORY, help="add a row to a table in Markdown"
    )
    parser.add_argument("--write-reference", action="store_true", help="make this run the reference")
    return parser
