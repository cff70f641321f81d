"""The names that `fit` takes, each a choice of estimator, geometry, schedule and mini-batch.

name      gradient                      geometry    data          step
cavi      eta* - eta                    natural     all           1
ngd       eta* - eta                    natural     all           1/2
gd        the same, pulled back         Euclidean   all           Adam
memoised  the same, kept by batch       natural     a batch       1
sngd      eta* - eta of a mini-batch    natural     mini-batch    Robbins-Monro
sgd       the same, pulled back         Euclidean   mini-batch    Adam
score, pathwise, iwae, dreg             Euclidean   all, or       Adam
                                                    mini-batch
bq        Bayesian quadrature, with memory  trust       all           to the surrogate's
          of earlier evaluations            region                    optimum
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bqvi.gradients import Conjugate, Estimator, Memoised, RememberingEstimator
from bqvi.gradients.settings import STOCHASTIC
from bqvi.inference.geometry import Euclidean, Geometry, Natural, TrustRegion
from bqvi.inference.schedules import Adam, Constant, RobbinsMonro, Schedule
from bqvi.inference.settings import DEFAULTS, SETTLING
from gp.checks import require_integer


@dataclass(frozen=True)
class Method:
    """A named choice."""

    estimator: Callable[[int | None], Estimator]
    """A function of the number of samples (None: the estimator's default) that returns the estimator."""
    geometry: Geometry
    schedule: Schedule
    batch: str
    """'all', 'mini-batch', or 'either'."""
    steps: int
    """Iterations when neither steps nor another stop is given."""
    tolerance: float | None = None
    """The tolerance by default, nats."""


def _exact(samples: int | None) -> Estimator:
    if samples is not None:
        raise ValueError(
            f"samples is {samples}, but this method takes exact expectations; leave it out, or use "
            "'score', 'pathwise', 'iwae', 'dreg' or 'bq'"
        )
    return Conjugate()


def _memoised(samples: int | None) -> Estimator:
    _exact(samples)
    return Memoised()


def _sampling(name: str) -> Callable[[int | None], Estimator]:
    def make(samples: int | None) -> Estimator:
        from bqvi import gradients

        kind: Any = getattr(gradients, name)
        return kind() if samples is None else kind(samples=samples)

    return make


def _quadrature(nodes: int | None) -> Estimator:
    from bqvi.gradients import BayesianQuadrature

    if nodes is None:
        return BayesianQuadrature()
    return BayesianQuadrature(nodes=require_integer("samples", nodes, 1))


_STEADY, _FALLING = Adam(DEFAULTS.rate), Adam(DEFAULTS.rate, decay=DEFAULTS.decay)

METHODS: dict[str, Method] = {
    "cavi": Method(_exact, Natural(), Constant(1.0), "all", 1000, DEFAULTS.tolerance),
    "memoised": Method(_memoised, Natural(), Constant(1.0), "all", 1000, DEFAULTS.tolerance),
    "ngd": Method(_exact, Natural(), Constant(0.5), "all", 1000, DEFAULTS.tolerance),
    "gd": Method(_exact, Euclidean(), _STEADY, "all", 1000, DEFAULTS.tolerance),
    "sngd": Method(_exact, Natural(), RobbinsMonro(STOCHASTIC.power, STOCHASTIC.delay), "mini-batch", 1000),
    "sgd": Method(_exact, Euclidean(), _FALLING, "mini-batch", 1000),
    "score": Method(_sampling("Score"), Euclidean(), _FALLING, "either", 1000),
    "pathwise": Method(_sampling("Pathwise"), Euclidean(), _FALLING, "either", 1000),
    "iwae": Method(_sampling("IWAE"), Euclidean(), _FALLING, "either", 1000),
    "dreg": Method(_sampling("DReG"), Euclidean(), _FALLING, "either", 1000),
    "bq": Method(_quadrature, TrustRegion(), Constant(1.0), "all", 50, SETTLING.tolerance),
}

EXACT = tuple(_name for _name, _method in METHODS.items() if _method.estimator in (_exact, _memoised))


def for_networks(choices: Method) -> Method:
    """The defaults where parameters are those of networks: smaller steps, and a mini-batch in any case."""
    return replace(choices, schedule=Adam(DEFAULTS.network_rate), batch="mini-batch", geometry=Euclidean())


def gives_surrogate(estimator: object) -> bool:
    """Whether the estimator's gradients are those of a surrogate, which a trust region needs."""
    return isinstance(estimator, RememberingEstimator) and getattr(estimator, "gives_surrogate", True)


def defaults_for(estimator: object, geometry: Geometry | None, drawn: bool = False) -> Method:
    """The default choices for an estimator, of ``drawn`` mini-batches or not: those of 'bq' or 'pathwise'."""
    if isinstance(estimator, Memoised):
        return METHODS["memoised"]
    in_region = isinstance(geometry, TrustRegion) or (geometry is None and not drawn)
    return METHODS["bq" if in_region and gives_surrogate(estimator) else "pathwise"]
