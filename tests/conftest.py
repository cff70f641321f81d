"""No test, and so nothing that it calls, may change a global default."""

import pytest
from global_state import changed, global_state


@pytest.fixture(autouse=True)
def global_state_is_left_alone():
    """Fails the test that changes a global default."""
    before = global_state()
    yield
    moved = changed(before, global_state())
    assert not moved, f"this test changed {', '.join(moved)}"
