"""Fixtures of tests that use BoTorch and GPyTorch."""

import pytest
import torch


@pytest.fixture
def peers_draw_as_they_like():
    """BoTorch and GPyTorch draw from torch's global generator; it is put back as it was."""
    with torch.random.fork_rng(devices=[]):
        yield
