"""Figures and tables that compare runs by what they cost: iterations, seconds, data evaluations."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.harness import drawing, evidence
from experiments.harness.drawing import Panels
from experiments.harness.evidence import LEVEL
from experiments.harness.experiment import Drawing, Table
from experiments.harness.summaries import quartiles

__all__ = ["COSTS", "REFERENCE", "drawing_of", "ends", "figure", "line_styles", "panel", "part", "table"]

COSTS = ("iteration", "seconds", "evaluations")
REFERENCE = "CAVI"
"""The name of the reference case in most figures: the same model, by coordinate ascent."""
_LEAST_GAP = 1e-3
"""The least ELBO gap that is drawn, nats, so that the best run itself is on the logarithmic axis."""


def figure(
    results: pd.DataFrame,
    *,
    by: str = "case",
    measures: Sequence[str] = ("log_likelihood_error", "elbo_gap"),
    lines: Mapping[Hashable, drawing.LineStyle] | None = None,
    costs: Sequence[str] = COSTS,
) -> tuple[Figure, Panels]:
    """Draw each measure (a row) against each cost (a column), a curve for each value of `by`.

    Parameters
    ----------
    results : DataFrame
        With `elbo_gap` (`evidence.with_gap`) if that is a measure.
    by : str
    measures, costs : sequence of str
    lines : mapping or None
        Line styles by value of `by`.
    """
    made, axes = drawing.figure(len(measures), len(costs), sharey="row")
    chosen = lines if lines is not None else line_styles(results[by])
    for row, measure in zip(axes, measures, strict=True):
        for ax, cost in zip(row, costs, strict=True):
            panel(ax, results, cost, measure, by, chosen)
            if ax is not row[0]:
                ax.set_ylabel("")
        if measure == "elbo_gap":
            drawing.mark_ends(row, _LEAST_GAP)
    drawing.legend_below(made, axes)
    return made, axes


def line_styles(names: Iterable[str]) -> dict[Hashable, drawing.LineStyle]:
    """As `drawing.line_styles`, with one line style for CAVI in all figures."""
    distinct = dict.fromkeys(names)
    reference = [name for name in distinct if name.startswith(REFERENCE)]
    found = drawing.line_styles(name for name in distinct if name not in reference)
    return found | {name: drawing.LineStyle("#000000", ":") for name in reference}


def panel(
    ax: Axes,
    results: pd.DataFrame,
    cost: str,
    measure: str,
    by: str,
    lines: Mapping[Hashable, drawing.LineStyle],
) -> None:
    """Draw one measure against one cost, with the scales that suit them.

    Parameters
    ----------
    ax : the axes. results : the records of runs. cost, measure : the columns that are drawn.
    by : the column of the lines. lines : a line style for each of its values.
    """
    if measure == "elbo_gap":
        shown = results.assign(elbo_gap=results["elbo_gap"].clip(lower=_LEAST_GAP))
        label = "ELBO gap (nats)"
        drawing.curves(ax, shown, cost, measure, by, x_scale="log", y_scale="log", y_label=label, lines=lines)
        return
    drawing.curves(
        ax, results, cost, measure, by, x_scale="log", y_scale="symlog", linthresh=10.0, lines=lines
    )


def part(results: pd.DataFrame, rows: pd.Series) -> pd.DataFrame:
    """Return some cases of `results`, and CAVI on the same data."""
    sizes = results.loc[rows, "n"].unique()
    return results[rows | (results["case"].str.startswith(REFERENCE) & results["n"].isin(sizes))]


def drawing_of(results: pd.DataFrame, name: str, caption: str) -> Drawing:
    """Return the usual figure of error and ELBO gap against the three costs.

    Parameters
    ----------
    results : DataFrame
    name, caption : str
        Of the figure; how to read it is added to the caption.
    """
    made, _ = figure(evidence.with_gap(results, ("seed", "n")))
    return Drawing(name, made, f"{caption} {_how_to_read(results)}")


def _how_to_read(results: pd.DataFrame) -> str:
    """Return the sentences on axes, bands and runs that leave the figure."""
    diverged = results.loc[results["elbo"] == -float("inf")]
    counts = diverged.groupby("case", sort=False)["seed"].nunique()
    outside = ", ".join(f"{case} on {count}" for case, count in counts.items())
    note = f" Diverged, and above the axes from there on: {outside} seeds." if outside else ""
    return (
        "The error's axis is linear within 10 nats of 0 and logarithmic beyond; below 0 the fit is likelier "
        f"than the truth. The ELBO gap is to the best run on the same data; gaps below {_LEAST_GAP:g} are "
        f"drawn as that. Recording is not in the time. {drawing.band_caption(results)}{note}"
    )


def ends(results: pd.DataFrame, level: float = LEVEL) -> pd.DataFrame:
    """Return a row for each run: its end, and its costs until it stays within `level` nats."""
    gaps = evidence.with_gap(results, ("seed", "n"))
    return evidence.runs(gaps, level=level, keep=("elbo_gap", "components"))


def table(results: pd.DataFrame) -> Table:
    """Return what each case ended with, and what it cost to come within `LEVEL` nats and stay there."""
    columns = {
        "log_likelihood_error": "final error (nats)",
        "elbo_gap": "final ELBO gap (nats)",
        "components": "components above 1 %",
        "iterations_to": f"iterations to {LEVEL:g} nats",
        "evaluations_to": "data evaluations to it",
        "seconds_to": "seconds to it",
        "ms_per_iteration": "ms an iteration",
    }
    caption = (
        f"At the end, and the cost until the error stays at or below {LEVEL:g} nats (inf: never). "
        "Median [lower quartile, upper quartile] over seeds."
    )
    return Table("costs", quartiles(ends(results), columns), caption)
