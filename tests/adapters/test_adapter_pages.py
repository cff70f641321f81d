"""The pages on other packages: their code runs, and prints what they show, where the package is installed.

Those on NumPyro and Stan run where JAX_ENABLE_X64=1 and BQVI_BUILD_STAN=1 are set: a build takes minutes.
"""

import importlib.util
import os
import re
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGES = {
    "how-to/pymc.md": ("pymc", None),
    "tutorials/pymc.md": ("pymc", None),
    "how-to/numpyro.md": ("numpyro", "JAX_ENABLE_X64"),
    "how-to/stan.md": ("httpstan", "BQVI_BUILD_STAN"),
}

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
VERSION = re.compile(r"\d+\.\d+\.\d+\S*")


def blocks(page):
    return re.findall(r"```\{code-block\} python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_on_another_package_prints_what_it_shows(page, tmp_path, monkeypatch, capsys):
    package, variable = PAGES[page]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    if variable is not None and os.environ.get(variable) != "1":
        pytest.skip(f"set {variable}=1 to run it")
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "page"}
    for block in blocks(page):
        exec(compile(block, page, "exec"), scope)
    shown = "".join(re.findall(r"```text\n(.*?)```", (DOCS / page).read_text(), re.DOTALL))
    if shown:  # other versions of the packages differ in last digits
        printed, shown = (VERSION.sub("", text) for text in (capsys.readouterr().out, shown))
        assert NUMBER.sub("", printed).split() == NUMBER.sub("", shown).split()
        numbers, expected = (np.array(NUMBER.findall(text), float) for text in (printed, shown))
        np.testing.assert_allclose(numbers, expected, rtol=0.05, atol=0.05)


def test_pages_say_what_they_need():
    for page, (package, _) in PAGES.items():
        assert blocks(page), page
        extra = "stan" if package == "httpstan" else package
        assert f"extra `{extra}`" in (DOCS / page).read_text()
