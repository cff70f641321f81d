"""A few random cases of all front doors; ``python -m tests.fuzzing DOOR --cases 10000`` runs more."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzzing.cases import DOORS, cases, judged

FEW = {"vbmc": 6, "integrate": 12}


@pytest.mark.parametrize("door", DOORS)
def test_misuse_gives_a_result_or_an_error_that_names_an_argument(door):
    @settings(
        max_examples=FEW.get(door, 30),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(door))
    def knock(case):
        with tempfile.TemporaryDirectory() as folder:
            assert judged(case, Path(folder)) is None

    knock()
