"""The pages on other packages: their code runs where the package is installed, else it is skipped, saying so.

Those on NumPyro and Stan run where JAX_ENABLE_X64=1 and BQVI_BUILD_STAN=1 are set: a build takes minutes.
"""

import importlib.util
import os
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGES = {
    "how-to/pymc.md": ("pymc", None),
    "tutorials/pymc.md": ("pymc", None),
    "how-to/numpyro.md": ("numpyro", "JAX_ENABLE_X64"),
    "tutorials/numpyro.md": ("numpyro", "JAX_ENABLE_X64"),
    "how-to/stan.md": ("httpstan", "BQVI_BUILD_STAN"),
    "tutorials/stan.md": ("httpstan", "BQVI_BUILD_STAN"),
}


def blocks(page):
    return re.findall(r"```\{code-block\} python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_on_another_package_runs(page, tmp_path, monkeypatch):
    package, variable = PAGES[page]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    if variable is not None and os.environ.get(variable) != "1":
        pytest.skip(f"set {variable}=1 to run it")
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "page"}
    for block in blocks(page):
        exec(compile(block, page, "exec"), scope)


def test_pages_say_what_they_need():
    for page, (package, _) in PAGES.items():
        assert blocks(page), page
        extra = "stan" if package == "httpstan" else package
        assert f"extra `{extra}`" in (DOCS / page).read_text()
