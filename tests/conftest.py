"""No test, and so nothing that it calls, may change a global default."""

import gc
from pathlib import Path

import pytest
from global_state import changed, first_imports_apart, global_state


@pytest.fixture(autouse=True)
def global_state_is_left_alone():
    """Fails the test that changes a global default. What other packages draw when first imported is apart."""
    before = global_state()
    with first_imports_apart():
        yield
    moved = changed(before, global_state())
    assert not moved, f"this test changed {', '.join(moved)}"


def pytest_collection_finish(session):
    """What is loaded now stays: the garbage collector need not walk through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser):
    """For `experiments/test_quick_forms.py`, which says what the folder is."""
    parser.addoption("--results", type=Path, help="folder of results of `bqvi run all --quick`")
