"""``python -m benchmarks.break_even [ROW ...]``: the cost of an evaluation above which a method is faster.

Each method runs with growing budgets until the median error over the seeds is within a level. The evaluations
n of that budget, and its CPU seconds o without the user's function, are the method's cost. With evaluations
that take c seconds a run takes o + n c, and two methods take the same time at

    c = (o_1 - o_2) / (n_2 - n_1).

The table has both costs and c. A method that needs fewer evaluations and less time is faster at any c. For
conjugate models an evaluation is that of a datum. Its time in the model's own local step is part of the
seconds, and c is additional time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.setting import heading, limit_threads

if __name__ == "__main__":
    limit_threads()

import bqvi
import gp
from benchmarks.acceptance.meter import Meter, Watched
from bqvi.gradients import Pathwise, Score
from bqvi.models import GaussianMixture, LogJoint
from experiments.gradients import mixture_q, references
from experiments.gradients.runs import setting
from experiments.problems import hard_posteriors, known_posteriors
from experiments.problems.data import simulate
from experiments.problems.integrands import integrands

SEEDS = 5


@dataclass(frozen=True)
class Cost:
    """The error of a run, its evaluations, and its CPU seconds without the user's function."""

    error: float
    evaluations: float
    seconds: float


Run = Callable[..., Cost]
"""A function of a budget and a seed, after the problem in the table, that returns the cost of that run."""


@dataclass(frozen=True)
class BudgetedMethod:
    """A method and the budgets that are tried, in this order."""

    name: str
    run: Run
    budgets: Sequence[int]

    def cost(self, level: float) -> Cost:
        """Medians over the seeds at the first budget whose median error is within ``level``; or infinite."""
        self.run(self.budgets[0], 1000)  # not timed: loads and compiles what is needed at first use
        for budget in self.budgets:
            runs = [self.run(budget, seed) for seed in range(SEEDS)]
            found = np.median([(run.error, run.evaluations, run.seconds) for run in runs], axis=0)
            if found[0] <= level:
                return Cost(*map(float, found))
        return Cost(float("inf"), float("inf"), float("inf"))


@dataclass(frozen=True)
class MethodPair:
    """Two methods on a problem, to a level of the error."""

    problem: str
    level: float
    unit: str
    methods: Sequence[BudgetedMethod]


def break_even(first: Cost, second: Cost) -> str:
    """Where the lines of the two costs cross, in words; infinite costs have none."""
    arrived = np.isfinite(first.evaluations), np.isfinite(second.evaluations)
    if not all(arrived):
        return (
            ("the first alone" if arrived[0] else "the second alone") if any(arrived) else "neither arrives"
        )
    if first.evaluations == second.evaluations:
        return f"the {'first' if first.seconds <= second.seconds else 'second'} at any cost"
    fewer, less = first.evaluations < second.evaluations, first.seconds <= second.seconds
    if fewer and less:
        return "the first at any cost"
    if not (fewer or less):
        return "the second at any cost"
    crossing = (first.seconds - second.seconds) / (second.evaluations - first.evaluations)
    return f"the {'first' if fewer else 'second'} above {1e3 * crossing:.2g} ms"


# --- q of a log joint --------------------------------------------------------------------------------------


def _fitted(posed: references.GaussianTask, model: Any, function: Watched, seed: int, **options: Any) -> Cost:
    with Meter() as meter:
        found = bqvi.fit(model, start_from=posed.target.start(), seed=seed, **options)
    return Cost(posed.gap(found.q), function.points, meter.seconds - function.seconds)


def _bq(gradient: bool, name: str, budget: int, seed: int) -> Cost:
    posed = references.problem(name)
    function = Watched(posed.target.log_density if gradient else _of_arrays(posed.target.log_density))
    dimension = posed.target.dimension
    model = LogJoint(function, dimension) if gradient else LogJoint(function, dimension, gradient=None)
    return _fitted(posed, model, function, seed, method="bq", budget=budget, tolerance=None)


def _of_arrays(log_density: Callable[[Any], Any]) -> Callable[[Any], Any]:
    import torch

    return lambda theta: log_density(torch.from_numpy(theta)).numpy()


def _natural(name: str, budget: int, seed: int) -> Cost:
    posed = references.problem(name)
    function = Watched(posed.target.log_density)
    size, samples = setting("natural", name, budget)
    steps = budget // int(samples)
    return _fitted(
        posed, LogJoint(function, posed.target.dimension), function, seed,
        method=Pathwise(int(samples), "sticking-the-landing"), geometry=bqvi.Riemannian(),
        schedule=bqvi.Cosine(size, steps), steps=steps, record=bqvi.Record([steps], elbo_samples=2),
    )  # fmt: skip


def _score(size: float, name: str, budget: int, seed: int) -> Cost:
    posed = references.problem(name)
    function = Watched(posed.target.log_density)
    steps = budget // 10
    return _fitted(
        posed, LogJoint(function, posed.target.dimension), function, seed, method=Score(10),
        schedule=bqvi.Adam(size, decay=4.0 / steps), steps=steps, record=bqvi.Record([steps], elbo_samples=2),
    )  # fmt: skip


def _components(name: str, budget: int, seed: int) -> Cost:
    posed = mixture_q.problem(name)
    function = Watched(lambda theta: posed.target.log_density(theta[None])[0])
    with Meter() as meter:
        found = bqvi.vbmc(function, **posed.box(), gradient="autodiff", budget=budget, seed=seed)
    return Cost(
        abs(found.log_evidence - mixture_q.best(name)), function.points, meter.seconds - function.seconds
    )


def _drawn(name: str, budget: int, seed: int) -> Cost:
    posed = mixture_q.problem(name)
    function = Watched(posed.target.log_density)
    steps = budget // posed.components
    with Meter() as meter:
        found = bqvi.fit(
            LogJoint(function, posed.target.dimension), method=mixture_q.DRAWS["STL"](),
            schedule=bqvi.Adam(mixture_q.stored()[f"STL, {name}"], decay=4.0 / steps), steps=steps,
            record=10**6, start_from=posed.start(seed), seed=seed,
        )  # fmt: skip
    return Cost(mixture_q.best(name) - posed.elbo(found.q), function.points, meter.seconds - function.seconds)


# --- evidences and integrals -------------------------------------------------------------------------------


@cache
def _known(name: str) -> known_posteriors.Problem:
    made: dict[str, Callable[[], known_posteriors.Problem]] = {
        "logistic": known_posteriors.logistic,
        "banana": known_posteriors.bounded_banana,
        "rosenbrock": partial(known_posteriors.rosenbrock, 2),
        "funnel": partial(hard_posteriors.funnel, 2),
    }
    return made[name]()


def _vbmc(gradients: bool, name: str, budget: int, seed: int) -> Cost:
    known = _known(name)
    function, slope = Watched(known.log_joint), Watched(known.gradient)
    with Meter() as meter:
        found = bqvi.vbmc(
            function, **known.bounds(), gradient=slope if gradients else None, budget=budget, seed=seed
        )
    error = abs(found.log_evidence - known.log_evidence)
    return Cost(error, function.points, meter.seconds - function.seconds - slope.seconds)


def _annealed(name: str, budget: int, seed: int) -> Cost:
    known = _known(name)
    function = Watched(known.log_density)
    middle = 0.5 * (known.plausible_lower + known.plausible_upper)
    half = 0.5 * (known.plausible_upper - known.plausible_lower)
    with Meter() as meter:
        found = bqvi.evidence_bounds(
            function, gp.measures.Gaussian(middle, half**2), budget=budget, seed=seed
        )
    return Cost(
        abs(found.log_evidence - known.log_evidence), function.points, meter.seconds - function.seconds
    )


def _integral(method: str, name: str, budget: int, seed: int) -> Cost:
    known = {integrand.name: integrand for integrand in integrands()}[name]
    function = Watched(known.function)
    with Meter() as meter:
        found = bqvi.integrate(function, known.measure, method=method, budget=budget, seed=seed)
    error = abs(float(found.mean) / known.truth - 1.0)
    return Cost(error, function.points, meter.seconds - function.seconds)


# --- data --------------------------------------------------------------------------------------------------


@cache
def _clusters(n: int, seed: int) -> tuple[np.ndarray, GaussianMixture, Any, float]:
    """Data (n, 2) of eight clusters, the model, a start, and the ELBO of coordinate ascent from it."""
    rng = np.random.default_rng([20261125, seed])
    centres = 3.0 * rng.standard_normal((8, 2))
    x, _ = simulate(n, np.full(8, 0.125), centres, np.eye(2), rng)
    model = GaussianMixture(8, np.eye(2))
    start = model.initial(x[:500], "k-means++", np.random.default_rng(seed))
    return x, model, start, bqvi.fit(model, x, "cavi", start_from=start, steps=300, tolerance=1e-9).elbo


def _conjugate(method: str, batch: int | str | None, n: int, budget: int, seed: int) -> Cost:
    x, model, start, best = _clusters(n, seed)
    with Meter() as meter:
        found = bqvi.fit(
            model, x, method, minibatch=batch, start_from=start, steps=budget, record=[budget], seed=seed,
            tolerance=1e-12,
        )  # fmt: skip
    return Cost((best - found.elbo) / n, found.n_evaluations, meter.seconds)


# --- the table ---------------------------------------------------------------------------------------------


def _beside(problems: dict[Any, str], level: float, unit: str, *methods: BudgetedMethod) -> list[MethodPair]:
    """The pairs of a row; a method's run is given the problem, of which ``problems`` has the label."""
    return [
        MethodPair(
            label, level, unit,
            tuple(BudgetedMethod(m.name, partial(m.run, name), m.budgets) for m in methods),
        )
        for name, label in problems.items()
    ]  # fmt: skip


_TARGETS: dict[Any, str] = {"logistic": "logistic regression, D = 5", "banana": "banana, D = 2"}
_KNOWN: dict[Any, str] = {
    "logistic": "logistic regression, D = 5", "rosenbrock": "Rosenbrock, D = 2", "funnel": "funnel, D = 2",
}  # fmt: skip
_SIZES: dict[Any, str] = {n: f"eight clusters, N = {n:,}" for n in (1000, 10_000, 100_000)}
_GAUSSIAN, _EVIDENCE, _RELATIVE = "nats below the best Gaussian", "nats from ln Z", "relative error"
_A_DATUM = "nats a datum below coordinate ascent"
_CAVI = BudgetedMethod('`"cavi"`', partial(_conjugate, "cavi", None), (3, 5, 10, 20, 40, 80))
_STEPS = (50, 100, 200, 400, 800, 1600, 3200)
_BY_BQ = BudgetedMethod("`bqvi.integrate`", partial(_integral, "bq"), (20, 40, 60, 100, 200))
_BY_SOBOL = BudgetedMethod('`method="qmc"`', partial(_integral, "qmc"), [2**k for k in range(6, 18, 2)])

ROWS: dict[str, list[MethodPair]] = {
    "log_joints": _beside(
        _TARGETS, 0.1, _GAUSSIAN,
        BudgetedMethod('`"bq"`', partial(_bq, True), (20, 40, 60, 80, 100, 150)),
        BudgetedMethod("natural gradient", _natural, (50, 100, 200, 500)),
    ),
    "values": _beside(
        _TARGETS, 0.1, _GAUSSIAN,
        BudgetedMethod('`"bq"`, values', partial(_bq, False), (20, 40, 60, 80, 100, 150, 200)),
        BudgetedMethod('`"score"`, Adam(0.1)', partial(_score, 0.1), (1000, 4000, 16_000, 64_000)),
    ),
    "mixtures": _beside(
        {"two modes": "two modes, D = 2", "three modes": "three modes, D = 4"}, 0.1, _EVIDENCE,
        BudgetedMethod("`bqvi.vbmc` with gradients", _components, (20, 40, 80, 160)),
        BudgetedMethod("sticking-the-landing", _drawn, (300, 1000, 3000)),
    ),
    "evidences": _beside(
        _KNOWN, 0.1, _EVIDENCE,
        BudgetedMethod("`bqvi.vbmc`", partial(_vbmc, False), (40, 60, 80, 120, 200)),
        BudgetedMethod("`bqvi.evidence_bounds`", _annealed, (1000, 4000, 16_000, 64_000, 256_000)),
    ),
    "gradients": _beside(
        {"logistic": _KNOWN["logistic"]}, 0.1, _EVIDENCE,
        BudgetedMethod("`bqvi.vbmc` with gradients", partial(_vbmc, True), (15, 20, 30, 40, 60)),
        BudgetedMethod("`bqvi.vbmc`, values", partial(_vbmc, False), (40, 60, 80, 120)),
    ),
    "integrals": [
        *_beside({"probit 5": "probit 5"}, 1e-3, _RELATIVE, _BY_BQ, _BY_SOBOL),
        *_beside({name: name for name in ("logistic ELBO 5", "bump 10")}, 1e-2, _RELATIVE, _BY_BQ, _BY_SOBOL),
    ],
    "data": [
        pair
        for n, label in _SIZES.items()
        for name, run, budgets in (
            ('`"sngd"`, S = 100', partial(_conjugate, "sngd", 100), (50, 100, 200, 400, 800, 3200)),
            ('`"memoised"`, N / 10', partial(_conjugate, "memoised", n // 10), (20, 40, 80, 160, 400)),
        )
        for pair in _beside({n: label}, 1e-2, _A_DATUM, BudgetedMethod(name, run, budgets), _CAVI)
    ],
    "batches": _beside(
        {10_000: _SIZES[10_000]}, 1e-2, _A_DATUM,
        BudgetedMethod('`minibatch="balanced"`, S = 100', partial(_conjugate, "sngd", "balanced"), _STEPS),
        BudgetedMethod("random reshuffling, S = 100", partial(_conjugate, "sngd", None), _STEPS),
    ),
}  # fmt: skip


def line(comparison: MethodPair) -> str:
    """A row of the table."""
    first, second = (method.cost(comparison.level) for method in comparison.methods)
    level = f"{comparison.level:g} {comparison.unit}"
    ours, theirs = (
        f"{method.name}: {_of(method, cost)}"
        for method, cost in zip(comparison.methods, (first, second), strict=True)
    )
    return f"| {comparison.problem} | {level} | {ours} | {theirs} | {break_even(first, second)} |"


def _of(method: BudgetedMethod, cost: Cost) -> str:
    if not np.isfinite(cost.evaluations):
        return f"not with a budget of {method.budgets[-1]:,}"
    return f"{cost.evaluations:,.4g}, {cost.seconds:.2g} s"


def main(names: Sequence[str]) -> int:
    """Print the table of the rows of these names, or of all."""
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        print(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}", file=sys.stderr)
        return 2
    print(f"{heading(['break_even', *names])} Medians over {SEEDS} seeds.\n")
    print("| problem | level | first: evaluations, own seconds | second | faster |\n|---|---|---|---|---|")
    for name in names or ROWS:
        for comparison in ROWS[name]:
            print(line(comparison), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
