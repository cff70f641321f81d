"""Files that `resume` is given: an error names each one that is no saved run, and runs none of its code."""

import errno
import io
import json
import pickle
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest
from doors import CASES

from bqvi.records import DERIVED, classes_in, flattened, restored
from bqvi.runs import checkpoint
from gp.files import read_arrays, write_arrays


@dataclass(frozen=True)
class Inner:
    matrix: np.ndarray
    name: str = ""


@dataclass(frozen=True)
class Outer:
    parts: tuple[Inner, ...]
    numbers: dict[str, float]
    rng: np.random.Generator
    none: None = None
    process: object = field(default=None, metadata=DERIVED)


def test_records_come_back_to_the_bit():
    rng = np.random.default_rng(3)
    value = Outer(
        parts=(Inner(rng.standard_normal((3, 2)), "a"), Inner(np.zeros((0, 4)), "é")),
        numbers={"nan": np.nan, "inf": np.inf, "tenth": 0.1, "least": 5e-324},
        rng=rng,
        process=lambda: None,
    )
    arrays: list[np.ndarray] = []
    text = json.dumps(flattened(value, arrays))
    found = restored(json.loads(text), arrays, classes_in(value))
    for a, b in zip(found.parts, value.parts, strict=True):
        np.testing.assert_array_equal(a.matrix, b.matrix)
        assert a.name == b.name
    np.testing.assert_array_equal(list(found.numbers.values()), list(value.numbers.values()))
    assert found.rng.random() == value.rng.random()
    assert found.process is None


def test_an_object_without_a_place_is_refused():
    with pytest.raises(TypeError, match="a function has no place"):
        flattened({"f": lambda: None}, [])


DOORS = {name.split()[0]: case for name, case in CASES.items()}


@pytest.fixture(scope="module", params=DOORS)
def saved(request, tmp_path_factory):
    case, path = DOORS[request.param], tmp_path_factory.mktemp("saved") / "run.npz"
    case.run(case.function, budget=case.least).save(path)
    return case, request.param, path.read_bytes()


def opened(case, path):
    def never(x):
        raise AssertionError("evaluated")

    return case.steps(never, budget=case.least, resume=path)


def test_files_that_are_no_runs(saved, tmp_path):
    case, _, _ = saved
    path = tmp_path / "given"
    run = []

    class Evil:
        def __reduce__(self):
            return run.append, (1,)

    table, objects = io.BytesIO(), io.BytesIO()
    np.savez(table, a=np.zeros(3))
    np.savez(objects, header=np.array([{"a": 1}], dtype=object))
    for content, message in (
        (b"", "is empty"),
        (b"my notes on the run\n", "is no .npz file"),
        (pickle.dumps(Evil()), "is no .npz file"),
        (table.getvalue(), "without a run's header"),
        (objects.getvalue(), "holds objects"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message) as caught:
            opened(case, path)
        assert str(path) in str(caught.value)
        assert "pickle" not in str(caught.value)
    assert not run
    with pytest.raises(FileNotFoundError, match="no such file"):
        opened(case, tmp_path / "absent.npz")


def test_a_run_of_another_door_or_format(saved, tmp_path, monkeypatch):
    case, door, content = saved
    path = tmp_path / "run.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"run.npz holds a run of bqvi.{door}; this is bqvi.other"):
        checkpoint.resumed(path, "other", {})
    with pytest.raises(ValueError, match="another version of bqvi"):
        checkpoint.resumed(path, door, {})
    with pytest.raises(ValueError, match="another version of bqvi: prior_of_today is not in it"):
        checkpoint.resumed(path, door, {}, {"prior_of_today": "5b8f"})
    monkeypatch.setattr(checkpoint, "_FORMAT", 99)
    with pytest.raises(ValueError, match=r"run.npz is a saved run of format 3; this version reads 99"):
        opened(case, path)


def test_files_that_were_cut_off_or_changed(saved, tmp_path):
    """None of 50 files cut off and 50 with a flipped bit for each door gives another state."""
    case, door, content = saved
    path = _written(tmp_path, content)
    right, arrays = case.numbers(opened(case, path).result()), held(path)
    rng = np.random.default_rng(len(door))
    for i in range(100):
        at = int(rng.integers(len(content)))
        changed = bytearray(content[:at] if i % 2 else content)
        if not i % 2:
            changed[at] ^= 1 << int(rng.integers(8))
        path = _written(tmp_path, bytes(changed))
        found, message = attempt(case, path)
        assert found is not None or str(path) in message
        assert found is None or not i % 2, "a file that was cut off was read"
        # an unnoticed flipped bit is outside of the arrays, as in a date
        assert found is None or held(path) == arrays or case.numbers(found.result()) == right


def test_a_flipped_bit_at_the_end_of_the_archive_is_no_fault_of_the_disk(saved, tmp_path):
    """The last 22 bytes state the position of the directory in the file, which may then lie before its
    beginning.
    """
    case, _, content = saved
    for bit in range(8 * 22):
        changed = bytearray(content)
        changed[-1 - bit // 8] ^= 1 << bit % 8
        path = _written(tmp_path, bytes(changed))
        found, message = attempt(case, path)
        assert found is not None or str(path) in message


def attempt(case, path):
    try:
        return opened(case, path), ""
    except ValueError as error:
        return None, str(error)


def held(path):
    """The arrays of a file, by name."""
    with np.load(path) as stored:
        return {name: stored[name].tobytes() for name in stored.files}


def _written(folder, content):
    path = folder / "changed.npz"
    path.write_bytes(content)
    return path


def test_the_archive_holds_arrays_only(saved):
    _, _, content = saved
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert all(name.endswith(".npy") for name in archive.namelist())
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        assert all(stored[name].dtype != object for name in stored.files)


def test_a_full_disk_leaves_no_part_of_a_file_and_is_named(tmp_path, monkeypatch):
    """The earlier file is as it was, and the space of the part that was written is free again."""
    path = tmp_path / "run.npz"
    write_arrays(path, {"n": 1}, {"x": np.arange(5)})
    before = path.read_bytes()
    whole = np.savez

    def full(file, **arrays):
        whole(file, **arrays)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match=r"No space left on device: .*run\.npz") as caught:
        write_arrays(path, {"n": 2}, {"x": np.arange(50_000)}, compressed=False)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_writers_of_one_path_do_not_write_into_each_others_files(tmp_path):
    """Each file that stands at the path is whole, whoever wrote it last."""
    path, rows = tmp_path / "run.npz", np.zeros(20_000)

    def write(i):
        for _ in range(20):
            write_arrays(path, {"writer": i}, {"x": rows + i}, compressed=False)
            header, arrays = read_arrays(path, "run")
            assert (arrays["x"] == header["writer"]).all()

    with ThreadPoolExecutor(4) as executor:
        for done in [executor.submit(write, i) for i in range(4)]:
            done.result()
    assert list(tmp_path.iterdir()) == [path]
