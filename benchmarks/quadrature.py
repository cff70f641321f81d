"""Bayesian quadrature beside scrambled Sobol, where the integral is known: accuracy, error bars, time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

import bqvi
from benchmarks.paired import Line, paired
from bqvi.calls import Caller, Function, Range
from bqvi.quadrature.bayesian import BayesianRun, standardised
from bqvi.quadrature.ensemble import fit
from bqvi.quadrature.nodes import pool
from bqvi.quadrature.state import Direct, IntegrationProblem
from experiments.problems.integrands import Integrand, integrands
from experiments.problems.unseen_integrands import first, second
from gp.low_discrepancy import scrambled_sobol

SEEDS = int(os.environ.get("BQVI_BENCHMARK_SEEDS", "2"))
"""Runs of each integrand and size; all take two minutes a seed on a quiet machine."""
FIRST_SEED = int(os.environ.get("BQVI_BENCHMARK_FIRST_SEED", "100"))
"""Choices in the library were made on seeds below 4."""
SIZES = (20, 40, 80, 160)


def run() -> Iterator[Line]:
    """Accuracy at n = 80, error bars at 20 to 160, collapse, seconds."""
    within: dict[int, list[bool]] = {n: [] for n in SIZES}
    yield from accuracy("integrands of the library", integrands(), within)
    yield from accuracy("integrands nothing was chosen on", (*first(), *second()), within)
    yield from calibration(within)
    yield from seconds()


def sobol_errors(integrand: Integrand, n: int) -> Any:
    """Absolute errors of 40 randomisations of n Sobol points, (40,)."""
    measure = integrand.measure
    points = (measure.from_unit_cube(scrambled_sobol(measure.dimension, n, 1000 + s)) for s in range(40))
    return np.array([abs(float(np.mean(integrand.function(x))) - integrand.truth) for x in points])


def accuracy(which: str, chosen: tuple[Integrand, ...], within: dict[int, list[bool]]) -> Iterator[Line]:
    """Every integrand and size, ``SEEDS`` runs each; whether they were within 2 sd is added to ``within``.

    The error of a few runs is compared in two ways with that of 40 randomisations of Sobol: by medians and by
    root mean squares. A jump in one dimension can be such that most randomisations count it exactly; then
    the median of their errors is near zero, and the root mean square is not.
    """
    medians: dict[str, float] = {}
    squares: dict[str, float] = {}
    collapsed, runs = 0, 0
    for n in SIZES:
        for integrand in chosen:
            found = [
                bqvi.integrate(integrand.function, integrand.measure, n, seed=FIRST_SEED + seed)
                for seed in range(SEEDS)
            ]
            errors = np.array([abs(f.mean - integrand.truth) for f in found])
            theirs = sobol_errors(integrand, n)
            reference = float(np.median(theirs))
            within[n] += list(errors <= 2 * np.array([f.sd for f in found]))
            collapsed += int(np.sum(errors > 20 * np.maximum(reference, [f.sd / 5 for f in found])))
            runs += SEEDS
            if n == 80:
                medians[integrand.name] = float(np.median(errors)) / reference
                squares[integrand.name] = float(np.sqrt(np.mean(errors**2) / np.mean(theirs**2)))
    bar = [i.name for i in chosen if i.kind in ("smooth", "peaky")]
    mean = float(np.exp(np.mean(np.log([medians[name] for name in bar]))))
    what = f"{which}: error / error of Sobol, n = 80, geometric mean, smooth and peaky, D = 1 to 5"
    yield Line(what, f"{mean:.4f}", "at most .15", mean <= 0.15)
    for by, ratios in (("medians", medians), ("root mean squares", squares)):
        worst = max(ratios, key=lambda name: ratios[name])
        measured = f"{ratios[worst]:.2f} ({worst})"
        yield Line(f"{which}: the same, worst, by {by}", measured, "at most 2", ratios[worst] <= 2)
    yield Line(f"{which}: collapsed, of {runs}", str(collapsed), "0", collapsed == 0)


def calibration(within: dict[int, list[bool]]) -> Iterator[Line]:
    """The share of all runs of a size whose error is within 2 sd."""
    for n, hits in within.items():
        share = float(np.mean(hits))
        what = f"share of errors within 2 sd, n = {n}, {len(hits)} runs"
        yield Line(what, f"{share:.3f}", ".90 to .99", 0.90 <= share <= 0.99)


def seconds() -> Iterator[Line]:
    """A whole run in D = 5, one choice of nodes and one update at n = 400."""
    names = ("probit 5", "logistic ELBO 5", "bump, far 5")
    chosen = [integrand for integrand in integrands() if integrand.name in names]
    for integrand in chosen:

        def whole(integrand: Integrand = integrand) -> None:
            bqvi.integrate(integrand.function, integrand.measure, 80)

        each = paired({"run": whole}, rounds=5).median("run")
        yield Line(f"run to n = 80, {integrand.name}", f"{each:.2f} s", "at most .4 s", each <= 0.4)
    yield from one_step(chosen[0])


def one_step(integrand: Integrand) -> Iterator[Line]:
    """At n = 400: choosing one node; evaluating it and learning from it; fitting hyperparameters again."""
    measure = integrand.measure
    called = Caller(
        Function(integrand.function, vectorised=True, range=Range("integrand", outputs=True, counts_as=0.0))
    )
    problem = IntegrationProblem(called, measure, standardised(measure), 0, 400, 500, Direct(), batch=1)
    run = BayesianRun(problem, "bq")
    state = run.step(run.init())
    run.ledger.take()

    def choose() -> Any:
        assert state.ensemble is not None  # a step makes it
        candidates = pool(problem.standard.measure, state.ensemble.best, 1)
        return problem.model.choose(state.ensemble.best, candidates, 1)

    def whole() -> Any:
        reached = run.step(state)
        run.ledger.take()
        return reached

    def refit() -> Any:
        return fit(problem.standard.measure, run.modelled(state)[0], state.fits)

    times = paired({"choice": choose, "step": whole, "refit": refit}, rounds=9)
    for name, what, bar in (
        ("choice", "choice of a node", 50.0),
        ("step", "choice, evaluation and update", 50.0),
        ("refit", "fit of all hyperparameters again (each time n grows by 30 %)", np.inf),
    ):
        each = 1e3 * times.median(name)
        yield Line(f"{what}, n = 400, D = 5", f"{each:.1f} ms", f"under {bar:.0f} ms", each < bar)
