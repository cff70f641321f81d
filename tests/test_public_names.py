"""A name without an underscore is for other modules; a package says in `__all__` what users may use."""

import ast
import importlib

import pytest
from source_index import Module, modules


def astray(module: Module) -> list[str]:
    """Classes that a package defines without an underscore and does not export."""
    defined = [name for name, bound in module.defined.items() if isinstance(bound, ast.ClassDef)]
    return [name for name in defined if not name.startswith("_") and name not in module.exported]


def test_every_class_of_a_package_is_exported_or_private():
    packages = [module for module in modules().values() if module.path.name == "__init__.py"]
    wrong = {module.name: names for module in packages if (names := astray(module))}
    assert not wrong, f"neither in __all__ nor with an underscore: {wrong}"


def test_what_is_exported_exists():
    for module in modules().values():
        if "__getattr__" not in module.defined:
            submodules = {name.removeprefix(f"{module.name}.") for name in modules()}
            missing = set(module.exported) - set(module.defined) - submodules
            assert not missing, f"{module.name}.__all__ names {sorted(missing)}"


def test_nothing_that_is_private_is_imported_by_another_module():
    wrong = [
        f"{module.name}: {node.module}.{alias.name}"
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.module in modules()
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert not wrong


SAME_NAMES = {
    "Constant": "gp.kernels, gp.means, bqvi",
    "DirichletProcessMixture": "bqvi.models, bqvi.sklearn",
    "Gaussian": "gp.measures, bqvi.families",
    "GaussianMixture": "gp.measures, bqvi.families, bqvi.models, bqvi.sklearn",
    "HiddenMarkovModel": "bqvi.models, bqvi.sklearn",
    "Integral": "gp, bqvi",
    "LatentDirichletAllocation": "bqvi.models, bqvi.sklearn",
    "Linear": "gp.kernels, gp.means",
    "Posterior": "gp, bqvi",
    "Product": "gp.kernels, bqvi.families",
    "Uniform": "gp.measures, acquisition.minibatch",
}
"""Classes of one name, each of which users reach by a package that tells them apart."""


def test_one_class_name_means_one_thing():
    where: dict[str, set[str]] = {}
    for module in modules().values():
        for made in module.classes:
            where.setdefault(made.name, set()).add(module.name)
    twice = {name for name, found in where.items() if len(found) > 1}
    assert twice == set(SAME_NAMES)


@pytest.mark.parametrize(("name", "packages"), SAME_NAMES.items())
def test_classes_of_one_name_are_told_apart_by_their_packages(name, packages):
    reached = {id(getattr(importlib.import_module(package), name)) for package in packages.split(", ")}
    assert len(reached) == len(packages.split(", "))
