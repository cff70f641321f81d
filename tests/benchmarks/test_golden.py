"""What counts as a difference between two runs, and that a run made again has equal digits."""

import math

import pytest

from benchmarks import golden

ROW = {"evaluations": 50, "estimate": -1.0, "sd": 0.02, "converged": True, "points": "a1"}


def test_a_run_has_equal_digits_when_it_is_made_again(tmp_path, capsys):
    file = tmp_path / "runs.json"
    assert golden.main(["--only", "integrate: wsabi", "--out", str(file)]) == 0
    assert golden.main(["--only", "integrate: wsabi", "--against", str(file)]) == 0
    # one digit of one node
    text = file.read_text()
    start = text.index('"points": "') + 11
    file.write_text(text[:start] + ("0" if text[start] != "0" else "1") + text[start + 1 :])
    assert golden.main(["--only", "integrate: wsabi", "--against", str(file)]) == 1
    assert "integrate: wsabi-l: points" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"estimate": -1.0 + 1e-15, "points": "b2"}, []),
        ({"estimate": -1.08}, []),  # 2.8 sds of the two runs together
        ({"estimate": -1.09}, ["estimate"]),
        ({"estimate": math.nan}, ["estimate"]),
        ({"sd": 0.061}, ["sd"]),
        ({"converged": False}, ["converged"]),
    ],
)
def test_statistics_compare_claims_within_their_sds(change, fields):
    assert golden.differs(ROW | change, ROW, statistics=True) == fields
    assert golden.differs(ROW, ROW | change, statistics=True) == fields
    assert golden.differs(ROW | change, ROW, statistics=False) == [name for name in ROW if name in change]


def test_evaluations_are_compared_over_all_runs_and_a_new_run_is_named():
    rows = {"one": ROW, "two": ROW | {"evaluations": 56}}
    assert not list(golden.compared(rows | {"two": ROW}, rows, statistics=True))
    (line,) = golden.compared(rows, rows | {"two": ROW}, statistics=True)
    assert line.startswith("evaluations: 106")
    (line,) = golden.compared(rows, {"one": ROW}, statistics=False)
    assert line.startswith("two: absent")
