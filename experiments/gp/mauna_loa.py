"""Carbon dioxide on Mauna Loa: a composite kernel, forecasts beyond 1995, and its components.

Monthly means of the weekly record that statsmodels holds (1958 to 2001; Keeling and Whorf), modelled
as Rasmussen & Williams do (2006, section 5.4.3):

    f = constant + trend + season + irregularities + weather,
    k = SE + Periodic(1 year) x SE + RationalQuadratic + SE,      y = f + noise.

The hyperparameters are fitted to the months before the cut, from Rasmussen & Williams' values and
others, and the months after it are predicted. Two predictions are compared: at the optimum of the
hyperparameters, and averaged over their posterior (`gp.marginalise`). With z the error of a prediction
in its own standard deviations, a calibrated forecast has a root mean square of z near 1 and 95 % of |z|
below 1.96. Errors of successive months are correlated, so that a sequence of seven years has few independent
errors.

For every term of the sum, `gp.components` gives its posterior mean and standard deviation.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np
import pandas as pd

import gp
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from gp import kernels

__all__ = ["PREDICTIONS", "TERMS", "experiment", "monthly_means"]

TERMS = ("trend", "season", "irregularities", "weather")
PREDICTIONS = ("at the optimum", "marginalised")


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return the composite kernel, and beside it a squared exponential alone.

    In the quick version every fifth month is used: five and twelve have no common divisor, so that
    each month of the year is seen, and it ends in 1991.
    """
    common = {"until": 1991.0 if quick else 1995.0, "every": 5 if quick else 1, "sets": 16 if quick else 32}
    return [
        Case("composite", {"kernel": "composite", **common}),
        Case("squared exponential", {"kernel": "squared exponential", **common}),
    ]


def monthly_means() -> tuple[Any, Any]:
    """Return times (n,), in years, mid-month, and concentrations (n,), in parts per million."""
    from statsmodels.datasets import co2

    months = co2.load_pandas().data["co2"].resample("MS").mean().dropna()
    index = pd.DatetimeIndex(months.index)
    return np.asarray(index.year + (index.month - 0.5) / 12, dtype=float), months.to_numpy(dtype=float)


def _composite() -> kernels.Kernel:
    """Return Rasmussen & Williams' kernel, at the values that they found (years, ppm)."""
    trend = kernels.SquaredExponential(67.0, 66.0**2)
    season = kernels.Periodic(1.3, 1.0, 2.4**2) * kernels.SquaredExponential(90.0)
    irregularities = kernels.RationalQuadratic(1.2, 0.66**2, alpha=0.78)
    return trend + season + irregularities + kernels.SquaredExponential(0.13, 0.18**2)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return predictions, components and hyperparameters, one under the other (column `part`)."""
    s = case.settings
    time, y = monthly_means()
    seen = time < s["until"]
    is_composite = s["kernel"] == "composite"
    posterior = gp.fit(
        time[seen][:: s["every"], None],
        y[seen][:: s["every"]],
        _composite() if is_composite else None,
        max_iterations=400,
        seed=seed,
    )
    marginal = gp.marginalise(posterior, s["sets"], seed)
    noise = float(sum(w * p.noise for w, p in zip(marginal.weights, marginal.posteriors, strict=True)))
    parts = [
        _prediction(PREDICTIONS[0], posterior, float(posterior.noise), time, y),
        _prediction(PREDICTIONS[1], marginal, noise, time, y),
    ]
    if is_composite:
        for name, component in zip(TERMS, gp.components(posterior), strict=True):
            mean, variance = component.mean_and_variance(time[:, None])
            parts.append(pd.DataFrame({"part": name, "time": time, "mean": mean, "sd": np.sqrt(variance)}))
    frame = pd.concat([*parts, _hyperparameters(posterior)], ignore_index=True)
    return frame.assign(effective_size=marginal.effective_size)


def _prediction(
    name: str, posterior: gp.Posterior | gp.MarginalPosterior, noise: float, time: Any, y: Any
) -> pd.DataFrame:
    mean, variance = posterior.mean_and_variance(time[:, None])
    return pd.DataFrame({"part": name, "time": time, "y": y, "mean": mean, "sd": np.sqrt(variance + noise)})


def _hyperparameters(posterior: gp.Posterior) -> pd.DataFrame:
    found = posterior.hyperparameters
    assert found is not None  # gp.fit returns hyperparameters
    undetermined = set(found.reasons)
    return pd.DataFrame(
        {
            "part": "hyperparameters",
            "name": found.names,
            "value": found.values,
            "sd": found.sd,
            "determined": [0.0 if name in undetermined else 1.0 for name in found.names],
            "log_evidence": found.log_evidence,
        }
    )


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the forecast, its errors, and the components."""
    first = results[results["seed"] == results["seed"].min()]
    rows = first[first["case"] == "composite"]
    return [_draw_forecast(rows), _draw_components(rows)] if len(rows) else []


def _draw_forecast(rows: pd.DataFrame) -> Drawing:
    until = float(rows["until"].iloc[0])
    blue, red = drawing.COLOURS[:2]
    figure, axes = drawing.figure(1, 2, size=(4.4, 3.2))
    whole, errors = axes[0]
    for part, colour in zip(PREDICTIONS, (blue, red), strict=True):
        shown = rows[(rows["part"] == part) & (rows["time"] >= until)]
        for ax, offset in ((whole, 0.0), (errors, shown["y"])):
            ax.plot(shown["time"], shown["mean"] - offset, color=colour, lw=1.2, label=part)
            _band(ax, shown["time"], shown["mean"] - offset, shown["sd"], colour)
    data = rows[rows["part"] == PREDICTIONS[0]]
    recent = data[data["time"] >= until - 7]
    whole.plot(recent["time"], recent["y"], ".", ms=3, color=drawing.COLOURS[4], label="monthly means")
    whole.axvline(until, color="grey", lw=0.8, linestyle="--")
    errors.axhline(0, color="black", lw=0.8)
    whole.set_ylabel("CO2 (ppm)")
    errors.set_ylabel("prediction less truth (ppm)")
    for ax in (whole, errors):
        ax.set_xlabel("year")
    drawing.legend_below(figure, axes)
    caption = (
        f"Forecast of the composite kernel, fitted to the months before {until:.0f}. Left: with the monthly "
        "means, also those that were held out. Right: its error. Bands: two standard deviations of a month's "
        "mean."
    )
    return Drawing("forecast", figure, caption)


def _draw_components(rows: pd.DataFrame) -> Drawing:
    until = float(rows["until"].iloc[0])
    figure, axes = drawing.figure(2, 2, size=(4.0, 2.3))
    for ax, name, colour in zip(axes.flat, TERMS, drawing.COLOURS, strict=False):
        part = rows[rows["part"] == name]
        ax.plot(part["time"], part["mean"], color=colour, lw=1.0)
        _band(ax, part["time"], part["mean"], part["sd"], colour)
        ax.axvline(until, color="grey", lw=0.8, linestyle="--")
        ax.set_title(name)
        ax.set_ylabel("ppm")
        ax.set_xlabel("year")
    caption = (
        "The posterior of each term of the kernel: mean and two standard deviations. The means "
        "and the constant add up to the posterior mean; the bands of trend and season include a constant "
        f"that the data do not divide between them. Data end at the dashed line ({until:.0f})."
    )
    return Drawing("components", figure, caption)


def _band(ax: Any, x: Any, mean: Any, sd: Any, colour: str) -> None:
    ax.fill_between(x, mean - 2 * sd, mean + 2 * sd, color=colour, alpha=0.15, lw=0)


def _tables(results: pd.DataFrame) -> list[Table]:
    """Tabulate the forecasts' errors, and the hyperparameters of the composite kernel."""
    first = results[results["seed"] == results["seed"].min()]
    lines = [
        {"kernel": case, "prediction": part, **_scores(rows)}
        for (case, part), rows in first.groupby(["case", "part"], sort=False)
        if part in PREDICTIONS
    ]
    scores = Table(
        "forecast",
        pd.DataFrame(lines),
        "Months after the cut: z is the error in predicted standard deviations; the density is that of a "
        "month's mean.",
    )
    return [scores, _hyperparameter_table(first[first["case"] == "composite"])]


def _scores(rows: pd.DataFrame) -> dict[str, object]:
    ahead = rows[rows["time"] >= rows["until"]]
    error, sd = (ahead["y"] - ahead["mean"]).to_numpy(), ahead["sd"].to_numpy()
    z = error / sd
    density = np.mean(0.5 * z**2 + np.log(sd) + 0.5 * log(2 * pi))
    return {
        "months": len(ahead),
        "RMSE (ppm)": round(float(np.sqrt(np.mean(error**2))), 2),
        "mean error (ppm)": round(float(error.mean()), 2),
        "mean predicted sd (ppm)": round(float(sd.mean()), 2),
        "mean z": round(float(z.mean()), 2),
        "root mean square z": round(float(np.sqrt(np.mean(z**2))), 2),
        "in the 95 % band": f"{np.mean(np.abs(z) < 1.96):.0%}",
        "negative log density (nats)": round(float(density), 2),
    }


def _hyperparameter_table(rows: pd.DataFrame) -> Table:
    shown = rows[rows["part"] == "hyperparameters"]
    frame = pd.DataFrame(
        {
            "hyperparameter": shown["name"],
            "value": [f"{value:.4g}" for value in shown["value"]],
            "sd of its logarithm": [f"{sd:.2g}" for sd in shown["sd"]],
            "determined by the data": ["yes" if d else "no" for d in shown["determined"]],
        }
    )
    evidence = shown["log_evidence"].max()
    caption = (
        f"Hyperparameters of the composite kernel (years, ppm); log evidence {evidence:.2f} nats. The "
        f"weights of the sets that are averaged over are as of {rows['effective_size'].max():.1f} equal ones."
    )
    return Table("hyperparameters", frame, caption)


def _ahead(results: pd.DataFrame) -> pd.DataFrame:
    """Squared errors, and how far the root mean square of z is from 1, of each forecast."""
    rows = results[results["part"].isin(PREDICTIONS) & (results["time"] >= results["until"])]
    error = rows["y"] - rows["mean"]
    z = error / rows["sd"]
    found = rows.assign(error=error**2, z=z**2, outside=(z.abs() > 1.96) * 1.0)
    columns = ["error", "z", "outside"]
    found = found.groupby(["case", "part", "seed"], sort=False)[columns].mean().reset_index()
    return found.assign(name=found["case"] + ", " + found["part"])


_CLAIMS = (
    Statement("7.1", "A composite kernel forecasts better than a squared exponential.",
              "its mean squared error is less than a quarter",
              "error", {f"composite, {one}": [f"squared exponential, {one}"] for one in PREDICTIONS},
              factor=0.25, shown="mean squared error", rows=_ahead, statistic="mean"),
    Statement("7.1", "The forecast of the composite kernel states its error.",
              "at most 15 % of the months are outside of the 95 % band",
              "outside", [f"composite, {one}" for one in PREDICTIONS], level=0.15, shown="share outside",
              rows=_ahead, statistic="mean"),
    Statement("7.1", "An average over hyperparameters states its error better than their optimum does.",
              "the mean square of z is lower",
              "z", {f"composite, {PREDICTIONS[1]}": [f"composite, {PREDICTIONS[0]}"]}, shown="mean square z",
              rows=_ahead, statistic="mean"),
)  # fmt: skip


experiment = Experiment(
    name="mauna-loa",
    title="Carbon dioxide on Mauna Loa",
    summary="""How well does a Gaussian process with a composite kernel, fitted to the monthly means before
        1995, forecast the seven years after? The components show which terms of the kernel the forecast and
        its uncertainty are due to.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS, by="name"),
    seeds=1,
    quick_seeds=1,
)
