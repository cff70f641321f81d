"""The README's examples run as they stand, and print what stands in the comments at their end.

`python tests/test_readme.py` writes these comments, also on the start page, which has the same PyMC model.
"""

import contextlib
import io
import itertools
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


PAGES = (README, README.parent / "docs" / "start.md")
OUTPUT = re.compile(r"(?:^# .*\n)+\Z", re.MULTILINE)
"""The comments at the end of a block."""
PYMC = find_spec("pymc") is not None
SIMULATOR = next(block for block in BLOCKS if "solve_ivp" in block)


def printed(block):
    """What the code of a block prints, as comments."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block, str(README), "exec"), {})
    return "".join(f"# {line}\n" for line in out.getvalue().splitlines())


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")
@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_prints_what_it_says(block):
    if "pymc" in block and not PYMC:
        pytest.skip("PyMC is not installed")
    found, said = printed(block), OUTPUT.search(block)[0]
    assert re.sub(r"[\d. ]+", "", found) == re.sub(r"[\d. ]+", "", said)
    numbers, expected = (np.array(re.findall(r"-?[\d.]+", text), float) for text in (found, said))
    np.testing.assert_allclose(numbers, expected, rtol=1e-3, atol=0.011)


def test_the_integral_is_near_the_one_it_is_said_to_be():
    scope = {}
    exec(next(block for block in BLOCKS if "bqvi.integrate" in block), scope)
    exact = np.exp(-1.5)  # E cos(a + b), a + b ~ N(0, 3)
    assert abs(scope["integral"].mean - exact) < 1e-3
    assert abs(scope["posterior"].integral(scope["measure"]).mean - exact) < 1e-2


def test_the_simulator_has_the_evidence_of_a_sum_over_a_grid():
    scope = {}
    exec(SIMULATOR, scope)
    found, prior = scope["found"], scope["prior"].values()
    mean, sd = found.posterior.mean, np.sqrt(np.diag(found.posterior.covariance))
    # in steps of one sd the sum is right to 5e-9 for a Gaussian
    axes = [m + s * np.arange(-6.0, 7.0) for m, s in zip(mean, sd, strict=True)]
    values = [
        scope["log_likelihood"](*theta) + sum(p.logpdf(t) for p, t in zip(prior, theta, strict=True))
        for theta in itertools.product(*axes)
    ]
    exact = logsumexp(values) + np.log(sd).sum()
    assert abs(found.log_evidence - exact) < 3.0 * found.log_evidence_sd
    assert f"{exact:.4f} by a grid" in SIMULATOR


def test_the_start_page_has_the_same_model_of_pymc():
    page = (README.parent / "docs" / "start.md").read_text()
    assert f"```{{code-block}} python\n{next(block for block in BLOCKS if 'pymc' in block)}```" in page


def test_the_first_page_is_short_and_its_table_is_that_of_the_benchmark():
    text = README.read_text()
    assert len(text.splitlines()) <= 150
    assert (README.parent / "docs" / "peers.md").read_text().strip() in text


def test_the_output_on_the_first_page_is_what_its_code_prints(capsys):
    page = (README.parent / "docs" / "start.md").read_text()
    code, output = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL).groups()
    exec(code, {})
    printed = capsys.readouterr().out
    assert re.sub(r"[\d.]+", "", printed) == re.sub(r"[\d.]+", "", output)
    numbers, expected = (np.array(re.findall(r"-?[\d.]+", text), float) for text in (printed, output))
    np.testing.assert_allclose(numbers, expected, rtol=1e-3, atol=0.011)


if __name__ == "__main__":
    outputs = {block: printed(block) for block in BLOCKS if PYMC or "pymc" not in block}
    for path in PAGES:
        page = path.read_text()
        for block, output in outputs.items():
            page = page.replace(block, OUTPUT.sub("", block) + output)
        path.write_text(page)
