"""What is said of the package in several files is the same in each."""

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def text(name: str) -> str:
    return (ROOT / name).read_text()


def test_the_version_is_the_same_everywhere():
    version = PROJECT["project"]["version"]
    assert re.search(r"^version: (.*)$", text("CITATION.cff"), re.M)[1] == version
    assert re.search(r"^  version: (.*)$", text("conda/recipe.yaml"), re.M)[1] == version


def test_the_conda_recipe_has_the_dependencies_of_the_package():
    run = text("conda/recipe.yaml").split("  run:\n")[1].split("\n\n")[0]
    found = {tuple(line.strip(" -").split()) for line in run.splitlines()}
    assert ("python", PROJECT["project"]["requires-python"]) in found
    needed = {tuple(re.split("(?=>=)", one)) for one in PROJECT["project"]["dependencies"]}
    assert {one for one in found if one[0] != "python"} == needed
    assert f"- bqvi = {PROJECT['project']['scripts']['bqvi']}" in text("conda/recipe.yaml")


def test_the_archive_says_what_the_package_says():
    archive = json.loads(text(".zenodo.json"))
    assert archive["description"] == PROJECT["project"]["description"]
    assert archive["keywords"] == PROJECT["project"]["keywords"]
    assert archive["license"] == PROJECT["project"]["license"]


def test_classifiers_are_the_versions_that_are_tested():
    prefix = "Programming Language :: Python :: 3."
    stated = [one.removeprefix(prefix) for one in PROJECT["project"]["classifiers"] if one.startswith(prefix)]
    tested = re.search(r"^ +python: (\[.*\])$", text(".github/workflows/ci.yml"), re.M)[1]
    assert [f"3.{minor}" for minor in stated] == json.loads(tested)


def test_the_lock_has_the_pinned_versions_with_checksums():
    """`requirements.lock` names no registry, and nothing that `constraints.txt` has in another version."""
    pinned = dict(line.split("==") for line in text("constraints.txt").splitlines() if "==" in line)
    locked = dict(re.findall(r"^([a-z0-9-]+)==([^ ;]+)", text("requirements.lock"), re.M))
    names = {name: name.lower().replace("_", "-") for name in pinned}
    assert locked.keys() >= {"numpy", "scipy", "torch"}
    differ = {n for n, version in pinned.items() if locked.get(names[n], version) != version}
    assert not differ
    assert "://" not in text("requirements.lock")
    assert all("--hash=sha256:" in part for part in re.split(r"\n(?=\S)", text("requirements.lock").strip()))
