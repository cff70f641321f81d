"""The experiments by name, as `experiments.catalogue` lists them.

The module of an experiment defines `experiment`, an `Experiment` of the same name; the first line of its
docstring is what `bqvi list` shows. Modules are imported when their experiment is asked for, not
before: listing reads the docstrings from the source, so it does not wait for torch.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
from pathlib import Path

from experiments import catalogue
from experiments.harness.experiment import Experiment

EXPERIMENTS: dict[str, str] = dict(catalogue.EXPERIMENTS)


class UnknownExperimentError(ValueError):
    """No experiment has this name."""


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
    TypeError
        If its module does not define `experiment` of this name.
    """
    module = importlib.import_module(EXPERIMENTS[check(name)])
    experiment = getattr(module, "experiment", None)
    if not isinstance(experiment, Experiment) or experiment.name != name:
        raise TypeError(
            f"{module.__name__} must define `experiment`, an Experiment with name={name!r}; "
            f"found {experiment!r}"
        )
    return experiment


def first_line(name: str) -> str:
    """Return the first line of the docstring of the module of `name`, read without importing it."""
    spec = importlib.util.find_spec(EXPERIMENTS[check(name)])
    if spec is None or spec.origin is None:
        return ""
    doc = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    return (doc or "").partition("\n")[0]
