"""What is said of the package in several files is the same in each."""

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def text(name: str) -> str:
    return (ROOT / name).read_text()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.lower())


def first(requirement: str) -> str:
    return normal(re.match(r"[\w.-]+", requirement)[0])


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


def test_lock_and_constraints_have_the_same_versions():
    locked: dict[str, set[str]] = {}
    for package in tomllib.loads(text("uv.lock"))["package"]:
        locked.setdefault(package["name"], set()).add(package["version"])
    pinned = re.findall(r"^([\w.-]+)==(\S+)$", text("constraints.txt"), re.M)
    assert {name: version for name, version in pinned if version not in locked[normal(name)]} == {}


def test_the_lock_has_the_requirements_of_the_project():
    (project,) = (p for p in tomllib.loads(text("uv.lock"))["package"] if p["name"] == "bqvi")
    for group, needed in PROJECT["dependency-groups"].items():
        names = {first(one) for one in needed if isinstance(one, str)}
        assert names <= {one["name"] for one in project["metadata"]["requires-dev"][group]}
    for needed in PROJECT["project"]["optional-dependencies"].values():
        found = {one["name"] for one in project["metadata"]["requires-dist"]}
        assert {first(one) for one in needed} <= found | {"bqvi"}


def test_the_lock_names_the_public_registry_alone():
    hosts = set(re.findall(r"https?://[^/\"]+", text("uv.lock")))
    assert hosts == {"https://pypi.org", "https://files.pythonhosted.org"}
