"""A check that no test, nor any function that it calls, changes a global default; one thread a process."""

import gc
import os
from pathlib import Path

# Before linear algebra is loaded, for this process and those that it starts: on small matrices several
# threads are slower than one, and far slower beside another process. Tests of threads set their numbers.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
gc.disable()  # until all is collected: it would traverse modules and syntax trees repeatedly

import pytest  # noqa: E402
from global_state import changed, first_imports_apart, global_state  # noqa: E402


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
    gc.enable()


def pytest_addoption(parser):
    """For `experiments/test_quick_forms.py`, which says what the folder is."""
    parser.addoption("--results", type=Path, help="folder of results of `bqvi run all --quick`")
