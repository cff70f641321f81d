"""Importance-weighted bounds: their gradient by Bayesian quadrature as a plug-in.

The bound of L draws is not linear in the log joint, so a process can only be plugged in
(`importance_quadrature`). At q of the start and midway, with n evaluations: the mean of n / L
doubly reparameterised estimates (DReG), against a process given the same number of gradients, or of values.
The reference is DReG itself on `_GROUPS` groups of L draws.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import torch

from bqvi.gradients import BayesianQuadrature, DReG
from bqvi.gradients.designs import Independent
from bqvi.gradients.gradient import Batch
from bqvi.gradients.whitened import WhitenedFrame, WhitenedMoments
from experiments.gradients.importance_quadrature import ImportanceQuadrature
from experiments.gradients.references import flat, place, target_named, whitened
from experiments.gradients.runs import without_gradient
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table, grid
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles

__all__ = ["experiment"]

_NAMES = ("banana", "logistic", "mixture", "wine", "schools-centred", "schools-noncentred")
_DREG = "DReG"
_METHODS = (_DREG, "BQ plug-in, gradients", "BQ plug-in, values")
_LINE_STYLES = drawing.line_styles(_METHODS)
_SAMPLES = 5
_SIZES = (10, 20)
_GROUPS = 2**14
_BLOCK = 2**12
_NO_DATA = Batch(None, 0)


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each method at each place of each target."""
    names, places = (("banana",), ("midway",)) if quick else (_NAMES, ("start", "midway"))
    return grid("{target}, {place}: {method}", target=names, place=places, method=_METHODS)


@cache
def _reference(name: str, where: str) -> np.ndarray:
    """The whitened gradient of the bound, (D + D (D + 1) / 2,)."""
    target, frame = target_named(name), WhitenedFrame.of(place(name, where))
    rng, d = np.random.default_rng(20240301), target_named(name).dimension
    mean, slopes = np.zeros(d), np.zeros((d, d))
    groups = _GROUPS // 4 if name == "mixture" else _GROUPS
    for _ in range(0, groups, _BLOCK):
        noise = rng.standard_normal((_BLOCK * _SAMPLES, d))
        theta = torch.tensor(frame.points(noise), requires_grad=True)
        f = target.log_density(theta)
        (gradient,) = torch.autograd.grad(f.sum(), theta)
        log_weights = f.detach().numpy() + 0.5 * np.square(noise).sum(1)
        v = torch.softmax(torch.from_numpy(log_weights.reshape(-1, _SAMPLES)), 1).numpy().reshape(-1, 1)
        y = np.square(v) * (gradient.numpy() @ frame.scale + noise)
        mean += y.sum(0) / groups
        slopes += y.T @ noise / groups
    return flat(WhitenedMoments(mean, 0.5 * (slopes + slopes.T)))


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the squared error of the whitened gradient at each n."""
    name, where, method = (case.settings[key] for key in ("target", "place", "method"))
    q, truth = place(name, where), _reference(name, where)
    target, rows = target_named(name), []
    for n in _SIZES:
        rng = np.random.default_rng([seed, n])
        if method == _DREG:
            parts = [DReG(_SAMPLES)(target.model(), q, _NO_DATA, rng) for _ in range(n // _SAMPLES)]
            found = np.mean([whitened(q, q.gradient_to_natural(part.values)) for part in parts], axis=0)
        else:
            values = method.endswith("values")
            kind = "auto" if values else "derivative"  # with values there is only one kind
            process = BayesianQuadrature(n, Independent(), memory=0, process=kind)
            plugged = ImportanceQuadrature(_SAMPLES, process, groups=2000)
            model = without_gradient(target) if values else target.model()
            found = whitened(q, plugged(model, q, _NO_DATA, rng).values)
        rows.append({"n": n, "squared": float(np.square(found - truth).sum())})
    return pd.DataFrame(rows)


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw squared errors against n."""
    names, places = list(results["target"].unique()), list(results["place"].unique())
    figure, axes = drawing.figure(len(places), len(names), size=(2.4, 2.2), sharex=True)
    for row, where in zip(axes, places, strict=True):
        for ax, name in zip(row, names, strict=True):
            rows = results[(results["target"] == name) & (results["place"] == where)]
            drawing.curves(
                ax, rows, "n", "squared", by="method", lines=_LINE_STYLES, steps=False, y_scale="log",
                x_label="evaluations", y_label="",
            )  # fmt: skip
            ax.set_title(f"{name}, {where}")
        row[0].set_ylabel("squared error")
    drawing.legend_below(figure, axes)
    caption = (
        f"Squared error of the whitened gradient of the bound of L = {_SAMPLES} draws, from n evaluations. "
        f"{drawing.band_caption(results)}"
    )
    return [Drawing("errors", figure, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate gains over DReG."""
    keys = ["target", "place", "n"]
    typical = results[results["method"] == _DREG].groupby(keys)["squared"].mean()
    index = pd.MultiIndex.from_frame(results[keys])
    rows = results.assign(gain=typical.reindex(index).to_numpy() / results["squared"])
    frame = quartiles(rows, {"gain": "MSE(DReG) / squared error"}, by=("target", "place", "n", "method"))
    mean = rows.groupby(["target", "place", "n", "method"], sort=False)["squared"].mean()
    against = [key[:3] for key in mean.index]
    frame["MSE(DReG) / MSE"] = [f"{typical[key] / m:.3g}" for key, m in zip(against, mean, strict=True)]
    return [Table("gains", frame, "Median [quartiles] over seeds, and the ratio of the means.")]


_CLAIMS = tuple(
    Statement("7.3.2",
              f"With quadrature, estimators of lower variance as DReG become more accurate: from {kind}.",
              "its squared error at the last n is below that of DReG's draws", "squared",
              {f"BQ plug-in, {kind}": [_DREG]}, rows=lambda found: found[found["n"] == found["n"].max()])
    for kind in ("gradients", "values")
)  # fmt: skip


experiment = Experiment(
    name="bq-importance",
    title="Importance-weighted bounds by Bayesian quadrature",
    summary="""How accurate is the gradient of the importance-weighted bound with a process in the place of
    the log joint, beside doubly reparameterised gradients with as many evaluations? Weights are
    exponentials, so errors of a process matter where q has mass and no node is near: given gradients it is
    more accurate, most where few nodes determine the log joint; from values alone it is less accurate while
    n is about D.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="method", each=("target", "place")),
)
