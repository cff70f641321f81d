"""Files of results that were cut off or changed: a clear error each, and never another row or record."""

import numpy as np
import pandas as pd
import pytest

from experiments.harness import store
from experiments.harness.provenance import RunRecord

FRAME = pd.DataFrame({"n": np.arange(40), "error": np.random.default_rng(0).standard_normal(40), "case": "a"})
RECORD = RunRecord("toy", "a", {"n": 3}, 0, "1.0", "abc", {"numpy": "2"}, "3.11", "linux", "x86", 1.5, "2026")
MANIFEST = store.Manifest(
    "toy", "1.0", "bqvi run toy", True, (0, 1), (store.PlannedCase("a", {}, "d"),), "abc"
)


def damaged(content, rng, flipped):
    at = int(rng.integers(len(content)))
    changed = bytearray(content if flipped else content[:at])
    if flipped:
        changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def attempt(path):
    try:
        frame, record = store.read_shard(path)
        assert record == RECORD
        return frame, ""
    except ValueError as error:
        return None, str(error)


@pytest.mark.parametrize("times", [200])
def test_a_damaged_run_is_refused_or_has_the_same_rows(tmp_path, times):
    path, rng = tmp_path / "a-0.parquet", np.random.default_rng(1)
    store.write_shard(path, FRAME, RECORD)
    content, refused = path.read_bytes(), 0
    for i in range(times):
        path.write_bytes(damaged(content, rng, i % 2 == 0))
        frame, message = attempt(path)
        refused += frame is None
        assert frame is not None or f"{path} is damaged" in message
        assert frame is None or i % 2 == 0, "a file that was cut off was read"
        assert frame is None or frame.equals(FRAME)
    assert refused > times // 2


def test_a_damaged_manifest_is_named(tmp_path):
    path = store.manifest_path(tmp_path, "toy")
    store.write_text(path, MANIFEST.to_json())
    content, rng = path.read_bytes(), np.random.default_rng(2)
    assert store.read_manifest(tmp_path, "toy") == MANIFEST
    for i in range(200):
        path.write_bytes(damaged(content, rng, i % 2 == 0))
        with pytest.raises(ValueError, match="is damaged, cut off or changed"):
            store.read_manifest(tmp_path, "toy")
