"""The fixture of `conftest` notices each of the changes it is there for."""

import importlib.util
import random

import numpy as np
import pytest
import torch
from global_state import LOADERS, changed, first_imports_apart, generators_kept, global_state


@pytest.mark.parametrize(
    ("name", "change", "undo"),
    [
        ("numpy's global generator", lambda: np.random.rand(), None),  # noqa: NPY002
        ("random's global generator", random.random, None),
        ("torch's global generator", lambda: torch.rand(1), None),
        (
            "torch's default dtype",
            lambda: torch.set_default_dtype(torch.float64),
            lambda: torch.set_default_dtype(torch.float32),
        ),
        (
            "torch's grad mode",
            lambda: torch.set_grad_enabled(False),
            lambda: torch.set_grad_enabled(True),
        ),
    ],
)
def test_a_change_is_seen(name, change, undo):
    torch_state = torch.get_rng_state()
    before = global_state()
    with generators_kept():
        change()
        try:
            assert changed(before, global_state()) == [name]
        finally:
            torch.set_rng_state(torch_state)
            if undo is not None:
                undo()


DRAWS = "import random, numpy\nrandom.random()\nnumpy.random.rand()\n"


def execute(path, name, code=DRAWS):
    """Executes a new module of this name, as its first import does."""
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(name, path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_what_another_package_draws_when_first_imported_does_not_count(tmp_path):
    before = global_state()
    execute(tmp_path / "drawing.py", "other.drawing")
    with pytest.raises(ZeroDivisionError):
        execute(tmp_path / "failing.py", "other.failing", DRAWS + "1 / 0\n")
    assert changed(before, global_state()) == []


def test_what_a_module_of_ours_draws_when_imported_is_seen(tmp_path):
    with generators_kept():
        before = global_state()
        execute(tmp_path / "drawing.py", "bqvi.drawing")
        assert changed(before, global_state()) == ["numpy's global generator", "random's global generator"]


def test_loaders_are_as_before():
    before = [dict(loader.__dict__) for loader in LOADERS]
    with first_imports_apart():
        assert [dict(loader.__dict__) for loader in LOADERS] != before
    assert [dict(loader.__dict__) for loader in LOADERS] == before
