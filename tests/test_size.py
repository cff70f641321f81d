"""The size of the library: lines, constants, arguments and small functions, with caps that are only lowered.

A change that needs more of one of them takes away as much elsewhere; one that takes away lowers the cap to
the figure that is left. Those of the files that a run enters stand in `tests/benchmarks/test_walk.py`.
"""

import ast
import inspect
from pathlib import Path

import pytest

import bqvi

ROOT = Path(__file__).parents[1]
CORE = (
    "bqvi/calls", "bqvi/runs", "bqvi/posterior", "bqvi/variational_bmc", "bqvi/quadrature", "bqvi/inference",
    "bqvi/gradients", "gp", "acquisition/conditioned.py", "acquisition/pointwise.py", "acquisition/search.py",
)  # fmt: skip
"""What all doors use, the engines, processes, and criteria of points."""
APART = (
    "bqvi/gradients/amortised.py", "bqvi/gradients/importance_weighted.py", "bqvi/gradients/pathwise.py",
    "bqvi/gradients/score.py", "bqvi/posterior/export.py", "bqvi/posterior/plots.py",
    "gp/kernels/periodic.py", "gp/regression", "gp/testing.py",
)  # fmt: skip
"""What of these no run of `vbmc`, `integrate` or `fit(method="bq")` imports (`benchmarks/test_walk.py`)."""
CAPS = {
    "lines of bqvi, gp and acquisition": 55_940,
    "lines of the core": 35_731,
    "constants": 229,
    "functions with one caller, in another file": 99,
    "arguments of vbmc": 18,
    "arguments of integrate": 18,
    "arguments of fit": 18,
    "arguments of evidence_bounds": 16,
}


def _files(*folders: str) -> list[Path]:
    """The modules in folders, and those that are named themselves."""
    paths = [ROOT / folder for folder in folders]
    return [path for one in paths for path in (sorted(one.rglob("*.py")) if one.is_dir() else [one])]


def _lines(*folders: str) -> int:
    return sum(path.read_text().count("\n") for path in _files(*folders))


def _constants() -> int:
    """Fields of the records in files, or folders, of settings."""
    settings = [path for path in _files("bqvi", "gp", "acquisition")
                if "settings" in (path.stem, path.parent.name)]  # fmt: skip
    records = [node for path in settings for node in ast.walk(ast.parse(path.read_text()))
               if isinstance(node, ast.ClassDef)]  # fmt: skip
    return sum(isinstance(field, ast.AnnAssign) for record in records for field in record.body)


def _with_one_caller() -> int:
    """Functions of modules, none of them for users, that the library names once, in another file."""
    trees = {path: ast.parse(path.read_text()) for path in _files("bqvi", "gp", "acquisition")}
    named, public = dict[str, list[Path]](), set[str]()
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                named.setdefault(node.id if isinstance(node, ast.Name) else node.attr, []).append(path)
            if path.name == "__init__.py" and isinstance(node, ast.Constant) and isinstance(node.value, str):
                public.add(node.value)
    return sum(
        isinstance(node, ast.FunctionDef)
        and node.name not in public
        and len(named.get(node.name, ())) == 1
        and named[node.name] != [path]
        for path, tree in trees.items()
        for node in tree.body
    )


def sizes() -> dict[str, int]:
    """The figures, by name."""
    doors = (bqvi.vbmc, bqvi.integrate, bqvi.fit, bqvi.evidence_bounds)
    return {
        "lines of bqvi, gp and acquisition": _lines("bqvi", "gp", "acquisition"),
        "lines of the core": _lines(*CORE) - _lines(*APART),
        "constants": _constants(),
        "functions with one caller, in another file": _with_one_caller(),
        **{f"arguments of {door.__name__}": len(inspect.signature(door).parameters) for door in doors},
    }


@pytest.mark.parametrize("name", CAPS)
def test_the_library_does_not_grow(name):
    assert sizes()[name] <= CAPS[name], (
        "take away as much as was added: a cap is never raised. A posterior that fails is mended by the "
        "correction of a fault in the mathematics, by a strategy in the place of another, or by a reason not "
        "to have converged"
    )
