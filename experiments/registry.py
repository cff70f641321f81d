"""The experiments by name. A new experiment is a new file and one line in `EXPERIMENTS`.

A module here defines `experiment`, an `Experiment` of the same name; the first line of its
docstring is what `bqvi list` shows. Modules are imported when their experiment is asked for, not
before: listing reads the docstrings from the source, so it does not wait for torch.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
from pathlib import Path

from experiments.experiment import Experiment

EXPERIMENTS: dict[str, str] = {
    "vi-methods": "experiments.vi_methods",
    "cavi-iterates": "experiments.cavi_iterates",
    "gd-schedules": "experiments.gd_schedules",
    "sgd-batch-sizes": "experiments.sgd_batch_sizes",
    "sngd-batch-sizes": "experiments.sngd_batch_sizes",
    "sngd-against-sgd": "experiments.sngd_against_sgd",
    "pathwise-samples": "experiments.pathwise_samples",
    "iwae-samples": "experiments.iwae_samples",
    "domain": "experiments.domain",
    "real-data": "experiments.real_data",
    "multinomial-digits": "experiments.multinomial_digits",
    "minibatch-gradients": "experiments.minibatch_gradients",
    "minibatch-runs": "experiments.minibatch_runs",
    "minibatch-scaling": "experiments.minibatch_scaling",
    "minibatch-expensive": "experiments.minibatch_expensive",
    "gp-regression": "experiments.gp_regression",
    "mauna-loa": "experiments.mauna_loa",
    "gp-benchmarks": "experiments.gp_benchmarks",
    "gp-benchmarks-folder": "experiments.gp_benchmarks_folder",
    "gp-cost": "experiments.gp_cost",
    "quadrature-nodes": "experiments.quadrature_nodes",
    "quadrature-error": "experiments.quadrature_error",
    "quadrature-calibration": "experiments.quadrature_calibration",
    "quadrature-cost": "experiments.quadrature_cost",
    "quadrature-evidence": "experiments.quadrature_evidence",
    "quadrature-posteriors": "experiments.quadrature_posteriors",
    "bq-one-shot": "experiments.bq_one_shot",
    "bq-reuse": "experiments.bq_reuse",
    "bq-inference": "experiments.bq_inference",
    "bq-posteriors": "experiments.bq_posteriors",
    "bq-dimensions": "experiments.bq_dimensions",
    "bq-mixture": "experiments.bq_mixture",
    "bq-mixture-q": "experiments.bq_mixture_q",
    "bq-vbmc": "experiments.bq_vbmc",
    "bq-break-even": "experiments.bq_break_even",
    "bq-ablations": "experiments.bq_ablations",
    "bq-importance": "experiments.bq_importance",
    "bq-predator-prey": "experiments.bq_predator_prey",
    "vbmc-targets": "experiments.vbmc_targets",
    "vbmc-posteriors": "experiments.vbmc_posteriors",
    "vbmc-2d": "experiments.vbmc_2d",
    "vbmc-robustness": "experiments.vbmc_robustness",
}


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
