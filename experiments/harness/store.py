"""The files of results, and how a run is written atomically.

    ROOT/EXPERIMENT/run.json                    what was last asked for: cases, seeds, version
    ROOT/EXPERIMENT/DIGEST/CASE-SEED.parquet    one run; its `RunRecord` is in the file's metadata
    ROOT/EXPERIMENT/DIGEST/CASE-SEED.error      the traceback of a run that failed
    ROOT/EXPERIMENT.parquet                     those runs in one table, for other programs

DIGEST is a hash of the experiment's name, the case's name and settings, and the version of bqvi.
Results with the same digest are of the same computation and are kept when other settings change; a changed
setting leads to another digest.

Each file holds the SHA-256 of what it says, so that one that was damaged or changed is refused and not read
as other numbers.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.harness.experiment import Case
from experiments.harness.provenance import RunRecord

__all__ = [
    "DamagedFileError", "Manifest", "PlannedCase", "digest", "error_path", "manifest_path", "read_manifest",
    "read_record", "read_shard", "replacing", "shard_path", "write_frame", "write_shard", "write_text",
]  # fmt: skip

_KEY = b"bqvi"
_OF_ROWS, _OF_RECORD = b"bqvi rows sha256", b"bqvi record sha256"
_SHA256 = "sha256"


class DamagedFileError(ValueError):
    """A file of results was cut off or changed after it was written."""


@dataclass(frozen=True)
class PlannedCase:
    """A case in the manifest."""

    name: str
    settings: Mapping[str, Any]
    digest: str


@dataclass(frozen=True)
class Manifest:
    """What was last asked of an experiment; the report shows this and no other results.

    Attributes
    ----------
    experiment, version : str
    command : str
        The command line that asks for it again.
    quick : bool
    seeds : tuple of int
    cases : tuple of PlannedCase
    source : str
        Digest of the code at that time.
    """

    experiment: str
    version: str
    command: str
    quick: bool
    seeds: tuple[int, ...]
    cases: tuple[PlannedCase, ...]
    source: str

    def to_json(self) -> str:
        """Return the manifest as a JSON object."""
        said = asdict(self)
        return json.dumps({**said, _SHA256: _sum(json.dumps(said, sort_keys=True))}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Return the manifest that `to_json` wrote; ValueError where something in it has changed."""
        raw = json.loads(text)
        _require(raw.pop(_SHA256) == _sum(json.dumps(raw, sort_keys=True)))
        cases = tuple(PlannedCase(**case) for case in raw.pop("cases"))
        return cls(**{**raw, "seeds": tuple(raw["seeds"]), "cases": cases})


def digest(experiment: str, case: Case, version: str) -> str:
    """Return 12 hexadecimal digits that identify a case's computation.

    Parameters
    ----------
    experiment : its name. case : its name and settings. version : of the experiment's code.
    """
    identity = {
        "experiment": experiment,
        "case": case.name,
        "settings": case.settings,
        "version": version,
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]


def shard_path(root: Path, experiment: str, case: PlannedCase, seed: int) -> Path:
    """Return the path of one run's results, whether it exists or not.

    Parameters
    ----------
    root : the folder of results. experiment : its name. case : the case, with its digest. seed : of the run.
    """
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", case.name).strip("-.").lower()[:80] or "case"
    return root / experiment / case.digest / f"{slug}-{seed}.parquet"


def error_path(shard: Path) -> Path:
    """Return the path of the traceback of a failed run, in the place of its shard."""
    return shard.with_suffix(".error")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that takes the place of `path` when the block ends without raising."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            # without it, a crash of the machine can leave the new name on an empty file
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # a file of mkstemp is readable by its owner only
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _sum(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _sum_of_rows(table: pa.Table) -> str:
    """The digest of names and values, which is the same in every version of pandas and Arrow."""
    return _sum(repr(table.to_pydict()))


def _require(same: bool) -> None:
    if not same:
        raise ValueError("its check sum is another")


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_frame(path: Path, frame: pd.DataFrame, metadata: str) -> None:
    """Write `frame` as Parquet, atomically, with `metadata` under the key "bqvi"; no index."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    sums = {_OF_ROWS: _sum_of_rows(table), _OF_RECORD: _sum(metadata)}
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: metadata.encode(), **sums})
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def write_shard(path: Path, frame: pd.DataFrame, record: RunRecord) -> None:
    """Write one run, atomically, and drop the traceback of an earlier failure.

    Parameters
    ----------
    path : of the file. frame : the rows of the run. record : what it was computed with.
    """
    write_frame(path, frame, record.to_json())
    error_path(path).unlink(missing_ok=True)


def read_record(path: Path) -> RunRecord:
    """Return the record of a run without reading its rows.

    Raises
    ------
    DamagedFileError
    """
    with _reading(path):
        return _record(pq.read_schema(path).metadata)


def read_shard(path: Path) -> tuple[pd.DataFrame, RunRecord]:
    """Return the rows and the record of one run.

    Raises
    ------
    DamagedFileError
    """
    with _reading(path):  # this is a single file, and `read_table` would look for a data set first
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
        _require(_sum_of_rows(table).encode() == table.schema.metadata[_OF_ROWS])
        return table.to_pandas(ignore_metadata=True), _record(table.schema.metadata)


def _record(metadata: Mapping[bytes, bytes]) -> RunRecord:
    _require(_sum(metadata[_KEY]).encode() == metadata[_OF_RECORD])
    return RunRecord.from_json(metadata[_KEY])


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """DamagedFileError with the path where a file is damaged: Arrow, JSON and records raise a dozen kinds."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        message = f"{path} is damaged, cut off or changed after it was written: remove it, and run it again"
        raise DamagedFileError(f"{message} ({type(error).__name__}: {error})") from None


def manifest_path(root: Path, experiment: str) -> Path:
    """Return the path of an experiment's manifest."""
    return root / experiment / "run.json"


def read_manifest(root: Path, experiment: str) -> Manifest | None:
    """Return the manifest of an experiment, or None where it was never run.

    Raises
    ------
    DamagedFileError
    """
    path = manifest_path(root, experiment)
    if not path.is_file():
        return None
    with _reading(path):
        return Manifest.from_json(path.read_text(encoding="utf-8"))
