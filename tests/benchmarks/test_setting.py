"""With which threads figures are made."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from benchmarks import setting
setting.limit_threads() if sys.argv[1] == "one" else None
print(setting.one_thread(), setting.heading([]).count("one thread"))
"""


@pytest.mark.parametrize("threads", ["one", "default"])
def test_the_heading_says_with_which_threads_a_table_was_made(threads, monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT, threads], capture_output=True, text=True, check=True
    ).stdout.split()
    assert printed == [str(threads == "one"), str(int(threads == "one"))]
