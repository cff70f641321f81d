"""A check that no test, nor any function that it calls, changes a global default."""

import gc
from pathlib import Path

import pytest
from global_state import changed, first_imports_apart, global_state


@pytest.fixture(autouse=True)
def global_state_is_left_alone():
    """Fail a test that changes a global default, apart from draws at the first import of packages."""
    before = global_state()
    with first_imports_apart():
        yield
    moved = changed(before, global_state())
    assert not moved, f"this test changed {', '.join(moved)}"


def pytest_collection_finish(session):
    """Exclude the objects loaded so far from garbage collection, which would traverse them repeatedly."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser):
    """For `experiments/test_quick_forms.py`, which says what the folder is."""
    parser.addoption("--results", type=Path, help="folder of results of `bqvi run all --quick`")
