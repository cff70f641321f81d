"""The files that a function passes through: of calls whose path is known, and of a door."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from test_size import APART

import gp
from benchmarks import walk

ROOT = Path(__file__).parents[2]
CAPS = {
    "files entered before the first call": [17, 19, 27, 18],
    "files entered in one turn": [42, 39, 33, 13],
}
"""Of `vbmc`, `integrate`, `fit` and `evidence_bounds`, on the page; a cap is only ever lowered."""


def test_the_files_of_a_call_are_counted_and_those_of_an_import_are_not():
    x = np.zeros((2, 1))
    kernel = gp.kernels.SquaredExponential()
    counted = walk._Walk()
    with counted.counted():
        kernel(x, x)
    named = {Path(file).name for file in counted.files}
    assert "stationary.py" in named
    assert "periodic.py" not in named
    module = walk._Walk()
    source = "def of_module():\n    return 1\nof_module()\n"
    with module.counted():
        exec(compile(source, str(Path(walk.FOLDERS[0]) / "imported.py"), "exec"), {})
    assert not {file for file in module.files if file.endswith("imported.py")}


def test_a_walk_begins_with_the_door_and_ends_at_the_first_call():
    begin, _ = walk.DOORS["bqvi.integrate"]
    named = {Path(file).name for file in walk.before_first_call(begin)}
    assert {"integrate.py", "driver.py", "caller.py"} <= named
    assert "search.py" not in named  # nothing is fitted before there is a value


def test_a_step_evaluates_learns_and_chooses():
    begin, function = walk.DOORS["bqvi.integrate"]
    named = {Path(file).name for file in walk.in_one_step(begin, function)}
    assert {"caller.py", "search.py", "evidence.py", "nodes.py"} <= named


def rows_of_files(text: str) -> dict[str, list[int]]:
    """The rows of a table whose first cell begins with "files entered", by that cell."""
    rows = re.findall(r"^\| (files entered [a-z ]+) \|(.*)\|$", text, re.MULTILINE)
    return {name: [int(cell) for cell in cells.split("|")] for name, cells in rows}


def test_the_page_has_the_figures_of_the_tool_within_a_tenth_and_what_stands_apart_is_not_imported():
    """In a process of its own: what is kept between calls of a process (Sobol sets) shortens a walk."""
    code = "import sys; from benchmarks import walk; walk.main(); print('imported', *sys.modules)"
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    apart = {name.removesuffix(".py").replace("/", ".") for name in APART}
    assert not apart & set(said.stdout.partition("imported ")[2].split())
    found = rows_of_files(said.stdout)
    written = rows_of_files((ROOT / "ARCHITECTURE.md").read_text())
    assert len(found) == 2
    assert written.keys() == found.keys() == CAPS.keys()
    for name, counts in found.items():
        assert (np.array(written[name]) <= CAPS[name]).all(), name
        np.testing.assert_allclose(
            written[name], counts, rtol=0.1, err_msg="replace the rows by those of python -m benchmarks.walk"
        )
