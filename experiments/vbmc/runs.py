"""Runs of VBMC on known posteriors, and their records.

A row for each number of evaluations at which a posterior was recorded:

    method  n  seconds  log_evidence  sd  error  mmtv  gskl  converged

    error       log_evidence - ln Z, nats
    sd          its standard deviation, as the method reports it
    mmtv, gskl  distances to the exact posterior (`bqvi.variational_bmc.diagnostics`), from 20,000 draws and
                from moments
    seconds of the method since its start; those of the log joints are negligible

`ours` continues from each budget to the next; the seconds of the distances are not counted. `pyvbmc` is one
run of PyVBMC (Acerbi 2018, 2020; the group `peers`) with its default options, recorded after each of its
iterations. Its log evidence is its ELBO, as it has no other.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

import bqvi
from bqvi.variational_bmc.diagnostics import gskl, mmtv
from experiments.harness import drawing
from experiments.harness.evidence import stays_below
from experiments.harness.summaries import Column, of_all
from experiments.problems.known_posteriors import Problem, bounded_banana, cigar, logistic, lumpy, rosenbrock

__all__ = [
    "DRAWS", "ERROR", "GRADIENTS", "NOISY", "PEER", "PROBLEMS", "SIZE", "VALUES", "WITHIN", "covered",
    "distances", "draw_errors", "ends", "ours", "peer_installed", "problem_named", "pyvbmc", "sized",
]  # fmt: skip

DRAWS = 20_000
ERROR = 0.1
"""Nats: what a run of the log evidence comes to."""
_LEAST = 1e-4
_REFERENCE_SEED = 999_331
VALUES, GRADIENTS, NOISY, PEER = "values", "values and gradients", "noisy values", "PyVBMC"
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "Rosenbrock 2": lambda: rosenbrock(2),
    "Rosenbrock 4": lambda: rosenbrock(4),
    "Rosenbrock 6": lambda: rosenbrock(6),
    "cigar 2": lambda: cigar(2),
    "cigar 4": lambda: cigar(4),
    "cigar 6": lambda: cigar(6),
    "lumpy 2": lambda: lumpy(2),
    "lumpy 4": lambda: lumpy(4),
    "bounded banana": bounded_banana,
    "logistic 5": logistic,
}
"""The posteriors by name, made on request."""


def peer_installed() -> bool:
    """Whether PyVBMC can be run beside."""
    return importlib.util.find_spec("pyvbmc") is not None


@lru_cache(maxsize=4)
def _reference(name: str) -> np.ndarray:
    return PROBLEMS[name]().sample(DRAWS, _REFERENCE_SEED)


def distances(
    problem: Problem, draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> dict[str, float]:
    """Mmtv from draws and gskl from moments.

    Parameters
    ----------
    problem : with reference draws and moments. draws : of the approximation, (n, D). mean : (D,). covariance
        : (D, D).
    """
    known = _reference(problem.name) if problem.name in PROBLEMS else problem.sample(DRAWS, _REFERENCE_SEED)
    return {"mmtv": mmtv(draws, known), "gskl": gskl(mean, covariance, problem.mean, problem.covariance)}


def ours(
    problem: Problem,
    budgets: Sequence[int],
    seed: int,
    *,
    gradients: bool = False,
    noise_sd: float | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Run `bqvi.vbmc` to each of the growing ``budgets``, whether it has converged before or not.

    Parameters
    ----------
    problem : log joint, box and truth. budgets : numbers of evaluations. seed : of the run. gradients :
        whether they are given.
    noise_sd : of the values, or None. options : further arguments of `bqvi.vbmc`.
    """
    log_joint = problem.log_joint if noise_sd is None else problem.noisy(noise_sd, seed)
    rows, found, seconds = [], None, 0.0
    for budget in budgets:
        began = time.perf_counter()
        found = bqvi.vbmc(
            log_joint, **problem.bounds(), gradient=problem.gradient if gradients else None,
            noise_sd=noise_sd, budget=budget, seed=seed, resume=found,
            tolerance=None, **options,
        )  # fmt: skip
        seconds += time.perf_counter() - began
        rows.append(_row(problem, found, seconds))
    return pd.DataFrame(rows)


def _row(problem: Problem, found: Any, seconds: float) -> dict[str, Any]:
    posterior = found.posterior
    return {
        "n": found.n_evaluations,
        "seconds": seconds,
        "log_evidence": found.log_evidence,
        "sd": found.log_evidence_sd,
        "elbo": found.elbo,
        "error": found.log_evidence - problem.log_evidence,
        "converged": bool(found.converged),
        **distances(problem, posterior.sample(DRAWS, 0), posterior.mean, posterior.covariance),
    }


def pyvbmc(problem: Problem, seed: int) -> pd.DataFrame:
    """Run PyVBMC until it stops, with a row for each of its iterations."""
    from pyvbmc import VBMC

    box = {name.replace("lower", "lower_bounds").replace("upper", "upper_bounds"): value[None]
           for name, value in problem.bounds().items()}  # fmt: skip
    rng = np.random.default_rng(seed)
    start = rng.uniform(problem.plausible_lower, problem.plausible_upper)[None]
    run = VBMC(problem.log_joint, start, options={"display": "off"}, seed=seed, **box)
    began = time.perf_counter()
    final, result = run.optimize()
    total = time.perf_counter() - began
    history = run.iteration_history
    seconds = np.cumsum([sum(timer._durations.values()) for timer in history["timer"]])
    rows = [
        _peer_row(problem, history["vp"][i], int(history["func_count"][i]), float(seconds[i]),
                  float(history["elbo"][i]), float(history["elbo_sd"][i]), False)
        for i in range(1, len(seconds))
    ]  # fmt: skip
    last = _peer_row(
        problem, final, int(result["func_count"]), total, float(result["elbo"]), float(result["elbo_sd"]),
        bool(result["success_flag"]),
    )  # fmt: skip
    return pd.DataFrame([*rows[:-1], last])


def _peer_row(
    problem: Problem, posterior: Any, n: int, seconds: float, elbo: float, sd: float, converged: bool
) -> dict[str, Any]:
    draws = posterior.sample(DRAWS)[0]
    return {
        "n": n,
        "seconds": seconds,
        "log_evidence": elbo,
        "sd": sd,
        "elbo": elbo,
        "error": elbo - problem.log_evidence,
        "converged": converged,
        **distances(problem, draws, draws.mean(axis=0), np.cov(draws.T)),
    }


@cache
def problem_named(name: str) -> Problem:
    """The posterior of that name."""
    return PROBLEMS[name]()


def sized(records: pd.DataFrame) -> pd.DataFrame:
    """With the size of the error, as it is drawn."""
    return records.assign(size=records["error"].abs().clip(lower=_LEAST))


def ends(results: pd.DataFrame, by: Sequence[str], costs: Mapping[str, str]) -> pd.DataFrame:
    """Return the last row of each run, with its costs until its error stays below `ERROR`.

    Parameters
    ----------
    results : the records of runs. by : the columns that with the seed make a run.
    costs : by the name of a cost its column; taken at the first record that stays below (infinite: none).
    """
    found = []
    for _, run in results.groupby([*by, "seed"], sort=False):
        first = stays_below(run["error"].abs().to_numpy(), ERROR)
        at = {name: np.inf if first is None else float(run[cost].iloc[first]) for name, cost in costs.items()}
        found.append(run.tail(1).assign(**at))
    return pd.concat(found)


SIZE: Mapping[str, Column] = {"|error|": ("error", lambda values: values.abs().median(), ".2g")}
WITHIN: Mapping[str, Column] = {f"within {k} sd": (f"within {k}", of_all, "") for k in (1, 2, 3)}
"""Columns of tables of `covered` runs: the size of the error, and whether so many stated sds contain it."""


def covered(rows: pd.DataFrame) -> pd.DataFrame:
    """With the columns of `WITHIN`."""
    ratio = (rows["error"] / rows["sd"]).abs()
    return rows.assign(**{f"within {k}": ratio <= k for k in (1, 2, 3)})


def draw_errors(
    ax: Axes, rows: pd.DataFrame, cost: str, by: str, lines: Mapping[Hashable, drawing.LineStyle]
) -> None:
    """Draw the size of each run's error against its ``cost``, with a line style for each value of ``by``.

    Parameters
    ----------
    ax : the axes. rows : the ends of runs. cost : the column of the horizontal axis. by : that of the lines.
    lines : a line style for each of its values.
    """
    for label, group in rows.groupby(by, sort=False):
        for k, (_, one) in enumerate(group.groupby("seed")):
            ax.plot(
                one[cost], one["size"], drawstyle="steps-post", lw=1.0, color=lines[label].colour,
                linestyle=lines[label].dashes, label=label if k == 0 else None,
            )  # fmt: skip
    ax.axhline(ERROR, color="0.6", lw=0.8)
    ax.set_yscale("log")
