"""The pages of the site are right: their code runs, and the tests and names that they cite exist. The site
itself is built by `make docs`, where a warning is an error; tutorials are executed there.
"""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [page for folder in (".", "how-to", "derivations") for page in sorted((DOCS / folder).glob("*.md"))]
TUTORIALS = [page for page in sorted((DOCS / "tutorials").glob("*.md")) if page.name != "index.md"]
WITH_CODE = [page for page in PAGES if "```python" in page.read_text()]

NOT_FOR_USERS = {"gp.fixed_points", "gp.regression", "gp.regression.interop"}
"""Packages that the others are made of; `gp` exports what users take from the last two."""


def title(page):
    return str(page.relative_to(DOCS))


@pytest.mark.parametrize("page", WITH_CODE, ids=title)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, str(page), "exec"), scope)


def test_the_tests_that_derivations_cite_exist():
    there = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    cited = {name for page in PAGES for name in re.findall(r"\btest_\w+(?=`)", page.read_text())}
    missing = {name for name in cited if f"def {name}(" not in there}
    assert cited
    assert not missing


def test_each_derivation_names_its_function_and_its_test():
    pages = [page for page in PAGES if page.parent.name == "derivations" and page.stem != "corrections"]
    sections = [
        (title(page), section)
        for page in pages
        for section in re.split(r"^## ", page.read_text(), flags=re.MULTILINE)[1:]
    ]
    assert len(sections) > 30
    for page, section in sections:
        if "$$" in section:
            what = f"{page}: {section.splitlines()[0]}"
            assert re.search(r"Function: .*?\{py:\w+\}`", section, re.DOTALL), what
            assert re.search(r"Test:\s.*?\btest_\w+`", section, re.DOTALL), what


def test_the_names_that_pages_cite_exist():
    for page in [*PAGES, *TUTORIALS]:
        for target in re.findall(r"\{py:\w+\}`([\w.]+)`", page.read_text()):
            assert exists(target), f"{title(page)} names {target}, which is not there"


def exists(target):
    """Whether a dotted name leads to something."""
    parts = target.split(".")
    for depth in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            continue
        for part in parts[depth:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_the_check_of_names_sees_one_that_is_not_there():
    assert exists("gp.Posterior.integral")
    assert not exists("gp.Posterior.antiderivative")


@pytest.mark.parametrize("page", TUTORIALS, ids=title)
def test_a_tutorial_says_when_not_to_use_the_method(page):
    assert re.search(r"^## When not to use", page.read_text(), re.MULTILINE)


def test_every_page_is_in_a_table_of_contents():
    contents = "\n".join(page.read_text() for page in [*PAGES, DOCS / "tutorials" / "index.md"])
    for page in [*PAGES, *TUTORIALS]:
        if title(page) not in ("index.md", "acceptance.md"):
            assert page.stem in contents


PARTS = ("acceptance.md", "changelog.md", "figures.md", "index.md", "peers.md")
"""Files that other pages include, and the first page, which says it in its second paragraph."""


@pytest.mark.parametrize(
    "page", [page for page in [*PAGES, *TUTORIALS] if title(page) not in PARTS], ids=title
)
def test_a_page_says_in_its_first_sentence_for_whom_it_is(page):
    assert re.search(r"^# .+\n+For ", page.read_text(), re.MULTILINE)


def test_pictures_of_readme_and_pages_exist():
    for page in [ROOT / "README.md", *PAGES]:
        for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / picture).is_file(), f"{page.name}: {picture}"


def test_every_public_package_has_a_page_of_the_api():
    listed = (DOCS / "_ext" / "api_pages.py").read_text()
    below = {
        path.parent for top in ("gp", "acquisition", "bqvi") for path in (ROOT / top).rglob("__init__.py")
    }
    packages = {".".join(path.relative_to(ROOT).parts) for path in below} - NOT_FOR_USERS
    assert not {name for name in packages if f'"{name}"' not in listed}


def test_the_overheads_are_those_of_the_last_acceptance_run():
    rows = [line.split("|") for line in (DOCS / "acceptance.md").read_text().splitlines() if "| full" in line]
    head = next(line for line in (DOCS / "acceptance.md").read_text().splitlines() if "| date" in line)
    stored = dict(zip((cell.strip() for cell in head.split("|")), rows[-1], strict=True))
    overhead = {door: re.search(r"([\d.]+) ms", cell)[1] for door, cell in stored.items() if " ms" in cell}
    page = (DOCS / "which-method.md").read_text()
    patterns = {
        "pathwise": r'"pathwise"` \| ([\d.]+) ms',
        "bq": r'"bq"` \| ([\d.]+) ms',
        "integrate": r"integrate` \| ([\d.]+) ms",
        "vbmc": r"vbmc` \| ([\d.]+) ms",
        "vbmc gradients": r"with gradients ([\d.]+) ms",
    }
    for door, pattern in patterns.items():
        found = re.search(pattern, page)
        assert found, door
        assert float(found[1]) == pytest.approx(float(overhead[door]), rel=0.05), door
