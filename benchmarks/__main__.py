"""``python -m benchmarks [NAME ...]``: measured figures with the required bounds, as a table in Markdown.

``--default-threads``: in wall seconds with the threads that a user's machine has, not with one.

``python -m benchmarks acceptance``: each public entry point on known problems, beside a stored run.

``python -m benchmarks claims``, ``starts``: whether "converged" is true, and where runs may begin.

``python -m benchmarks ablate NAME``: runs of `vbmc` beside runs without a mechanism.

``python -m benchmarks golden``: short runs of all doors, compared with those of an earlier commit.
"""

from __future__ import annotations

import importlib
import sys

from benchmarks.paired import printed
from benchmarks.setting import DEFAULT_THREADS, heading, limit_threads

NAMES = (
    "adapters", "cavi", "mixtures", "topics", "stream", "hidden_markov", "array_floors", "sngd", "bq",
    "memory", "minibatch", "acquisition", "quadrature", "quadrature_peers", "vbmc", "vbmc_peers", "vbmc_toys",
    "expectation", "processes", "gp_predict", "gp_fit", "gp_evidence", "gp_scaling", "gp_memory",
    "autoencoder", "data_parallel", "devices",
)  # fmt: skip


def main(names: list[str]) -> int:
    """Print a table; return 1 if a bound is not met, or a figure of acceptance has become worse."""
    if names[:1] in (["ablate"], ["claims"], ["golden"], ["starts"]):
        return int(importlib.import_module(f"benchmarks.{names[0]}").main(names[1:]))
    if names[:1] == ["acceptance"]:
        return int(importlib.import_module("benchmarks.acceptance.command").main(names[1:]))
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    print(f"{heading(names)}\n")
    chosen = (importlib.import_module(f"benchmarks.{name}") for name in names or NAMES)
    return printed(line for module in chosen for line in module.run())


if __name__ == "__main__":
    if DEFAULT_THREADS not in sys.argv[1:]:
        limit_threads()
    sys.exit(main([name for name in sys.argv[1:] if name != DEFAULT_THREADS]))
