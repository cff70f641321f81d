"""Run cases x seeds: plan what is missing, compute a cell, and write it when it is done.

    plan      the grid of an experiment, and which of its cells have no file yet
    computed  the rows of a cell, or its traceback; `execution` does this elsewhere
    written   the outcome of a cell, whose file is there

A cell is written when it has been computed, so whatever ends the command (Ctrl-C, a crash, a full disk)
leaves the finished cells, and the same command continues from there. Where a cell raises, its traceback is
written and the other cells are computed. Every cell runs on one thread, alone or beside others, so that
seconds of different cells can be compared.
"""

from __future__ import annotations

import datetime
import platform
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from threadpoolctl import threadpool_limits

from experiments.harness import provenance, store
from experiments.harness.experiment import RESERVED_COLUMNS, Case, Experiment, Resources
from experiments.harness.provenance import RunRecord
from experiments.harness.store import Manifest, PlannedCase

__all__ = ["Computed", "Job", "Outcome", "Plan", "computed", "plan", "written"]


@dataclass(frozen=True)
class Job:
    """One cell of an experiment's grid, with all that a worker needs to compute and write it."""

    experiment: str
    run: Callable[[Case, int], pd.DataFrame]
    case: Case
    seed: int
    path: Path
    version: str
    source: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job; `error` is None, or one line that describes what was raised."""

    experiment: str
    case: str
    seed: int
    seconds: float
    error: str | None
    log: Path | None


@dataclass(frozen=True)
class Plan:
    """An experiment's grid.

    Attributes
    ----------
    manifest : Manifest
    jobs : tuple of Job
        Every cell, all cases of a seed before the next seed, so that an interrupted run can be
        compared.
    pending : tuple of Job
        Those to compute.
    outdated : int
        Number of cells that are kept although the code has changed since they were computed.
    """

    manifest: Manifest
    jobs: tuple[Job, ...]
    pending: tuple[Job, ...]
    outdated: int


def plan(
    experiment: Experiment,
    root: Path,
    *,
    seeds: int | None = None,
    quick: bool = False,
    resources: Resources | None = None,
    force: bool = False,
    refresh: bool = False,
    options: Sequence[str] = (),
) -> Plan:
    """Lay out the grid of an experiment and find which cells must be computed.

    Parameters
    ----------
    experiment : Experiment
    root : Path
        Folder of the results.
    seeds : int or None
        Run seeds 0 to `seeds` - 1; None takes the experiment's own number.
    quick : bool
    resources : Resources or None
        Folders that the experiment may need.
    force : bool
        Compute every cell again.
    refresh : bool
        Compute again the cells that other code computed.
    options : sequence of str
        Further options of the command that asks for the same again.

    Raises
    ------
    ValueError
        If `seeds` < 1 or the cases are not sound (`Experiment.checked_cases`).
    """
    number = seeds if seeds is not None else experiment.quick_seeds if quick else experiment.seeds
    if number < 1:
        raise ValueError(f"seeds must be at least 1, got {number}")
    cases = experiment.checked_cases(quick, resources or Resources())
    manifest = _manifest(experiment, cases, number, quick, options)
    jobs = tuple(
        Job(
            experiment.name, experiment.run, case, seed,
            store.shard_path(root, experiment.name, planned, seed),
            manifest.version, manifest.source,
        )
        for seed in manifest.seeds
        for case, planned in zip(cases, manifest.cases, strict=True)
    )  # fmt: skip
    outdated = {job.path for job in jobs if job.path.is_file() and _is_outdated(job)}
    pending = tuple(
        job for job in jobs if force or not job.path.is_file() or (refresh and job.path in outdated)
    )
    kept = outdated - {job.path for job in pending}
    return Plan(manifest, jobs, pending, len(kept))


def _manifest(
    experiment: Experiment, cases: Sequence[Case], seeds: int, quick: bool, options: Sequence[str]
) -> Manifest:
    version = provenance.version()
    flags = ["--quick"] * quick + [f"--{name} DIR" for name in experiment.needs]
    return Manifest(
        experiment=experiment.name,
        version=version,
        command=" ".join(["bqvi run", experiment.name, f"--seeds {seeds}", *flags, *options]),
        quick=quick,
        seeds=tuple(range(seeds)),
        cases=tuple(
            PlannedCase(case.name, case.settings, store.digest(experiment.name, case, version))
            for case in cases
        ),
        source=provenance.source_digest(experiment.run),
    )


def _is_outdated(job: Job) -> bool:
    return store.read_record(job.path).source != job.source


@dataclass(frozen=True)
class Computed:
    """The result of a job, on any machine.

    Attributes
    ----------
    frame, record : the rows and their provenance; None where the job raised.
    error : None, or one line that describes what was raised. traceback : the whole traceback.
    seconds : the duration of the job.
    """

    frame: pd.DataFrame | None
    record: RunRecord | None
    seconds: float
    error: str | None = None
    traceback: str = ""

    @classmethod
    def failed(cls, error: str) -> Computed:
        """The error of a job that has no rows, and no traceback."""
        return cls(None, None, 0.0, error.partition("\n")[0], error)


def computed(job: Job) -> Computed:
    """Compute one job."""
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    clock = time.perf_counter()
    try:
        with threadpool_limits(limits=1):
            frame = _checked(job.run(job.case, job.seed))
        seconds = time.perf_counter() - clock
        return Computed(frame, _record(job, seconds, started), seconds)
    except Exception as error:  # whatever an experiment raises is recorded, and the other cells are computed
        message = f"{type(error).__name__}: {error}".partition("\n")[0]
        return Computed(None, None, time.perf_counter() - clock, message, traceback.format_exc())


def written(job: Job, found: Computed) -> Outcome:
    """Write the shard of a job, or its traceback if it raised."""
    if found.frame is not None and found.record is not None:
        try:
            store.write_shard(job.path, found.frame, found.record)
            return Outcome(job.experiment, job.case.name, job.seed, found.seconds, None, None)
        except Exception as error:  # the rows cannot be written
            message = f"{type(error).__name__}: {error}".partition("\n")[0]
            found = Computed(None, None, found.seconds, message, traceback.format_exc())
    log = store.error_path(job.path)
    # With --force, an older result must not be taken for this one.
    job.path.unlink(missing_ok=True)
    store.write_text(log, found.traceback)
    return Outcome(job.experiment, job.case.name, job.seed, found.seconds, found.error, log)


def _checked(frame: object) -> pd.DataFrame:
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"run must return a pandas DataFrame, got {type(frame).__name__}")
    if frame.empty:
        raise ValueError("run returned a DataFrame without rows or columns")
    if taken := sorted(RESERVED_COLUMNS & set(frame.columns)):
        raise ValueError(f"run returned the column {taken[0]!r}, which the runner adds itself")
    return frame


def _record(job: Job, seconds: float, started: str) -> RunRecord:
    return RunRecord(
        experiment=job.experiment,
        case=job.case.name,
        settings=job.case.settings,
        seed=job.seed,
        version=job.version,
        source=job.source,
        packages=provenance.package_versions(),
        python=provenance.python_version(),
        platform=platform.platform(),
        processor=provenance.processor(),
        seconds=seconds,
        started=started,
    )
