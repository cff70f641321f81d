"""Read the runs of an experiment back into one table.

Only the runs that the manifest names are read: those of the cases, seeds and version last asked
for. Runs of other settings may lie beside them and are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.harness import store
from experiments.harness.provenance import RunRecord
from experiments.harness.store import Manifest, PlannedCase

__all__ = ["MissingRun", "Results", "combine", "read"]


@dataclass(frozen=True)
class MissingRun:
    """A run without results; `error` ends its traceback, or is None if the run never ended."""

    case: str
    seed: int
    error: str | None


@dataclass(frozen=True)
class Results:
    """The finished runs of an experiment.

    Attributes
    ----------
    manifest : Manifest
    frame : DataFrame
        The rows of all runs: `case`, `seed`, the columns that the experiment's ``run`` returned, and the
        scalar settings. Cases in the order of the manifest, seeds ascending, rows as recorded. Empty if no
        run has finished.
    records : tuple of RunRecord
    missing : tuple of MissingRun
    """

    manifest: Manifest
    frame: pd.DataFrame
    records: tuple[RunRecord, ...]
    missing: tuple[MissingRun, ...]


def read(root: Path, experiment: str) -> Results | None:
    """Return the results of an experiment, or None where it was never run."""
    manifest = store.read_manifest(root, experiment)
    if manifest is None:
        return None
    frames: list[pd.DataFrame] = []
    records: list[RunRecord] = []
    missing: list[MissingRun] = []
    for case in manifest.cases:
        runs: dict[int, pd.DataFrame] = {}
        for seed in manifest.seeds:
            path = store.shard_path(root, experiment, case, seed)
            if not path.is_file():
                missing.append(MissingRun(case.name, seed, _last_line(store.error_path(path))))
                continue
            runs[seed], record = store.read_shard(path)
            records.append(record)
        if runs:
            frames.append(_labelled(runs, case))
    together = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({"case": [], "seed": []})
    return Results(manifest, together, tuple(records), tuple(missing))


def _labelled(runs: Mapping[int, pd.DataFrame], case: PlannedCase) -> pd.DataFrame:
    """One case's runs by seed as one table, with its name in front and its scalar settings behind."""
    frame = pd.concat(runs.values(), ignore_index=True)
    seeds = np.repeat(list(runs), [len(rows) for rows in runs.values()])
    scalars = {
        key: value
        for key, value in case.settings.items()
        if isinstance(value, str | int | float) and key not in {*frame.columns, "case", "seed"}
    }
    labels = pd.DataFrame({"case": case.name, "seed": seeds}, index=frame.index)
    return pd.concat([labels, frame, pd.DataFrame(scalars, index=frame.index)], axis=1)


def _last_line(path: Path) -> str | None:
    if not path.is_file():
        return None
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"


def combine(root: Path, experiment: str) -> Path | None:
    """Write all finished runs into ROOT/EXPERIMENT.parquet; None if there is none.

    The manifest lies under the key "bqvi" of the file's metadata.
    """
    results = read(root, experiment)
    if results is None or results.frame.empty:
        return None
    path = root / f"{experiment}.parquet"
    store.write_frame(path, results.frame, results.manifest.to_json())
    return path
