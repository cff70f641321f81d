"""VBMC: evidence and posterior of ten known targets against evaluations and seconds.

The targets and their exact values are in `experiments.problems.known_posteriors`, the records in `runs`.
Values alone, values with gradients, noisy values on one target and, where the group `peers` is installed,
PyVBMC with its default options in the same run.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import Column, last_records, of_all, summary
from experiments.vbmc.runs import (
    GRADIENTS,
    NOISY,
    PEER,
    PROBLEMS,
    SIZE,
    VALUES,
    WITHIN,
    covered,
    ours,
    peer_installed,
    problem_named,
    pyvbmc,
)

__all__ = ["PEER_EVALUATIONS", "experiment"]

_STEPS = (15, 20, 25, 30, 40, 50, 65, 80, 95, 115, 145, 160)
PEER_EVALUATIONS = {
    "Rosenbrock 2": 80, "Rosenbrock 4": 115, "Rosenbrock 6": 160,
    "cigar 2": 115, "cigar 4": 90, "cigar 6": 145,
    "lumpy 2": 65, "lumpy 4": 95, "bounded banana": 85, "logistic 5": 120,
}  # fmt: skip
"""The number of evaluations of PyVBMC until it stops: our runs end there too, if they do not stop before."""
_NOISE, _MOST_NOISY = 1.0, 150
"""nats, on Rosenbrock 2, and its number of evaluations."""
_QUICK = ("Rosenbrock 2",)
_LEAST = 1e-5


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each method on each target."""
    methods: Sequence[str] = (VALUES, GRADIENTS, *((PEER,) if peer_installed() and not quick else ()))
    chosen = [
        (name, method, [12, 20] if quick else _up_to(PEER_EVALUATIONS[name]))
        for name in (_QUICK if quick else PROBLEMS)
        for method in methods
    ]
    if not quick:
        chosen.append(("Rosenbrock 2", NOISY, _up_to(_MOST_NOISY)))
    return [
        Case(f"{name}: {method}", {"problem": name, "method": method, "budgets": budgets})
        for name, method, budgets in chosen
    ]


def _up_to(last: int) -> list[int]:
    return [n for n in _STEPS if n < last] + [last]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the rows of `runs`."""
    problem = problem_named(case.settings["problem"])
    method, budgets = case.settings["method"], case.settings["budgets"]
    if method == PEER:
        found = pyvbmc(problem, seed)
    else:
        noise_sd = _NOISE if method == NOISY else None
        found = ours(problem, budgets, seed, gradients=method == GRADIENTS, noise_sd=noise_sd)
    return found.assign(size=found["error"].abs().clip(lower=_LEAST))


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the three distances against evaluations and seconds."""
    return [_against(results, "n", "evaluations"), _against(results, "seconds", "seconds")]


def _against(results: pd.DataFrame, x: str, label: str) -> Drawing:
    problems = list(results["problem"].unique())
    measures = {"size": "|error of ln Z| (nats)", "mmtv": "MMTV", "gskl": "gsKL (nats)"}
    figure, axes = drawing.figure(len(problems), 3, size=(3.0, 2.1))
    lines = drawing.line_styles(results["method"])
    for i, problem in enumerate(problems):
        rows = results[results["problem"] == problem]
        for j, (measure, title) in enumerate(measures.items()):
            drawing.curves(
                axes[i, j], rows, x, measure, by="method", lines=lines, y_scale="log",
                x_scale="log" if x == "seconds" else "linear",
                x_label=label if i == len(problems) - 1 else "", y_label=title,
            )  # fmt: skip
            axes[i, j].set_title(problem)
    drawing.legend_below(figure, axes)
    caption = f"Distance from the truth against {label}. {drawing.band_caption(results)}"
    return Drawing(f"against-{label}", figure, caption)


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the end of each run, and whether its standard deviation is calibrated."""
    last = covered(last_records(results.sort_values("n"), ("problem", "method")))
    last = last.assign(overhead=1e3 * last["seconds"] / last["n"])
    places = {name: i for i, name in enumerate(PROBLEMS)}
    last = last.sort_values(["problem", "method"], key=lambda names: names.map(lambda x: places.get(x, x)))
    columns: dict[str, Column] = {
        "evaluations": ("n", "median", ".0f"), "ms each": ("overhead", "median", ".0f"), **SIZE,
        "sd": ("sd", "median", ".2g"), "MMTV": ("mmtv", "median", ".2g"), "gsKL": ("gskl", "median", ".2g"),
        "converged": ("converged", of_all, ""), **WITHIN,
    }  # fmt: skip
    return [
        Table(
            "ends",
            summary(last, {"problem": "problem", "method": "method"}, columns),
            "The ends of the runs: medians over seeds; ms of overhead for each evaluation.",
        ),
        Table(
            "covered",
            summary(last, {"method": "method"}, WITHIN),
            "All targets together: errors of ln Z in units of the stated sd.",
        ),
    ]


def _judged(results: pd.DataFrame) -> pd.DataFrame:
    """The ends of our runs from exact values."""
    last = covered(last_records(results.sort_values("n"), ("problem", "method")))
    return last[last["method"].isin((VALUES, GRADIENTS))]


_CLAIMS = (
    Statement("7.3.1", "VBMC finds evidence and posterior of known targets from about a hundred evaluations.",
              "the error of ln Z at the end is at most .1 nats",
              "size", level=0.1, shown="error", rows=_judged),
    Statement("7.3.1", "It states its error.", "the error is within three stated standard deviations",
              "within 3", level=1.0, higher=True, shown="share within", rows=_judged),
)  # fmt: skip


experiment = Experiment(
    name="vbmc-targets",
    title="VBMC: evidence and posterior of known targets",
    summary="""How many evaluations and seconds does an accurate evidence and posterior take? Rosenbrock,
        correlated Gaussians, mixtures, a bounded banana and a logistic regression in 2 to 6
        dimensions, from values and from values with gradients, beside PyVBMC where it is installed.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
    seeds=5,
    quick_seeds=1,
)
