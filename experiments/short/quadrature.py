"""Integrals: Bayesian quadrature against scrambled Sobol points, a small form of `quadrature-error`."""

from __future__ import annotations

from experiments.harness import statements
from experiments.harness.experiment import Case, Experiment, Resources
from experiments.harness.statements import Statement, only
from experiments.quadrature import error
from experiments.quadrature.runs import LABELS, method_cases

__all__ = ["experiment"]

_PROBLEMS = ("bump, full covariance 2", "Genz discontinuous 2", "cosine 3", "logistic ELBO 5")
_METHODS = ("monte-carlo", "sobol", "bq")
_BUDGETS = (10, 20, 40)


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return simple Monte Carlo, Sobol points and Bayesian quadrature on four integrands."""
    return method_cases(_PROBLEMS[: 2 if quick else None], _METHODS, _BUDGETS)


_CLAIMS = (
    Statement("7.2.2", "Bayesian quadrature needs fewer evaluations than scrambled Sobol points.",
              f"its relative error at n = {max(_BUDGETS)} is smaller",
              "relative", {LABELS["bq"]: [LABELS["sobol"]]}, rows=only("n", max(_BUDGETS))),
)  # fmt: skip

experiment = Experiment(
    name="short-quadrature",
    title="In short: integrals",
    summary="""How accurate is an integral from ten to forty evaluations, by simple Monte Carlo, scrambled
    Sobol points and Bayesian quadrature? One of the four integrands has a jump, which a smooth kernel does
    not model. `bqvi run quadrature-error` is the whole study.""",
    cases=_cases,
    run=error.run,
    draw=error.draw,
    claims=statements.of(_CLAIMS, by="method", each="problem"),
    seeds=10,
)
