"""`benchmarks.devices`: a device that there is, and one that there is not."""

import pytest
import torch

from benchmarks import devices


@pytest.fixture
def small(monkeypatch):
    before = torch.get_num_threads()
    for name in ("PASSES", "MINIBATCHES", "POINTS"):
        monkeypatch.setattr(devices, name, (8,))
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("small")
def test_the_same_work_on_another_device_has_the_same_values():
    lines = list(devices.run("cpu:0"))
    assert len(lines) == 3
    assert all(line.held and "times as fast" in line.measured for line in lines)


@pytest.mark.usefixtures("small")
def test_a_device_that_is_missing_is_named_and_the_cpu_is_timed():
    missing, *others = devices.run("cuda:99")
    assert missing.measured.startswith("there is none: ")
    assert len(others) == 3
    assert all(line.measured.startswith("cpu ") and "," not in line.measured for line in others)
