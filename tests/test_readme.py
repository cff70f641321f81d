"""The README's examples run as they stand."""

import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_example_runs(block, capsys):
    scope = {}
    exec(compile(block, str(README), "exec"), scope)
    assert capsys.readouterr().out.strip()
    if "fit" in scope:
        assert np.isfinite(scope["fit"].elbo)


def test_the_integral_is_near_the_one_it_is_said_to_be():
    scope = {}
    exec(next(block for block in BLOCKS if "integrate" in block), scope)
    exact = np.exp(-1.5)  # E cos(a + b), a + b ~ N(0, 3)
    assert abs(scope["integral"].mean - exact) < 1e-3
    assert abs(scope["posterior"].integral(scope["measure"]).mean - exact) < 1e-2


def test_the_first_example_is_ten_lines_and_finds_the_clusters():
    lines = [line for line in BLOCKS[0].splitlines() if line.strip()]
    assert len(lines) <= 10
    scope = {}
    exec(BLOCKS[0], scope)
    weights = np.sort(scope["fit"].q["weights"].mean)[::-1]
    assert weights[:3].sum() > 0.95  # three clusters were simulated, K is six
    # every variational bound is below that of coordinate ascent run to the end from the same start
    assert scope["stochastic"].elbo <= scope["fit"].elbo + 1.0


def test_the_output_on_the_first_page_is_what_its_code_prints(capsys):
    page = (README.parent / "docs" / "start.md").read_text()
    code, output = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL).groups()
    exec(code, {})
    printed = capsys.readouterr().out
    assert re.sub(r"[\d.]+", "", printed) == re.sub(r"[\d.]+", "", output)
    numbers, expected = (np.array(re.findall(r"-?[\d.]+", text), float) for text in (printed, output))
    np.testing.assert_allclose(numbers, expected, rtol=1e-3, atol=0.011)
