"""Gaussian process regression beside scikit-learn and BoTorch, on a folder of sets (--data DIR).

The layout of the folder is that of `experiments.problems.regression_sets`; errors and figures are those of
`experiments.gp.benchmarks`. A seed is a split. Fits take O(n^3), so of a split's training rows at most
`_MOST_ROWS` are used, the same for all packages; all test rows are predicted.
"""

from __future__ import annotations

import pandas as pd

from experiments.gp import benchmarks as gp_benchmarks
from experiments.harness.experiment import Case, Experiment, Resources, looked_for
from experiments.problems import regression_sets
from experiments.problems.array_files import checksum

__all__ = ["experiment"]

_MOST_ROWS = 300


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return one case for each set of the folder and package."""
    assert resources.data is not None  # `needs` requires the folder
    made: list[Case] = []
    for path in looked_for(regression_sets.find, resources.data):
        settings = {
            "file": path.name,
            "sha256": checksum(path),
            "rows": gp_benchmarks.QUICK_ROWS if quick else _MOST_ROWS,
        }
        made += gp_benchmarks.cases_of(path.stem, settings, folder=path.parent)
    return made


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return one row: the errors on split `seed`."""
    assert case.folder is not None  # `_cases` sets it
    data = regression_sets.read(case.folder / case.settings["file"])
    return gp_benchmarks.scores(case, data, seed)


experiment = Experiment(
    name="gp-benchmarks-folder",
    title="Gaussian process regression beside its peers, on your own sets",
    summary=(
        "How accurate is Gaussian process regression with the defaults of gp.fit, of scikit-learn's "
        "GaussianProcessRegressor and of BoTorch's SingleTaskGP, all with the same kernel? On every set of "
        f"the folder that --data names, with at most {_MOST_ROWS} training rows of each split."
    ),
    cases=_cases,
    run=_run,
    draw=gp_benchmarks.draw,
    tables=gp_benchmarks.tables,
    claims=gp_benchmarks.claims,
    seeds=10,
    quick_seeds=1,
    needs=("data",),
)
