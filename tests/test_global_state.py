"""The fixture of `conftest` notices each of the changes it is there for."""

import random

import numpy as np
import pytest
import torch
from global_state import changed, global_state


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
    state = np.random.get_state(), random.getstate(), torch.get_rng_state()  # noqa: NPY002
    before = global_state()
    change()
    try:
        assert changed(before, global_state()) == [name]
    finally:
        np.random.set_state(state[0])  # noqa: NPY002
        random.setstate(state[1])
        torch.set_rng_state(state[2])
        if undo is not None:
            undo()
