"""The files that a function passes through: of calls whose path is known, and of a door."""

from pathlib import Path

import numpy as np

import gp
from benchmarks import walk


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
    assert {"integrate.py", "door.py", "run.py", "caller.py"} <= named
    assert "search.py" not in named  # nothing is fitted before there is a value


def test_a_step_evaluates_learns_and_chooses():
    begin, function = walk.DOORS["bqvi.integrate"]
    named = {Path(file).name for file in walk.in_one_step(begin, function)}
    assert {"caller.py", "search.py", "evidence.py", "nodes.py"} <= named
