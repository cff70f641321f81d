"""Imports point downwards only: experiments > bqvi > acquisition > gp."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("gp", "acquisition", "bqvi", "experiments")  # from the ground up
SOURCES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]


def imported_packages(source: str) -> set[str]:
    """First component of every absolute import, wherever in the module it stands."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def forbidden(path: Path) -> tuple[str, ...]:
    layer = path.relative_to(ROOT).parts[0]
    return LAYERS[LAYERS.index(layer) + 1 :]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    upward = imported_packages(path.read_text()) & set(forbidden(path))
    assert not upward, f"{path.relative_to(ROOT)} imports upward: {sorted(upward)}"


def test_the_check_sees_an_upward_import():
    assert "experiments" in imported_packages("def f():\n    from experiments.harness.cli import main\n")
    assert "bqvi" in forbidden(ROOT / "gp" / "kernels.py")
