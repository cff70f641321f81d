"""The experiments by name: those of `experiments.catalogue`, of installed packages, and of modules given.

A package offers experiments as entry points of the group `GROUP`: the name of each, and its module.

    [project.entry-points."bqvi.experiments"]
    my-study = "my_package.my_study"

A module of one's own is named on the command line (`bqvi run --module my_study my-study`), or its file is
(`--module studies/my_study.py`). A name that this package has stays its own.

The module of an experiment defines `experiment`, an `Experiment` of the same name; the first line of its
docstring is what `bqvi list` shows. Modules are imported when their experiment is asked for, not
before: listing reads the docstrings from the source, so it does not wait for torch.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

from experiments import catalogue
from experiments.harness.experiment import Experiment

__all__ = [
    "EXPERIMENTS", "GROUP", "OwnModuleError", "UnknownExperimentError", "add", "check", "first_line", "load",
    "offered",
]  # fmt: skip

GROUP = "bqvi.experiments"


def offered() -> dict[str, str]:
    """Return the experiments of installed packages: the module of each by its name."""
    return {entry.name: entry.module for entry in importlib.metadata.entry_points(group=GROUP)}


EXPERIMENTS: dict[str, str] = {**offered(), **catalogue.EXPERIMENTS}


class UnknownExperimentError(ValueError):
    """No experiment has this name."""


class OwnModuleError(ValueError):
    """A module given by the user cannot be imported, or has no experiment that could be added."""


def add(module: str) -> str:
    """Register the experiment of a module and return its name; the working folder is searched last.

    Parameters
    ----------
    module : str
        Dotted name of a module that defines `experiment`, or the path of its file: the file's folder is then
        searched for modules too, last.

    Raises
    ------
    OwnModuleError
        If there is no such module, it has no `experiment`, or another module has one of this name.
    """
    folder, module = _place(module)
    if not (folder == Path.cwd() and "" in sys.path) and str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        found = getattr(importlib.import_module(module), "experiment", None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the missing module is one that it imports
        raise OwnModuleError(
            f"there is no module {module!r}; give its dotted name, of a file in {Path.cwd()} or on "
            "PYTHONPATH, or the path of its file"
        ) from None
    if not isinstance(found, Experiment):
        raise OwnModuleError(
            f"module {module!r} must define `experiment`, an experiments.harness.experiment.Experiment; "
            f"found {found!r}"
        )
    if EXPERIMENTS.get(found.name, module) != module:
        raise OwnModuleError(
            f"module {module!r} defines an experiment {found.name!r}, a name that "
            f"{EXPERIMENTS[found.name]} has; give it another"
        )
    EXPERIMENTS[found.name] = module
    return found.name


def _place(module: str) -> tuple[Path, str]:
    """The folder that is searched, and the dotted name."""
    path = Path(module)
    if path.suffix != ".py" and len(path.parts) == 1:
        return Path.cwd(), module
    if path.suffix != ".py" or not path.is_file():
        raise OwnModuleError(
            f"there is no file {module!r}; give the path of a .py file, or a module's dotted name"
        )
    if not path.stem.isidentifier():
        raise OwnModuleError(f"the file {module!r} cannot be imported: {path.stem!r} is no name of a module")
    found = sys.modules.get(path.stem) or importlib.util.find_spec(path.stem)
    origin = getattr(found, "__file__", None) or getattr(found, "origin", None)
    if found is not None and (origin is None or Path(origin).resolve() != path.resolve()):
        raise OwnModuleError(
            f"the file {module!r} cannot be imported: {path.stem!r} is {origin or 'built in'}; rename it"
        )
    return path.resolve().parent, path.stem


def check(name: str) -> str:
    """Return `name` if an experiment has it; else raise `UnknownExperimentError` with near ones."""
    if name in EXPERIMENTS:
        return name
    near = difflib.get_close_matches(name, EXPERIMENTS, n=3, cutoff=0.4)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    raise UnknownExperimentError(
        f"unknown experiment {name!r}{hint}; there are: {', '.join(['all', *EXPERIMENTS])}"
    )


def load(name: str) -> Experiment:
    """Import and return the experiment called `name`.

    Raises
    ------
    UnknownExperimentError
        If there is none of this name.
    OwnModuleError
        If an installed package offers it, and its module is not there.
    TypeError
        If its module does not define `experiment` of this name.
    """
    try:
        module = importlib.import_module(EXPERIMENTS[check(name)])
    except ModuleNotFoundError as error:
        if not f"{EXPERIMENTS[name]}.".startswith(f"{error.name}."):
            raise  # the missing module is one that it imports
        raise OwnModuleError(_gone(name)) from None
    experiment = getattr(module, "experiment", None)
    if not isinstance(experiment, Experiment) or experiment.name != name:
        raise TypeError(
            f"{module.__name__} must define `experiment`, an Experiment with name={name!r}; "
            f"found {experiment!r}"
        )
    return experiment


def _gone(name: str) -> str:
    entries = [entry for entry in importlib.metadata.entry_points(group=GROUP) if entry.name == name]
    package = next((entry.dist.name for entry in entries if entry.dist is not None), None)
    return (
        f"there is no module {EXPERIMENTS[name]!r}, which the entry point {name!r} of "
        f"{'an installed package' if package is None else f'the package {package!r}'} names: install that "
        "package again, or uninstall it"
    )


def first_line(name: str) -> str:
    """Return the first line of the docstring of the module of `name`, read without importing it."""
    try:
        spec = importlib.util.find_spec(EXPERIMENTS[check(name)])
    except ModuleNotFoundError:  # the package that would contain it is missing
        spec = None
    if spec is None:
        return f"Cannot be run: {_gone(name)}."
    if spec.origin is None:
        return ""
    doc = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    return (doc or "").partition("\n")[0]
