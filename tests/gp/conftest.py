"""Fixtures of tests that use BoTorch and GPyTorch."""

import pytest
import torch


@pytest.fixture
def peers_draw_as_they_like():
    """BoTorch and GPyTorch draw from the global generator of torch; its state is restored afterwards."""
    with torch.random.fork_rng(devices=[]):
        yield
