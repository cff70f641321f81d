"""A discrete latent variable: the score function, and Gumbel-softmax with its bias and variance.

    p(z) = 1 / K,   p(x | z) = N(x; mu_z, I),   q(z | x) = Cat(softmax(a))

The gradient of E_q[ln p(x | z)] in a is a sum over K terms and therefore known. Gumbel-softmax replaces z by
a point y of the simplex, of `torch.distributions.RelaxedOneHotCategorical` at a temperature, and ln p(x | z)
by ln N(x; sum_k y_k mu_k, I), which has the same value at the corners. It is differentiated along the path.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.distributions import RelaxedOneHotCategorical

from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles

__all__ = ["exact", "experiment", "relaxed", "scores"]

_K, _DRAWS = 5, 10
"""Categories, and draws of an estimate."""
_REPEATS, _QUICK_REPEATS = 20_000, 2000
_TEMPERATURES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_SCORE, _BASELINE = "score", "score, baseline"


def _gumbel(temperature: float) -> str:
    return f"Gumbel-softmax, {temperature:g}"


def _cases(quick: bool, _: Resources) -> list[Case]:
    repeats = _QUICK_REPEATS if quick else _REPEATS
    score = [Case(name, {"temperature": 0.0, "repeats": repeats}) for name in (_SCORE, _BASELINE)]
    return [*score, *(Case(_gumbel(t), {"temperature": t, "repeats": repeats}) for t in _TEMPERATURES)]


def _problem(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """x (2,), mu (K, 2) and a (K,), in double precision."""
    rng = np.random.default_rng(seed)
    parts = 1.5 * rng.standard_normal(2), 1.5 * rng.standard_normal((_K, 2)), rng.standard_normal(_K)
    return tuple(torch.as_tensor(part) for part in parts)  # type: ignore[return-value]


def exact(x: Tensor, mu: Tensor, logits: Tensor) -> Tensor:
    """The gradient (K,) at a datum ``x`` (2,), for centres ``mu`` (K, 2) and ``logits`` (K,)."""
    values, weights = -0.5 * (x - mu).square().sum(1), torch.softmax(logits, 0)
    return weights * (values - weights @ values)


def scores(x: Tensor, mu: Tensor, logits: Tensor, repeats: int, baseline: bool, seed: int) -> Tensor:
    """Estimates by the score, (repeats, K), with the mean of the other draws as ``baseline`` or without.

    ``x``, ``mu`` and ``logits`` are as of `exact`.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = torch.softmax(logits, 0)
    z = torch.multinomial(weights, repeats * _DRAWS, True, generator=generator).reshape(repeats, _DRAWS)
    values = -0.5 * (x - mu).square().sum(1)[z]
    if baseline:
        values = values - (values.sum(1, keepdim=True) - values) / (_DRAWS - 1)
    return (values[:, :, None] * (torch.eye(_K, dtype=x.dtype)[z] - weights)).mean(1)


def relaxed(x: Tensor, mu: Tensor, logits: Tensor, repeats: int, temperature: float, seed: int) -> Tensor:
    """Estimates by Gumbel-softmax at a ``temperature``, (repeats, K), of ``x``, ``mu`` and ``logits``."""
    each = logits.expand(repeats, _DRAWS, _K).clone().requires_grad_()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        y = RelaxedOneHotCategorical(torch.tensor(temperature, dtype=x.dtype), logits=each).rsample()
    value = -0.5 * (x - y @ mu).square().sum(2)
    return torch.autograd.grad(value.sum(), each)[0].mean(1)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return squared bias, variance and their sum, relative to the squared norm of the gradient."""
    chosen, problem = case.settings, _problem(seed)
    if chosen["temperature"]:
        found = relaxed(*problem, chosen["repeats"], chosen["temperature"], seed)
    else:
        found = scores(*problem, chosen["repeats"], case.name == _BASELINE, seed)
    truth = exact(*problem)
    size, variance = truth.square().sum(), found.var(0).sum()
    # the mean of the estimates is off by its own noise, which is subtracted
    bias = ((found.mean(0) - truth).square().sum() - variance / len(found)).clamp(min=0.0)
    parts = {"bias": bias / size, "variance": variance / size, "error": (bias + variance) / size}
    return pd.DataFrame([{"iteration": 0, "elbo": 0.0} | {k: v.item() for k, v in parts.items()}])


def _draw(results: pd.DataFrame) -> list[Drawing]:
    made, axes = drawing.figure(1, 3, size=(2.9, 2.7), sharey=True)
    path = results[results["temperature"] > 0.0]
    lines = drawing.line_styles(("Gumbel-softmax", _SCORE, _BASELINE))
    least = 1e-5
    titles = {"bias": "squared bias", "variance": "variance", "error": "their sum"}
    for ax, (column, title) in zip(axes.flat, titles.items(), strict=True):
        rows = path.assign(case="Gumbel-softmax", **{column: path[column].clip(lower=least)})
        label = "over the squared gradient" if ax is axes[0, 0] else ""
        drawing.curves(ax, rows, "temperature", column, x_scale="log", y_scale="log", lines=lines,
                       steps=False, y_label=label)  # fmt: skip
        for name in (_SCORE, _BASELINE):
            middle = max(results[results["case"] == name][column].median(), least)
            ax.axhline(middle, color=lines[name].colour, ls=lines[name].dashes, label=name)
        ax.set_title(title)
    drawing.mark_ends(axes.flat, least)
    drawing.legend_below(made, axes)
    caption = (
        f"The gradient of E[ln p(x | z)] in the logits of q(z | x), K = {_K}, from {_DRAWS} draws. Lines "
        f"without a "
        f"temperature: medians. Biases below {least:g} of the squared gradient are drawn there. "
        f"{drawing.band_caption(path)}"
    )
    return [Drawing("temperature", made, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    columns = {"bias": "squared bias", "variance": "variance", "error": "mean squared error"}
    caption = "Over the squared norm of the gradient. Median [quartiles] over problems."
    return [Table("errors", quartiles(results, columns), caption)]


_PATHS = [_gumbel(t) for t in _TEMPERATURES]
_LOW = "A low temperature has less bias and more variance."
_SCORES = "The score function is without bias, and has the higher variance."
_WORDS = (
    "its squared bias is below .001 of the squared gradient; with a baseline its variance is above that of "
    "Gumbel-softmax"
)
_CLAIMS = (
    Statement("002, 9.6.3", _LOW, "at temperature .1, against 1", "bias", {_gumbel(0.1): [_gumbel(1.0)]},
              setting="bias"),
    Statement("002, 9.6.3", _LOW, "", "variance", {_gumbel(1.0): [_gumbel(0.1)]}, setting="variance"),
    Statement("002, 9.6.3", _SCORES, _WORDS, "bias", [_SCORE], level=1e-3, setting="no bias"),
    Statement("002, 9.6.3", _SCORES, "", "variance", dict.fromkeys(_PATHS, (_BASELINE,))),
    Statement("002, 9.6.3", "A relaxation is the better estimate of the gradient.",
              "its mean squared error is lower than the score's with a baseline, from as many draws", "error",
              dict.fromkeys(_PATHS, (_BASELINE,))),
)  # fmt: skip


experiment = Experiment(
    name="amortised-discrete",
    title="A discrete latent variable: score function and Gumbel-softmax",
    summary="""Which gradient has the smaller error where z is discrete: the score function, with and without
    a baseline, or Gumbel-softmax at several temperatures? The exact gradient is known by summing over z.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
)
